"""The library: where it is, its errors, and how values get in and out."""

from __future__ import annotations

import datetime
import os
import pathlib
from dataclasses import dataclass
from typing import Any, Callable, Dict, NoReturn, Optional, Type, Union

from ._ffi import ffi as ffi

#: Seconds, or a timedelta.
Duration = Union[float, int, datetime.timedelta]

ABI = "0.1"


def _load() -> Any:
    """$SIMBA_LIBRARY, the library that came with this package, or the one of the system."""
    name = f"libsimba.so.{ABI}"
    beside = pathlib.Path(__file__).with_name("lib") / name
    chosen = os.environ.get("SIMBA_LIBRARY") or (str(beside) if beside.exists() else name)
    try:
        return ffi.dlopen(chosen)
    except OSError as error:
        raise ImportError(f"{error}; install libsimba{ABI}, or name the library in $SIMBA_LIBRARY") from None


lib = _load()


def text(pointer: Any) -> str:
    return str(ffi.string(pointer), "utf-8", "replace") if pointer else ""


# --- errors ---------------------------------------------------------------------------------------------


class Error(Exception):
    """What the library answered. `code` is negative, `name` such as "SIMBA_EPERM"."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
        self.name = text(lib.simba_error_name(code))


class BadArgument(Error, ValueError):
    """An argument, a URL or an option is wrong."""


class Timeout(Error, TimeoutError):
    """Not obtained in time, or the store did not answer in time."""


class Cancelled(Error):
    """The wait was cancelled."""


class Lost(Error):
    """Leadership ended before it was given back."""


class Unavailable(Error, ConnectionError):
    """The store cannot be reached."""


class Refused(Error, PermissionError):
    """No permission."""


class NotFound(Error, LookupError):
    """Nobody owns this mutex."""


class Closed(Error):
    """The client is closed."""


class Forked(Error):
    """The handle belongs to the parent of this process: open a client of its own after fork."""


_KINDS: Dict[int, Type[Error]] = {
    lib.SIMBA_EINVAL: BadArgument,
    lib.SIMBA_EURL: BadArgument,
    lib.SIMBA_ETIMEDOUT: Timeout,
    lib.SIMBA_ECANCELED: Cancelled,
    lib.SIMBA_ELOST: Lost,
    lib.SIMBA_EUNAVAILABLE: Unavailable,
    lib.SIMBA_EPERM: Refused,
    lib.SIMBA_ENOTFOUND: NotFound,
    lib.SIMBA_ECLOSED: Closed,
    lib.SIMBA_EFORKED: Forked,
}


def fail(code: int, message: str = "") -> NoReturn:
    if code == lib.SIMBA_ENOMEM:
        raise MemoryError(message or "simba: out of memory")
    raise _KINDS.get(code, Error)(message or text(lib.simba_error_text(code)), code)


def call(function: Callable[..., int], *args: Any) -> int:
    """Call a function that takes `err` as its last argument but for those that come out of it."""
    err = ffi.new("simba_error *")
    code = function(*(err if arg is ERR else arg for arg in args))
    if code < 0:
        fail(code, text(err.text))
    return code


def check(code: int) -> int:
    if code < 0:
        fail(code)
    return code


#: Stands for the error in the arguments of `call`.
ERR = object()


# --- values ---------------------------------------------------------------------------------------------


def milliseconds(duration: Duration) -> int:
    """Rounded up: who asks for a moment does not mean none."""
    seconds = duration.total_seconds() if isinstance(duration, datetime.timedelta) else float(duration)
    if not abs(seconds) < 315360000:
        return 315360000000 if seconds > 0 else -315360000000
    return -int(-seconds * 1000 // 1)


def encode(value: Optional[str]) -> Any:
    return ffi.NULL if value is None else value.encode()


@dataclass(frozen=True)
class Owner:
    """Who owns a mutex. The times are on the store's clock, in seconds; they mean something only beside another one."""

    id: str
    token: int
    acquired_at: float
    ttl_at: float
    transition_at: float


def owner(c: Any) -> Optional[Owner]:
    """None: nobody."""
    if lib.simba_owner_is_none(ffi.addressof(c) if ffi.typeof(c).kind == "struct" else c):
        return None
    return Owner(text(c.id), c.token, c.acquired_at_ms / 1000, c.ttl_at_ms / 1000, c.transition_at_ms / 1000)


@dataclass(frozen=True)
class Change:
    """One change of ownership; None is nobody."""

    before: Optional[Owner]
    after: Optional[Owner]


def change(state: Any) -> Change:
    return Change(owner(state.before), owner(state.after))


def reason(code: int) -> str:
    """Why leadership ended: "stopped", "expired", "superseded", "revoked" …"""
    return text(lib.simba_reason_name(code))


_TIMING = ("ttl", "transition", "initial_delay", "stop_margin", "hold_limit", "jitter_min", "jitter_max")


def set_timing(timing: Any, given: Dict[str, Optional[Duration]]) -> None:
    """Fill in a simba_timing, all of which is inherited unless it is given."""
    inherit = -(2**63)
    for name in _TIMING:
        value = given.pop(name, None)
        setattr(timing, name + "_ms", inherit if value is None else milliseconds(value))
    for i in range(len(timing.reserved)):
        timing.reserved[i] = inherit
    if given:
        raise TypeError(f"there is no setting {', '.join(given)}; there are {', '.join(_TIMING)}")


# --- handles --------------------------------------------------------------------------------------------

#: What callbacks may still need, until the library says that none will come.
_alive: Dict[Any, Any] = {}


def keep(thing: Any) -> Any:
    """A pointer for `user`, which leads back to `thing`."""
    handle = ffi.new_handle(thing)
    _alive[handle] = handle
    return handle


def drop(handle: Any) -> None:
    _alive.pop(handle, None)


@ffi.callback("simba_freed_fn")  # type: ignore[misc]
def on_freed(user: Any) -> None:
    thing = ffi.from_handle(user)
    drop(user)
    thing._freed()
