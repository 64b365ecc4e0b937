// orders STEPS: work on the orders, step by step, while holding the mutex "orders".
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"time"
)

// While work runs, the mutex is held. Its context ends when leadership is lost or simba is killed: work must return within the grace.
func withMutex(mutex string, work func(ctx context.Context, token string) error) error {
	var first, next struct{ Event, Token, Reason, Text string }
	hold := exec.Command("simba", "hold", "--grace", "1s", mutex)
	keeps, _ := hold.StdinPipe()
	lines, _ := hold.StdoutPipe()
	decoder := json.NewDecoder(lines)
	if hold.Start() != nil || decoder.Decode(&first) != nil || first.Event != "acquired" {
		return fmt.Errorf("not obtained: %s", first.Text)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() { decoder.Decode(&next); cancel(fmt.Errorf("lost: %s", next.Reason)) }()
	defer func() { keeps.Close(); hold.Wait() }() // gives the mutex back
	return work(ctx, first.Token)
}

func main() {
	var steps int
	fmt.Sscan(os.Args[1], &steps)
	if err := withMutex("orders", func(ctx context.Context, token string) error {
		fmt.Println("working under token", token)
		for ; steps > 0 && ctx.Err() == nil; steps-- {
			time.Sleep(100 * time.Millisecond) // the work
		}
		return context.Cause(ctx)
	}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("done")
}
