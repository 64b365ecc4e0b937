"""simba for asyncio: the loop drives the client through its descriptor, and no thread is started.

    async with simba.aio.Client("redis://db1") as client:
        async with client.lock("orders", on_lost="cancel") as held:
            await write(held.token, …)

A loop that stands still renews nothing: its locks end in time, and others take over.
"""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Optional, Set

from ._client import BaseClient, Contender, Observer, open_client
from ._lib import Change, Duration, Lost, Owner, check, fail, lib, milliseconds

__all__ = ["Client", "Lock"]


class Client(BaseClient):
    """As simba.Client, for one event loop, in which it must be made. Callbacks run in that loop."""

    def __init__(self, url: Optional[str] = None, *, log: Optional[Callable[[str, str], None]] = None,
                 log_level: str = "warning", op_timeout: Optional[Duration] = None, **timing: Optional[Duration]) -> None:
        self._loop = asyncio.get_running_loop()
        self._c, self._log = open_client(url, lib.SIMBA_DISPATCH_FD, log, log_level, op_timeout, timing)
        self._fd = check(lib.simba_client_fd(self._c))
        self._going: Set["asyncio.Future[None]"] = set()
        self._loop.add_reader(self._fd, self._dispatch)

    def _dispatch(self) -> None:
        check(lib.simba_client_dispatch(self._handle()))

    def lock(self, mutex: str, *, timeout: Optional[Duration] = None, id: Optional[str] = None, on_lost: str = "check",
             **timing: Optional[Duration]) -> "Lock":
        return Lock(self, mutex, timeout=timeout, id=id, on_lost=on_lost, **timing)

    def contend(self, mutex: str, **options: Any) -> Contender:
        return Contender(self, mutex, **options)

    def observe(self, mutex: str, on_changed: Callable[[Change], None], **options: Any) -> Observer:
        return Observer(self, mutex, on_changed, **options)

    async def give_up(self, contender: Contender) -> None:
        """Close a contender, without blocking the loop: its on_released runs, and the mutex is given back."""
        over: "asyncio.Future[None]" = self._loop.create_future()
        self._going.add(over)

        def tell() -> None:
            if not over.done():
                over.set_result(None)

        def when_over() -> None:  # where a store has threads, one of them may be the one that says so
            self._loop.call_soon_threadsafe(tell)

        contender.discard(when_over)
        try:
            await asyncio.shield(over)
        finally:
            self._going.discard(over)

    async def close(self) -> None:
        """Stop and give back everything."""
        if self._c is None:
            return
        if self._going:
            await asyncio.wait(self._going)
        self._loop.remove_reader(self._fd)
        self._close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.close()


class Lock:
    """A lock for a task. If it is lost while the block runs, what then is up to `on_lost`: "check" leaves it to
    held.check() to raise Lost; "cancel" cancels the task at once, and the block raises Lost."""

    def __init__(self, client: Client, mutex: str, *, timeout: Optional[Duration] = None, id: Optional[str] = None,
                 on_lost: str = "check", **timing: Optional[Duration]) -> None:
        if on_lost not in ("check", "cancel"):
            raise ValueError(f'on_lost is {on_lost!r}; it must be "check" or "cancel"')
        self.mutex = mutex
        self._client, self._timeout, self._cancels, self._id, self._timing = client, timeout, on_lost == "cancel", id, timing
        self._contender: Optional[Contender] = None
        self._task: Optional["asyncio.Task[Any]"] = None
        self._lost: Optional[str] = None
        self._was_cancelled = False

    def _on_lost(self, contender: Contender, change: Change, reason: str) -> None:
        if reason == "stopped":
            return
        lib.simba_contender_stop(contender._c)  # what was lost is not taken again behind the back of the block
        self._lost = f"{self.mutex} was lost: {reason}"
        if self._cancels and self._task:
            self._was_cancelled = self._task.cancel()

    async def _get(self) -> None:
        got: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()
        taken: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()

        def tell(future: "asyncio.Future[None]") -> None:
            if not future.done():
                future.set_result(None)

        def on_changed(self: Contender, change: Change) -> None:
            if change.after and change.after.id != self.id:
                tell(taken)

        contender = self._contender = Contender(
            self._client, self.mutex, on_acquired=lambda *_: tell(got), on_released=self._on_lost, on_changed=on_changed,
            on_noted=None, id=self._id, **self._timing)
        contender.start()
        if self._timeout is None:
            await got
            return
        left = max(milliseconds(self._timeout), 0) / 1000
        if left > 0:
            await asyncio.wait({got}, timeout=left)
        else:  # try once: until its owner is known
            await asyncio.wait({got, taken}, return_when=asyncio.FIRST_COMPLETED)
        if not got.done():
            who = self.owner
            fail(lib.SIMBA_ETIMEDOUT, f"{self.mutex} is owned by {who.id if who else 'another contender'}")

    async def __aenter__(self) -> "Lock":
        if self._contender:
            fail(lib.SIMBA_ESTATE, f"{self.mutex} is held or waited for already; a lock is not re-entrant")
        self._lost, self._was_cancelled = None, False
        try:
            await self._get()
        except BaseException:
            await self._leave()
            raise
        self._task = asyncio.current_task()
        return self

    async def __aexit__(self, kind: Any, *exc: Any) -> None:
        self._task = None
        if not self.held and not self._lost:
            self._lost = f"{self.mutex} was lost"  # and why is still to be told
        await self._leave()
        if self._lost and (kind is None or (self._was_cancelled and issubclass(kind, asyncio.CancelledError))):
            raise Lost(self._lost, lib.SIMBA_ELOST) from None

    async def _leave(self) -> None:
        contender, self._contender = self._contender, None
        if contender:
            await self._client.give_up(contender)

    @property
    def held(self) -> bool:
        return self._contender is not None and self._lost is None and self._contender.is_owner

    @property
    def held_for(self) -> float:
        return self._contender.held_for if self._contender and self._lost is None else 0.0

    @property
    def token(self) -> int:
        return self._contender.token if self._contender else 0

    @property
    def owner(self) -> Optional[Owner]:
        return self._contender.owner if self._contender else None

    def check(self) -> None:
        """Raises Lost if it is not held any more."""
        if not self.held:
            raise Lost(self._lost or f"{self.mutex} is not held", lib.SIMBA_ELOST)
