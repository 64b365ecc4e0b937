"""The client, and the four doors for threads."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Type, TypeVar

from ._lib import (
    ERR, Change, Duration, Owner, call, change, check, drop, encode, fail, ffi, keep, lib, milliseconds, on_freed, owner,
    reason, set_timing, text,
)

D = TypeVar("D", bound="Door")
_LEVELS = ("error", "warning", "info", "debug", "event")


@dataclass(frozen=True)
class Listing:
    mutex: str
    owner: Optional[Owner]
    waiters: Optional[int]  # None: the store does not know
    note: bytes = b""
    next: Optional[str] = None  # who is first in line; None: nobody waits, or the store does not know


@dataclass(frozen=True)
class Note:
    """What belongs to a mutex and outlives its holders. Times are seconds since 1970 on the store's clock."""

    bytes: bytes  # empty: there is none
    token: int  # of the grant under which it was written
    written_at: float
    now: float  # when it was read


@ffi.callback("simba_log_fn")  # type: ignore[misc]
def _on_log(user: Any, level: int, line: Any) -> None:
    ffi.from_handle(user)(_LEVELS[level], text(line))


@ffi.callback("void(simba_listing *, void *)")  # type: ignore[misc]
def _on_row(row: Any, user: Any) -> None:
    waiters = None if row.waiters < 0 else row.waiters
    note = ffi.buffer(row.note, row.note_length)[:] if row.note_length else b""
    first = text(row.next) if row.next else None
    ffi.from_handle(user).append(Listing(text(row.mutex), owner(row.owner), waiters, note, first))


def read_note(function: Callable[..., Any], *arguments: Any) -> Note:
    """`function` is simba_client_note or one of its kin."""
    out = ffi.new("simba_note *")
    out.size = ffi.sizeof("simba_note")
    call(function, *arguments, ERR, out)
    return Note(ffi.buffer(out.bytes, out.length)[:], out.token, out.written_at_ms / 1000, out.now_ms / 1000)


def open_client(url: Optional[str], dispatch: int, log: Optional[Callable[[str, str], None]], log_level: str,
                op_timeout: Optional[Duration], timing: Dict[str, Optional[Duration]]) -> Tuple[Any, Any]:
    """The C handle, and the objects that must live as long as it."""
    options = ffi.new("simba_client_options *")
    options.size = ffi.sizeof("simba_client_options")
    set_timing(options.timing, dict(timing))
    options.dispatch = dispatch
    options.max_callback_threads = 64
    options.drift_ppm = 10000
    options.op_timeout_ms = 4000 if op_timeout is None else milliseconds(op_timeout)
    options.log_level = _LEVELS.index(log_level)
    handle = ffi.new_handle(log) if log else None
    if handle:
        options.log = _on_log
        options.log_user = handle
    out = ffi.new("simba_client **")
    call(lib.simba_client_open, encode(url), options, ERR, out)
    return out[0], handle


