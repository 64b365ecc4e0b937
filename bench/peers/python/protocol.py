"""The protocol of bench/peers for peers in Python: reads a command per line and answers each with one line, see ../README.md.

A peer is a class: Client(address) with lock(name, lease_ms) and close(); a lock has acquire() and release()."""
import os
import sys
import threading
import time

PAIRS_LEASE_MS = 10000


def answer(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def fail(error):
    answer("error " + f"{type(error).__name__}: {error}".replace("\n", " "))
    os._exit(1)


def together(locks, ms, run):
    """Run all locks at the same time, a thread each; what each returns."""
    results = [None] * len(locks)
    until_ns = time.monotonic_ns() + ms * 1000000

    def begin(me):
        try:
            results[me] = run(locks[me], until_ns)
        except Exception as error:
            fail(error)

    threads = [threading.Thread(target=begin, args=(i,)) for i in range(len(locks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def run_pairs(lock, until_ns):
    samples = []
    start_ns = time.monotonic_ns()
    while not samples or start_ns < until_ns:
        lock.acquire()
        lock.release()
        end_ns = time.monotonic_ns()
        samples.append(end_ns - start_ns)
        start_ns = end_ns
    return samples


def run_fight(lock, until_ns):
    stamps = []
    while time.monotonic_ns() < until_ns:
        lock.acquire()
        stamps.append(time.monotonic_ns())
        lock.release()
    return stamps


def pairs(client, threads, ms):
    locks = [client.lock(f"pairs-{os.getpid()}-{i}", PAIRS_LEASE_MS) for i in range(threads)]
    start_ns = time.monotonic_ns()
    results = together(locks, ms, run_pairs)
    elapsed_ns = time.monotonic_ns() - start_ns
    all_ns = sorted(sample for samples in results for sample in samples)
    return f"pairs {len(all_ns)} {elapsed_ns} {all_ns[len(all_ns) // 2]} {all_ns[len(all_ns) * 99 // 100]}"


def fight(kind, address, name, clients, ms):
    opened = [kind(address) for _ in range(clients)]
    results = together([client.lock(name, PAIRS_LEASE_MS) for client in opened], ms, run_fight)
    for client in opened:
        client.close()
    return "fight " + " ".join(",".join(map(str, stamps)) or "-" for stamps in results)


def obey(kind, client, words):
    if words[0] == "pairs":
        return pairs(client, int(words[1]), int(words[2]))
    if words[0] == "fight":
        return fight(kind, sys.argv[1], words[1], int(words[2]), int(words[3]))
    lock = client.lock(words[1], int(words[2]))
    lock.acquire()
    stamp = time.monotonic_ns()
    if words[0] == "hold":
        client.held = lock
        return f"held {stamp}"
    lock.release()
    return f"got {stamp}"


def serve(kind):
    try:
        client = kind(sys.argv[1])
        answer("ready")
        for line in sys.stdin:
            answer(obey(kind, client, line.split()))
    except Exception as error:
        fail(error)
    os._exit(0)
