"""What the tests of the doors for threads share: a store, a client of it, a mutex of one's own, and a record of callbacks."""

import os
import threading
import uuid
from typing import Any, Iterator, List

import pytest
import simba


@pytest.fixture
def url() -> str:
    return os.environ.get("SIMBA_TEST_URL") or f"memory://{uuid.uuid4().hex}"


@pytest.fixture
def client(url: str) -> Iterator[simba.Client]:
    with simba.Client(url) as client:
        client.prepare()
        yield client


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
