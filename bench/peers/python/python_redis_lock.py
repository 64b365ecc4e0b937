"""python-redis-lock, whose waiters block in BLPOP."""
import math

import protocol
import redis
import redis_lock


class Lock:
    """Its leases are whole seconds."""

    def __init__(self, raw, name, lease_ms):
        self.made = redis_lock.Lock(raw, name, expire=math.ceil(lease_ms / 1000))

    def acquire(self):
        self.made.acquire(blocking=True)

    def release(self):
        self.made.release()


class Client:
    def __init__(self, address):
        host, port = address.split(":")
        self.raw = redis.Redis(host=host, port=int(port))

    def lock(self, name, lease_ms):
        return Lock(self.raw, name, lease_ms)

    def close(self):
        self.raw.close()


protocol.serve(Client)