class BaseClient:
    """What both kinds of clients have. Threads may share a client."""

    _c: Any = None

    def _handle(self) -> Any:
        if self._c is None:
            fail(lib.SIMBA_ECLOSED)
        return self._c

    @property
    def url(self) -> str:
        """Without its password."""
        return text(lib.simba_client_url(self._handle()))

    def list(self, pattern: Optional[str] = None) -> List[Listing]:
        """The mutexes of the store whose names match the shell pattern. Blocks for one answer of the store."""
        rows: List[Listing] = []
        call(lib.simba_client_list, self._handle(), encode(pattern), _on_row, ffi.new_handle(rows), ERR)
        return rows

    def force_release(self, mutex: str) -> None:
        """Take a mutex away from its owner; raises NotFound if it has none."""
        call(lib.simba_client_force_release, self._handle(), encode(mutex), ERR)

    def note(self, mutex: str) -> Note:
        """The note of a mutex, with or without an owner. Blocks for one answer of the store."""
        return read_note(lib.simba_client_note, self._handle(), encode(mutex))

    def forget(self, mutex: str) -> None:
        """Remove a mutex that nobody owns, with its note; raises NotFound if the store does not know it."""
        call(lib.simba_client_forget, self._handle(), encode(mutex), ERR)

    def stats(self) -> Dict[str, Any]:
        """The counters of this client, by the names that simba.h has; `losses` by reason. Asks nothing of the store."""
        out = ffi.new("simba_stats *")
        out.size = ffi.sizeof("simba_stats")
        check(lib.simba_client_stats(self._handle(), out))
        counts: Dict[str, Any] = {
            name: int(getattr(out, name))
            for name, field in ffi.typeof("simba_stats").fields if field.type.kind == "primitive" and name != "size"}
        counts["losses"] = {reason(code): int(count) for code, count in enumerate(out.losses) if count}
        return counts

    def prepare(self) -> None:
        """Make in the store what is missing there, such as a table."""
        call(lib.simba_client_prepare, self._handle(), ERR)

    def _close(self) -> None:
        c, self._c = self._c, None
        if c is None:
            return
        code = lib.simba_client_close(c)
        if code == lib.SIMBA_ESTATE:
            self._c = c
        check(code)


class Client(BaseClient):
    """A connection to a store, named by a URL; without one $SIMBA_URL, and without that the SQLite file of this user.

    The settings (ttl, transition, stop_margin, hold_limit …) are in seconds, and are what locks and contenders inherit. `log`
    is called with a level and a line, from any thread; it must not call simba.
    """

    def __init__(self, url: Optional[str] = None, *, log: Optional[Callable[[str, str], None]] = None,
                 log_level: str = "warning", op_timeout: Optional[Duration] = None, **timing: Optional[Duration]) -> None:
        self._c, self._log = open_client(url, lib.SIMBA_DISPATCH_POOL, log, log_level, op_timeout, timing)
        self._pid = os.getpid()

    def lock(self, mutex: str, *, timeout: Optional[Duration] = None, id: Optional[str] = None,
             once_per: Optional[Duration] = None, once_retry_failed: bool = False, slots: int = 0,
             **timing: Optional[Duration]) -> "Lock":
        return Lock(self, mutex, timeout=timeout, id=id, once_per=once_per, once_retry_failed=once_retry_failed, slots=slots,
                    **timing)

    def contend(self, mutex: str, **options: Any) -> "Contender":
        return Contender(self, mutex, **options)

    def schedule(self, mutex: str, work: Callable[["Run"], None], **options: Any) -> "Scheduler":
        return Scheduler(self, mutex, work, **options)

    def observe(self, mutex: str, on_changed: Callable[[Change], None], **options: Any) -> "Observer":
        return Observer(self, mutex, on_changed, **options)

    def close(self) -> None:
        """Stop and give back everything; waits for callbacks. Not inside one."""
        self._close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if self._c is not None and self._pid == os.getpid():
            warnings.warn(f"{self.url} was not closed", ResourceWarning, source=self)
            self.close()


# --- one client for each store, for simba.lock() and its kin ---------------------------------------------

_shared: Dict[Optional[str], Client] = {}
_shared_lock = threading.Lock()


def shared(url: Optional[str]) -> Client:
    with _shared_lock:
        client = _shared.get(url)
        if client is None or client._c is None:
            client = _shared[url] = Client(url)
        return client


def _close_shared() -> None:
    for client in _shared.values():
        client.close()
    _shared.clear()


def _forget_shared() -> None:
    """In a child of fork: the parent's clients are of no use, and its lock may be held."""
    global _shared_lock
    _shared_lock = threading.Lock()
    for client in _shared.values():
        client._c = None
    _shared.clear()


atexit.register(_close_shared)
os.register_at_fork(after_in_child=_forget_shared)


# --- lock -------------------------------------------------------------------------------------------------


