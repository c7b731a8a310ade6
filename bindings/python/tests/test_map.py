"""A map is a dictionary in order: compared with sortedcontainers, and what is its own."""

from __future__ import annotations

import doctest
import gc
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import everleaf
import numpy
import pytest
from everleaf import codecs
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sortedcontainers import SortedDict

# A machine that has other work may take any time for one example.
settings.register_profile("without a deadline", deadline=None)
settings.load_profile("without a deadline")


@pytest.fixture
def store(tmp_path: Path):
    with everleaf.open(tmp_path / "a.pool", max_size=1 << 28) as store:
        yield store


KEYS = st.binary(max_size=4)
VALUES = st.binary(max_size=40)


class Comparison(RuleBasedStateMachine):
    """Random operations do the same to a map and to a SortedDict; views to a copy of one."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "a.pool")
        self.store = everleaf.open(self.path, max_size=1 << 28)
        self.model: SortedDict = SortedDict()
        self.views: list[tuple[everleaf.View[bytes, bytes], SortedDict]] = []
        # Keys whose time has come are counted until they are swept.
        self.has_expired = False

    def teardown(self) -> None:
        for view, _ in self.views:
            view.close()
        self.store.close()
        self.folder.cleanup()

    @rule(key=KEYS, value=VALUES)
    def put(self, key: bytes, value: bytes) -> None:
        self.store[key] = value
        self.model[key] = value

    @rule(pairs=st.dictionaries(KEYS, VALUES, max_size=40))
    def put_many(self, pairs: dict[bytes, bytes]) -> None:
        self.store.put_many(pairs.items())
        self.model.update(pairs)

    @rule(key=KEYS)
    def remove(self, key: bytes) -> None:
        assert self.store.pop(key, None) == self.model.pop(key, None)

    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        if key in self.model:
            del self.store[key], self.model[key]
        else:
            with pytest.raises(KeyError):
                del self.store[key]
            with pytest.raises(KeyError):
                self.store.pop(key)
            with pytest.raises(KeyError):
                self.store[key]

    @rule(key=KEYS, value=VALUES)
    def setdefault(self, key: bytes, value: bytes) -> None:
        assert self.store.setdefault(key, value) == self.model.setdefault(key, value)

    @rule(key=KEYS, value=VALUES)
    def insert(self, key: bytes, value: bytes) -> None:
        assert self.store.insert(key, value) == (key not in self.model)
        self.model.setdefault(key, value)

    @rule(key=KEYS, expected=st.none() | VALUES, value=st.none() | VALUES, holds=st.booleans())
    def compare_exchange(
        self, key: bytes, expected: bytes | None, value: bytes | None, holds: bool
    ) -> None:
        expected = self.model.get(key) if holds else expected
        done = self.model.get(key) == expected
        assert self.store.compare_exchange(key, expected, value) == done
        if done and value is None:
            self.model.pop(key, None)
        elif done and value is not None:
            self.model[key] = value

    @rule(key=KEYS, value=VALUES, ttl=st.sampled_from([-5.0, 3600.0]))
    def put_with_time_to_live(self, key: bytes, value: bytes, ttl: float) -> None:
        self.store.put(key, value, ttl=ttl)
        if ttl > 0:
            self.model[key] = value
            left = self.store.ttl(key)
            assert left is not None and 0 < left <= ttl
        else:
            self.has_expired = True
            self.model.pop(key, None)

    @rule(key=KEYS, ttl=st.sampled_from([None, -5.0, 3600.0]))
    def expire(self, key: bytes, ttl: float | None) -> None:
        # A key whose time has come is absent from views, too: only what no view shows goes this way.
        if ttl is not None and ttl < 0 and any(key in model for _, model in self.views):
            return
        assert self.store.expire(key, ttl) == (key in self.model)
        if ttl is not None and ttl < 0:
            self.has_expired = True
            self.model.pop(key, None)
        elif key in self.model:
            assert (self.store.ttl(key) is None) == (ttl is None)

    @rule(
        changes=st.dictionaries(KEYS, st.none() | VALUES, max_size=6),
        condition=st.none() | st.tuples(KEYS, st.none() | VALUES),
    )
    def batch(
        self, changes: dict[bytes, bytes | None], condition: tuple[bytes, bytes | None] | None
    ) -> None:
        holds = condition is None or self.model.get(condition[0]) == condition[1]
        with nullcontext() if holds else pytest.raises(everleaf.Refused), self.store.batch() as batch:
            if condition is not None:
                batch.expect(self.store, *condition)
            for key, value in changes.items():
                if value is None:
                    batch.remove(self.store, key)
                else:
                    batch.put(self.store, key, value)
            assert len(batch) == len(changes)
        if holds:
            for key, value in changes.items():
                if value is None:
                    self.model.pop(key, None)
                else:
                    self.model[key] = value

    @precondition(lambda self: len(self.views) < 3)
    @rule()
    def open_view(self) -> None:
        self.views.append((self.store.view(), self.model.copy()))

    @precondition(lambda self: self.views)
    @rule(index=st.integers(0, 2), key=KEYS, low=KEYS, high=KEYS, back=st.booleans())
    def read_view(self, index: int, key: bytes, low: bytes, high: bytes, back: bool) -> None:
        view, model = self.views[index % len(self.views)]
        assert view.get(key) == model.get(key)
        assert (key in view) == (key in model)
        # Of bounds that are crossed there is nothing.
        between = list(model.irange(low, high)) if low <= high else []
        assert list(view.irange(low, high, reverse=back)) == (between[::-1] if back else between)
        assert view[low:high] == [(one, model[one]) for one in between if one != high]

    @precondition(lambda self: self.views)
    @rule(index=st.integers(0, 2), place=st.integers(-3, 3), key=KEYS)
    def read_view_as_a_mapping(self, index: int, place: int, key: bytes) -> None:
        view, model = self.views[index % len(self.views)]
        assert (len(view), bool(view), dict(view)) == (len(model), bool(model), model)
        assert view == dict(model) and key not in view.keys() - {key}
        assert list(view.keys()) == list(model.keys()) and list(view.values()) == list(model.values())
        assert list(reversed(view.items())) == list(reversed(model.items()))
        assert view.bisect_left(key) == model.bisect_left(key)
        if -len(model) <= place < len(model):
            assert view.items()[place] == model.items()[place]

    @precondition(lambda self: self.views)
    @rule(index=st.integers(0, 2))
    def close_view(self, index: int) -> None:
        self.views.pop(index % len(self.views))[0].close()

    @rule(index=st.sampled_from([0, -1]))
    def popitem(self, index: int) -> None:
        if self.model:
            assert self.store.popitem(index) == self.model.popitem(index)
        else:
            with pytest.raises(KeyError):
                self.store.popitem(index)

    @rule(low=KEYS, high=KEYS, inclusive=st.tuples(st.booleans(), st.booleans()), back=st.booleans())
    def irange(self, low: bytes, high: bytes, inclusive: tuple[bool, bool], back: bool) -> None:
        expected, pairs = [], []
        # Of bounds that are crossed there is nothing.
        if low <= high:
            expected = list(self.model.irange(low, high, inclusive, back))
            pairs = [(k, self.model[k]) for k in self.model.irange(low, high, (True, False))]
        assert list(self.store.irange(low, high, inclusive, back)) == expected
        assert self.store[low:high] == pairs
        assert self.store[low:high:-1] == pairs[::-1]

    @rule(key=KEYS)
    def bisect(self, key: bytes) -> None:
        assert self.store.bisect_left(key) == self.model.bisect_left(key)
        assert self.store.bisect(key) == self.model.bisect(key)

    @rule(keys=st.lists(KEYS, max_size=5))
    def get_many(self, keys: list[bytes]) -> None:
        assert self.store.get_many(keys) == [self.model.get(key) for key in keys]

    @rule(index=st.integers(-3, 3))
    def peekitem(self, index: int) -> None:
        try:
            expected = self.model.peekitem(index)
        except IndexError:
            with pytest.raises(IndexError):
                self.store.peekitem(index)
        else:
            assert self.store.peekitem(index) == expected

    @rule(place=st.integers(-4, 4), other=st.none() | st.integers(-4, 4), step=st.sampled_from([None, 1, 2, -1]))
    def places(self, place: int, other: int | None, step: int | None) -> None:
        for mine, theirs in [
            (self.store.keys(), self.model.keys()), (self.store.values(), self.model.values()),
            (self.store.items(), self.model.items()),
        ]:
            assert mine[place:other:step] == list(theirs)[place:other:step]
            if -len(theirs) <= place < len(theirs):
                assert mine[place] == theirs[place]
            else:
                with pytest.raises(IndexError):
                    mine[place]

    @rule(prefix=st.binary(max_size=2) | st.sampled_from([b"\xff", b"a\xff\xff"]), back=st.booleans())
    def prefix(self, prefix: bytes, back: bool) -> None:
        expected = [pair for pair in self.model.items() if pair[0].startswith(prefix)]
        assert list(self.store.prefix(prefix, reverse=back)) == (expected[::-1] if back else expected)

    @rule(pairs=st.dictionaries(KEYS, VALUES, max_size=5), of_pairs=st.booleans())
    def unions(self, pairs: dict[bytes, bytes], of_pairs: bool) -> None:
        assert self.store | pairs == dict(self.model) | pairs
        assert pairs | self.store == pairs | dict(self.model)
        self.store |= pairs.items() if of_pairs else pairs
        self.model.update(pairs)

    @rule()
    def clear(self) -> None:
        self.store.clear()
        self.model.clear()
        self.has_expired = False

    @precondition(lambda self: not self.views)
    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = everleaf.open(self.path, create=False)

    @invariant()
    def same(self) -> None:
        assert list(self.store.items()) == list(self.model.items())
        assert list(self.store.values()) == list(self.model.values())
        assert list(reversed(self.store)) == list(reversed(self.model))
        assert list(reversed(self.store.items())) == list(reversed(self.model.items()))
        assert len(self.store) >= len(self.model) if self.has_expired else len(self.store) == len(self.model)
        for view, model in self.views:
            assert list(view.items()) == list(model.items())


TestComparison = Comparison.TestCase
TestComparison.settings = settings(max_examples=40, stateful_step_count=30)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_integers_keep_their_order(a: int, b: int) -> None:
    encode, decode = codecs.integer.encode, codecs.integer.decode
    assert (encode(a) < encode(b)) == (a < b)
    assert decode(encode(a)) == a


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_floats_keep_their_order(a: float, b: float) -> None:
    encode, decode = codecs.real.encode, codecs.real.decode
    assert (encode(a) < encode(b)) == (a < b)
    assert (encode(a) == encode(b)) == (a == b)
    assert decode(encode(a)) == a


@given(st.text(), st.text())
def test_texts_keep_their_order(a: str, b: str) -> None:
    assert (codecs.text.encode(a) < codecs.text.encode(b)) == (a < b)


PART = {
    "bytes": st.binary(max_size=5), "str": st.text(max_size=5), "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(allow_nan=False),
}


@given(st.data())
def test_tuples_keep_their_order(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(PART)), min_size=1, max_size=4))
    types = {"bytes": bytes, "str": str, "int": int, "float": float}
    codec = codecs.struct(*(types[name] for name in names))
    a, b = (tuple(data.draw(PART[name]) for name in names) for _ in range(2))
    assert (codec.encode(a) < codec.encode(b)) == (a < b)
    assert codec.decode(codec.encode(a)) == a


def test_what_is_no_tuple_of_the_parts_is_refused() -> None:
    codec = codecs.struct(str, int)
    for wrong in [("a",), ("a", 1, 2), ["a", 1], "a"]:
        with pytest.raises(TypeError):
            codec.encode(wrong)  # type: ignore[arg-type]
    good = codec.encode(("a", 1))
    for damaged in [good[:-1], good + b"x", b"a", b"a\0", b"a\0\x01" + good]:
        with pytest.raises(ValueError):
            codec.decode(damaged)
    with pytest.raises(TypeError):
        codecs.struct("json")


@given(st.data())
@settings(max_examples=60)
def test_the_compiled_codecs_do_what_those_in_python_do(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, everleaf.open(folder + "/pool", max_size=1 << 26) as store:
        for name, native in [("bytes", codecs.raw), ("str", codecs.text), ("int", codecs.integer), ("float", codecs.real)]:
            slow: codecs.Codec[Any] = codecs.Codec("slow", native.encode, native.decode)
            pairs = dict(data.draw(st.lists(st.tuples(PART[name], PART[name]), max_size=8)))
            quick, checked = store.map(name, native, native), store.map(name, slow, slow)
            quick.update(pairs)
            expected = [(key, pairs[key]) for key in sorted(pairs)]
            assert list(quick.items()) == list(checked.items()) == expected
            assert quick.get_many(pairs) == checked.get_many(pairs) == list(pairs.values())


def test_what_is_of_another_type_is_told(store: everleaf.Store) -> None:
    store[b"short"] = b"\xff"
    for kind in [int, float, str]:
        wrong = store.map("default", keys=bytes, values=kind)
        with pytest.raises(ValueError):
            wrong[b"short"]
        with pytest.raises(ValueError):
            wrong.get_many([b"short"])
        with pytest.raises(ValueError):
            list(wrong.items())
        assert list(wrong) == [b"short"]
    bad: codecs.Codec[Any] = codecs.Codec("bad", lambda value: "text", lambda data: 1 // 0)  # type: ignore
    broken = store.map("default", keys=bytes, values=bad)
    with pytest.raises(TypeError, match="bytes"):
        broken[b"k"] = 1
    with pytest.raises(ZeroDivisionError):
        next(iter(broken.items()))


def test_pickles_only_when_asked_for(store: everleaf.Store) -> None:
    objects = store.map("objects", keys=str, values="pickle")
    objects["set"] = {1, 2}
    assert objects["set"] == {1, 2} and objects.setdefault("set", None) == {1, 2}


def test_wrong_types_are_refused(store: everleaf.Store) -> None:
    with pytest.raises(TypeError, match="codec"):
        store["text"] = b""
    numbers = store.map("numbers", keys=int, values=str)
    for key, error in [("x", TypeError), (2**63, OverflowError)]:
        with pytest.raises(error):
            numbers[key] = "v"
    with pytest.raises(ValueError):
        store.map("reals", keys=float)[float("nan")] = b""
    with pytest.raises(TypeError, match="no codec"):
        store.map("m", keys=list)


def test_keys_expire(store: everleaf.Store) -> None:
    store.put(b"past", b"1", ttl=-10)
    store.put(b"later", b"2", ttl=3600)
    store[b"never"] = b"3"
    assert b"past" not in store and store[b"later"] == b"2"
    left = store.ttl(b"later")
    assert left is not None and 0 < left <= 3600
    assert store.ttl(b"never") is None
    assert store.expire(b"later", None) and store.ttl(b"later") is None
    assert not store.expire(b"none", 1)
    with pytest.raises(KeyError):
        store.ttl(b"past")


def test_a_batch_is_all_or_nothing(store: everleaf.Store) -> None:
    accounts = store.map("accounts", keys=str, values=int)
    accounts.update(ann=100, bob=0)
    with store.batch() as batch:
        batch.expect(accounts, "ann", 100).put(accounts, "ann", 60).put(accounts, "bob", 40)
        assert len(batch) == 2
    assert dict(accounts) == {"ann": 60, "bob": 40}
    with pytest.raises(everleaf.Refused) as refused, store.batch() as batch:
        batch.expect(accounts, "cat", None).expect(accounts, "ann", 100).remove(accounts, "ann")
    assert refused.value.number == 1 and accounts["ann"] == 60
    with pytest.raises(ZeroDivisionError), store.batch() as batch:
        batch.put(accounts, "ann", 1 // 0)
    assert accounts["ann"] == 60


def test_a_batch_changes_when_keys_expire_and_keeps_their_values(store: everleaf.Store) -> None:
    sessions = store.map("sessions", keys=str, values=bytes)
    sessions["ann"], sessions["bob"], sessions["gone"] = b"1", b"v" * 5000, b"2"
    with store.batch() as batch:
        batch.expire(sessions, "ann", 60).expire(sessions, "bob", 1e6).expire(sessions, "gone", 0)
        batch.expire(sessions, "absent", 60)
        assert len(batch) == 4
    ttl = sessions.ttl("ann")
    assert ttl is not None and 0 < ttl <= 60
    assert sessions["bob"] == b"v" * 5000 and "gone" not in sessions and "absent" not in sessions
    with store.batch() as batch:
        batch.expire(sessions, "bob", None)
    assert sessions.ttl("bob") is None


def test_a_view_is_what_was(store: everleaf.Store) -> None:
    store.update({b"a": b"1", b"b": b"2"})
    with store.view() as view:
        store[b"a"] = b"changed"
        del store[b"b"]
        assert dict(view.items()) == {b"a": b"1", b"b": b"2"}
        assert view[b"a"] == b"1" and b"c" not in view and view.get(b"c", 7) == 7
    with pytest.raises(everleaf.Closed):
        view.get(b"a")


def test_many_keys_of_a_view_are_of_its_moment(store: everleaf.Store) -> None:
    keys = [b"%06d" % number for number in range(2000)]
    store.put_many((key, key) for key in keys)
    numbers = store.map("numbers", keys=int, values=float)
    numbers.update({number: number / 2 for number in range(100)})
    with store.view() as view, numbers.view() as were:
        store.put_many((key, b"later!") for key in keys[::3])
        del store[keys[1]]
        store[b"newest"] = b"later!"
        wanted = [*keys, b"newest", keys[0]]
        assert view.get_many(wanted) == [*keys, None, keys[0]]
        assert view.get_many(iter([])) == []
        values, found = view.get_many(numpy.array(wanted, "S6"), "S6")
        assert values[found].tolist() == [*keys, keys[0]] and found.tolist().count(False) == 1
        numbers.clear()
        numbers[7] = 0.0
        halves, there = were.get_many(numpy.array([7, -1, 99]))
        assert halves.tolist() == [3.5, 0.0, 49.5] and there.tolist() == [True, False, True]
        assert were.get_many([7, -1]) == [3.5, None] and numbers.get_many([7, 99]) == [0.0, None]
        with pytest.raises(TypeError, match="NumPy"):
            view.get_many(wanted, dtype="S6")
    with pytest.raises(everleaf.Closed):
        view.get_many([b"a"])


def test_columns_of_numpy(store: everleaf.Store) -> None:
    count = 1000
    keys = numpy.arange(count, dtype=">u8").view("u1").reshape(count, 8)
    values = numpy.arange(count, dtype="f4").view("u1").reshape(count, 4)
    store.put_columns(keys[::1], values)
    assert len(store) == count
    wanted = numpy.array([5, 5000, 7], dtype=">u8").view("u1").reshape(3, 8)
    out, found = numpy.zeros((3, 4), "u1"), numpy.zeros(3, "u1")
    assert store.get_columns(wanted, out, found) == 2
    assert found.tolist() == [1, 0, 1] and out.view("f4").ravel().tolist() == [5.0, 0.0, 7.0]
    for arguments in [
        (wanted, out[:2], found), (wanted, out, found[:2]), (keys[::2], out, found),
        (wanted.ravel(), out, found), (wanted, numpy.zeros((3, 5), "u1"), found),
    ]:
        with pytest.raises(ValueError):
            store.get_columns(*arguments)


def test_many_of_numpy(store: everleaf.Store) -> None:
    keys = numpy.array([b"oak", b"ash", b"elm"], "S3")
    store.put_many(keys, numpy.array([1.5, 2.5, 3.5]).view("V8"))
    values, found = store.get_many(numpy.array([b"elm", b"fir", b"oak"], "S3"), "f8")
    assert values.tolist() == [3.5, 0.0, 1.5] and found.tolist() == [True, False, True]
    assert list(store) == [b"ash", b"elm", b"oak"]
    # Every second, and none.
    assert store.get_many(keys[::2], "f8")[0].tolist() == [1.5, 3.5]
    assert store.get_many(keys[:0], "f8")[1].tolist() == []
    with pytest.raises(TypeError, match="dtype"):
        store.get_many(keys)
    with pytest.raises(ValueError):
        store.get_many(keys, "V7")
    with pytest.raises(TypeError):
        store.get_many(keys, object)


@given(
    st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), max_size=40),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=10),
)
@settings(max_examples=30)
def test_numbers_of_numpy_are_those_of_python(pairs: dict[int, float], others: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder, everleaf.open(folder + "/pool", max_size=1 << 26) as store:
        map = store.map("numbers", keys=int, values=float)
        map.put_many(numpy.array(list(pairs), "i8"), numpy.array(list(pairs.values()), "f8"))
        assert dict(map) == pairs
        wanted = [*pairs, *others]
        values, found = map.get_many(numpy.array(wanted, "i8"))
        assert found.tolist() == [key in pairs for key in wanted]
        assert values.tolist() == [pairs.get(key, 0.0) for key in wanted]


def test_numbers_that_are_none(store: everleaf.Store) -> None:
    map = store.map("numbers", keys=int, values=float)
    for keys, values, error in [
        ([1.5], [1.0], TypeError), ([[1]], [1.0], ValueError),
        (numpy.array([2**63], "u8"), [1.0], OverflowError), ([1, 2], [1.0], ValueError),
    ]:
        with pytest.raises(error):
            map.put_many(numpy.array(keys), numpy.array(values))
    assert len(map) == 0


def test_tables_and_series(store: everleaf.Store) -> None:
    pyarrow, pandas = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    heights = store.map("heights", keys=str, values=float)
    table = pyarrow.table({"tree": ["oak", "ash", "elm"], "height": [40.0, 35.0, 30.0]})
    assert heights.put_arrow(table, "tree", "height") == 3
    assert heights.to_arrow().to_pydict() == {"key": ["ash", "elm", "oak"], "value": [35.0, 30.0, 40.0]}
    assert heights.to_arrow("b", "f")["key"].to_pylist() == ["elm"]
    assert [len(batch) for batch in heights.arrow_batches(size=2)] == [2, 1]
    with pytest.raises(ValueError, match="not 0"):
        next(heights.arrow_batches(size=0))
    assert len(heights.to_arrow("x")) == 0
    series = heights.to_pandas()
    assert series["elm"] == 30.0 and list(series.index) == ["ash", "elm", "oak"]
    copy = store.map("copy", keys=str, values=float)
    assert copy.put_pandas(series * 2) == 3 and copy["oak"] == 80.0
    frame = pandas.DataFrame({"height": [1.0]}, index=["fir"])
    assert copy.put_pandas(frame, "height") == 1 and copy["fir"] == 1.0
    with pytest.raises(TypeError):
        copy.put_pandas(frame)
    with heights.view() as view:
        assert copy.put_arrow(view.arrow_batches()) == 3


def test_batches_and_gets_of_many_threads(store: everleaf.Store) -> None:
    """Gets keep the interpreter unless a batch is being written: no thread waits for one that waits."""
    stop = threading.Event()
    keys = [b"%d" % n for n in range(50)]

    def write(name: bytes) -> None:
        for _ in range(40):
            with store.batch() as batch:
                for key in keys:
                    batch.put(store, key, name)
            with store.view() as view:
                assert len({view.get(key) for key in keys}) == 1

    def read() -> None:
        while not stop.is_set():
            for key in keys:
                store.get(key)
                store[key] = store.get(key, b"0")
            assert len(store.get_many(keys)) == 50
            assert sum(1 for _ in store.items()) == 50

    store.put_many((key, b"0") for key in keys)
    writer = threading.Thread(target=write, args=(b"a",))
    # It checks that a batch is seen as a whole: nobody else writes meanwhile.
    writer.start()
    writer.join()
    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(40):
        with store.batch() as batch:
            for key in keys:
                batch.put(store, key, b"b")
        store.check()
    stop.set()
    for reader in readers:
        reader.join()


def test_closing_ends_what_other_threads_do(tmp_path: Path) -> None:
    for _ in range(5):
        store = everleaf.open(tmp_path / "a.pool", max_size=1 << 26)
        started = threading.Barrier(4)

        def work() -> None:
            started.wait()
            with pytest.raises(everleaf.Closed):
                while True:
                    store.put_many((b"%d" % n, b"v") for n in range(300))
                    store.get_many([b"%d" % n for n in range(300)])
                    store[b"k"] = b"v"

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        started.wait()
        store.close()
        for thread in threads:
            thread.join()


def test_an_iterator_may_be_shared_and_used_by_finalizers(store: everleaf.Store) -> None:
    store.put_many((b"%05d" % n, b"v") for n in range(3000))
    shared = iter(store)

    class Circle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            next(shared, None)
            store.get(b"00001")

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        seen = []
        for key, value in store.items():
            Circle()
            seen.append((key, value, [key]))
        assert len(seen) == 3000
    finally:
        gc.set_threshold(*threshold)
    found: list[bytes] = []
    shared = iter(store)
    threads = [threading.Thread(target=lambda: found.extend(shared)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(store)


def test_arrays_are_filled_in_place(store: everleaf.Store) -> None:
    keys = numpy.array([b"%05d" % n for n in range(3000)], "S5")
    store.put_many(keys[::2], numpy.array([b"v%05d" % n for n in range(0, 3000, 2)], "S6"))
    values, found = numpy.full(3000, b"before", "S6"), numpy.ones(3000, "?")
    got = store.get_many(keys, out=(values, found))
    assert got[0] is values and got[1] is found
    assert found.tolist() == [n % 2 == 0 for n in range(3000)]
    assert values.tolist() == [b"before" if n % 2 else b"v%05d" % n for n in range(3000)]

    numbers = store.map("numbers", keys=int, values=float)
    numbers.put_many(numpy.arange(5), numpy.arange(5) / 2)
    halves, there = numpy.full(7, -1.0, "f4"), numpy.zeros(7, "?")
    numbers.get_many(numpy.arange(7), out=(halves, there))
    assert halves.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, -1.0, -1.0] and there.sum() == 5


def test_values_that_an_array_would_cut_are_refused(store: everleaf.Store) -> None:
    """NumPy takes zeros from the end of an item of `S4`, so that another value came out than is stored."""
    store[b"a"], store[b"b"] = b"abcd", b"ab\0\0"
    sound, cut = numpy.array([b"a", b"x"], "S1"), numpy.array([b"a", b"b", b"x"], "S1")
    values, found = store.get_many(sound, "S4")
    assert values.tolist() == [b"abcd", b""] and found.tolist() == [True, False]
    # What stays of an item that is not there is the caller's.
    values, found = store.get_many(sound, out=(numpy.array([b"", b"ab"], "S4"), numpy.zeros(2, "?")))
    assert values.tolist() == [b"abcd", b"ab"]
    with pytest.raises(ValueError, match="V4"):
        store.get_many(cut, "S4")
    with pytest.raises(ValueError, match="V4"):
        store.get_many(cut, out=(numpy.zeros(3, "S4"), numpy.zeros(3, "?")))
    with store.view() as view, pytest.raises(ValueError, match="V4"):
        view.get_many(cut, "S4")
    with pytest.raises(TypeError):
        store.get_many(cut, "U1")
    values, found = store.get_many(cut, "V4")
    assert values[1].tobytes() == b"ab\0\0" and found.tolist() == [True, True, False]
    assert store.get_many(cut[:0], "S4")[0].size == 0


def test_arrays_that_cannot_be_filled_are_refused(store: everleaf.Store) -> None:
    keys = numpy.array([b"a", b"b"], "S1")
    store[b"b"] = b"long value"
    found, frozen = numpy.zeros(2, "?"), numpy.zeros(2, "S4")
    frozen.flags.writeable = False
    for values, marks, error in [
        (numpy.zeros(3, "S4"), found, ValueError),
        (numpy.zeros(4, "S4")[::2], found, ValueError),
        (frozen, found, ValueError),
        (numpy.zeros(2, "S4"), numpy.zeros(2, "u1"), TypeError),
        (numpy.zeros(2, object), found, TypeError),
        (numpy.zeros(2, "S4"), [False, False], ValueError),
        # One value is of another size.
        (numpy.zeros(2, "S4"), found, ValueError),
    ]:
        with pytest.raises(error):
            store.get_many(keys, out=(values, marks))
    with pytest.raises(TypeError):
        store.get_many(keys, "S5", out=(numpy.zeros(2, "S4"), found))
    with pytest.raises(TypeError):
        store.get_many([b"a"], out=(numpy.zeros(1, "S4"), found[:1]))


def test_a_batch_whose_block_has_ended_lets_the_store_close(tmp_path: Path) -> None:
    """A variable of a notebook lives as long as the notebook."""
    for error in [None, everleaf.Refused, KeyError]:
        with everleaf.open(tmp_path / "b.pool", max_size=1 << 26) as store:
            with nullcontext() if error is None else pytest.raises(error):
                with store.batch() as batch:
                    batch.put(store, b"key", b"value")
                    if error is everleaf.Refused:
                        batch.expect(store, b"key", b"other")
                    if error is KeyError:
                        raise KeyError
            assert store[b"key"] == b"value"
        assert len(batch) == 0


def test_a_notebook_shows_the_numbers(store: everleaf.Store) -> None:
    assert "<th>keys</th><td>0</td>" in store._repr_html_() and "&lt;everleaf.Store" in store._repr_html_()
    store[b"key"] = b"value"
    chart = store.plot()
    root = xml.etree.ElementTree.fromstring(chart._repr_svg_())
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "keys" in texts and "1" in texts and "pool_size_bytes" in texts
    widths = [float(bar.get("width") or -1) for bar in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(widths) > 5 and all(0 <= width <= 400 for width in widths) and max(widths) == 400
    store.close()
    assert "closed" in store._repr_html_() and "<table>" not in store._repr_html_()


def test_the_notebook_runs(tmp_path: Path) -> None:
    """The code of examples/first.ipynb, cell by cell; a clean system runs it with Jupyter (`cargo xtask debian`)."""
    text = (Path(__file__).parent.parent / "examples/first.ipynb").read_text()
    cells = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert sum(len(cell.splitlines()) for cell in cells) == 20
    known: dict[str, object] = {}
    for cell in cells:
        exec(cell, known)


def test_statistics_are_all_there(store: everleaf.Store) -> None:
    numbers = store.stat()
    assert numbers["log_owes_snapshot"] is False and numbers["durability"] == "process"
    assert numbers["views"] == 0 and numbers["recovered_batches"] == 0


def test_a_closed_store_refuses(tmp_path: Path) -> None:
    store = everleaf.open(tmp_path / "a.pool")
    other = store.map("other")
    assert "Store" in repr(store) and "0 keys" in repr(other)
    store.close()
    store.close()
    assert store.closed and "closed" in repr(store) and "closed" in repr(other)
    none = numpy.array([], "S1")
    for use in [
        lambda: store[b"k"],
        lambda: other.get(b"k"),
        store.sync,
        lambda: len(other),
        lambda: other.put_many([]),
        lambda: other.put_many(none, none),
        lambda: other.__ior__({}),
    ]:
        with pytest.raises(everleaf.Closed):
            use()
    with pytest.raises(everleaf.NotFound):
        everleaf.open(tmp_path / "none", create=False)
    with everleaf.open(tmp_path / "a.pool", read_only=True) as store, pytest.raises(everleaf.ReadOnly):
        store[b"k"] = b"v"


def test_copies_and_maps(store: everleaf.Store, tmp_path: Path) -> None:
    store.put_many((str(n).encode(), b"v") for n in range(100))
    store.map("other")
    assert store.map_names() == ["default", "other"] and store.drop_map("other")
    assert store.check() == [] and store.stat()["keys"] == 100
    assert store.backup(tmp_path / "copy") == 100
    assert everleaf.restore(tmp_path / "copy", tmp_path / "new") == 100
    assert everleaf.compact(tmp_path / "new") > 0
    with pytest.raises(everleaf.Locked):
        everleaf.open(tmp_path / "a.pool")


def test_threads_share_a_store(store: everleaf.Store) -> None:
    def work(name: int) -> None:
        for n in range(200):
            key = f"{name} {n}".encode()
            store[key] = key
            assert store[key] == key

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store) == 800


def test_a_forked_process_is_refused(store: everleaf.Store) -> None:
    store[b"k"] = b"v"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            # It has no pairs to count, and says so: `if not store` must not find an empty one.
            for use in (lambda: store[b"k"], lambda: len(store), lambda: bool(store), store.stat, store.map_names):
                with pytest.raises(everleaf.Forked):
                    use()
            # What is shown of it says so.
            assert "forked" in repr(store) and "forked" in store._repr_html_()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert store[b"k"] == b"v"
    dropped = store.map("dropped")
    store.drop_map("dropped")
    with pytest.raises(everleaf.Error):
        len(dropped)
    assert repr(dropped) == "<everleaf.Map 'dropped' of bytes: bytes, the map was dropped>"
    assert repr(store.view()) == "<everleaf.View of 'default' of bytes: bytes>"


def test_asyncio(tmp_path: Path) -> None:
    import asyncio

    from everleaf import aio

    async def run() -> None:
        store = await aio.open(str(tmp_path / "a.pool"))
        await aio.call(store.put_many, [(bytes([n // 256, n % 256]), b"") for n in range(1000)])
        seen = [key async for key, _ in aio.pairs(store)]
        assert seen == sorted(seen) and len(seen) == 1000
        await aio.call(store.close)

    asyncio.run(run())


def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parent.parent / "README.md").read_text()
    blocks = text.split("```python\n")[1:]
    assert blocks
    for block in blocks:
        exec(block.split("```")[0], {})


def test_values_are_gone_when_their_time_has_come(store: everleaf.Store) -> None:
    store.put(b"k", b"v", ttl=0.001)
    while b"k" in store:
        pass
    assert store.get(b"k") is None


def test_arrays_that_are_no_bytes_are_no_keys(store: everleaf.Store) -> None:
    """They were stored as the bytes of the machine: found by no other key, and in no order."""
    for keys in (numpy.array(["oak"]), numpy.array([1]), numpy.array([1.5]), numpy.array([True])):
        with pytest.raises(TypeError, match="keys are bytes"):
            store.put_many(keys, numpy.array([b"v"]))
        with pytest.raises(TypeError, match="keys are bytes"):
            store.get_many(keys, "S1")
    with pytest.raises(TypeError, match="values are bytes or numbers"):
        store.put_many(numpy.array([b"oak"]), numpy.array(["v"]))
    assert len(store) == 0


def test_values_are_looked_for_beside_removals(store: everleaf.Store) -> None:
    """It raised KeyError for a key that went before its value was read."""
    for number in range(100):
        store[b"%d" % number] = b"v%d" % number

    class Fleeting:
        pairs = store.pairs

        def __iter__(self) -> Any:
            return iter(store)

        def __getitem__(self, key: bytes) -> bytes:
            raise KeyError(key)

    values: Any = type(store.values())(Fleeting())
    assert b"v7" in values and b"none" not in values
    assert b"v7" in store.values() and b"none" not in store.values()


def test_a_ttl_is_a_number(store: everleaf.Store) -> None:
    """One that is none removed the key."""
    store[b"k"] = b"v"
    with pytest.raises(ValueError, match="number of seconds"):
        store.put(b"k", b"w", float("nan"))
    with pytest.raises(ValueError, match="number of seconds"):
        store.expire(b"k", float("nan"))
    assert store[b"k"] == b"v" and store.ttl(b"k") is None


def test_prefixes_of_texts(store: everleaf.Store) -> None:
    words = store.map("words", keys=str, values=int)
    last, before = "\U0010ffff", "\ud7ff"
    keys = ["oak", "oaks", "oal", "o", before, before + "a", "\ue000", last, last + last, last + "a"]
    words.update({key: number for number, key in enumerate(keys)})
    for prefix in ["", "oak", "o", before, last, last + last, "x"]:
        assert [key for key, _ in words.prefix(prefix)] == sorted(k for k in keys if k.startswith(prefix))
    with pytest.raises(TypeError, match="prefixes"):
        store.map("numbers", keys=int).prefix(1)
    with pytest.raises(TypeError):
        words | 7
    with pytest.raises(TypeError):
        7 | words


def test_short_items_of_an_array_are_no_keys_with_zeros(store: everleaf.Store) -> None:
    """NumPy pads them: b"oak\\0\\0" was stored, and b"oak" not found."""
    keys = numpy.array([b"oak", b"elder"])
    for put in [
        lambda: store.put_many(keys, numpy.array([1.0, 2.0])),
        lambda: store.put_many(numpy.array([b"oak", b"elm"]), keys),
    ]:
        with pytest.raises(ValueError, match="a list"):
            put()
    assert len(store) == 0
    with pytest.raises(ValueError, match="a list"):
        store.get_many(keys, "V8")
    # Rows of exactly so many bytes, whatever is in them.
    store.put_many(keys.view("V5"), numpy.array([1.0, 2.0]))
    assert list(store) == [b"elder", b"oak\0\0"]
    store.put_many(zip(keys.tolist(), [b"a", b"b"]))
    assert store[b"oak"] == b"a"


def test_arrays_of_what_are_no_numbers_are_no_floats(store: everleaf.Store) -> None:
    """Text was parsed, and of complex numbers the imaginary part was dropped."""
    reals = store.map("reals", keys=float, values=float)
    good = numpy.array([1.5])
    for wrong in [numpy.array(["1.5"]), numpy.array([b"1.5"]), numpy.array([1 + 2j]), numpy.array([True])]:
        for keys, values in [(wrong, good), (good, wrong)]:
            with pytest.raises(TypeError, match="numbers"):
                reals.put_many(keys, values)
        with pytest.raises(TypeError, match="numbers"):
            reals.get_many(wrong)
    reals.put_many(numpy.array([1, 2], "u4"), numpy.array([3, 4], "f4"))
    assert dict(reals) == {1.0: 3.0, 2.0: 4.0}


def test_a_map_that_is_opened_while_the_store_closes_is_closed(tmp_path: Path) -> None:
    """It stayed open, was written to, and kept the pool locked."""
    for _ in range(20):
        store = everleaf.open(tmp_path / "a.pool", max_size=1 << 26)
        begun = threading.Event()
        maps: list[Any] = []

        def run() -> None:
            try:
                for number in range(900):
                    maps.append(store.map(f"{number}"))
                    begun.set()
            except everleaf.Closed:
                pass

        thread = threading.Thread(target=run)
        thread.start()
        begun.wait()
        store.close()
        thread.join()
        for map in maps:
            with pytest.raises(everleaf.Closed):
                map[b"k"] = b"v"
        everleaf.open(tmp_path / "a.pool").close()
        (tmp_path / "a.pool").unlink()


def test_pairs_are_counted_from_the_end_without_reading_all(tmp_path: Path) -> None:
    with everleaf.open(tmp_path / "a.pool") as store:
        model = [(b"%03d" % number, b"v") for number in range(300)]
        store.put_many(model)
        for place in [slice(-2, None), slice(-5, -2), slice(-2, -5), slice(-400, -290), slice(-3, 299), slice(None, -298)]:
            assert store.items()[place] == model[place]
        with pytest.raises(IndexError):
            store.peekitem(10**20)
        view = store.view()
        assert list(view) == sorted(view) == [key for key, _ in model]
        assert len(view) == 300
        view.close()


def test_a_store_that_is_closed_amid_many_keys_is_closed(tmp_path: Path) -> None:
    """The call went on with a handle of its own: the closed store was written to, and stayed locked."""
    for call in ["put_many", "get_many"]:
        store = everleaf.open(tmp_path / "a.pool", max_size=1 << 26)
        begun, closed = threading.Event(), threading.Event()
        told: list[Exception] = []

        def objects() -> Any:
            for number in range(3000):
                if number == 2000:
                    begun.set()
                    closed.wait()
                yield (b"%d" % number, b"v") if call == "put_many" else b"%d" % number

        def run() -> None:
            try:
                getattr(store, call)(objects())
            except everleaf.Closed as error:
                told.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        begun.wait()
        try:
            store.close()
            everleaf.open(tmp_path / "a.pool").close()
        finally:
            closed.set()
            thread.join()
        assert len(told) == 1


@pytest.fixture
def quick_switches():
    """Threads that wait for the interpreter ask for it at once."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


