"""Maps, views and batches, with keys and values as Python objects.

What is fast, and like a dictionary, is compiled (`RawMap`, `RawView`): these are its subclasses.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from itertools import zip_longest
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Optional, Self, TypeVar, overload

from . import _arrays
from ._everleaf import Closed, Error, RawBatch, RawMap, RawStore, RawView, RawWatch
from ._views import Items, Keys, Values, at
from .codecs import Codec

if TYPE_CHECKING:
    import numpy
    import pandas
    import pyarrow

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
B = TypeVar("B")


def _shown(store: RawStore, numbers: Callable[[], str]) -> str:
    """Numbers for a `repr`, or why there are none: the map was dropped, the process forked. It never fails."""
    try:
        return "closed" if store.is_closed() else numbers()
    except Error as error:
        return str(error).partition(":")[0]


class Refused(Error):
    """A condition of a batch did not hold, and nothing was changed; `number` counts them from 0."""

    def __init__(self, number: int) -> None:
        super().__init__(f"condition {number} of the batch did not hold")
        self.number = number

    def __reduce__(self) -> tuple[type[Refused], tuple[int]]:
        # By the number: from another process it came with its text for that.
        return type(self), (self.number,)


class _Reader(Generic[K, V]):
    """What maps and views have in common: pairs in the order of their keys, and many keys in one call."""

    _keys: Codec[K]
    _values: Codec[V]

    if TYPE_CHECKING:

        def pairs(
            self, low: Optional[K], high: Optional[K], inclusive: tuple[bool, bool], reverse: bool,
            of: Literal["keys", "values", "pairs"],
        ) -> Iterator[Any]: ...

        def find_many(self, keys: Iterable[K]) -> list[Optional[V]]: ...

        def count_range(
            self, low: Optional[K], high: Optional[K], inclusive: tuple[bool, bool]
        ) -> int: ...

    def __eq__(self, other: object) -> bool:
        """Whether it has the pairs of another mapping. Two that have one order are read side by side, until they differ;
        none of them is copied. Like a dictionary, it has no hash: `id` tells which object it is."""
        if self is other:
            return True
        mine: Any = self
        if isinstance(other, _Reader) and self._keys is other._keys:
            return all(one == two for one, two in zip_longest(mine.items(), other.items()))
        if not isinstance(other, Mapping):
            return NotImplemented
        theirs = _as_dict(other)
        return all(key in theirs and theirs.pop(key) == value for key, value in mine.items()) and not theirs

    def __bool__(self) -> bool:
        """Whether there is a pair. It looks for one: `len` of a map counts keys that have expired, too."""
        return any(True for _ in self.pairs(None, None, (True, True), False, "keys"))

    def keys(self) -> KeysView[K]:
        """All keys, in order; also from the end (`reversed`), and by their place, which is counted to."""
        mapping: Any = self
        return Keys(mapping)

    def values(self) -> ValuesView[V]:
        """All values, in the order of their keys; also from the end, and by their place."""
        mapping: Any = self
        return Values(mapping)

    def items(self) -> ItemsView[K, V]:
        """All pairs, in the order of their keys; also from the end, and by their place."""
        mapping: Any = self
        return Items(mapping)

    def prefix(self, prefix: K, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """The pairs whose keys, bytes or str, start with this, in order, or from the end."""
        if self._keys.native not in ("bytes", "str"):
            raise TypeError(f"keys of bytes or str have prefixes, not those of {self._keys.name}")
        start: Any = self._keys.decode(self._keys.encode(prefix))
        return self.pairs(start, _behind(start), (True, False), reverse, "pairs")

    def bisect_left(self, key: K) -> int:
        """How many keys are before this one. It looks at all of them."""
        return self.count_range(None, key, (True, False))

    def bisect_right(self, key: K) -> int:
        """How many keys are before or at this one. It looks at all of them."""
        return self.count_range(None, key, (True, True))

    bisect = bisect_right

    def irange(
        self,
        minimum: Optional[K] = None,
        maximum: Optional[K] = None,
        inclusive: tuple[bool, bool] = (True, True),
        reverse: bool = False,
    ) -> Iterator[K]:
        """The keys between two keys, in order, or from the end."""
        return self.pairs(minimum, maximum, inclusive, reverse, "keys")

    def range(
        self,
        minimum: Optional[K] = None,
        maximum: Optional[K] = None,
        inclusive: tuple[bool, bool] = (True, False),
        reverse: bool = False,
    ) -> Iterator[tuple[K, V]]:
        """The pairs from one key to another, the last excluded unless asked for."""
        return self.pairs(minimum, maximum, inclusive, reverse, "pairs")

    def floor(self, key: K) -> Optional[tuple[K, V]]:
        """The pair with the last key that is not behind this one; None: there is none."""
        return next(self.pairs(None, key, (True, True), True, "pairs"), None)

    def ceiling(self, key: K) -> Optional[tuple[K, V]]:
        """The pair with the first key that is not before this one; None: there is none."""
        return next(self.pairs(key, None, (True, True), False, "pairs"), None)

    def peekitem(self, index: int = -1) -> tuple[K, V]:
        """The pair at a place in the order; the first (0) and the last (-1) are found at once."""
        pair: tuple[K, V] = at(self, "pairs", operator.index(index))
        return pair

    @overload
    def get_many(  # type: ignore[overload-overlap]
        self,
        keys: numpy.ndarray[Any, Any],
        dtype: Any = None,
        out: Optional[tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]] = None,
    ) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]: ...

    @overload
    def get_many(self, keys: Iterable[K]) -> list[Optional[V]]: ...

    def get_many(self, keys: Any, dtype: Any = None, out: Any = None) -> Any:
        """The values of many keys, with overlapping cache misses: a list, with None where there is none.

        Of a NumPy array, of numbers where the keys are numbers, of strings of one size (`S8`, `V8`) where
        they are bytes, two arrays: the values, and whether they are there. `dtype` is the type of the
        values, such as `V100` (of `S100`, in which NumPy takes zeros from the end, one that ends with a zero byte is a
        `ValueError`); it need not be said if they are numbers, and must hold them if it is (`OverflowError`); only
        floats are rounded to a shorter type of them. `out` are two arrays to be filled
        instead of new ones, the second of bool; in the first, items of keys that are not there stay as they are.
        """
        if _arrays.is_array(keys):
            return _arrays.get_many(self, keys, dtype, out, self._keys, self._values)
        if dtype is not None or out is not None:
            raise TypeError("`dtype` and `out` are for keys in an array of NumPy")
        return self.find_many(keys)

    def arrow_batches(
        self, minimum: Optional[K] = None, maximum: Optional[K] = None, size: int = 1 << 16
    ) -> Iterator[pyarrow.RecordBatch]:
        """The pairs of a range, the last excluded, in record batches of pyarrow with the columns `key` and
        `value`, so many at a time. Columns of bytes, str, int and float are binary, string, int64 and double; other
        values are to be of a type that pyarrow has, and each batch has that of its own values. Of long values ask for fewer at
        a time: a column of a batch has 2 GiB at most."""
        return _arrays.record_batches(self.range(minimum, maximum), size, (self._keys, self._values))

    def to_arrow(self, minimum: Optional[K] = None, maximum: Optional[K] = None) -> pyarrow.Table:
        """As `arrow_batches`, in one table, whose types hold those of all batches (int and float: double)."""
        found: pyarrow.Table = _arrays.table(self.arrow_batches(minimum, maximum), (self._keys, self._values))
        return found

    def to_pandas(self, minimum: Optional[K] = None, maximum: Optional[K] = None) -> pandas.Series[Any]:
        """The pairs of a range, the last excluded, as a series of pandas, with the keys as its index."""
        found: pandas.Series[Any] = _arrays.series(self.range(minimum, maximum))
        return found


def _behind(prefix: Any) -> Any:
    """What comes first behind all that start with a prefix; None: nothing does."""
    if isinstance(prefix, str):
        prefix = prefix.rstrip("\U0010ffff")
        if not prefix:
            return None
        following = ord(prefix[-1]) + 1
        # What is in between are no characters.
        return prefix[:-1] + chr(0xE000 if following == 0xD800 else following)
    prefix = prefix.rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


class Map(RawMap[K, V], _Reader[K, V], MutableMapping[K, V]):
    """An ordered map in a store, like a dictionary: `m[key]`, `m[low:high]`, `m.items()`.

    A key whose time has come (`put` with `ttl`, `expire`) is absent at once, but `len` counts it until it is removed, which
    happens in the background: never in a store that was opened read-only or with `sweep=False`. `bool`, and comparing `keys()`
    and `items()` with sets, look at what is there."""

    def __init__(
        self, store: RawStore, name: str, keys: Codec[K], values: Codec[V], path: Optional[str] = None
    ) -> None:
        self._store, self._name = store, name
        self._keys, self._values = keys, values

    @property
    def name(self) -> str:
        """The name of the map."""
        return self._name

    def __repr__(self) -> str:
        shown = _shown(self._store, lambda: f"{len(self)} keys")
        return f"<everleaf.Map {self._name!r} of {self._keys.name}: {self._values.name}, {shown}>"

    def __or__(self, other: Mapping[Any, Any]) -> dict[Any, Any]:
        """A dict of what is here and in another mapping, whose values win."""
        if not isinstance(other, Mapping):
            return NotImplemented
        return dict(self.items()) | _as_dict(other)

    def __ror__(self, other: Mapping[Any, Any]) -> dict[Any, Any]:
        if not isinstance(other, Mapping):
            return NotImplemented
        return _as_dict(other) | dict(self.items())

    def __ior__(self, other: Mapping[K, V] | Iterable[tuple[K, V]]) -> Self:  # type: ignore[misc]
        """As `update`: each pair is put for itself."""
        self.update(other)
        return self

    def update(self, other: Any = (), /, **named: Any) -> None:
        """Puts the pairs of a mapping, or of anything that yields them, each for itself. Of another map they are read in
        order: what is removed from it meanwhile is left out."""
        if isinstance(other, Mapping):
            other = other.items()
        elif hasattr(other, "keys"):
            keys, of = other.keys(), other
            other = ((key, of[key]) for key in keys)
        self.put_pairs(other)
        if named:
            pairs: Any = named.items()
            self.put_pairs(pairs)

    def popitem(self, index: int = -1) -> tuple[K, V]:
        """Removes the last pair (-1), the first (0), or that at another place, and returns it."""
        gone = object()
        while True:
            try:
                key, _ = self.peekitem(index)
            except IndexError:
                if index not in (0, -1) and self:
                    raise
                raise KeyError("the map is empty") from None
            taken: Any = self.pop(key, gone)
            if taken is not gone:
                return key, taken

    @overload
    def put_many(self, pairs: numpy.ndarray[Any, Any], values: numpy.ndarray[Any, Any]) -> None: ...

    @overload
    def put_many(self, pairs: Iterable[tuple[K, V]]) -> None: ...

    def put_many(self, pairs: Any, values: Any = None) -> None:
        """Puts many pairs, each for itself, in one call. Of two NumPy arrays as `get_many` has them, the
        first has the keys, and the second the values. They are copied once on the way to their records, whose check sums
        are of bytes that nobody else can write. After an error, or an interrupt, some may have been put."""
        if values is not None:
            _arrays.put_many(self, pairs, values, self._keys, self._values)
        else:
            self.put_pairs(pairs)

    def put_arrow(self, source: Any, key: str = "key", value: str = "value") -> int:
        """Puts the rows of two columns of a pyarrow table, record batch, or anything that yields record
        batches, each for itself, as objects of Python. Returns how many. A null is None, which is no key, nor a value
        but of `"json"` and `"pickle"`: then it is a TypeError, and what comes before may have been put."""
        return _arrays.put_arrow(self, source, key, value)

    def put_pandas(self, source: Any, value: Optional[str] = None) -> int:
        """Puts a pandas series, with its index as keys; or a column of a frame. Returns how many. What is missing is NaN in a
        column of floats: a value of `float` maps, of `"json"` maps the token `NaN`, which other readers of JSON refuse. As a
        key, and `pandas.NA` and None (but of `"json"` and `"pickle"`) as a value, it is an error, and what comes before may have
        been put."""
        return _arrays.put_pandas(self, source, value)

    def view(self) -> View[K, V]:
        """The map as it is now, whatever is written later. Close it, or use it with `with`. `View.of` shows other maps as of
        that moment."""
        return View(self._store, self)

    def watch(self, key: K) -> Watch:
        """Watches a key from now on: `broken` tells of every write of it, also of one that stores the value that was
        there, and of its expiry, and a batch can depend on there being none (`Batch.expect_unwritten`). While it is held
        writes of the store cost more. Close it, or use it with `with`.

        >>> import everleaf, tempfile
        >>> with everleaf.open(tempfile.mkdtemp() + "/shop.pool", keys=str, values=int) as shop:
        ...     shop["stock"] = 5
        ...     with shop.watch("stock") as watch:
        ...         with shop.batch() as batch:
        ...             _ = batch.put(shop, "stock", shop["stock"] - 1).expect_unwritten(watch)
        ...         shop["stock"], watch.broken
        (4, True)
        """
        return Watch(self, key)


class Watch:
    """Whether one key was written since; see `Map.watch`. For any thread. It keeps the file open until it is closed."""

    def __init__(self, map: Map[K, Any], key: K) -> None:
        self._raw = RawWatch(map, key)

    @property
    def broken(self) -> bool:
        """Whether the key was written, or has expired. A write at the same time may be missed: what must not miss it is
        a batch (`Batch.expect_unwritten`)."""
        return self._raw.is_broken()

    def close(self) -> None:
        """Ends the watch. A batch that depends on it goes on doing so."""
        self._raw.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _as_dict(pairs: Mapping[Any, Any]) -> dict[Any, Any]:
    """By its pairs: what another thread removes meanwhile is left out, where a dict that asks for each key fails."""
    return dict(pairs.items())


class View(RawView[K, V], _Reader[K, V], Mapping[K, V]):
    """A map as it was at one moment: a dictionary that is not changed, but by time: a key that expires is absent from then on,
    here too. `len` counts its pairs one by one, each time, and so does `list(view)` before it reads them; `[*view.irange()]`
    does not.

    It is equal to every mapping with the same pairs, and has no hash, as a dictionary: keep views by `id(view)`.
    """

    def __init__(self, store: RawStore, map: Map[K, V], moment: Optional[View[Any, Any]] = None) -> None:
        self._store: Optional[RawStore] = store
        self._keys, self._values, self._name = map._keys, map._values, map.name

    def __repr__(self) -> str:
        return f"<everleaf.View of {self._name!r} of {self._keys.name}: {self._values.name}>"

    def __len__(self) -> int:
        # Counted anew: a key may have expired since.
        return self.count_range(None, None, (True, True))

    def of(self, map: Map[A, B]) -> View[A, B]:
        """Another map of the store as it was at the same moment. It is to be closed for itself.

        >>> import everleaf, tempfile
        >>> with everleaf.open(tempfile.mkdtemp() + "/bank.pool", keys=str, values=int) as store:
        ...     loans = store.map("loans", keys=str, values=int)
        ...     store["ann"], loans["ann"] = 60, 10
        ...     with store.view() as assets, assets.of(loans) as owed:
        ...         loans["ann"] = 0
        ...         assets["ann"], owed["ann"]
        (60, 10)
        """
        if self._store is None:
            raise Closed("the view was closed: open another")
        return View(self._store, map, self)

    def close(self) -> None:
        """Lets go of what is kept for it, and of the store."""
        super().close()
        self._store = None

    def __enter__(self) -> View[K, V]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Batch:
    """Changes to be done as one; see `Store.batch`. It is for one thread at a time: while another writes it, it is
    refused."""

    def __init__(self, store: RawStore) -> None:
        self._store, self._raw = store, RawBatch()
        self._is_in_block = False

    def put(self, map: Map[K, V], key: K, value: V, ttl: Optional[float] = None) -> Batch:
        """Adds that a key gets a value, and if `ttl` is given is absent so many seconds from now on."""
        self._raw.put(map, key, value, ttl)
        return self

    def expire(self, map: Map[K, Any], key: K, ttl: Optional[float]) -> Batch:
        """Adds that a key, if it is there, keeps its value and expires in so many seconds from now on, or never
        (None). Changes of one key go together: of several times the last one counts."""
        self._raw.expire(map, key, ttl)
        return self

    def remove(self, map: Map[K, Any], key: K) -> Batch:
        """Adds that a key is removed."""
        self._raw.remove(map, key)
        return self

    def expect(self, map: Map[K, V], key: K, value: Optional[V]) -> Batch:
        """Lets the batch depend on the value of a key; None: on its absence, so that a None of `"json"` cannot be expected.
        Encoded values are compared: of `"json"` 1 and 1.0, or two orders of the same keys, are not the same, and of
        `"pickle"` equal objects need not be. What was read from the map may be passed for those of bytes, str and numbers."""
        self._raw.expect(map, key, value)
        return self

    def expect_unwritten(self, watch: Watch) -> Batch:
        """Lets the batch depend on the key of a watch (`Map.watch`) not having been written, nor having expired."""
        self._raw.expect_unwritten(watch._raw)
        return self

    def expect_no_rollback(self, rollback_count: int) -> Batch:
        """Lets the batch depend on none having been rolled back since `Store.rollback_count` was this number. A program
        that decides by what it has iterated over needs it: a batch that fails for want of space can be seen so, in part,
        until it is rolled back."""
        self._raw.expect_no_rollback(rollback_count)
        return self

    def __len__(self) -> int:
        return len(self._raw)

    def write(self) -> None:
        """Does all of it, or raises `Refused`. Within its `with` block the batch is empty then: the end of the block does not
        do it again."""
        refused = self._store.write(self._raw)
        if refused is not None:
            raise Refused(refused)
        if self._is_in_block:
            self._raw = RawBatch()

    def __enter__(self) -> Batch:
        self._is_in_block = True
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            if kind is None:
                self.write()
        finally:
            # It is over, and must not keep the store open by a variable that has outlived the block.
            self._raw, self._is_in_block = RawBatch(), False
