"""Distributed mutexes, leader election and leader-gated work over the store you already run."""

from ._client import Client, Contender, Listing, Lock, Note, Observer, Run, Scheduled, Scheduler, lock, scheduled
from ._lib import (
    BadArgument, Cancelled, Change, Closed, Error, Forked, Lost, NotFound, Owner, Refused, Timeout, Unavailable, lib, text,
)

__all__ = [
    "BadArgument", "Cancelled", "Change", "Client", "Closed", "Contender", "Error", "Forked", "Listing", "Lock", "Lost",
    "NotFound", "Note", "Observer", "Owner", "Refused", "Run", "Scheduled", "Scheduler", "Timeout", "Unavailable", "lock", "scheduled",
    "version",
]


def version() -> str:
    """Of the library that is loaded."""
    return text(lib.simba_version())
