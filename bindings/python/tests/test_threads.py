"""The doors for threads. $SIMBA_TEST_URL names a store; without it each test has a memory store of its own."""

import gc
import multiprocessing
import os
import sys
import threading
import time
from typing import Any, Dict, List, Tuple

import pytest
import simba
from support import Record

#: A holder learns of its revocation by push, or when it renews. Sessions have no ttl.
SHORT: Dict[str, Any] = (
    {} if os.environ.get("SIMBA_TEST_URL", "").startswith("zookeeper") else {"ttl": 1, "transition": 1})


# --- lock -------------------------------------------------------------------------------------------------


def test_two_locks_exclude_each_other(client: simba.Client, mutex: str) -> None:
    with client.lock(mutex) as held:
        assert held.held and held.held_for > 0 and held.token >= 0
        assert held.owner is not None and held.owner.id == held.id
        with pytest.raises(simba.Timeout, match=held.id):
            client.lock(mutex).acquire(0)
        assert [row.mutex for row in client.list(mutex)] == [mutex]
    with client.lock(mutex, timeout=10):
        pass


def test_once_per_period(mutex: str) -> None:
    """A block records how it ended: an exception is a failure, which begins again if that is asked for. A success does not."""
    with simba.Client("memory://once") as client:
        with pytest.raises(ZeroDivisionError):
            with client.lock(mutex, once_per=3600):
                1 / 0
        assert b" result=1 " in client.note(mutex).bytes and b" state=ended " in client.note(mutex).bytes
        with pytest.raises(simba.Error, match=r"and failed \(1\)") as caught:
            client.lock(mutex, once_per=3600).acquire()
        assert caught.value.name == "SIMBA_ETOOSOON"
        retrying = client.lock(mutex, once_per=3600, once_retry_failed=True)
        with retrying as held:
            held.once_end(7)
        assert b" result=7 " in client.note(mutex).bytes
        with retrying:
            assert b" state=begun " in client.note(mutex).bytes
        with pytest.raises(simba.Error, match="and succeeded"):
            retrying.acquire()
        with pytest.raises(simba.Error, match="does not hold it"):
            retrying.once_end()
        with pytest.raises(simba.BadArgument, match="once_retry_failed"):
            client.lock(mutex, once_retry_failed=True)


def test_slots(mutex: str) -> None:
    """Two hold the mutex at a time, and the third is told so."""
    with simba.Client("memory://slots") as client:
        with client.lock(mutex, slots=2) as one, client.lock(mutex, slots=2) as two:
            assert {one.slot, two.slot} == {1, 2} and one.held and two.held
            with pytest.raises(simba.Timeout, match="all its 2 slots are taken"):
                client.lock(mutex, slots=2).acquire(0)
        with pytest.raises(simba.Error, match="has 2 slots, not 3"):
            client.lock(mutex, slots=3).acquire()


def test_a_note_goes_from_hand_to_hand(mutex: str) -> None:
    with simba.Client("memory://notes") as client:
        assert client.note(mutex).bytes == b""
        with client.lock(mutex) as held:
            held.set_note(b"step\0 7")
            token = held.token
        left = client.note(mutex)
        assert left.bytes == b"step\0 7" and left.token == token and 0 < left.written_at <= left.now
        assert [row.note for row in client.list(mutex)] == [left.bytes]
        with client.contend(mutex) as leader:
            while not leader.is_owner:
                time.sleep(0.001)
            with pytest.raises(simba.BadArgument, match="1025"):
                leader.set_note(b"x" * 1025)
            with pytest.raises(simba.Error, match="owned by"):
                client.forget(mutex)
        client.forget(mutex)
        assert client.note(mutex).bytes == b""
        with pytest.raises(simba.NotFound):
            client.forget(mutex)


def test_a_lock_is_not_reentrant(client: simba.Client, mutex: str) -> None:
    with client.lock(mutex) as held:
        with pytest.raises(simba.Error) as caught:
            held.acquire()
        assert caught.value.name == "SIMBA_ESTATE"


def test_a_lost_lock_raises(client: simba.Client, mutex: str) -> None:
    with pytest.raises(simba.Lost, match="revoked"):
        with client.lock(mutex, **SHORT) as held:
            client.force_release(mutex)
            while held.held:
                time.sleep(0.001)
            with pytest.raises(simba.Lost):
                held.check()


def test_what_the_block_raises_comes_first(client: simba.Client, mutex: str) -> None:
    with pytest.raises(KeyError):
        with client.lock(mutex):
            client.force_release(mutex)
            raise KeyError(mutex)
    with pytest.raises(simba.NotFound):
        client.force_release(mutex)


def test_a_callback_may_use_its_contender_while_that_is_closed(client: simba.Client, mutex: str) -> None:
    record = Record()

    def on_released(self: simba.Contender, change: simba.Change, reason: str) -> None:
        assert change.before is not None
        record.say(self.token == change.before.token, self.note().bytes)

    with client.contend(mutex, on_acquired=lambda self, _: record.say(self.set_note(b"left")), on_released=on_released):
        record.wait(1)
    assert record.said[1:] == [(True, b"left")]


