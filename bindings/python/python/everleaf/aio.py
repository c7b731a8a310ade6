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
thread: what it writes may be written. A call that still waits for a thread then is not made. Opening and closing a store end
before the cancelled task goes on.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any, ParamSpec, Self, TypeVar

from ._everleaf import RawStore
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

    If it is cancelled, the function goes on, and what it writes may be written; or it is not called, if no thread was free
    yet."""
    of: Any = getattr(function, "__self__", arguments[0] if arguments else None)
    if isinstance(of, (Store, RawStore)) and getattr(function, "__name__", None) in _OF_A_THREAD:
        raise TypeError("defer_sync and wait_deferred are of one thread, and a call is in any: use aio.deferred")
    return await asyncio.to_thread(function, *arguments, **named)


def _begin(function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> asyncio.Future[R]:
    """Calls a function in a thread. Not a task, which the end of the loop would cancel."""
    run: Callable[[], R] = partial(contextvars.copy_context().run, partial(function, *arguments, **named))
    return asyncio.get_running_loop().run_in_executor(None, run)


async def _ended(running: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Waits for the end of a call, also if this task is cancelled: then it returns by what."""
    cancelled = None
    while not running.done():
        try:
            # It neither cancels what it waits for, nor raises what that does.
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


async def _close(store: Store) -> None:
    """Closes a store in a thread, and waits for that, whatever happens meanwhile."""
    closing = _begin(store.close)
    cancelled = await _ended(closing)
    if cancelled is not None:
        raise cancelled from closing.exception()
    closing.result()


async def open(path: str | os.PathLike[str], **options: Any) -> Store:
    """As `everleaf.open`. If it is cancelled, it waits until the store is open, and closes it."""
    opening = _begin(_open, path, **options)
    cancelled = await _ended(opening)
    if cancelled is None:
        return opening.result()
    # Nobody waits for a store that was not opened, or was not closed as it should.
    with suppress(Exception, asyncio.CancelledError):
        await _close(opening.result())
    raise cancelled


@asynccontextmanager
async def store(path: str | os.PathLike[str], **options: Any) -> AsyncIterator[Store]:
    """A store that is opened as by `everleaf.open`, and closed at the end of the block, which may write a snapshot; both
    in a thread. A task that is cancelled while the block ends goes on when the store is closed."""
    opened = await open(path, **options)
    try:
        yield opened
    finally:
        await _close(opened)


@asynccontextmanager
async def batch(store: Store) -> AsyncIterator[Batch]:
    """As `Store.batch`: it is written in a thread, when the block ends without an exception. If it is cancelled then, it is
    written or not; it is empty in either case."""
    batch = store.batch().__enter__()
    try:
        yield batch
    except BaseException as error:
        batch.__exit__(type(error), error, error.__traceback__)
        raise
    try:
        await asyncio.to_thread(batch.__exit__, None, None, None)
    except asyncio.CancelledError as error:
        # No thread may have been free to end it, and it holds what keeps the store open.
        batch.__exit__(type(error), error, error.__traceback__)
        raise


class deferred:
    """Writes that share a sync of a store whose durability is "power": they are done by one thread, return before they are
    durable, and are durable when `wait` has returned, or the block has ended.

    >>> import asyncio, tempfile
    >>> from everleaf import aio
    >>> async def main() -> None:
    ...     async with aio.store(tempfile.mkdtemp() + "/trees.pool", keys=int, durability="power") as store:
    ...         async with aio.deferred(store) as writer:
    ...             for number in range(1000):
    ...                 await writer.call(store.put, number, b"v")
    ...             await writer.wait()  # those that are told of the thousand are told now
    ...         print(len(store))
    >>> asyncio.run(main())
    1000
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
