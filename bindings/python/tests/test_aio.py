"""The wrapper for asyncio."""

from __future__ import annotations

import asyncio
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import everleaf
import pytest
from everleaf import aio


def test_what_is_for_one_thread_is_refused_where_others_call(tmp_path: Path) -> None:
    """`call` is in any thread: then writes were deferred in one, and waited for in another, which returned at once."""

    async def run() -> None:
        async with aio.store(tmp_path / "a.pool", durability="power", max_size=1 << 26) as store:
            raw = store._store
            for function in [store.defer_sync, store.wait_deferred, raw.defer_sync, raw.wait_deferred]:
                with pytest.raises(TypeError, match="aio.deferred"):
                    await aio.call(function)
            for unbound in [everleaf.Store.defer_sync, everleaf.Store.wait_deferred]:
                with pytest.raises(TypeError, match="aio.deferred"):
                    await aio.call(unbound, store)
            # A thread of the pool that had deferred would stay so.
            await asyncio.gather(*(aio.call(store.put, b"%04d" % number, b"v") for number in range(200)))
            assert store.stat()["log_lag"] == 0

    asyncio.run(run())


def test_deferred_writes_are_durable_when_they_were_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.pool"

    async def run() -> None:
        threads: set[int] = set()
        async with aio.store(path, durability="power", max_size=1 << 26) as store:
            def put(number: int) -> None:
                threads.add(threading.get_ident())
                store[b"%04d" % number] = b"v"

            async with aio.deferred(store) as writer, aio.deferred(store) as other:
                both = [writer, other]
                await asyncio.gather(*(both[number % 2].call(put, number) for number in range(400)))
                await writer.wait()
                await other.wait()
                assert store.stat()["log_lag"] == 0 and len(threads) == 2
                await writer.call(put, 400)
            assert store.stat()["log_lag"] == 0
            with pytest.raises(ZeroDivisionError):
                async with aio.deferred(store) as writer:
                    await writer.call(put, 401)
                    raise ZeroDivisionError
            assert store.stat()["log_lag"] == 0
            with pytest.raises(RuntimeError):
                await writer.call(put, 402)

    asyncio.run(run())
    # Only what is in the log counts.
    path.unlink()
    with everleaf.open(path) as store:
        assert len(store) == 402 and store.rebuilt is not None


def test_a_store_is_opened_and_closed_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    close = everleaf.Store.close
    monkeypatch.setattr(everleaf.Store, "close", lambda store: (threads.append(threading.get_ident()), close(store))[1])

    async def run() -> None:
        async with aio.store(tmp_path / "a.pool", keys=str, values=int) as store:
            async with aio.batch(store) as batch:
                batch.put(store, "ann", 60).put(store, "bob", 40)
            with pytest.raises(ZeroDivisionError):
                async with aio.batch(store) as batch:
                    batch.remove(store, "ann")
                    raise ZeroDivisionError
            assert len(batch) == 0
            with pytest.raises(everleaf.Refused):
                async with aio.batch(store) as batch:
                    batch.remove(store, "ann").expect(store, "bob", 41)
            assert [pair async for pair in aio.pairs(store, reverse=True)] == [("bob", 40), ("ann", 60)]
            with store.view() as view:
                await aio.call(store.clear)
                assert [pair async for pair in aio.pairs(view, "b")] == [("bob", 40)]
        assert store.closed
        with pytest.raises(ZeroDivisionError):
            async with aio.store(tmp_path / "a.pool") as store:
                raise ZeroDivisionError
        assert store.closed

    asyncio.run(run())
    assert len(threads) == 2 and threading.get_ident() not in threads


def test_a_cancelled_opening_closes_what_it_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store was open, and its file locked, for as long as nobody collected it."""
    path, opened = tmp_path / "a.pool", []

    def slow(*arguments: Any, **named: Any) -> everleaf.Store:
        begun.set()
        is_cancelled.wait()
        opened.append(everleaf.open(*arguments, **named))
        return opened[-1]

    begun, is_cancelled = threading.Event(), threading.Event()
    monkeypatch.setattr(aio, "_open", slow)

    async def run(options: dict[str, Any]) -> None:
        task = asyncio.create_task(aio.open(path, **options))
        while not begun.is_set() and not task.done():
            await asyncio.sleep(0)
        task.cancel()
        is_cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run({}))
    assert len(opened) == 1 and opened[0].closed
    everleaf.open(path, create=False).close()
    # One that fails is cancelled all the same, whatever it fails with.
    wrong: list[dict[str, Any]] = [{"create_new": True}, {"durability": "none"}, {"keys": list}, {"max_size": -1}]
    for options in wrong:
        begun.clear()
        is_cancelled.clear()
        asyncio.run(run(options))
    assert len(opened) == 1


def test_a_cancelled_call_goes_on_in_its_thread(tmp_path: Path) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def put(store: everleaf.Store, key: bytes) -> None:
        begun.set()
        goes_on.wait()
        store[key] = b"v"

    async def run(store: everleaf.Store) -> None:
        task = asyncio.create_task(aio.call(put, store, b"any"))
        while not begun.is_set():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert b"any" not in store
        goes_on.set()
        while b"any" not in store:
            await asyncio.sleep(0)
        begun.clear()
        goes_on.clear()
        async with aio.deferred(store) as writer:
            first, second = (asyncio.create_task(writer.call(put, store, key)) for key in [b"first", b"second"])
            while not begun.is_set():
                await asyncio.sleep(0)
            for task in [first, second]:
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            goes_on.set()
        # The end of the block has waited for it; the other one was not begun.
        assert b"first" in store and b"second" not in store

    with everleaf.open(tmp_path / "a.pool") as store:
        asyncio.run(run(store))


def test_a_cancelled_end_of_a_block_waits_for_a_thread(tmp_path: Path) -> None:
    """No thread was free, so that the store was not closed, and nobody else could open its file; and a batch kept it open."""

    async def run(in_batch: bool) -> None:
        loop, goes_on = asyncio.get_running_loop(), threading.Event()
        loop.set_default_executor(ThreadPoolExecutor(1))
        seen: list[Any] = []

        async def use() -> None:
            async with aio.store(tmp_path / "a.pool") as store:
                if not in_batch:
                    seen[:] = [store, loop.run_in_executor(None, goes_on.wait)]
                    return
                async with aio.batch(store) as batch:
                    batch.put(store, b"k", b"v")
                    seen[:] = [store, loop.run_in_executor(None, goes_on.wait), batch]

        task = asyncio.create_task(use())
        while not seen:
            await asyncio.sleep(0)
        for is_cancelled in [False, True]:
            if is_cancelled:
                task.cancel()
            # It comes to its end, and to what follows.
            for _ in range(20):
                await asyncio.sleep(0)
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen[0].closed and (not in_batch or len(seen[2]) == 0)

    for in_batch in [False, True]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            asyncio.run(run(in_batch))
            everleaf.open(tmp_path / "a.pool").close()


def test_arguments_go_to_the_function(tmp_path: Path) -> None:
    async def run(store: everleaf.Store) -> None:
        await aio.call(store.put, b"k", value=b"v", ttl=100)
        assert await aio.call(partial(store.get, b"k")) == b"v"
        async with aio.deferred(store) as writer:
            assert await writer.call(store.get, b"no", b"default") == b"default"

    with everleaf.open(tmp_path / "a.pool") as store:
        asyncio.run(run(store))