class Lock:
    """A blocking lock, which is not re-entrant. `timeout` 0 tries once, None waits for ever.

        with simba.lock("orders") as held:
            write(held.token, …)
            held.check()     # raises Lost if it is not held any more

    Leaving the block raises Lost, too, if the lock was lost meanwhile and nothing else was raised.

    With `once_per`, acquiring raises SIMBA_ETOOSOON if the work began within that time. The block records its end: an
    exception is a failure. With `once_retry_failed`, a run that failed or was cut short begins again.

    With `slots`, up to so many hold the mutex at a time. `slot` is the number of this one's, from 1 on.
    """

    _c: Any = None

    def __init__(self, client: Client, mutex: str, *, timeout: Optional[Duration] = None, id: Optional[str] = None,
                 once_per: Optional[Duration] = None, once_retry_failed: bool = False, slots: int = 0,
                 **timing: Optional[Duration]) -> None:
        options = ffi.new("simba_locker_options *")
        options.size = ffi.sizeof("simba_locker_options")
        options.once_per_ms = 0 if once_per is None else milliseconds(once_per)
        options.once_retry_failed = once_retry_failed
        options.slots = slots
        name = identify(options, id, timing)  # noqa: F841
        out = ffi.new("simba_locker **")
        self._records_end = once_per is not None
        self._has_ended = False
        self._client = client
        self._timeout = timeout
        self._free = lib.simba_locker_free  # outlives the module, for __del__
        self._pid = os.getpid()
        call(lib.simba_locker_new, client._handle(), encode(mutex), options, ERR, out)
        self._c = out[0]
        self.mutex = mutex

    def acquire(self, timeout: Optional[Duration] = None) -> None:
        """Raises Timeout, which names who has it; the wait releases the GIL."""
        call(lib.simba_locker_acquire, self._c, -1 if timeout is None else max(milliseconds(timeout), 0), ERR)
        self._has_ended = False

    def once_end(self, result: int = 0) -> None:
        """With once_per, record how the run has ended, while the lock is held: 0 is success. A block that has called this records
        nothing by itself."""
        call(lib.simba_locker_once_end, self._c, result, ERR)
        self._has_ended = True

    def release(self) -> None:
        """Raises Lost if it had ended before."""
        call(lib.simba_locker_release, self._c, ERR)

    def cancel(self) -> None:
        """Make an acquire that waits in another thread raise Cancelled."""
        check(lib.simba_locker_cancel(self._c))

    @property
    def held(self) -> bool:
        return bool(lib.simba_locker_held_for_ms(self._c) > 0)

    @property
    def held_for(self) -> float:
        """The seconds for which the lease is still valid, by the client's clock; 0: not held. No round trip."""
        return float(lib.simba_locker_held_for_ms(self._c)) / 1000

    @property
    def token(self) -> int:
        """The fencing token, for the resource that you write to; 0: not held."""
        return int(lib.simba_locker_token(self._c))

    @property
    def slot(self) -> int:
        """Which of the slots it holds, from 1 on; 0: none."""
        return int(lib.simba_locker_slot(self._c))

    @property
    def id(self) -> str:
        return text(lib.simba_locker_id(self._c))

    @property
    def owner(self) -> Optional[Owner]:
        out = ffi.new("simba_owner *")
        check(lib.simba_locker_owner(self._c, out))
        return owner(out)

    def note(self) -> Note:
        return read_note(lib.simba_locker_note, self._c)

    def set_note(self, note: bytes) -> None:
        """Write the note of the mutex, at most 1,024 bytes. Raises Lost if leadership has ended: nothing was written."""
        call(lib.simba_locker_note_set, self._c, note, len(note), ERR)

    def check(self) -> None:
        """Raises Lost if it is not held."""
        if not self.held:
            fail(lib.SIMBA_ELOST, f"{self.mutex} is not held any more")

    def __enter__(self) -> "Lock":
        self.acquire(self._timeout)
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], *exc: Any) -> None:
        records_end = self._records_end and not self._has_ended
        if kind is not None:
            if records_end:
                lib.simba_locker_once_end(self._c, 1, ffi.NULL)
            lib.simba_locker_release(self._c, ffi.NULL)
            return
        try:
            if records_end:
                self.once_end()
        finally:
            self.release()

    def __del__(self) -> None:
        if self._c is not None and self._pid == os.getpid():
            self._free(self._c)


