"""kazoo's Lock. It ends with the session, whose length is that of the leases."""
import logging

import kazoo.client
import protocol

logging.disable(logging.CRITICAL)


class Client:
    def __init__(self, address):
        self.address = address
        self.raw = None

    def lock(self, name, lease_ms):
        if self.raw is None:
            self.raw = kazoo.client.KazooClient(hosts=self.address, timeout=lease_ms / 1000)
            self.raw.start()
        return self.raw.Lock("/kazoo/" + name, identifier="bench")

    def close(self):
        if self.raw is not None:
            self.raw.stop()
            self.raw.close()


protocol.serve(Client)
