"""Cases of the conformance kit about contenders and their callbacks. Each has the kit's name; see test_kit_all.py."""

import threading
import time
from typing import Callable, List

import pytest
import simba
from support import BRIEF, SESSIONS, STEADY, TIMEOUT, Probe, in_thread, line_of, process, wait


def renewals(client: simba.Client, more: int) -> None:
    """Let the client renew its lease so often; sessions take as long as that would."""
    if SESSIONS:
        time.sleep(0.5 * more)
        return
    enough = client.stats()["renewals"] + more
    wait(lambda: client.stats()["renewals"] >= enough)


def is_given_back(other: simba.Client, mutex: str) -> None:
    """Somebody else gets it long before a lease of ten seconds ends."""
    before = time.monotonic()
    with other.lock(mutex, timeout=TIMEOUT):
        assert SESSIONS or time.monotonic() - before < 10


def until(gate: threading.Event) -> Callable[[Probe], None]:
    """A callback that does not return before the gate is open."""
    def callback(p: Probe) -> None:
        gate.wait(TIMEOUT)

    return callback


def leader_of(probes: List[Probe]) -> Probe:
    """Wait for one that leads and is not busy with a callback any more."""
    def leaders() -> List[Probe]:
        return [p for p in probes if p.acquired > p.released and not p.in_callback]

    wait(leaders)
    return leaders()[0]


# --- one contender's life -----------------------------------------------------------------------------------


def test_start_stop(client: simba.Client, mutex: str) -> None:
    p = Probe(client, mutex).start()
    wait(lambda: p.acquired == 1)
    assert p.contender.is_owner and p.token != 0 and p.contender.token == p.token
    owner = p.contender.owner
    assert owner is not None and owner.id == p.contender.id and owner.token == p.token
    with pytest.raises(simba.Error) as caught:
        p.start()
    assert caught.value.name == "SIMBA_ESTATE"
    p.stop()
    assert (p.acquired, p.released, p.reasons) == (1, 1, ["stopped"])
    assert not p.contender.is_owner and p.contender.held_for == 0 and p.contender.token == 0
    p.stop()


def test_never_started(client: simba.Client, mutex: str) -> None:
    contender = client.contend(mutex)
    contender.stop()
    contender.close()
    contender.close()
    client.lock(mutex)
    client.observe(mutex, lambda change: None).close()
    client.schedule(mutex, lambda run: None, every=1).close()


def test_restart(client: simba.Client, mutex: str) -> None:
    p = Probe(client, mutex)
    for i in range(1, 6):
        p.start()
        wait(lambda: p.acquired == i)
        p.stop()
        assert p.released == i