class Spinning:
    """A thread that counts whenever it may run."""

    def __init__(self, look: Any = lambda: None) -> None:
        self.count, self.look, self.stopped = [0], look, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        while not self.stopped.is_set():
            self.count[0] += 1
            self.look()

    def __enter__(self) -> Spinning:
        self.thread.start()
        while self.count[0] == 0:
            time.sleep(0)
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.thread.join()


def test_other_threads_run_while_a_store_is_iterated_over(store: everleaf.Store, quick_switches: None) -> None:
    """All of a loop that is none of Python's kept the interpreter."""
    total = 50_000
    store.put_many((b"%06d" % number, b"v") for number in range(total))

    def runs_beside(source: Any) -> bool:
        found: list[bytes] = []
        seen: set[int] = set()
        with Spinning(lambda: seen.add(len(found))):
            found.extend(source)
        assert len(found) == total
        return any(0 < count < total for count in seen)

    with store.view() as view:
        for source in [store, view]:
            # A machine with much other work may run the other thread when all is over.
            assert any(runs_beside(source) for _ in range(20))


def test_other_threads_run_while_the_last_reference_closes_it(tmp_path: Path, quick_switches: None) -> None:
    """It was closed, and its snapshot written, by the thread that dropped the variable, with the interpreter."""
    for held in ["store", "iterator", "view"]:
        store = everleaf.open(tmp_path / f"{held}.pool", max_size=1 << 28)
        store.put_many((b"%06d" % number, b"v" * 100) for number in range(20_000))
        last: Any = store if held == "store" else iter(store) if held == "iterator" else store.view()
        if held != "store":
            store.close()
        del store
        with Spinning() as other:
            count = other.count
            # No call between the two looks: only the end of the object can let others run.
            before = count[0]
            del last
            after = count[0]
        assert after > before, held
        everleaf.open(tmp_path / f"{held}.pool").close()


