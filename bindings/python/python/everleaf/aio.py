"""Everleaf for asyncio: what may wait runs in a thread, and the loop goes on.

Getting and putting one key takes about a microsecond and needs no thread; use the store itself for that,
unless its durability is "power". Everything else is awaited: `await aio.call(store.check)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import islice
from typing import Any, ParamSpec, TypeVar

from ._map import Map
from ._store import Store
from ._store import open as _open

P = ParamSpec("P")
R = TypeVar("R")
_PIECE = 256


async def call(function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Calls a function of a store in a thread."""
    return await asyncio.to_thread(function, *arguments, **named)


async def open(path: str, **options: Any) -> Store:
    """As `everleaf.open`."""
    return await asyncio.to_thread(lambda: _open(path, **options))


async def pairs(map: Map[Any, Any], *bounds: Any, **named: Any) -> AsyncIterator[tuple[Any, Any]]:
    """As `Map.range`, a piece at a time."""
    iterator = map.range(*bounds, **named)

    def piece() -> list[tuple[Any, Any]]:
        return list(islice(iterator, _PIECE))

    while found := await asyncio.to_thread(piece):
        for pair in found:
            yield pair
