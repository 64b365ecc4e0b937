"""Cases of the conformance kit about locks, schedulers and observers. Each has the kit's name; see test_kit_all.py."""

import threading
import time
from typing import List, Optional, Tuple

import pytest
import simba
from support import SESSIONS, STEADY, TIMEOUT, Probe, in_thread, line_of, process, wait
from test_kit_contender import renewals

# --- locks --------------------------------------------------------------------------------------------------


def test_locker_lock_unlock(client: simba.Client, mutex: str) -> None:
    lock = client.lock(mutex)
    for _ in range(5):
        lock.acquire()
        assert lock.held and lock.token != 0 and lock.owner is not None and lock.owner.id == lock.id
        for timeout in (0, None):
            with pytest.raises(simba.Error) as caught:
                lock.acquire(timeout)
            assert caught.value.name == "SIMBA_ESTATE"
        lock.release()
        assert not lock.held and lock.token == 0
        with pytest.raises(simba.Error) as caught:
            lock.release()
        assert caught.value.name == "SIMBA_ESTATE"


def test_locker_try(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """Trying once fails and names the owner; later it succeeds. Freeing a lock that is held releases it."""
    first: Optional[simba.Lock] = client.lock(mutex, id="first-one")
    second = other.lock(mutex)
    assert first is not None
    first.acquire(0)
    with pytest.raises(simba.Timeout, match="first-one"):
        second.acquire(0)
    first = None
    second.acquire(0)


def test_locker_timeout(client: simba.Client, other: simba.Client, mutex: str) -> None:
    with client.lock(mutex):
        waiter = other.lock(mutex)
        with pytest.raises(simba.Timeout):
            waiter.acquire(0)
        before = time.monotonic()
        with pytest.raises((simba.Timeout, simba.Unavailable)):
            waiter.acquire(0.4)
        assert time.monotonic() - before >= 0.4
    with other.lock(mutex, timeout=TIMEOUT):
        pass


def test_locker_cancel(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """cancel ends the wait of another thread and nothing else."""
    ends: List[str] = []
    holder, waiter = client.lock(mutex), other.lock(mutex)
    holder.acquire()
    holder.cancel()
    assert holder.held

    def attempt() -> None:
        try:
            waiter.acquire()
        except simba.Cancelled:
            ends.append("cancelled")

    thread = in_thread(attempt)
    wait(lambda: other.stats()["waiting"] == 1)
    waiter.cancel()
    thread.join(TIMEOUT)
    assert ends == ["cancelled"]
    waiter.cancel()
    holder.release()
    with waiter:
        pass


def test_locker_held(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """The client renews a held lock in the background; a release lets the waiter in."""
    done = threading.Event()

    def attempt() -> None:
        with other.lock(mutex, timeout=TIMEOUT, **STEADY) as held:
            tokens.append(held.token)
        done.set()

    holder = client.lock(mutex, timeout=TIMEOUT, **STEADY)
    tokens: List[int] = []
    with holder:
        tokens.append(holder.token)
        thread = in_thread(attempt)
        renewals(client, 2)
        assert not done.is_set() and holder.held and holder.token == tokens[0]
    thread.join(TIMEOUT)
    assert done.is_set() and tokens[1] > tokens[0]


def test_locker_slots(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """Two slots: each has a lock of its own, the third is told so, and gets the one that is released."""
    one, two, three = (each.lock(mutex, slots=2) for each in (client, other, client))
    one.acquire()
    two.acquire()
    assert {one.slot, two.slot} == {1, 2}
    with pytest.raises(simba.Timeout, match="all its 2 slots are taken"):
        three.acquire(0)
    freed, token = one.slot, one.token
    one.release()
    three.acquire(TIMEOUT)
    assert three.slot == freed and three.token > token and one.slot == 0
    two.release()
    three.release()


def test_locker_count_together(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """Eight threads of two clients count under the lock, and no count is lost."""
    counter = [0]

    def count(own: simba.Client) -> None:
        lock = own.lock(mutex, timeout=TIMEOUT, **STEADY)
        for _ in range(10):
            with lock:
                value = counter[0]
                time.sleep(0)
                counter[0] = value + 1

    threads = [threading.Thread(target=count, args=((client, other)[i % 2],)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter[0] == 80


# --- schedulers ---------------------------------------------------------------------------------------------


class Worker:
    """A scheduler that keeps a record of its runs."""

    def __init__(self, client: simba.Client, mutex: str, every: float = 0.01, **options: object) -> None:
        self.runs: List[Tuple[float, float]] = []
        self.begun = 0
        self.rest = 0.0
        self.scheduler = client.schedule(mutex, self.work, every=every, **options)

    def work(self, run: simba.Run) -> None:
        before = time.monotonic()
        self.begun += 1
        run.sleep(self.rest)
        self.runs.append((before, time.monotonic()))


def test_scheduler_leader_only(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """Work runs on the leader only, ends with its stop, and goes on elsewhere."""
    first, second = Worker(client, mutex), Worker(other, mutex)
    with first.scheduler:
        wait(lambda: len(first.runs) >= 5)
        with second.scheduler:
            wait(lambda: len(first.runs) >= 10)
            assert first.scheduler.is_leader and second.begun == 0
            first.scheduler.stop()
            assert not first.scheduler.is_leader
            runs = first.begun
            wait(lambda: len(second.runs) >= 5)
            assert first.begun == len(first.runs) == runs
            first.scheduler.start()
            second.scheduler.stop()
            wait(lambda: len(first.runs) > runs)


def test_scheduler_run_awaited(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """A run in progress at stop is told and awaited, and nobody else leads before it is over."""
    told: List[bool] = []
    begun, early = threading.Event(), [0]

    def work(run: simba.Run) -> None:
        begun.set()
        told.append(run.sleep(TIMEOUT) and run.stopping)
        renewals(client, 2)
        early[0] = after.acquired

    with client.schedule(mutex, work, every=0.01, **STEADY) as scheduler:
        assert begun.wait(TIMEOUT)
        after = Probe(other, mutex).start()
        scheduler.stop()
        assert told == [True] and early == [0]
        wait(lambda: after.acquired == 1)


def test_scheduler_run_told_of_loss(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """A run whose leader loses the mutex is told to end."""
    told: List[bool] = []
    begun = threading.Event()

    def work(run: simba.Run) -> None:
        begun.set()
        told.append(run.sleep(TIMEOUT) and run.stopping)

    with client.schedule(mutex, work, every=0.01, **STEADY):
        assert begun.wait(TIMEOUT)
        other.force_release(mutex)
        wait(lambda: told)
    assert told[0]


def test_scheduler_stop_in_work(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """stop inside the work returns at once, and there is no further run."""
    runs: List[bool] = []

    def work(run: simba.Run) -> None:
        scheduler.stop()
        runs.append(run.stopping)

    scheduler = client.schedule(mutex, work, every=0.01)
    with scheduler:
        wait(lambda: runs)
        after = Probe(other, mutex).start()
        wait(lambda: after.acquired == 1)
    assert runs == [True]


def test_scheduler_on_schedule(client: simba.Client, mutex: str) -> None:
    """Neither schedule runs early: counted from start to start, or from end to start, and after the initial delay."""
    rate = Worker(client, mutex + "-rate", every=0.02, initial_delay=0.03)
    delay = Worker(client, mutex + "-delay", every=0.02, initial_delay=0.03, fixed_delay=True)
    rate.rest = delay.rest = 0.01
    before = time.monotonic()
    with rate.scheduler, delay.scheduler:
        wait(lambda: len(rate.runs) >= 5 and len(delay.runs) >= 5)
    for i in range(5):
        for worker in (rate, delay):
            assert worker.runs[i][0] >= before + 0.03 + i * 0.02
        assert i == 0 or delay.runs[i][0] >= delay.runs[i - 1][1] + 0.02


# --- observers ----------------------------------------------------------------------------------------------


class Watcher:
    def __init__(self, client: simba.Client, mutex: str) -> None:
        self.seen: List[Optional[simba.Owner]] = []
        self.observer = client.observe(mutex, lambda change: self.seen.append(change.after), poll=0.025)

    @property
    def token(self) -> Optional[int]:
        """Of the owner; 0: nobody, None: not told yet."""
        return None if not self.seen else self.seen[-1].token if self.seen[-1] else 0


def test_observer_follows(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """The first call tells the owner at the start, or that there is none; later calls tell changes."""
    early, late = Watcher(other, mutex), Watcher(other, mutex)
    leader = Probe(client, mutex)
    with early.observer:
        wait(lambda: early.token == 0)
        leader.start()
        wait(lambda: leader.acquired == 1 and early.token == leader.token)
        with late.observer:
            wait(lambda: late.token == leader.token)
            assert late.observer.owner is not None and late.observer.owner.id == leader.contender.id
            leader.stop()
            wait(lambda: early.token == 0 and late.token == 0)


def test_observer_ends_on_owner(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """After a quick series of owners it ends on the last one."""
    watcher = Watcher(other, mutex)
    probes = [Probe(client, mutex), Probe(client, mutex)]
    with watcher.observer:
        for i in range(9):
            probes[i % 2].start()
            wait(lambda: probes[i % 2].acquired == i // 2 + 1)
            if i < 8:
                probes[i % 2].stop()
        wait(lambda: watcher.token == probes[0].token)


def test_observer_sees_expiry(url: str, client: simba.Client, mutex: str) -> None:
    """It sees the end of a lease whose holder is dead, which no store pushes."""
    watcher = Watcher(client, mutex)
    with process(url, mutex) as holder, watcher.observer:
        token = int(line_of(holder))
        wait(lambda: watcher.token == token)
        holder.kill()
        wait(lambda: watcher.token == 0)


def test_observer_stops(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """After stop it tells nothing; started again, it tells the owner again."""
    watcher = Watcher(other, mutex)
    watcher.observer.start()
    wait(lambda: watcher.token == 0)
    watcher.observer.stop()
    calls = len(watcher.seen)
    with client.lock(mutex) as held:
        assert len(watcher.seen) == calls
        watcher.observer.start()
        wait(lambda: watcher.token == held.token)
    watcher.observer.close()
    assert SESSIONS or not watcher.seen[0]
