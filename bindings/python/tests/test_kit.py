"""Cases of the conformance kit, through the binding and on whichever store $SIMBA_TEST_URL names. Each has the kit's name."""

import os
import subprocess
import sys
import threading
from typing import Any, Dict, List

import pytest
import simba
from support import Record

SESSIONS = os.environ.get("SIMBA_TEST_URL", "").startswith("zookeeper")
#: Leases that end soon. Sessions have no ttl.
BRIEF: Dict[str, Any] = {} if SESSIONS else {"ttl": 0.5, "transition": 1}


def test_tokens_grow(client: simba.Client, mutex: str) -> None:
    tokens: List[int] = []
    for _ in range(5):
        with client.lock(mutex, timeout=30) as held:
            tokens.append(held.token)
    assert tokens == sorted(set(tokens)) and tokens[0] > 0


def test_same_id(client: simba.Client, mutex: str) -> None:
    """Two under one name still exclude each other."""
    with client.lock(mutex, id="twin"):
        with pytest.raises(simba.Timeout):
            client.lock(mutex, id="twin").acquire(0)


def test_ten_contenders(url: str, client: simba.Client, mutex: str) -> None:
    """Of ten, in two clients, one leads at a time, and each gets its turn."""
    inside: List[str] = []
    record = Record()

    def on_acquired(self: simba.Contender, change: simba.Change) -> None:
        inside.append(self.id)
        record.say(self.id, len(inside))
        threading.Thread(target=self.stop).start()

    def on_released(self: simba.Contender, change: simba.Change, reason: str) -> None:
        inside.remove(self.id)

    with simba.Client(url) as other:
        contenders = [(client, other)[i % 2].contend(mutex, on_acquired=on_acquired, on_released=on_released) for i in range(10)]
        for contender in contenders:
            contender.start()
        said = record.wait(10)
        for contender in contenders:
            contender.close()
    assert sorted(said) == sorted((contender.id, 1) for contender in contenders)


def test_slow_released(client: simba.Client, mutex: str) -> None:
    """Nobody else is granted the mutex before on_released has returned, although it takes longer than the lease."""
    led, over = threading.Event(), threading.Event()
    refused = Record()

    def on_released(self: simba.Contender, change: simba.Change, reason: str) -> None:
        with pytest.raises(simba.Timeout):
            client.lock(mutex).acquire(0.1 if SESSIONS else 1.6)
        refused.say(reason)
        over.set()

    contender = client.contend(mutex, on_acquired=lambda self, change: led.set(), on_released=on_released, **BRIEF)
    with contender:
        assert led.wait(30)
        contender.stop()
        assert over.is_set()
    assert refused.said == [("stopped",)]
    with client.lock(mutex, timeout=30):
        pass


def test_departed_waiter(client: simba.Client, mutex: str) -> None:
    """A waiter that gave up does not swallow the wake-up of the next."""
    record = Record()

    def wait(timeout: float) -> None:
        try:
            with client.lock(mutex, timeout=timeout):
                record.say("led")
        except simba.Timeout:
            record.say("gave up")

    with client.lock(mutex):
        first = threading.Thread(target=wait, args=(0.1,))
        second = threading.Thread(target=wait, args=(60,))
        first.start()
        second.start()
        first.join()
    second.join(60)
    assert record.said == [("gave up",), ("led",)]


def test_hold_limit(client: simba.Client, mutex: str) -> None:
    record = Record()
    with client.contend(mutex, hold_limit=0.2, on_released=lambda self, change, reason: record.say(reason)):
        assert record.wait(1)[0] == ("hold limit reached",)


HOLDER = """
import sys, simba
held = simba.lock(sys.argv[2], url=sys.argv[1], ttl=0.5, transition=1)
held.acquire()
print(held.token, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(SESSIONS, reason="a session ends only after many seconds; the kit has this case")
def test_killed_holder(url: str, client: simba.Client, mutex: str) -> None:
    """A dead process is replaced when its lease has ended, under a greater token."""
    if url.startswith("memory"):
        pytest.skip("the store ends with its process")
    with subprocess.Popen([sys.executable, "-c", HOLDER, url, mutex], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        token = int(holder.stdout.readline())
        with pytest.raises(simba.Timeout):
            client.lock(mutex).acquire(0)
        holder.kill()
    with client.lock(mutex, timeout=60) as held:
        assert held.token > token
