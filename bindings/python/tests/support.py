"""What the tests of the doors for threads share: a store, clients of it, a mutex of one's own, and records of callbacks."""

import contextlib
import os
import subprocess
import sys
import threading
import time
import uuid
from typing import Any, Callable, Dict, Iterator, List, Optional

import pytest
import simba

URL = os.environ.get("SIMBA_TEST_URL", "")
#: Leases are sessions, which have no ttl and end only after many seconds.
SESSIONS = URL.startswith("zookeeper")
#: Leases that end soon.
BRIEF: Dict[str, Any] = {} if SESSIONS else {"ttl": 0.5, "transition": 1}
#: Leases that are renewed as often, but that a holder keeps when it gets the processor late.
STEADY: Dict[str, Any] = {} if SESSIONS else {"ttl": 0.5, "transition": 20}
TIMEOUT = 60.0


@pytest.fixture
def url() -> str:
    return os.environ.get("SIMBA_TEST_URL") or f"memory://{uuid.uuid4().hex}"


@pytest.fixture
def client(url: str) -> Iterator[simba.Client]:
    with simba.Client(url) as client:
        client.prepare()
        yield client


@pytest.fixture
def other(url: str, client: simba.Client) -> Iterator[simba.Client]:
    """Another client of the same store."""
    with simba.Client(url) as other:
        yield other


@pytest.fixture
def mutex() -> str:
    return f"python-{uuid.uuid4().hex}"


class Record:
    """What callbacks said, for a test that waits for it."""

    def __init__(self) -> None:
        self.said: List[Any] = []
        self.changed = threading.Condition()

    def say(self, *what: Any) -> None:
        with self.changed:
            self.said.append(what)
            self.changed.notify_all()

    def wait(self, count: int) -> List[Any]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.said) >= count, 30), self.said
            return list(self.said)


class Probe:
    """A contender that keeps a record of all it is told, and complains if a promise is broken: when it is told that it leads,
    no other probe of the mutex has a valid lease, and its token is greater than those before it. As the kit's probes."""

    probes: List["Probe"] = []
    breaches: List[str] = []
    changed = threading.Condition()

    def __init__(self, client: simba.Client, mutex: str, *, on_acquired: Optional[Callable[["Probe"], None]] = None,
                 on_released: Optional[Callable[["Probe"], None]] = None, **options: Any) -> None:
        self.acquired = self.released = self.changes = 0
        self.reasons: List[str] = []
        self.token = 0
        self.in_callback = False
        self.during_acquired, self.during_released = on_acquired, on_released
        self.contender = client.contend(mutex, on_acquired=self._on_acquired, on_released=self._on_released,
                                        on_changed=self._on_changed, **options)
        with Probe.changed:
            Probe.probes.append(self)

    @property
    def is_owner(self) -> bool:
        return self.contender._c is not None and self.contender.is_owner

    def _tell(self, what: Callable[[], None], during: Optional[Callable[["Probe"], None]]) -> None:
        with Probe.changed:
            if self.in_callback:
                Probe.breaches.append("two callbacks at once")
            self.in_callback = True
            what()
            Probe.changed.notify_all()
        if during:
            during(self)
        with Probe.changed:
            self.in_callback = False
            Probe.changed.notify_all()

    def _on_acquired(self, contender: simba.Contender, change: simba.Change) -> None:
        def gain() -> None:
            assert change.after is not None
            self.acquired += 1
            rivals = [p for p in Probe.probes if p is not self and p.contender.mutex == contender.mutex]
            if any(p.is_owner for p in rivals):
                Probe.breaches.append("two valid leases at once")
            if any(p.token >= change.after.token for p in rivals + [self]):
                Probe.breaches.append("a token that is not greater than those before it")
            self.token = change.after.token

        self._tell(gain, self.during_acquired)

    def _on_released(self, contender: simba.Contender, change: simba.Change, reason: str) -> None:
        def lose() -> None:
            self.released += 1
            self.reasons.append(reason)
            if self.released != self.acquired:
                Probe.breaches.append("released without acquired")

        self._tell(lose, self.during_released)

    def _on_changed(self, contender: simba.Contender, change: simba.Change) -> None:
        with Probe.changed:
            self.changes += 1
            Probe.changed.notify_all()

    def start(self) -> "Probe":
        self.contender.start()
        return self

    def stop(self) -> None:
        self.contender.stop()


def wait(condition: Callable[[], Any]) -> None:
    """Until it holds. Not all that it may ask for wakes us, so it is asked now and then."""
    deadline = time.monotonic() + TIMEOUT
    with Probe.changed:
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            Probe.changed.wait(0.01)


@pytest.fixture(autouse=True)
def judged() -> Iterator[None]:
    Probe.probes, Probe.breaches = [], []
    yield
    for probe in Probe.probes:
        probe.contender.close()
    assert Probe.breaches == []


def in_thread(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


HOLDER = """
import sys, simba
held = simba.lock(sys.argv[2], url=sys.argv[1], ttl=0.5, transition=1)
if sys.argv[3]:
    print("waits", flush=True)
held.acquire()
if sys.argv[4]:
    held.set_note(sys.argv[4].encode())
print(held.token, flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def process(url: str, mutex: str, waits: bool = False, note: str = "") -> Iterator["subprocess.Popen[bytes]"]:
    """A process that takes the mutex, or waits for it, and prints its token. The lease is brief."""
    if url.startswith("memory"):
        pytest.skip("the store ends with its process")
    if SESSIONS:
        pytest.skip("a session ends only after many seconds; the kit has this case")
    arguments = [sys.executable, "-c", HOLDER, url, mutex, "waits" if waits else "", note]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        try:
            yield started
        finally:
            started.kill()


def line_of(started: "subprocess.Popen[bytes]") -> str:
    assert started.stdout is not None
    return started.stdout.readline().decode().strip()
