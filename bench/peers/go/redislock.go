// go-redislock. It asks every millisecond; its own default is not to ask again.
package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

type redislockClient struct {
	raw    *redis.Client
	locker *redislock.Client
}

type redislockLock struct {
	client *redislockClient
	name   string
	lease  time.Duration
	held   *redislock.Lock
}

func openRedislock(address string) (client, error) {
	raw := redis.NewClient(&redis.Options{Addr: address, PoolSize: 64})
	return &redislockClient{raw, redislock.New(raw)}, nil
}

func (c *redislockClient) close() { c.raw.Close() }

func (c *redislockClient) lock(name string, lease time.Duration) (lock, error) {
	return &redislockLock{c, "redislock:" + name, lease, nil}, nil
}

func (l *redislockLock) acquire() error {
	// Without a deadline of our own, Obtain gives up when the lease that it asks for would be over.
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	held, err := l.client.locker.Obtain(ctx, l.name, l.lease,
		&redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)})
	l.held = held
	return err
}

func (l *redislockLock) release() error { return l.held.Release(context.Background()) }
