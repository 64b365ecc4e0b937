"""redis-py's own Lock. It asks every millisecond; its own default is 100 ms."""
import protocol
import redis


class Client:
    def __init__(self, address):
        host, port = address.split(":")
        self.raw = redis.Redis(host=host, port=int(port))

    def lock(self, name, lease_ms):
        return self.raw.lock("redis-py:" + name, timeout=lease_ms / 1000, sleep=0.001, thread_local=False)

    def close(self):
        self.raw.close()


protocol.serve(Client)
