"""Everleaf for asyncio: what may wait runs in a thread, and the loop goes on.

Getting and putting one key takes about a microsecond and needs no thread; use the store itself for that,
unless its durability is "power". Everything else is awaited: `await aio.call(store.check)`.

>>> import asyncio, tempfile
>>> from everleaf import aio
>>> async def main() -> None:
...     async with aio.store(tempfile.mkdtemp() + "/trees.pool", keys=str, values=str) as store:
...         async with aio.batch(store) as batch:
...             batch.put(store, "oak", "Quercus").put(store, "ash", "Fraxinus")
...         print([key async for key, _ in aio.pairs(store)], await aio.call(store.check))
>>> asyncio.run(main())
['ash', 'oak'] []

A thread cannot be stopped. A task that is cancelled while it awaits a call goes on at once, and so does the call in its
thread: what it writes may be written.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import Any, ParamSpec, Self, TypeVar

from ._everleaf import Error, RawStore
from ._map import Batch, Map, View
from ._store import Store
from ._store import open as _open

P = ParamSpec("P")
R = TypeVar("R")
_PIECE = 256
_OF_A_THREAD = ("defer_sync", "wait_deferred")


async def call(function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Calls a function of a store in a thread, in whichever: `defer_sync` and `wait_deferred`, which are for the writes of
    their own thread, are refused. `deferred` has a thread for them.

    If it is cancelled, the function goes on, and what it writes may be written."""
    of: Any = getattr(function, "__self__", arguments[0] if arguments else None)
    if isinstance(of, (Store, RawStore)) and getattr(function, "__name__", None) in _OF_A_THREAD:
        raise TypeError("defer_sync and wait_deferred are of one thread, and a call is in any: use aio.deferred")
    return await asyncio.to_thread(function, *arguments, **named)


async def open(path: str | os.PathLike[str], **options: Any) -> Store:
    """As `everleaf.open`. If it is cancelled, it waits until the store is open, and closes it."""
    opening = asyncio.ensure_future(asyncio.to_thread(_open, path, **options))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        try:
            await asyncio.to_thread((await opening).close)
        except Error:
            pass  # Nobody waits for a store that was not opened.
        raise


@asynccontextmanager
async def store(path: str | os.PathLike[str], **options: Any) -> AsyncIterator[Store]:
    """A store that is opened as by `everleaf.open`, and closed at the end of the block, which may write a snapshot; both
    in a thread."""
    opened = await open(path, **options)
    try:
        yield opened
    finally:
        await asyncio.to_thread(opened.close)


@asynccontextmanager
async def batch(store: Store) -> AsyncIterator[Batch]:
    """As `Store.batch`: it is written in a thread, when the block ends without an exception."""
    batch = store.batch()
    try:
        yield batch
    except BaseException as error:
        batch.__exit__(type(error), error, error.__traceback__)
        raise
    await asyncio.to_thread(batch.__exit__, None, None, None)


class deferred:
    """Writes that share a sync of a store whose durability is "power": they are done by one thread, return before they are
    durable, and are durable when `wait` has returned, or the block has ended.

    >>> async def main(store) -> None:
    ...     async with aio.deferred(store) as writer:
    ...         for number in range(1000):
    ...             await writer.call(store.put, number, "v")
    ...         await writer.wait()  # those that are told of the thousand are told now
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "everleaf-deferred")

    async def call(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """As `aio.call`, by the one thread, in the order of the calls. One that is cancelled before its turn is not
        made."""
        run: Callable[[], R] = partial(contextvars.copy_context().run, partial(function, *arguments, **named))
        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    async def wait(self) -> None:
        """Waits until all writes that were called for are durable."""
        await self.call(self._store.wait_deferred)

    async def __aenter__(self) -> Self:
        await self.call(self._store.defer_sync)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            # Also after an exception: what was written before it was written.
            await self.wait()
        finally:
            # What was called for is done; nobody waits for the thread to end.
            self._thread.shutdown(wait=False)


async def pairs(map: Map[Any, Any] | View[Any, Any], *bounds: Any, **named: Any) -> AsyncIterator[tuple[Any, Any]]:
    """As `Map.range`, also `reverse=True` and of a view, a piece at a time: other tasks run between pieces."""
    iterator = map.range(*bounds, **named)

    def piece() -> list[tuple[Any, Any]]:
        return list(islice(iterator, _PIECE))

    while found := await asyncio.to_thread(piece):
        for pair in found:
            yield pair
