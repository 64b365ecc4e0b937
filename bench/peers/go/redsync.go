// redsync with one server. It asks every millisecond, as often as it takes; its own default is 50 to 250 ms, 32 times.
package main

import (
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

type redsyncClient struct {
	raw  *redis.Client
	sync *redsync.Redsync
}

type redsyncLock struct{ mutex *redsync.Mutex }

func openRedsync(address string) (client, error) {
	raw := redis.NewClient(&redis.Options{Addr: address, PoolSize: 64})
	return &redsyncClient{raw, redsync.New(goredis.NewPool(raw))}, nil
}

func (c *redsyncClient) close() { c.raw.Close() }

func (c *redsyncClient) lock(name string, lease time.Duration) (lock, error) {
	return &redsyncLock{c.sync.NewMutex("redsync:"+name, redsync.WithExpiry(lease), redsync.WithTries(math.MaxInt32),
		redsync.WithRetryDelay(time.Millisecond))}, nil
}

func (l *redsyncLock) acquire() error { return l.mutex.Lock() }

func (l *redsyncLock) release() error {
	_, err := l.mutex.Unlock()
	return err
}
