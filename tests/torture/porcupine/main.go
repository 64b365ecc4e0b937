// porcupine HISTORY: judge the history of the torture tests' register by Porcupine, a checker of linearizability that others wrote.
//
// What is judged is an addition to the register: a read, a moment, and a write, all under one grant of the mutex. Each addition has to
// look as if it had happened at one instant between its begin and its end: it has read what the addition before it wrote, its
// token is not lower than the one before, and no other client has used the same token. Two holders at once whose writes
// get past the fence are additions that cannot be put in such an order.
//
// An addition whose client was killed may have happened at any time after its begin, or never. One that was refused or abandoned has
// not happened.
//
// The exit status is 0 if there is such an order, 1 if there is none, 2 if there is no verdict.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const timeout = 10 * time.Minute

type event struct {
	At     int64
	Who    string
	Event  string
	Op     uint64
	Token  uint64
	Value  uint64
	Read   uint64
	Result string
}

type addition struct {
	who   string
	token uint64
	value uint64
}

type outcome struct {
	isKnown bool
	read    uint64
}

// Who wrote the register last, and what.
type register struct {
	who   string
	token uint64
	value uint64
}

var model = porcupine.Model{
	Init: func() interface{} { return register{} },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		r, a, o := state.(register), input.(addition), output.(outcome)
		mayFollow := a.token > r.token || (a.token == r.token && a.who == r.who)
		if !o.isKnown {
			if mayFollow {
				return true, register(a)
			}
			return true, r // it never happened
		}
		return mayFollow && o.read == r.value, register(a)
	},
	DescribeOperation: func(input, output interface{}) string {
		a, o := input.(addition), output.(outcome)
		if !o.isKnown {
			return fmt.Sprintf("%s, token %d: writes %x?", a.who, a.token, a.value)
		}
		return fmt.Sprintf("%s, token %d: reads %x, writes %x", a.who, a.token, o.read, a.value)
	},
}

// The operations of a history, and how many additions had no effect.
func read(path string) ([]porcupine.Operation, int, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	type key struct {
		who string
		op  uint64
	}
	begun := map[key]event{}
	order := []key{} // of those that have begun
	ended := map[key]event{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // the last line of a client that was killed
		}
		k := key{e.Who, e.Op}
		switch e.Event {
		case "begin":
			begun[k] = e
			order = append(order, k)
		case "end":
			ended[k] = e
		}
	}
	clients := map[string]int{}
	operations := []porcupine.Operation{}
	withoutEffect := 0
	for _, k := range order {
		b := begun[k]
		if _, isKnown := clients[k.who]; !isKnown {
			clients[k.who] = len(clients)
		}
		operation := porcupine.Operation{
			ClientId: clients[k.who], Input: addition{k.who, b.Token, b.Value}, Call: b.At, Output: outcome{}, Return: math.MaxInt64,
		}
		if e, hasEnded := ended[k]; hasEnded {
			if e.Result != "ok" {
				withoutEffect++
				continue
			}
			operation.Output, operation.Return = outcome{true, e.Read}, e.At
		}
		operations = append(operations, operation)
	}
	return operations, withoutEffect, lines.Err()
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: porcupine HISTORY")
		os.Exit(2)
	}
	operations, withoutEffect, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	verdict, info := porcupine.CheckOperationsVerbose(model, operations, timeout)
	fmt.Printf("%d additions, and %d without effect: ", len(operations), withoutEffect)
	switch verdict {
	case porcupine.Ok:
		fmt.Println("linearizable")
	case porcupine.Illegal:
		fmt.Printf("NOT linearizable, see %s.html\n", os.Args[1])
		if err := porcupine.VisualizePath(model, info, os.Args[1]+".html"); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	default:
		fmt.Println("no verdict in time")
		os.Exit(2)
	}
}
