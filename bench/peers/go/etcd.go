// etcd's own package concurrency. A client has one session, whose lease the library renews; its locks end with it.
package main

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

type etcdClient struct {
	raw      *clientv3.Client
	sessions map[time.Duration]*concurrency.Session
}

type etcdLock struct{ mutex *concurrency.Mutex }

func openEtcd(address string) (client, error) {
	raw, err := clientv3.New(clientv3.Config{
		Endpoints: []string{address}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	return &etcdClient{raw, map[time.Duration]*concurrency.Session{}}, err
}

func (c *etcdClient) close() {
	for _, session := range c.sessions {
		session.Close()
	}
	c.raw.Close()
}

func (c *etcdClient) lock(name string, lease time.Duration) (lock, error) {
	if c.sessions[lease] == nil {
		session, err := concurrency.NewSession(c.raw, concurrency.WithTTL(int(lease/time.Second)))
		if err != nil {
			return nil, err
		}
		c.sessions[lease] = session
	}
	return &etcdLock{concurrency.NewMutex(c.sessions[lease], "/etcd/"+name)}, nil
}

func (l *etcdLock) acquire() error { return l.mutex.Lock(context.Background()) }
func (l *etcdLock) release() error { return l.mutex.Unlock(context.Background()) }
