"""Keys, values and pairs of maps and views, as a dictionary has them, and by their place."""

from __future__ import annotations

import operator
import sys
from collections.abc import ItemsView, Iterator, KeysView, Set, ValuesView
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from ._map import Map, View

K = TypeVar("K")
V = TypeVar("V")


def at(mapping: Any, of: str, place: int | slice) -> Any:
    """The key, value or pair at a place in the order, or a list of those of a slice. It counts from the beginning, below
    zero from the end; a slice of another step than 1, or of which one side is below zero, reads all."""
    if isinstance(place, slice):
        # No map has more pairs than fit into memory, so that what is beyond is behind all.
        parts = [
            None if part is None else max(-sys.maxsize, min(operator.index(part), sys.maxsize))
            for part in (place.start, place.stop, place.step)
        ]
        if all(part is None or part >= 0 for part in parts):
            return list(islice(mapping.pairs(None, None, (True, True), False, of), *parts))
        start, stop, step = parts
        if step in (None, 1) and start is not None and start < 0 and (stop is None or stop < 0):
            pairs = mapping.pairs(None, None, (True, True), True, of)
            return list(islice(pairs, -(stop or 0), -start))[::-1]
        return list(mapping.pairs(None, None, (True, True), False, of))[slice(*parts)]
    steps = place if place >= 0 else -1 - place
    for found in islice(mapping.pairs(None, None, (True, True), place < 0, of), min(steps, sys.maxsize), None):
        return found
    raise IndexError("there is no pair at this place")


class _AsSet:
    """Compares with sets by what is there: the `len` of a map counts what has expired and was not removed yet."""

    __hash__ = None  # type: ignore[assignment]

    def __le__(self, other: Any) -> bool:
        mine: Any = self
        return all(one in other for one in mine) if isinstance(other, Set) else NotImplemented

    def __ge__(self, other: Any) -> bool:
        mine: Any = self
        return all(one in mine for one in other) if isinstance(other, Set) else NotImplemented

    def __lt__(self, other: Any) -> bool:
        return self <= other and not self >= other if isinstance(other, Set) else NotImplemented

    def __gt__(self, other: Any) -> bool:
        return self >= other and not self <= other if isinstance(other, Set) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self <= other and self >= other if isinstance(other, Set) else NotImplemented


class Keys(_AsSet, KeysView[K]):
    _mapping: Map[K, Any] | View[K, Any]

    @overload
    def __getitem__(self, place: int) -> K: ...

    @overload
    def __getitem__(self, place: slice) -> list[K]: ...

    def __getitem__(self, place: int | slice) -> Any:
        return at(self._mapping, "keys", place if isinstance(place, slice) else operator.index(place))

    def __reversed__(self) -> Iterator[K]:
        return reversed(self._mapping)


class Values(ValuesView[V]):
    _mapping: Map[Any, V] | View[Any, V]

    @overload
    def __getitem__(self, place: int) -> V: ...

    @overload
    def __getitem__(self, place: slice) -> list[V]: ...

    def __getitem__(self, place: int | slice) -> Any:
        return at(self._mapping, "values", place if isinstance(place, slice) else operator.index(place))

    def __contains__(self, value: object) -> bool:
        # Not key by key: one may go between finding it and reading it.
        return any(found is value or found == value for found in self)

    def __iter__(self) -> Iterator[V]:
        return self._mapping.pairs(None, None, (True, True), False, "values")

    def __reversed__(self) -> Iterator[V]:
        return self._mapping.pairs(None, None, (True, True), True, "values")


class Items(_AsSet, ItemsView[K, V]):
    _mapping: Map[K, V] | View[K, V]

    @overload
    def __getitem__(self, place: int) -> tuple[K, V]: ...

    @overload
    def __getitem__(self, place: slice) -> list[tuple[K, V]]: ...

    def __getitem__(self, place: int | slice) -> Any:
        return at(self._mapping, "pairs", place if isinstance(place, slice) else operator.index(place))

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, tuple) or len(item) != 2:
            return False
        key, value = item
        gone = object()
        # What no key can be is not there, of which `get` raises.
        found = self._mapping.get(key, gone) if key in self._mapping else gone
        return found is not gone and bool(found is value or found == value)

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._mapping.pairs(None, None, (True, True), False, "pairs")

    def __reversed__(self) -> Iterator[tuple[K, V]]:
        return self._mapping.pairs(None, None, (True, True), True, "pairs")
