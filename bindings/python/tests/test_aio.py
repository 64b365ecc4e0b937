"""The doors for asyncio."""

import asyncio
import os
import threading
import uuid
from typing import Any, Callable, Coroutine, Dict, List

import pytest
import simba
from simba import aio

URL = os.environ.get("SIMBA_TEST_URL")
#: A holder learns of its revocation by push, or when it renews. Sessions have no ttl.
SHORT: Dict[str, Any] = {} if (URL or "").startswith("zookeeper") else {"ttl": 1, "transition": 1}


def run(test: Callable[[aio.Client, str], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with aio.Client(URL or f"memory://{uuid.uuid4().hex}") as client:
            client.prepare()
            await asyncio.wait_for(test(client, f"python-{uuid.uuid4().hex}"), 60)

    asyncio.run(main())


def test_tasks_exclude_each_other() -> None:
    async def test(client: aio.Client, mutex: str) -> None:
        inside = 0
        most = 0

        async def work() -> None:
            nonlocal inside, most
            async with client.lock(mutex) as held:
                inside += 1
                most = max(most, inside)
                assert held.held and held.held_for > 0
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(work() for _ in range(8)))
        assert most == 1

    run(test)


def test_a_wait_has_an_end() -> None:
    async def test(client: aio.Client, mutex: str) -> None:
        async with client.lock(mutex, id="holder"):
            with pytest.raises(simba.Timeout, match="holder"):
                async with client.lock(mutex, timeout=0):
                    pass
            # The store may take longer than this to say who owns it.
            with pytest.raises(simba.Timeout):
                async with client.lock(mutex, timeout=0.02):
                    pass
        async with client.lock(mutex, timeout=10):
            pass

    run(test)


def test_a_wait_can_be_cancelled() -> None:
    async def test(client: aio.Client, mutex: str) -> None:
        async with client.lock(mutex):
            waits = asyncio.ensure_future(client.lock(mutex).__aenter__())
            await asyncio.sleep(0)
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
        async with client.lock(mutex, timeout=10):
            pass

    run(test)


def test_a_lost_lock_cancels_the_task() -> None:
    async def test(client: aio.Client, mutex: str) -> None:
        with pytest.raises(simba.Lost, match="revoked"):
            async with client.lock(mutex, on_lost="cancel", **SHORT):
                client.force_release(mutex)
                await asyncio.sleep(60)
        await asyncio.sleep(0)  # and it goes on

    run(test)


def test_a_lost_lock_is_noticed_by_a_check() -> None:
    async def test(client: aio.Client, mutex: str) -> None:
        with pytest.raises(simba.Lost, match="was lost"):
            async with client.lock(mutex, **SHORT) as held:
                client.force_release(mutex)
                while held.held:
                    await asyncio.sleep(0.001)
                with pytest.raises(simba.Lost):
                    held.check()

    run(test)


def test_callbacks_run_in_the_loop() -> None:
    async def test(client: aio.Client, mutex: str) -> None:
        said: List[str] = []
        acquired = asyncio.get_running_loop().create_future()

        def on_acquired(contender: simba.Contender, change: simba.Change) -> None:
            said.append(threading.current_thread().name)
            acquired.set_result(None)

        contender = client.contend(mutex, on_acquired=on_acquired, on_released=lambda *_: said.append("released"))
        contender.start()
        await acquired
        await client.give_up(contender)
        assert said == [threading.main_thread().name, "released"]

    run(test)


def test_a_note_is_told_in_the_loop() -> None:
    async def test(client: aio.Client, mutex: str) -> None:
        notes: "asyncio.Queue[bytes]" = asyncio.Queue()
        leads = asyncio.Event()
        holder = client.contend(mutex, on_acquired=lambda *_: leads.set())
        observer = client.observe(mutex, lambda _: None, on_noted=lambda self: notes.put_nowait(self.note().bytes))
        holder.start()
        observer.start()
        await leads.wait()
        holder.set_note(b"step 7")
        while await notes.get() != b"step 7":
            pass
        observer.close()
        await client.give_up(holder)

    run(test)


def test_a_callback_may_use_a_contender_that_is_given_up() -> None:
    async def test(client: aio.Client, mutex: str) -> None:
        leads = asyncio.Event()
        said: List[int] = []
        contender = client.contend(mutex, on_acquired=lambda *_: leads.set(), on_released=lambda self, *_: said.append(self.token))
        contender.start()
        await leads.wait()
        await client.give_up(contender)
        assert len(said) == 1
        with pytest.raises(simba.Error, match="closed"):
            contender.token

    run(test)


def test_no_thread_is_started() -> None:
    async def test(client: aio.Client, mutex: str) -> None:
        async with client.lock(mutex):
            assert client.url.startswith("memory:")
            assert len(os.listdir("/proc/self/task")) == before

    if URL:
        pytest.skip("a store may have threads of its own")
    before = len(os.listdir("/proc/self/task"))
    run(test)
