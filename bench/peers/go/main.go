// The protocol of bench/peers for peers in Go: reads a command per line and answers each with one line, see ../README.md.
// Arguments: which peer, and the address of its server.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// A lock of a client, for one goroutine.
type lock interface {
	acquire() error
	release() error
}

// A connection of its own, or what the library calls a client.
type client interface {
	lock(name string, lease time.Duration) (lock, error)
	close()
}

const pairsLease = 10 * time.Second

var peers = map[string]func(address string) (client, error){
	"redsync":   openRedsync,
	"redislock": openRedislock,
	"etcd":      openEtcd,
}

// Go's own clock does not tell which moment it counts from.
func nowNs() int64 {
	var at syscall.Timespec
	const clockMonotonic = 1
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}

func check(what string, err error) {
	if err != nil {
		fmt.Printf("error %s: %s\n", what, strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
}

func together(count int, run func(i int)) {
	var group sync.WaitGroup
	for i := 0; i < count; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			run(i)
		}(i)
	}
	group.Wait()
}

func newLock(c client, name string, lease time.Duration) lock {
	l, err := c.lock(name, lease)
	check("lock", err)
	return l
}

func pairs(c client, threads int, ms int64) {
	locks := make([]lock, threads)
	samples := make([][]int64, threads)
	for i := range locks {
		locks[i] = newLock(c, fmt.Sprintf("pairs-%d-%d", os.Getpid(), i), pairsLease)
	}
	began := nowNs()
	until := began + ms*1e6
	together(threads, func(i int) {
		start := nowNs()
		for once := true; once || start < until; once = false {
			check("acquire", locks[i].acquire())
			check("release", locks[i].release())
			end := nowNs()
			samples[i] = append(samples[i], end-start)
			start = end
		}
	})
	elapsed := nowNs() - began
	var all []int64
	for _, s := range samples {
		all = append(all, s...)
	}
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	fmt.Printf("pairs %d %d %d %d\n", len(all), elapsed, all[len(all)/2], all[len(all)*99/100])
}

func fight(open func(string) (client, error), address, name string, clients int, ms int64) {
	opened := make([]client, clients)
	locks := make([]lock, clients)
	stamps := make([][]string, clients)
	for i := range opened {
		c, err := open(address)
		check("open", err)
		opened[i] = c
		locks[i] = newLock(c, name, pairsLease)
	}
	until := nowNs() + ms*1e6
	together(clients, func(i int) {
		for nowNs() < until {
			check("acquire", locks[i].acquire())
			stamps[i] = append(stamps[i], fmt.Sprint(nowNs()))
			check("release", locks[i].release())
		}
	})
	groups := make([]string, clients)
	for i := range opened {
		groups[i] = "-"
		if len(stamps[i]) > 0 {
			groups[i] = strings.Join(stamps[i], ",")
		}
		opened[i].close()
	}
	fmt.Println("fight " + strings.Join(groups, " "))
}

func main() {
	if len(os.Args) != 3 || peers[os.Args[1]] == nil {
		check("arguments", fmt.Errorf("wants a peer and an address"))
	}
	open, address := peers[os.Args[1]], os.Args[2]
	c, err := open(address)
	check("open", err)
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var name string
		var count int
		var ms int64
		line := in.Text()
		if n, _ := fmt.Sscanf(line, "pairs %d %d", &count, &ms); n == 2 {
			pairs(c, count, ms)
		} else if n, _ := fmt.Sscanf(line, "fight %s %d %d", &name, &count, &ms); n == 3 {
			fight(open, address, name, count, ms)
		} else if n, _ := fmt.Sscanf(line, "hold %s %d", &name, &ms); n == 2 {
			check("acquire", newLock(c, name, time.Duration(ms)*time.Millisecond).acquire())
			fmt.Printf("held %d\n", nowNs())
		} else if n, _ := fmt.Sscanf(line, "wait %s %d", &name, &ms); n == 2 {
			l := newLock(c, name, time.Duration(ms)*time.Millisecond)
			check("acquire", l.acquire())
			fmt.Printf("got %d\n", nowNs())
			check("release", l.release())
		} else {
			check("command", fmt.Errorf("not understood: %s", line))
		}
	}
}