def test_a_batch_that_is_being_written_is_refused(store: everleaf.Store) -> None:
    """A thread that used it meanwhile waited for the end of the write, with the interpreter."""
    batch = store.batch()
    for number in range(100_000):
        batch.put(store, b"%d" % number, b"v")
    writer = threading.Thread(target=batch.write)
    refused = 0
    writer.start()
    while writer.is_alive():
        try:
            assert len(batch) == 100_000
        except everleaf.Error as error:
            assert "another thread" in str(error)
            refused += 1
    writer.join()
    assert refused > 0 and len(batch) == 100_000 and len(store) == 100_000


def test_a_forked_process_may_end_as_any_other(tmp_path: Path) -> None:
    """Its end frees the store, views and iterators that it has inherited, and leaves the pool alone."""
    program = f"""
import everleaf, os, sys
store = everleaf.open({str(tmp_path / "a.pool")!r}, max_size=1 << 26)
store.put_many((b"%d" % n, b"v") for n in range(1000))
view, pairs = store.view(), iter(store)
next(pairs)
child = os.fork()
if child == 0:
    for use in [lambda: list(pairs), lambda: view.get(b"1"), lambda: store.view(), lambda: len(view)]:
        try:
            use()
            sys.exit(3)
        except everleaf.Forked:
            pass
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert len(list(pairs)) == 999 and view[b"1"] == b"v"
view.close(), store.close()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    with everleaf.open(tmp_path / "a.pool", create=False) as store:
        assert len(store) == 1000 and store.check() == []


def test_the_examples_of_the_docs_run() -> None:
    """Those behind `>>>`."""
    tried = {}
    for module in pkgutil.iter_modules(everleaf.__path__, "everleaf."):
        outcome = doctest.testmod(importlib.import_module(module.name))
        assert outcome.failed == 0, module.name
        tried[module.name] = outcome.attempted
    tried["everleaf"] = doctest.testmod(everleaf).attempted
    having = {name for name, count in tried.items() if count}
    assert {"everleaf", "everleaf._files", "everleaf._map", "everleaf._store", "everleaf.aio", "everleaf.codecs"} <= having