# --- what the doors with callbacks have in common -----------------------------------------------------------


class Door:
    """A handle that is started and stopped, and whose callbacks lead back to it."""

    _kind = ""  # as in simba_KIND_new
    _c: Any = None
    _during: Optional[Tuple[int, Any]] = None  # the thread that runs a callback, and the handle in it

    def _call(self, what: str) -> Callable[..., Any]:
        return getattr(lib, f"simba_{self._kind}_{what}")  # type: ignore[no-any-return]

    def _open(self, client: BaseClient, mutex: str, options: Any) -> None:
        """`options` but for what all of them have."""
        options.size = ffi.sizeof(f"simba_{self._kind}_options")
        options.on_freed = on_freed
        options.user = handle = keep(self)
        out = ffi.new(f"simba_{self._kind} **")
        try:
            call(self._call("new"), client._handle(), encode(mutex), options, ERR, out)
        except Exception:
            drop(handle)
            raise
        self._client, self.mutex, self._c = client, mutex, out[0]

    def _handle(self) -> Any:
        if self._c is not None:
            return self._c
        if self._during and self._during[0] == threading.get_ident():
            return self._during[1]
        fail(lib.SIMBA_ECLOSED, f"the {self._kind} of {self.mutex} is closed")

    @contextlib.contextmanager
    def _callback(self, c: Any) -> Iterator[None]:
        """The library keeps a handle until its last callback has returned. So a callback may use it even while it is being closed."""
        before, self._during = self._during, (threading.get_ident(), c)
        try:
            yield
        finally:
            self._during = before

    def _freed(self) -> None:
        """No callback runs or will run any more."""

    def start(self: D) -> D:
        """Returns at once."""
        check(self._call("start")(self._handle()))
        return self

    def stop(self) -> None:
        """Waits for callbacks, unless inside of one, and gives back what is held. It may be started again."""
        check(self._call("stop")(self._handle()))

    def close(self) -> None:
        """Stop for good."""
        c, self._c = self._c, None
        if c is not None:
            self._call("free")(c)

    def __enter__(self: D) -> D:
        return self.start()

    def __exit__(self, *exc: Any) -> None:
        self.close()


def identify(options: Any, id: Optional[str], timing: Dict[str, Optional[Duration]]) -> Any:
    """Fill in id and timing. The result must live until the options were used."""
    name = ffi.NULL if id is None else ffi.new("char[]", id.encode())
    options.id = name
    set_timing(options.timing, dict(timing))
    return name


# --- contender --------------------------------------------------------------------------------------------


@ffi.callback("simba_acquired_fn")  # type: ignore[misc]
def _on_acquired(c: Any, state: Any, user: Any) -> None:
    self = ffi.from_handle(user)
    if self.on_acquired:
        with self._callback(c):
            self.on_acquired(self, change(state))


@ffi.callback("simba_released_fn")  # type: ignore[misc]
def _on_released(c: Any, state: Any, why: int, user: Any) -> None:
    self = ffi.from_handle(user)
    if self.on_released:
        with self._callback(c):
            self.on_released(self, change(state), reason(why))


@ffi.callback("simba_changed_fn")  # type: ignore[misc]
def _on_changed(c: Any, state: Any, user: Any) -> None:
    self = ffi.from_handle(user)
    with self._callback(c):
        self.on_changed(self, change(state))


@ffi.callback("simba_noted_fn")  # type: ignore[misc]
def _on_noted(c: Any, user: Any) -> None:
    self = ffi.from_handle(user)
    with self._callback(c):
        self.on_noted(self)


