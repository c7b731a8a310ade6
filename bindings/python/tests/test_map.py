"""A map is a dictionary in order: compared with sortedcontainers, and what is its own."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import everleaf
import numpy
import pytest
from everleaf import codecs
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from sortedcontainers import SortedDict


@pytest.fixture
def store(tmp_path: Path):
    with everleaf.open(tmp_path / "a.pool", max_size=1 << 28) as store:
        yield store


KEYS = st.binary(max_size=4)
VALUES = st.binary(max_size=40)


class Comparison(RuleBasedStateMachine):
    """Random operations do the same to a map and to a SortedDict."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "a.pool")
        self.store = everleaf.open(self.path, max_size=1 << 28)
        self.model: SortedDict = SortedDict()

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    @rule(key=KEYS, value=VALUES)
    def put(self, key: bytes, value: bytes) -> None:
        self.store[key] = value
        self.model[key] = value

    @rule(key=KEYS)
    def remove(self, key: bytes) -> None:
        assert self.store.pop(key, None) == self.model.pop(key, None)

    @rule(key=KEYS, value=VALUES)
    def setdefault(self, key: bytes, value: bytes) -> None:
        assert self.store.setdefault(key, value) == self.model.setdefault(key, value)

    @rule(index=st.sampled_from([0, -1]))
    def popitem(self, index: int) -> None:
        if self.model:
            assert self.store.popitem(index) == self.model.popitem(index)
        else:
            with pytest.raises(KeyError):
                self.store.popitem(index)

    @rule(low=KEYS, high=KEYS, inclusive=st.tuples(st.booleans(), st.booleans()), back=st.booleans())
    def irange(self, low: bytes, high: bytes, inclusive: tuple[bool, bool], back: bool) -> None:
        if low <= high:
            expected = list(self.model.irange(low, high, inclusive, back))
            assert list(self.store.irange(low, high, inclusive, back)) == expected
            assert self.store[low:high] == [(k, self.model[k]) for k in self.model.irange(low, high, (True, False))]

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

    @rule()
    def clear(self) -> None:
        self.store.clear()
        self.model.clear()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = everleaf.open(self.path, create=False)

    @invariant()
    def same(self) -> None:
        assert list(self.store.items()) == list(self.model.items())
        assert list(reversed(self.store)) == list(reversed(self.model))
        assert len(self.store) == len(self.model)


TestComparison = Comparison.TestCase
TestComparison.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)


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


def test_a_view_is_what_was(store: everleaf.Store) -> None:
    store.update({b"a": b"1", b"b": b"2"})
    with store.view() as view:
        store[b"a"] = b"changed"
        del store[b"b"]
        assert dict(view.items()) == {b"a": b"1", b"b": b"2"}
        assert view[b"a"] == b"1" and b"c" not in view and view.get(b"c", 7) == 7
    with pytest.raises(everleaf.Closed):
        view.get(b"a")


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


def test_a_closed_store_refuses(tmp_path: Path) -> None:
    store = everleaf.open(tmp_path / "a.pool")
    other = store.map("other")
    assert "Store" in repr(store) and "0 keys" in repr(other)
    store.close()
    store.close()
    assert store.closed and "closed" in repr(store) and "closed" in repr(other)
    for use in [lambda: store[b"k"], lambda: other.get(b"k"), store.sync, lambda: len(other)]:
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
            store[b"k"]
        except everleaf.Forked:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert store[b"k"] == b"v"


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