def test_guard(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """The leader keeps its mutex over several ttls, under the same token, against a rival."""
    leader = Probe(client, mutex, **STEADY).start()
    wait(lambda: leader.acquired == 1)
    rival = Probe(other, mutex, **STEADY).start()
    renewals(client, 3)
    assert leader.is_owner and leader.contender.token == leader.token
    assert (leader.acquired, leader.released, rival.acquired) == (1, 0, 0)


def test_initial_delay(client: simba.Client, mutex: str) -> None:
    before = time.monotonic()
    p = Probe(client, mutex, initial_delay=0.4).start()
    wait(lambda: p.acquired == 1)
    assert time.monotonic() - before >= 0.4
    sleeper = Probe(client, mutex + "-sleeper", initial_delay=86400).start()
    sleeper.stop()
    assert sleeper.acquired == 0


def test_close_leader(url: str, client: simba.Client, mutex: str) -> None:
    """Closing a client stops its leader as stop would, and the handles answer from then on that it is closed."""
    with simba.Client(url) as leaving:
        p = Probe(leaving, mutex).start()
        wait(lambda: p.acquired == 1)
    assert (p.released, p.reasons) == (1, ["stopped"])
    with pytest.raises(simba.Closed):
        p.start()
    assert not p.contender.is_owner
    is_given_back(client, mutex)


def test_close_busy(url: str, client: simba.Client, mutex: str) -> None:
    """Close a client whose contenders hold, wait, start and stop at that moment: all of them end, and others go on."""
    leaving = simba.Client(url)
    holder, waiter = Probe(leaving, mutex).start(), Probe(leaving, mutex + "-2")
    there = Probe(client, mutex + "-2").start()
    wait(lambda: holder.acquired == 1 and there.acquired == 1)
    waiter.start()
    after = Probe(client, mutex).start()
    churned = Probe(leaving, mutex + "-3")
    rounds: List[int] = []
    ended: List[str] = []

    def churn() -> None:
        try:
            while True:
                churned.start()
                churned.stop()
                rounds.append(1)
        except simba.Error as error:
            ended.append(error.name)

    thread = in_thread(churn)
    wait(lambda: len(rounds) >= 2)
    leaving.close()
    thread.join(TIMEOUT)
    assert ended == ["SIMBA_ECLOSED"]
    assert holder.released == 1 and waiter.acquired == 0
    wait(lambda: after.acquired == 1)
    assert there.is_owner


# --- callbacks ----------------------------------------------------------------------------------------------


def test_stop_in_acquired(client: simba.Client, other: simba.Client, mutex: str) -> None:
    p = Probe(client, mutex, on_acquired=lambda p: p.stop()).start()
    wait(lambda: p.released == 1 and not p.in_callback)
    assert p.reasons == ["stopped"]
    is_given_back(other, mutex)


def test_stop_in_released(client: simba.Client, other: simba.Client, mutex: str) -> None:
    p = Probe(client, mutex, on_released=lambda p: p.stop()).start()
    wait(lambda: p.acquired == 1)
    p.stop()
    assert p.released == 1
    is_given_back(other, mutex)


def test_stop_in_loss(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """stop inside the on_released of a loss: it does not contend again."""
    p = Probe(client, mutex, on_released=lambda p: p.stop(), hold_limit=0.2).start()
    wait(lambda: p.released == 1 and not p.in_callback)
    assert p.reasons == ["hold limit reached"]
    is_given_back(other, mutex)
    assert p.acquired == 1


def test_free_in_acquired(client: simba.Client, other: simba.Client, mutex: str) -> None:
    p = Probe(client, mutex, on_acquired=lambda p: p.contender.close()).start()
    wait(lambda: p.released == 1 and not p.in_callback and client.stats()["contenders"] == 0)
    is_given_back(other, mutex)
    assert (p.acquired, p.released) == (1, 1)


def test_free_in_released(client: simba.Client, other: simba.Client, mutex: str) -> None:
    p = Probe(client, mutex, on_released=lambda p: p.contender.close(), hold_limit=0.2).start()
    wait(lambda: p.released == 1 and not p.in_callback and client.stats()["contenders"] == 0)
    is_given_back(other, mutex)
    assert (p.acquired, p.released) == (1, 1)


def test_calls_in_callback(client: simba.Client, mutex: str) -> None:
    """Inside a callback the client refuses to close, and the other doors work."""
    refused: List[str] = []

    def use_everything(p: Probe) -> None:
        try:
            client.close()
        except simba.Error as error:
            refused.append(error.name)
        client.stats()
        with client.lock(mutex + "-locked", timeout=TIMEOUT):
            pass
        refused.append("done")

    p = Probe(client, mutex, on_acquired=use_everything, on_released=use_everything).start()
    wait(lambda: p.acquired == 1 and not p.in_callback)
    p.stop()
    assert refused == ["SIMBA_ESTATE", "done"] * 2


def test_stop_waits_for_callback(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """stop waits for an on_acquired in progress, and the mutex stays ours for as long as it takes."""
    gate = threading.Event()
    p = Probe(client, mutex, on_acquired=until(gate), **STEADY).start()
    wait(lambda: p.acquired == 1)
    after = Probe(other, mutex, **STEADY).start()
    stopping = in_thread(p.stop)
    renewals(client, 2)
    assert stopping.is_alive() and p.released == 0 and after.acquired == 0
    gate.set()
    stopping.join(TIMEOUT)
    assert p.released == 1
    wait(lambda: after.acquired == 1)


def test_slow_released(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """Nobody else is granted the mutex before on_released has returned, although it takes longer than the lease."""
    early: List[int] = []

    def on_released(p: Probe) -> None:
        renewals(client, 3)
        early.append(after.acquired)

    p = Probe(client, mutex, on_released=on_released, **BRIEF).start()
    wait(lambda: p.acquired == 1)
    after = Probe(other, mutex, **BRIEF).start()
    p.stop()
    assert p.reasons == ["stopped"] and early == [0]
    wait(lambda: after.acquired == 1)


def test_slow_callback(client: simba.Client, mutex: str) -> None:
    """A callback that does not return delays no other mutex of the client and no renewal of its own."""
    gate = threading.Event()
    slow = Probe(client, mutex, on_acquired=until(gate), **STEADY).start()
    wait(lambda: slow.acquired == 1)
    quick = Probe(client, mutex + "-quick")
    for i in range(1, 6):
        quick.start()
        wait(lambda: quick.acquired == i)
        quick.stop()
    renewals(client, 2)
    assert slow.in_callback and slow.is_owner
    gate.set()
    slow.stop()


# --- several contenders -------------------------------------------------------------------------------------


def test_ten_contenders(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """Of ten, in two clients, one leads at a time, over many grants, while leaders stop and come back."""
    probes = [Probe((client, other)[i % 2], mutex, **STEADY).start() for i in range(10)]
    for _ in range(30):
        led = leader_of(probes)
        led.stop()
        led.start()


def test_hand_over(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """A leader that stops hands over: every contender leads, each exactly once."""
    probes = [Probe((client, other)[i % 2], mutex, **STEADY).start() for i in range(6)]
    for _ in probes:
        led = leader_of(probes)
        led.stop()
    assert [(p.acquired, p.released) for p in probes] == [(1, 1)] * 6


def test_tokens_grow(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """Over many grants to two clients in turn; the probes compare them."""
    probes = [Probe(client, mutex), Probe(other, mutex)]
    for i in range(20):
        probes[i % 2].start()
        wait(lambda: probes[i % 2].acquired == i // 2 + 1)
        probes[i % 2].stop()


def test_same_id(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """Three under one name still exclude each other, and one that stops waiting does not release what another holds."""
    leader = Probe(client, mutex, id="twin", **STEADY).start()
    wait(lambda: leader.acquired == 1)
    twins = [Probe(client, mutex, id="twin", **STEADY).start(), Probe(other, mutex, id="twin", **STEADY).start()]
    renewals(client, 2)
    assert (leader.released, twins[0].acquired, twins[1].acquired) == (0, 0, 0)
    twins[1].stop()
    renewals(client, 1)
    assert (leader.released, twins[0].acquired) == (0, 0)
    twins[1].start()
    leader.stop()
    for _ in twins:
        led = leader_of(twins)
        led.stop()
    assert [p.acquired for p in twins] == [1, 1]


def test_hold_limit(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """It ends leadership, not before its time, and a waiter gets a turn; and then the first one again."""
    before = time.monotonic()
    first = Probe(client, mutex, hold_limit=0.4).start()
    wait(lambda: first.acquired == 1)
    second = Probe(other, mutex, hold_limit=0.4).start()
    wait(lambda: first.released == 1)
    assert first.reasons == ["hold limit reached"] and time.monotonic() - before >= 0.4
    wait(lambda: second.acquired >= 1)
    wait(lambda: first.acquired >= 2)


def test_waiter_knows(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """A waiter knows the owner of its mutex, and hears when the owner changes."""
    leader = Probe(client, mutex, id="known-leader").start()
    wait(lambda: leader.acquired == 1)
    waiter = Probe(other, mutex).start()
    wait(lambda: waiter.changes >= 1)
    owner = waiter.contender.owner
    assert owner is not None and (owner.id, owner.token) == ("known-leader", leader.token)
    assert waiter.contender.token == 0 and not waiter.is_owner
    leader.stop()
    wait(lambda: waiter.acquired == 1 and waiter.changes >= 2)
    owner = waiter.contender.owner
    assert owner is not None and owner.id == waiter.contender.id


# --- takeover and wake-ups ----------------------------------------------------------------------------------


def test_take_over_silent(url: str, client: simba.Client, mutex: str) -> None:
    """A dead process is replaced when its lease has ended, under a greater token."""
    with process(url, mutex) as holder:
        token = int(line_of(holder))
        with pytest.raises(simba.Timeout):
            client.lock(mutex).acquire(0)
        holder.kill()
        with client.lock(mutex, timeout=TIMEOUT) as held:
            assert held.token > token


def test_revoked(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """A holder whose mutex is taken away is told so, and contends again."""
    p = Probe(client, mutex, **STEADY).start()
    wait(lambda: p.acquired == 1)
    other.force_release(mutex)
    wait(lambda: p.released == 1)
    assert p.reasons == ["revoked"]
    wait(lambda: p.acquired == 2)


def test_release_wakes(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """A release wakes the waiter, long before a lease ends."""
    leader = Probe(client, mutex, ttl=None if SESSIONS else 60).start()
    wait(lambda: leader.acquired == 1)
    waiter = Probe(other, mutex).start()
    wait(lambda: waiter.changes >= 1)
    leader.stop()
    before = time.monotonic()
    wait(lambda: waiter.acquired == 1)
    assert time.monotonic() - before < 30


def test_dead_waiter(url: str, client: simba.Client, other: simba.Client, mutex: str) -> None:
    """A waiter that was killed does not keep the wake-up from the next."""
    leader = Probe(client, mutex).start()
    wait(lambda: leader.acquired == 1)
    with process(url, mutex, waits=True) as waiter:
        assert line_of(waiter) == "waits"
        waiter.kill()
        waiter.wait(TIMEOUT)
        after = Probe(other, mutex).start()
        leader.stop()
        wait(lambda: after.acquired == 1)


def test_departed_waiter(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """A waiter that gave up does not keep the wake-up from the next."""
    leader = Probe(client, mutex).start()
    wait(lambda: leader.acquired == 1)
    departed, waiter = Probe(other, mutex).start(), Probe(other, mutex)
    wait(lambda: departed.changes >= 1)
    waiter.start()
    departed.stop()
    leader.stop()
    wait(lambda: waiter.acquired == 1)
    assert departed.acquired == 0
