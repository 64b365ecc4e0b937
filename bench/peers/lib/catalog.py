"""The entries of the comparison: what each is, which server it needs, and how its program is made and started."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Entry:
    name: str
    text: str       # for the table
    server: str     # redis, zookeeper, etcd, or a kind of folder: sqlite, files, none
    made_by: str    # how install.py gets it: c, go, java, python, node
    program: str    # the file or class of the peer
    waits: str      # how a waiter learns that the lock is free
    processes: int = 16     # over which the 16 clients of a fight are spread: a virtual machine each would be too many
    alone: bool = False     # its store is of one process: nobody to fight with
    address: str = "{address}"
    lease_address: str = "" # for a lease of 2 s, if the address has to say so
    leases: bool = True     # False: the lock ends with the process that holds it


SIMBA = dict(made_by="c", program="simba")
JVM = dict(made_by="java", processes=2)

ENTRIES = [
    Entry("simba-redis", "simba, Redis", "redis", waits="push, in order", address="redis://{address}?restart-wait=no", **SIMBA),
    Entry("bare-redis", "hiredis by hand, Redis", "redis", "c", "bare_redis", "polls every ms"),
    Entry("redsync", "redsync 4.13.0 (Go)", "redis", "go", "redsync", "polls every ms"),
    Entry("go-redislock", "redislock 0.9.4 (Go)", "redis", "go", "redislock", "polls every ms"),
    Entry("redisson", "Redisson 3.27.2 (Java)", "redis", program="Redisson", waits="push", **JVM),
    Entry("redisson-fair", "Redisson 3.27.2, fair", "redis", program="RedissonFair", waits="push, in order", **JVM),
    Entry("redis-py", "redis-py 5.2.1 (Python)", "redis", "python", "redis_py.py", "polls every ms"),
    Entry("python-redis-lock", "python-redis-lock 4.0.0", "redis", "python", "python_redis_lock.py", "push"),
    Entry("node-redlock", "redlock 5.0.0-beta.2 (Node)", "redis", "node", "redlock.mjs", "polls every ms"),
    Entry("simba-zookeeper", "simba, ZooKeeper", "zookeeper", waits="push, in order", address="zookeeper://{address}",
          lease_address="zookeeper://{address}?session-timeout=2s", **SIMBA),
    Entry("curator", "Curator 5.7.1 (Java)", "zookeeper", program="Curator", waits="push, in order", **JVM),
    Entry("kazoo", "kazoo 2.10.0 (Python)", "zookeeper", "python", "kazoo_lock.py", "push, in order"),
    Entry("simba-etcd", "simba, etcd", "etcd", waits="push, in order", address="etcd://{address}",
          lease_address="etcd://{address}?session-timeout=2s", **SIMBA),
    Entry("etcd", "etcd concurrency 3.5.21 (Go)", "etcd", "go", "etcd", "push, in order"),
    Entry("simba-sqlite", "simba, SQLite", "sqlite", waits="push, in order", address="sqlite://{address}/simba.db", **SIMBA),
    Entry("flock", "flock(2)", "files", "c", "flock", "the kernel wakes it", leases=False),
    Entry("simba-memory", "simba, memory", "none", waits="push", address="memory://peers", alone=True, **SIMBA),
]
