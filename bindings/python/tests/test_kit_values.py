"""Cases of the conformance kit about names, lists, statistics and notes. Each has the kit's name; see test_kit_all.py."""

from typing import Callable, List

import pytest
import simba
from support import SESSIONS, STEADY, TIMEOUT, Probe, Record, line_of, process, wait

LOCK, WIDE = "\U0001f512", "\u4e92"


def is_usable(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """It is locked, excludes, and is free again. A store may refuse a name, but one that it accepts must work."""
    try:
        first, second = client.lock(mutex, **STEADY), other.lock(mutex, **STEADY)
    except simba.BadArgument:
        return
    first.acquire(TIMEOUT)
    with pytest.raises(simba.Timeout):
        second.acquire(0)
    first.release()
    second.acquire(TIMEOUT)
    second.release()


def test_names_at_limit(client: simba.Client, other: simba.Client, mutex: str) -> None:
    start = mutex[:40]
    for piece in ("x", WIDE, LOCK):
        is_usable(client, other, start + piece * (66 - len(start)))
    is_usable(client, other, LOCK * 66)
    locks = [client.lock(start + "y" * (65 - len(start)) + end, **STEADY) for end in "12"]
    for lock in locks:
        lock.acquire(TIMEOUT)


@pytest.mark.parametrize("name", ["x" * 67, LOCK * 67, "", " ", "   ", " blank-first", "blank-last ", "a\nb", "a\177b"])
def test_names_past_limit(client: simba.Client, name: str) -> None:
    doors: List[Callable[[], object]] = [
        lambda: client.lock(name), lambda: client.contend(name), lambda: client.observe(name, lambda change: None),
        lambda: client.schedule(name, lambda run: None, every=1)]
    for door in doors:
        with pytest.raises(simba.BadArgument):
            door()


SUFFIXES = [
    "ünïcödé", "мьютекс", "互斥锁", "ミューテックス", LOCK + "\U0001f511", "e\u0301", "a b", "a/b", "a//b", "/", "..", "a:b", "{a}", "}{",
    "a*", "?[a-z]", "100%", "a_b", "'", '"', "`", "\\", "a;b--", "$1", "#", "a@b", "a@@b", "<a>&amp;", "a,b", "a|b",
    "-latch-0000000001"]


def test_names_of_all_kinds(client: simba.Client, other: simba.Client, mutex: str) -> None:
    for suffix in SUFFIXES:
        is_usable(client, other, mutex[:20] + "-" + suffix)


def test_names_are_exact(client: simba.Client, mutex: str) -> None:
    """Names that a store might take for the same are different mutexes, all held at once."""
    locks: List[simba.Lock] = []
    for suffix in ["a", "A", "\u00e4", "\u00c4", "a\u0308", "aa", "a-", "a/", "a*", "?", "ss", "\u00df", "\u0131", "I", "i", "%61"]:
        try:
            locks.append(client.lock(mutex[:20] + "-" + suffix, **STEADY))
        except simba.BadArgument:
            continue
        locks[-1].acquire(0)


def test_ids(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """Ids up to 128 bytes arrive at everybody else as they are; longer ones, and such with "@@", are refused."""
    for i, id in enumerate(["i" * 128, "a@b", "0:4711@10.0.0.1", "ünïcödé\U0001f511", "a b", "'\"\\%", "{a}:b"]):
        leader = Probe(client, f"{mutex}-{i}", id=id).start()
        wait(lambda: leader.acquired == 1)
        waiter = Probe(other, f"{mutex}-{i}").start()
        wait(lambda: waiter.changes >= 1)
        owner = waiter.contender.owner
        assert owner is not None and owner.id == id
        waiter.stop()
        leader.stop()
    for id in ["i" * 129, "", " ", "a@@b", "@@", "a\nb"]:
        with pytest.raises(simba.BadArgument):
            client.lock(mutex, id=id)


# --- many mutexes, lists and statistics ---------------------------------------------------------------------


def test_thousand_mutexes(client: simba.Client, mutex: str) -> None:
    """One client leads them all, and gives them all back."""
    probes = [Probe(client, f"{mutex[:20]}-{i}").start() for i in range(1000)]
    wait(lambda: sum(p.acquired for p in probes) == 1000)
    assert client.stats()["held"] == 1000
    for probe in probes:
        probe.contender.discard()
    wait(lambda: client.stats()["contenders"] == 0)
    assert all((p.acquired, p.released) == (1, 1) for p in probes)


def test_stats(client: simba.Client, mutex: str) -> None:
    leader = Probe(client, mutex, **STEADY).start()
    wait(lambda: leader.acquired == 1)
    waiter = Probe(client, mutex, **STEADY).start()
    wait(lambda: SESSIONS or client.stats()["renewals"] >= 1)
    now = client.stats()
    assert (now["contenders"], now["held"], now["grants"], now["late_wins"]) == (2, 1, 1, 0)
    assert 1 <= now["batches"] <= now["requests"]
    leader.stop()
    wait(lambda: waiter.acquired == 1)
    waiter.stop()
    now = client.stats()
    assert (now["held"], now["grants"], now["losses"]) == (0, 2, {"stopped": 2}) and now["callbacks"] >= 4
    leader.contender.close()
    wait(lambda: client.stats()["contenders"] == 1)


def test_list(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """A list names the owners of all mutexes that match, in order, and of no others."""
    names = [f"{mutex}-{i}" for i in range(5)]
    probes = [Probe(client, name).start() for name in names]
    wait(lambda: all(p.acquired == 1 for p in probes))
    rows = other.list(mutex + "-*")
    assert [row.mutex for row in rows] == names
    assert [row.owner and (row.owner.id, row.owner.token) for row in rows] == [(p.contender.id, p.token) for p in probes]
    assert [row.mutex for row in other.list(names[2])] == [names[2]]
    everything = [row.mutex for row in other.list()]
    assert everything == sorted(everything, key=str.encode) and set(names) <= set(everything)
    for probe in probes:
        probe.stop()
    assert all(row.owner is None for row in other.list(mutex + "-*"))


def test_list_line(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """A list says how many contenders wait and which comes next, or that the store does not know."""
    def row() -> simba.Listing:
        return client.list(mutex)[0]

    owner = Probe(client, mutex).start()
    wait(lambda: owner.acquired == 1)
    waiters = [Probe(other, mutex), Probe(client, mutex)]
    for i, waiter in enumerate(waiters):
        waiter.start()
        wait(lambda: row().waiters in (None, i + 1))
        seen = row()
        assert seen.waiters is None or seen.next == waiters[0].contender.id
    for waiter in waiters:
        waiter.stop()
    wait(lambda: row().waiters in (None, 0))
    assert row().next is None


# --- notes --------------------------------------------------------------------------------------------------


def test_note_written(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """The holder's note is there for everybody, with its token and times. Writing it changes nothing about the lease."""
    with client.lock(mutex) as held:
        token = held.token
        held.set_note(b"first")
        note = other.note(mutex)
        assert (note.bytes, note.token) == (b"first", token) and 0 < note.written_at <= note.now
        held.set_note(b"second, and longer")
        assert client.note(mutex).bytes == b"second, and longer" and held.token == token
        with pytest.raises(simba.Timeout):
            other.lock(mutex).acquire(0)
        held.set_note(b"")
        assert other.note(mutex).bytes == b""


def test_note_any_bytes(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """A note has up to 1,024 bytes of every value, and not one more."""
    all_values = bytes(range(256)) * 4
    with client.lock(mutex) as held:
        held.set_note(all_values)
        with pytest.raises(simba.BadArgument):
            held.set_note(all_values + b"x")
        assert other.note(mutex).bytes == all_values
        held.set_note(b"\0")
        assert other.lock(mutex).note().bytes == b"\0"


def test_note_not_the_holder(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """A lock that is not held cannot write: not before, not while another one has it, not afterwards."""
    first, second = client.lock(mutex), other.lock(mutex)

    def is_refused(lock: simba.Lock) -> bool:
        with pytest.raises(simba.Error) as caught:
            lock.set_note(b"not mine")
        return caught.value.name == "SIMBA_ESTATE"

    assert is_refused(first)
    with first:
        first.set_note(b"mine")
        assert is_refused(second)
    assert is_refused(first)
    assert other.note(mutex).bytes == b"mine"


def test_note_handed_on(url: str, client: simba.Client, mutex: str) -> None:
    """The note stays when the mutex is given back and when it changes hands, and the next holder replaces it."""
    with client.lock(mutex) as held:
        held.set_note(b"step 7")
    with simba.Client(url) as other:
        assert other.note(mutex).bytes == b"step 7"
        with other.lock(mutex, timeout=TIMEOUT) as held:
            assert held.note().bytes == b"step 7"
            held.set_note(b"step 8")
            note = client.note(mutex)
            assert (note.bytes, note.token) == (b"step 8", held.token)
    assert client.note(mutex).bytes == b"step 8"


def test_note_expired(url: str, client: simba.Client, mutex: str) -> None:
    """A holder whose lease runs out leaves its note to the one that takes over."""
    with process(url, mutex, note="left") as holder:
        line_of(holder)
        holder.kill()
        with client.lock(mutex, timeout=TIMEOUT) as held:
            assert held.note().bytes == b"left"


def test_note_replaced(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """A holder that has been replaced cannot write: the store refuses it, or it has been told already."""
    first, second = client.lock(mutex, **STEADY), other.lock(mutex, **STEADY)
    first.acquire()
    first.set_note(b"old")
    other.force_release(mutex)
    with pytest.raises(simba.Error, match="write note"):
        first.set_note(b"revoked")
    second.acquire(TIMEOUT)
    with pytest.raises(simba.Error, match="write note"):
        first.set_note(b"replaced")
    assert client.note(mutex).bytes == b"old"
    second.set_note(b"new")
    assert client.note(mutex).bytes == b"new"
    second.release()


def test_note_told_the_writer(client: simba.Client, mutex: str) -> None:
    """A holder hears of its own note."""
    told = Record()
    with client.contend(mutex, on_noted=lambda self: told.say(self.note().bytes)) as holder:
        wait(lambda: holder.is_owner)
        holder.set_note(b"mine")
        wait(lambda: told.said[-1:] == [(b"mine",)])


def test_note_told(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """Observers and waiters are told of a note, of the next one, and that a mutex was forgotten with its note."""
    sees, waits = Record(), Record()
    with other.observe(mutex, lambda _: None, on_noted=lambda self: sees.say(self.note().bytes)):
        with client.lock(mutex) as held, other.contend(mutex, on_noted=lambda self: waits.say(self.note().bytes)) as waiter:
            for note in (b"one", b"two", b"three"):
                held.set_note(note)
                wait(lambda: sees.said[-1:] == waits.said[-1:] == [(note,)])
            waiter.stop()
        client.forget(mutex)
        wait(lambda: sees.said[-1:] == [(b"",)])


def test_note_listed(client: simba.Client, other: simba.Client, mutex: str) -> None:
    with client.lock(mutex) as held:
        held.set_note(b"listed")
        assert [row.note for row in other.list(mutex)] == [b"listed"]


def test_forget(client: simba.Client, other: simba.Client, mutex: str) -> None:
    """A mutex that nobody owns can be forgotten, with its note. Later tokens are greater all the same."""
    with client.lock(mutex) as held:
        held.set_note(b"left")
        token = held.token
        with pytest.raises(simba.Error, match="owned by"):
            other.forget(mutex)
    other.forget(mutex)
    assert client.note(mutex).bytes == b""
    with pytest.raises(simba.NotFound):
        other.forget(mutex)
    with other.lock(mutex, timeout=TIMEOUT) as held:
        assert held.token > token