def test_a_wait_can_be_called_off_and_leaves_the_others_running(client: simba.Client, mutex: str) -> None:
    record = Record()
    waiter = client.lock(mutex)

    def wait() -> None:
        try:
            waiter.acquire()
        except simba.Cancelled:
            record.say("cancelled")

    with client.lock(mutex):
        thread = threading.Thread(target=wait)
        thread.start()
        while thread.is_alive():  # it may not have begun to wait yet; and this loop needs the GIL
            waiter.cancel()
            time.sleep(0.001)
        thread.join()
    assert record.said == [("cancelled",)]


def test_locks_share_a_client(url: str, mutex: str) -> None:
    with simba.Client(url) as client:
        client.prepare()
    with simba.lock(mutex, url=url) as held:
        with pytest.raises(simba.Timeout):
            with simba.lock(mutex, url=url, timeout=0):
                pass
        assert held.held


# --- contender, scheduler, observer -----------------------------------------------------------------------


def test_a_contender_tells(client: simba.Client, mutex: str) -> None:
    record = Record()
    contender = client.contend(
        mutex, id="me", on_acquired=lambda self, change: record.say("acquired", change.after.id, self.is_owner),
        on_released=lambda self, change, reason: record.say("released", reason))
    with contender:
        assert record.wait(1) == [("acquired", "me", True)]
        assert contender.token >= 0 and contender.owner is not None
        contender.stop()
        contender.start()
        record.wait(3)
    assert [said[0] for said in record.wait(4)] == ["acquired", "released", "acquired", "released"]
    assert record.said[1] == ("released", "stopped")
    with pytest.raises(simba.Closed):
        contender.start()


def test_a_contender_may_close_itself(client: simba.Client, mutex: str) -> None:
    record = Record()
    contender = client.contend(mutex, on_acquired=lambda self, change: self.close(),
                               on_released=lambda self, change, reason: record.say(reason))
    contender.start()
    del contender
    gc.collect()
    assert record.wait(1) == [("stopped",)]


def test_what_a_callback_raises_harms_nobody(client: simba.Client, mutex: str, monkeypatch: Any) -> None:
    record = Record()
    raised: List[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: raised.append(what.exc_value))

    def on_acquired(self: simba.Contender, change: simba.Change) -> None:
        record.say("acquired")
        raise KeyError("of the callback")

    with client.contend(mutex, on_acquired=on_acquired, on_released=lambda *_: record.say("released")):
        record.wait(1)
    assert record.said == [("acquired",), ("released",)]
    assert [str(exception) for exception in raised] == ["'of the callback'"]


def test_scheduled_work_runs_on_the_leader(url: str, client: simba.Client, mutex: str) -> None:
    record = Record()

    @simba.scheduled(mutex, every=0.01, url=url)
    def work(run: simba.Run) -> None:
        record.say(run.token >= 0, run.held_for > 0, run.stopping, run.sleep(0.001))

    with work:
        assert record.wait(3)[0] == (True, True, False, False)
    count = len(record.said)
    assert work.scheduler is None
    time.sleep(0.03)
    assert len(record.said) == count


def test_an_observer_sees_who_comes_and_goes(client: simba.Client, mutex: str) -> None:
    record = Record()
    with client.observe(mutex, lambda change: record.say(change.after and change.after.id), poll=0.05):
        assert record.wait(1) == [(None,)]
        with client.lock(mutex, id="holder"):
            assert record.wait(2)[1] == ("holder",)
        assert record.wait(3)[2] == (None,)


# --- errors -----------------------------------------------------------------------------------------------


def test_errors_have_words_and_kinds(client: simba.Client) -> None:
    with pytest.raises(simba.BadArgument, match="nowhere"):
        simba.Client("nowhere://")
    with pytest.raises(simba.BadArgument):
        client.lock("")
    with pytest.raises(TypeError, match="ttll"):
        client.lock("m", ttll=1)
    with pytest.raises(ValueError):
        client.lock("m", ttl=0.0001)
    closed = simba.Client("memory://closed")
    closed.close()
    with pytest.raises(simba.Closed):
        closed.lock("m")


def test_the_log_is_heard() -> None:
    lines: List[Tuple[str, str]] = []
    with simba.Client("memory://log", log=lambda level, line: lines.append((level, line)), log_level="event") as client:
        with client.lock("m"):
            pass
    assert lines


# --- fork -------------------------------------------------------------------------------------------------


def _child(url: str, mutex: str, client: simba.Client, results: Any) -> None:
    try:
        client.lock(mutex)
        results.put("used the parent's client")
    except simba.Forked:
        pass
    try:
        with simba.lock(mutex, url=url, timeout=0):
            results.put("entered beside the parent")
    except simba.Timeout:
        results.put("excluded")


def test_a_child_of_fork_opens_its_own(tmp_path: Any, mutex: str) -> None:
    url = os.environ.get("SIMBA_TEST_URL") or f"sqlite://{tmp_path}/store.db"
    fork = multiprocessing.get_context("fork")
    results = fork.Queue()
    with simba.Client(url) as client:
        client.prepare()
        with simba.lock(mutex, url=url) as held:
            child = fork.Process(target=_child, args=(url, mutex, client, results))
            child.start()
            assert results.get(timeout=60) == "excluded"
            child.join(60)
            assert child.exitcode == 0
            assert held.held
