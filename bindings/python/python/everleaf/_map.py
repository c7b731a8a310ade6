"""Maps, views and batches, with keys and values as Python objects."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, MutableMapping
from types import TracebackType
from typing import Any, Generic, Optional, TypeVar

from ._everleaf import Error, RawBatch, RawMap, RawStore, RawView
from .codecs import Codec

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")
_PIECE = 256


class Handle:
    """What a map knows of its store: no circle, so that a store goes when nobody holds it."""

    def __init__(self, raw: RawStore) -> None:
        self.raw = raw

    @property
    def closed(self) -> bool:
        return self.raw.is_closed()


class Refused(Error):
    """A condition of a batch did not hold, and nothing was changed; `number` counts them from 0."""

    def __init__(self, number: int) -> None:
        super().__init__(f"condition {number} of the batch did not hold")
        self.number = number


class _Reader(Generic[K, V]):
    """What maps and views have in common: pairs in the order of their keys."""

    _raw: Any
    _keys: Codec[K]
    _values: Codec[V]

    def _find(self, key: K) -> Optional[bytes]:
        found: Optional[bytes] = self._raw.get(self._keys.encode(key))
        return found

    def _pairs(
        self, low: Optional[K], high: Optional[K], inclusive: tuple[bool, bool], reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        bound = [None if key is None else self._keys.encode(key) for key in (low, high)]
        pairs = self._raw.pairs(bound[0], bound[1], inclusive, reverse)
        while piece := pairs.take(_PIECE):
            yield from piece

    def irange(
        self,
        minimum: Optional[K] = None,
        maximum: Optional[K] = None,
        inclusive: tuple[bool, bool] = (True, True),
        reverse: bool = False,
    ) -> Iterator[K]:
        """The keys between two keys, in order, or from the end."""
        for key, _ in self._pairs(minimum, maximum, inclusive, reverse):
            yield self._keys.decode(key)

    def range(
        self,
        minimum: Optional[K] = None,
        maximum: Optional[K] = None,
        inclusive: tuple[bool, bool] = (True, False),
        reverse: bool = False,
    ) -> Iterator[tuple[K, V]]:
        """The pairs from one key to another, the last excluded unless asked for."""
        for key, value in self._pairs(minimum, maximum, inclusive, reverse):
            yield self._keys.decode(key), self._values.decode(value)

    def peekitem(self, index: int = -1) -> tuple[K, V]:
        """The pair at a place in the order; the first (0) and the last (-1) are found at once."""
        pairs = self._pairs(None, None, (True, True), index < 0)
        for place, (key, value) in enumerate(pairs):
            if place == (index if index >= 0 else -1 - index):
                return self._keys.decode(key), self._values.decode(value)
        raise IndexError("there is no pair at this place")


class Map(_Reader[K, V], MutableMapping[K, V]):
    """An ordered map in a store, like a dictionary: `m[key]`, `m[low:high]`, `m.items()`."""

    def __init__(self, store: Handle, raw: RawMap, name: str, keys: Codec[K], values: Codec[V]) -> None:
        self._store, self._raw, self._name = store, raw, name
        self._keys, self._values = keys, values

    @property
    def name(self) -> str:
        """The name of the map."""
        return self._name

    def __repr__(self) -> str:
        what = f"{self._keys.name}: {self._values.name}"
        if self._store.closed:
            return f"<everleaf.Map {self._name!r} of {what}, closed>"
        return f"<everleaf.Map {self._name!r} of {what}, {len(self)} keys>"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            if key.step not in (None, -1, 1):
                raise ValueError("a slice by key has a step of 1 or -1")
            return list(self.range(key.start, key.stop, reverse=key.step == -1))
        found = self._find(key)
        if found is None:
            raise KeyError(key)
        return self._values.decode(found)

    def __setitem__(self, key: K, value: V) -> None:
        self._raw.put(self._keys.encode(key), self._values.encode(value))

    def __delitem__(self, key: K) -> None:
        if not self._raw.remove(self._keys.encode(key)):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        found: bool = self._raw.contains(self._keys.encode(key))  # type: ignore[arg-type]
        return found

    def __len__(self) -> int:
        count: int = self._raw.count()
        return count

    def __iter__(self) -> Iterator[K]:
        return self.irange()

    def __reversed__(self) -> Iterator[K]:
        return self.irange(reverse=True)

    def clear(self) -> None:
        """Removes all keys, as one change."""
        self._raw.clear()

    def popitem(self, index: int = -1) -> tuple[K, V]:
        """Removes the last pair (-1) or the first (0), and returns it."""
        while True:
            try:
                key, _ = self.peekitem(index)
            except IndexError:
                raise KeyError("the map is empty") from None
            taken = self._raw.take(self._keys.encode(key))
            if taken is not None:
                return key, self._values.decode(taken)

    def setdefault(self, key: K, default: Any = None) -> V:
        """The value of a key, which is added with the default if it is not there; one atomic step."""
        raw, value = self._keys.encode(key), self._values.encode(default)
        while True:
            if self._raw.insert(raw, value):
                return self._values.decode(value)
            if (found := self._raw.get(raw)) is not None:
                return self._values.decode(found)

    def bisect_left(self, key: K) -> int:
        """How many keys are before this one. It looks at all of them."""
        count: int = self._raw.count_range(None, self._keys.encode(key), (True, False))
        return count

    def bisect_right(self, key: K) -> int:
        """How many keys are before or at this one. It looks at all of them."""
        count: int = self._raw.count_range(None, self._keys.encode(key), (True, True))
        return count

    bisect = bisect_right

    def compare_exchange(self, key: K, expected: Optional[V], value: Optional[V]) -> bool:
        """Changes a key if its value is as expected, in one atomic step; None stands for absent."""
        old = None if expected is None else self._values.encode(expected)
        new = None if value is None else self._values.encode(value)
        done: bool = self._raw.compare_exchange(self._keys.encode(key), old, new)
        return done

    def put(self, key: K, value: V, ttl: Optional[float] = None) -> None:
        """Sets a value, for so many seconds if `ttl` is given."""
        if ttl is None:
            self[key] = value
        else:
            at_ms = max(1, int((time.time() + ttl) * 1000))
            self._raw.put_expiring(self._keys.encode(key), self._values.encode(value), at_ms)

    def expire(self, key: K, ttl: Optional[float]) -> bool:
        """Lets a key expire in so many seconds, or never (None). Says whether it is there."""
        at_ms = 0 if ttl is None else max(1, int((time.time() + ttl) * 1000))
        found: bool = self._raw.expire_at(self._keys.encode(key), at_ms)
        return found

    def ttl(self, key: K) -> Optional[float]:
        """In how many seconds a key expires, or None for never. KeyError if it is not there."""
        at_ms = self._raw.expiry(self._keys.encode(key))
        if at_ms is None:
            raise KeyError(key)
        return None if at_ms == 0 else at_ms / 1000 - time.time()

    def get_many(self, keys: Iterable[K]) -> list[Optional[V]]:
        """The values of many keys, None where there is none, with overlapping cache misses."""
        found = self._raw.get_many([self._keys.encode(key) for key in keys])
        return [None if value is None else self._values.decode(value) for value in found]

    def put_many(self, pairs: Iterable[tuple[K, V]]) -> None:
        """Puts many pairs, each for itself, in one call."""
        encode, value_of = self._keys.encode, self._values.encode
        self._raw.put_many([(encode(key), value_of(value)) for key, value in pairs])

    def get_columns(self, keys: Any, values: Any, found: Any) -> int:
        """Fills arrays of bytes: a row of `values` and an item of `found` (1: there) for each row of
        `keys`. Returns how many were found. The encodings of the map are not applied."""
        count: int = self._raw.get_columns(keys, values, found)
        return count

    def put_columns(self, keys: Any, values: Any) -> None:
        """Puts a pair for each row of two arrays of bytes."""
        self._raw.put_columns(keys, values)

    def view(self) -> View[K, V]:
        """The map as it is now, whatever is written later. Close it, or use it with `with`."""
        return View(self._store.raw.view(self._raw), self._keys, self._values)


class View(_Reader[K, V]):
    """A map as it was at one moment."""

    def __init__(self, raw: RawView, keys: Codec[K], values: Codec[V]) -> None:
        self._raw, self._keys, self._values = raw, keys, values

    def __getitem__(self, key: K) -> V:
        found = self._find(key)
        if found is None:
            raise KeyError(key)
        return self._values.decode(found)

    def get(self, key: K, default: Optional[D] = None) -> V | D | None:
        """The value that a key had, or a default."""
        found = self._find(key)
        return default if found is None else self._values.decode(found)

    def __contains__(self, key: K) -> bool:
        return self._find(key) is not None

    def __iter__(self) -> Iterator[K]:
        return self.irange()

    def items(self) -> Iterator[tuple[K, V]]:
        """All pairs."""
        return self.range()

    def close(self) -> None:
        """Lets go of the old values that are kept for it."""
        self._raw.close()

    def __enter__(self) -> View[K, V]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Batch:
    """Changes to be done as one; see `Store.batch`."""

    def __init__(self, store: Handle) -> None:
        self._store, self._raw = store, RawBatch()

    def put(self, map: Map[K, V], key: K, value: V) -> Batch:
        """Adds that a key gets a value."""
        self._raw.put(map._raw, map._keys.encode(key), map._values.encode(value))
        return self

    def remove(self, map: Map[K, Any], key: K) -> Batch:
        """Adds that a key is removed."""
        self._raw.remove(map._raw, map._keys.encode(key))
        return self

    def expect(self, map: Map[K, V], key: K, value: Optional[V]) -> Batch:
        """Lets the batch depend on the value of a key; None: on its absence."""
        raw = None if value is None else map._values.encode(value)
        self._raw.expect(map._raw, map._keys.encode(key), raw)
        return self

    def __len__(self) -> int:
        return len(self._raw)

    def write(self) -> None:
        """Does all of it, or raises `Refused`."""
        refused = self._store.raw.write(self._raw)
        if refused is not None:
            raise Refused(refused)

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is None:
            self.write()