class Contender(Door):
    """Callbacks when this process gains and loses a mutex. They run one at a time, on a thread of the library.

    `on_noted` says that the note of the mutex may have changed: read it with note(). It is called once soon after
    the start, then after every write; one call may stand for several writes. A store without notes never calls it.

    An exception that leaves a callback goes to sys.unraisablehook, which prints it, and no further.
    """

    _kind = "contender"

    def __init__(self, client: BaseClient, mutex: str, *,
                 on_acquired: Optional[Callable[["Contender", Change], None]] = None,
                 on_released: Optional[Callable[["Contender", Change, str], None]] = None,
                 on_changed: Optional[Callable[["Contender", Change], None]] = None,
                 on_noted: Optional[Callable[["Contender"], None]] = None, id: Optional[str] = None,
                 **timing: Optional[Duration]) -> None:
        self.on_acquired, self.on_released, self.on_changed, self.on_noted = on_acquired, on_released, on_changed, on_noted
        self._when_freed: Optional[Callable[[], None]] = None
        options = ffi.new("simba_contender_options *")
        name = identify(options, id, timing)  # noqa: F841
        options.on_acquired, options.on_released = _on_acquired, _on_released
        if on_changed:
            options.on_changed = _on_changed
        if on_noted:
            options.on_noted = _on_noted
        self._open(client, mutex, options)
        self.id = text(lib.simba_contender_id(self._c))

    def _freed(self) -> None:
        if self._when_freed:
            self._when_freed()

    def discard(self, when_over: Optional[Callable[[], None]] = None) -> None:
        """Close without waiting."""
        c, self._c = self._c, None
        self._when_freed = when_over
        if c is not None:
            lib.simba_contender_discard(c)

    @property
    def is_owner(self) -> bool:
        return bool(lib.simba_contender_is_owner(self._handle()))

    @property
    def held_for(self) -> float:
        return float(lib.simba_contender_held_for_ms(self._handle())) / 1000

    @property
    def token(self) -> int:
        return int(lib.simba_contender_token(self._handle()))

    @property
    def owner(self) -> Optional[Owner]:
        out = ffi.new("simba_owner *")
        check(lib.simba_contender_owner(self._handle(), out))
        return owner(out)

    def note(self) -> Note:
        return read_note(lib.simba_contender_note, self._handle())

    def set_note(self, note: bytes) -> None:
        """As Lock.set_note."""
        call(lib.simba_contender_note_set, self._handle(), note, len(note), ERR)


# --- scheduler --------------------------------------------------------------------------------------------


class Run:
    """One run of scheduled work, as leader."""

    def __init__(self, c: Any) -> None:
        self._c = c

    @property
    def stopping(self) -> bool:
        """Must it end, because leadership is lost or about to be given back?"""
        return bool(lib.simba_run_stopping(self._c))

    @property
    def held_for(self) -> float:
        return float(lib.simba_run_held_for_ms(self._c)) / 1000

    @property
    def token(self) -> int:
        return int(lib.simba_run_token(self._c))

    def sleep(self, duration: Duration) -> bool:
        """Sleep, but not past the moment at which the run must end. True: it must."""
        return bool(lib.simba_run_sleep(self._c, milliseconds(duration)))

    def note(self) -> Note:
        return read_note(lib.simba_run_note, self._c)

    def set_note(self, note: bytes) -> None:
        """As Lock.set_note."""
        call(lib.simba_run_note_set, self._c, note, len(note), ERR)


@ffi.callback("simba_work_fn")  # type: ignore[misc]
def _on_work(run: Any, user: Any) -> None:
    ffi.from_handle(user).work(Run(run))


class Scheduler(Door):
    """Work that runs every so often, on the leader only. Runs never overlap."""

    _kind = "scheduler"

    def __init__(self, client: Client, mutex: str, work: Callable[[Run], None], *, every: Duration,
                 initial_delay: Duration = 0, fixed_delay: bool = False, id: Optional[str] = None,
                 **timing: Optional[Duration]) -> None:
        self.work = work
        options = ffi.new("simba_scheduler_options *")
        name = identify(options, id, timing)  # noqa: F841
        options.schedule = lib.SIMBA_SCHEDULE_FIXED_DELAY if fixed_delay else lib.SIMBA_SCHEDULE_FIXED_RATE
        options.initial_delay_ms = milliseconds(initial_delay)
        options.period_ms = milliseconds(every)
        options.work = _on_work
        self._open(client, mutex, options)

    @property
    def is_leader(self) -> bool:
        return bool(lib.simba_scheduler_is_leader(self._handle()))


