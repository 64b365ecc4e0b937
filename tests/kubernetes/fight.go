// fight HOST:PORT FOLDER NAMESPACE NAME IDENTITY FILE: contend for the Lease NAME by client-go's leaderelection until it is killed. While it
// leads it holds an exclusive flock of FILE, where it adds a line; if another holds that, it says "overlap" and ends with 1. It gives the
// leadership back after a random moment, its work done before.
package main

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fight:", err)
		os.Exit(1)
	}
}

// work returns when the leadership is lost, or it has had enough.
func work(ctx context.Context, identity, path string) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	fail(err)
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		fmt.Println("overlap:", identity)
		os.Exit(1)
	}
	fmt.Fprintln(file, "go", identity)
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(rand.Intn(1500)) * time.Millisecond):
	}
}

func main() {
	if len(os.Args) != 7 {
		fmt.Fprintln(os.Stderr, "usage: fight HOST:PORT FOLDER NAMESPACE NAME IDENTITY FILE")
		os.Exit(2)
	}
	folder, identity, path := os.Args[2], os.Args[5], os.Args[6]
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: "https://" + os.Args[1], BearerTokenFile: folder + "/token", TLSClientConfig: rest.TLSClientConfig{CAFile: folder + "/ca.pem"}})
	fail(err)
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, os.Args[3], os.Args[4], client.CoreV1(), client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: identity})
	fail(err)
	for {
		ctx, cancel := context.WithCancel(context.Background())
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 500 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) { work(ctx, identity, path); cancel() },
				OnStoppedLeading: func() {},
			}})
		cancel()
		time.Sleep(time.Duration(rand.Intn(300)) * time.Millisecond)
	}
}