class Scheduled:
    """A function with a schedule, see simba.scheduled. Calling it calls the function."""

    def __init__(self, work: Callable[[Run], None], mutex: str, url: Optional[str], options: Dict[str, Any]) -> None:
        self.work, self.mutex, self.url, self.options = work, mutex, url, options
        self.scheduler: Optional[Scheduler] = None
        self.__doc__ = work.__doc__

    def __call__(self, run: Run) -> None:
        self.work(run)

    def start(self) -> "Scheduled":
        if self.scheduler is None:
            self.scheduler = shared(self.url).schedule(self.mutex, self.work, **self.options)
        self.scheduler.start()
        return self

    def stop(self) -> None:
        scheduler, self.scheduler = self.scheduler, None
        if scheduler:
            scheduler.close()

    def __enter__(self) -> "Scheduled":
        return self.start()

    def __exit__(self, *exc: Any) -> None:
        self.stop()


def scheduled(mutex: str, *, every: Duration, url: Optional[str] = None,
              **options: Any) -> Callable[[Callable[[Run], None]], Scheduled]:
    """Run a function every so often, on the leader only, once it was started:

        @simba.scheduled("clean-up", every=60)
        def clean(run): …

        with clean: …            # or clean.start() and clean.stop()
    """
    return lambda work: Scheduled(work, mutex, url, {"every": every, **options})


# --- observer ---------------------------------------------------------------------------------------------


@ffi.callback("simba_observed_fn")  # type: ignore[misc]
def _on_observed(c: Any, state: Any, user: Any) -> None:
    self = ffi.from_handle(user)
    with self._callback(c):
        self.on_changed(change(state))


@ffi.callback("simba_observed_note_fn")  # type: ignore[misc]
def _on_observed_note(c: Any, user: Any) -> None:
    self = ffi.from_handle(user)
    with self._callback(c):
        self.on_noted(self)


class Observer(Door):
    """Sees who owns a mutex without contending. The first call of `on_changed` tells who does at the start.

    `on_noted` says that the note of the mutex may have changed: read it with note(). As for contenders.
    """

    _kind = "observer"

    def __init__(self, client: BaseClient, mutex: str, on_changed: Callable[[Change], None], *,
                 on_noted: Optional[Callable[["Observer"], None]] = None, poll: Duration = 1.0) -> None:
        self.on_changed, self.on_noted = on_changed, on_noted
        options = ffi.new("simba_observer_options *")
        options.on_changed = _on_observed
        if on_noted:
            options.on_noted = _on_observed_note
        options.poll_ms = milliseconds(poll)
        self._open(client, mutex, options)

    @property
    def owner(self) -> Optional[Owner]:
        out = ffi.new("simba_owner *")
        check(lib.simba_observer_owner(self._handle(), out))
        return owner(out)

    def note(self) -> Note:
        """The note of the mutex. Blocks for one answer of the store."""
        return self._client.note(self.mutex)


# --- without a client of one's own -----------------------------------------------------------------------


def lock(mutex: str, *, url: Optional[str] = None, timeout: Optional[Duration] = None, id: Optional[str] = None,
         once_per: Optional[Duration] = None, once_retry_failed: bool = False, slots: int = 0,
         **timing: Optional[Duration]) -> Lock:
    """A lock on a store that all of this process share a client of: `with simba.lock("orders", url=…) as held:`"""
    return shared(url).lock(mutex, timeout=timeout, id=id, once_per=once_per, once_retry_failed=once_retry_failed, slots=slots,
                            **timing)
