"""What is asked of a store and not of its maps: how it is opened, damage, copies, loads, its log; and batches of everything."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import everleaf
import numpy
import pytest
from everleaf import codecs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from sortedcontainers import SortedDict

KEYS = st.sampled_from([b"", b"a", b"aa", b"b", b"\xff"])
VALUES = st.integers(-(2**63), 2**63 - 1)
TTLS = st.sampled_from([None, 3600.0, -5.0])


@pytest.fixture
def store(tmp_path: Path):
    with everleaf.open(tmp_path / "a.pool", max_size=1 << 28) as store:
        yield store


class Batches(RuleBasedStateMachine):
    """Batches that change values and times, sums, and neighbours do what they do to a dict of (value, whether it expires)."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.open()
        self.model: SortedDict = SortedDict()

    def open(self) -> None:
        path = os.path.join(self.folder.name, "a.pool")
        self.store = everleaf.open(path, values=int, max_size=1 << 28, sweep=False, verify_reads=True)

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    @rule(
        changes=st.lists(st.tuples(KEYS, st.sampled_from(["put", "expire", "remove"]), VALUES, TTLS), max_size=6),
        expected=st.none() | st.tuples(KEYS, st.none() | VALUES), holds=st.booleans(),
    )
    def batch(self, changes: list[Any], expected: Any, holds: bool) -> None:
        batch, after = self.store.batch(), self.model.copy()
        gone = set()
        for key, what, value, ttl in changes:
            if what == "remove":
                batch.remove(self.store, key)
                after.pop(key, None)
                continue
            if what == "put":
                batch.put(self.store, key, value, ttl)
                after[key] = (value, ttl is not None)
            else:
                batch.expire(self.store, key, ttl)
                if key in after:
                    after[key] = (after[key][0], ttl is not None)
            # Changes of one key go together: of its times the last one counts.
            (gone.add if ttl is not None and ttl < 0 else gone.discard)(key)
        for key in gone:
            after.pop(key, None)
        if expected is not None:
            key, value = expected
            found = self.model.get(key, (None,))[0]
            batch.expect(self.store, key, found if holds else value)
            if not holds and value != found:
                with pytest.raises(everleaf.Refused):
                    batch.write()
                return
        batch.write()
        self.model = after

    @rule(key=KEYS, amount=st.sampled_from([1, -1, 2**62, -(2**63)]))
    def add(self, key: bytes, amount: int) -> None:
        value, expires = self.model.get(key, (0, False))
        if -(2**63) <= value + amount < 2**63:
            assert self.store.add(key, amount) == value
            self.model[key] = (value + amount, expires)
        else:
            with pytest.raises(OverflowError):
                self.store.add(key, amount)

    @rule(key=KEYS)
    def neighbours(self, key: bytes) -> None:
        before = next(self.model.irange(None, key, reverse=True), None)
        behind = next(self.model.irange(key), None)
        with self.store.view() as view:
            for mapping in [self.store, view]:
                assert mapping.floor(key) == (None if before is None else (before, self.model[before][0]))
                assert mapping.ceiling(key) == (None if behind is None else (behind, self.model[behind][0]))

    @rule(
        key=KEYS, value=VALUES, closed=st.booleans(),
        between=st.sampled_from([None, "put", "again", "other", "remove", "expire"]),
    )
    def watch(self, key: bytes, value: int, between: str | None, closed: bool) -> None:
        was = self.model.get(key)
        watch, batch = self.store.watch(key), self.store.batch()
        batch.expect_unwritten(watch).put(self.store, b"a", value)
        if between == "put":
            self.store[key] = value
            self.model[key] = (value, False)
        elif between == "again" and was is not None:
            self.store[key] = was[0]
            self.model[key] = (was[0], False)
        elif between == "other":
            other = b"other" + key
            self.store[other] = 1
            del self.store[other]
        elif between == "remove":
            self.store.pop(key, None)
            self.model.pop(key, None)
        elif between == "expire" and self.store.expire(key, 3600.0):
            self.model[key] = (self.model[key][0], True)
        written = between == "put" or between in ("again", "remove", "expire") and was is not None
        assert watch.broken == written
        if closed:
            watch.close()
        if written:
            with pytest.raises(everleaf.Refused):
                batch.write()
        else:
            batch.write()
            self.model[b"a"] = (value, False)
        watch.close()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open()

    @invariant()
    def same(self) -> None:
        assert list(self.store.items()) == [(key, value) for key, (value, _) in self.model.items()]
        for key, (_, expires) in self.model.items():
            assert (self.store.ttl(key) is not None) == expires


TestBatches = Batches.TestCase
TestBatches.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)


def test_a_batch_puts_for_a_time(store: everleaf.Store) -> None:
    with store.batch() as batch:
        batch.put(store, b"ann", b"1", ttl=60).put(store, b"bob", b"2", ttl=None).put(store, b"cat", b"3", 0)
    ttl = store.ttl(b"ann")
    assert ttl is not None and 0 < ttl <= 60 and store.ttl(b"bob") is None and list(store) == [b"ann", b"bob"]
    for ttl in [float("nan"), "1"]:
        with pytest.raises((TypeError, ValueError)), store.batch() as batch:
            batch.put(store, b"ann", b"other", ttl=ttl)  # type: ignore[arg-type]
    assert store[b"ann"] == b"1"


def segments(path: Path) -> list[Path]:
    return sorted(path.with_name(path.name + ".log").glob("log-*"))


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_a_damaged_log_is_salvaged_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.pool"
    with everleaf.open(path, durability="power", max_size=1 << 26) as store:
        assert store.rebuilt is None
        for number in range(300):
            store[b"%03d" % number] = b"v" * 100
    first = segments(path)[0]
    flip(first, len(first.read_bytes().rstrip(b"\0")) // 2)
    path.unlink()
    with pytest.raises(everleaf.Corrupt):
        everleaf.open(path)
    with everleaf.open(path, salvage_log=True) as store:
        found = store.rebuilt
        assert found is not None and found.kept is None and found.damages and found.replayed > 0 and found.snapshot_pairs == 0
        count = len(store)
        assert 0 < count < 300 and list(store) == [b"%03d" % number for number in range(count)]
        assert all(Path(name).exists() for name in store.put_aside_files())
    with everleaf.open(path) as store:
        assert len(store) == count and store.rebuilt is None


def test_a_file_that_was_kept_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.pool"
    with everleaf.open(path, durability="power", max_size=1 << 26) as store:
        store[b"key"] = b"value"
    path.write_bytes(b"no pool")
    with everleaf.open(path) as store:
        found = store.rebuilt
        assert found is not None and found.kept is not None and found.replayed == 1
        assert Path(found.kept).read_bytes() == b"no pool"
        assert store[b"key"] == b"value"


def test_a_pool_that_has_lost_its_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.pool"
    store = everleaf.open(path)
    store[b"key"] = b"value"
    assert not store.pool_gone
    path.unlink()
    with pytest.raises(everleaf.PoolGone):
        store.sync()
    assert store.pool_gone and store[b"key"] == b"value"
    with pytest.raises(everleaf.PoolGone):
        store[b"key"] = b"later"
    assert store.save() == 1
    with pytest.raises(everleaf.PoolGone):
        store.close()
    with everleaf.open(tmp_path / "a.pool.backup") as copy:
        assert copy[b"key"] == b"value"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A pool of 300 pairs, of which the value of number 123 has changed."""
    path = tmp_path / "damaged.pool"
    with everleaf.open(path) as store:
        store.put_many((b"%03d" % number, b"value of %03d" % number) for number in range(300))
    flip(path, path.read_bytes().index(b"value of 123"))
    return path


def test_damage_is_told_of_by_whoever_looks(damaged: Path) -> None:
    with everleaf.open(damaged, read_only=True) as store:
        assert store.read_only and store[b"123"] != b"value of 123" and len(store.check()) == 2
        with pytest.raises(everleaf.Corrupt):
            list(store.items())
        with pytest.raises(everleaf.Corrupt):
            store.bisect(b"~")
    with everleaf.open(damaged, read_only=True, verify_scans=False) as store:
        assert len(list(store.items())) == 300 and store.bisect(b"~") == 300
    with everleaf.open(damaged, verify_reads=True) as store:
        assert not store.read_only and store[b"124"] == b"value of 124"
        for read in [store.__getitem__, store.get, lambda key: store.get_many([key])]:
            with pytest.raises(everleaf.Corrupt):
                read(b"123")


def test_a_damaged_pool_is_repaired_into_a_new_one(damaged: Path, tmp_path: Path) -> None:
    with everleaf.open(damaged) as store, pytest.raises(everleaf.Locked):
        everleaf.repair(damaged, tmp_path / "new.pool")
    found = everleaf.repair(damaged, tmp_path / "new.pool")
    assert (found.kept, found.doubtful, found.maps, found.lost) == (299, 0, ["default"], [])
    assert found.is_complete and found.dropped
    with everleaf.open(tmp_path / "new.pool") as store:
        assert len(store) == 299 and b"123" not in store and store.check() == []
    with pytest.raises(everleaf.Error, match="exists|already"):
        everleaf.repair(damaged, tmp_path / "new.pool")
    with pytest.raises(everleaf.NotFound):
        everleaf.repair(tmp_path / "none", tmp_path / "other.pool")


def test_a_store_is_saved_and_made_smaller(tmp_path: Path) -> None:
    path = tmp_path / "a.pool"
    with everleaf.open(path, tree="hashed-leaf") as store:
        store.put_many((b"%06d" % number, b"v" * 100) for number in range(20_000))
        assert store.save() == 20_000 and (tmp_path / "a.pool.backup").exists()
        with pytest.raises(everleaf.Error, match="log"):
            store.snapshot()
        store.clear()
        assert store.return_space() >= 0
        store[b"left"] = b"1"
        assert store.save() == 1
    size = path.stat().st_size
    assert everleaf.compact(path, tree="nbtree") == path.stat().st_size < size
    assert isinstance(everleaf.upgrade(path), list) and everleaf.upgrade(path) == []
    with everleaf.open(path) as store:
        assert dict(store) == {b"left": b"1"}


def test_a_store_with_a_log_says_what_it_does(tmp_path: Path) -> None:
    store = everleaf.open(tmp_path / "a.pool", durability="power", snapshot_after=1 << 40)
    store[b"oak"] = b"Quercus"
    assert store.snapshot() == store.save() == 1 and not store.log_failed
    told = store.events()
    store.close()
    assert all("snapshot" in line for line in told) and store.events()[-1] == "closed" and store.events() == []
    for call in [store.snapshot, store.save, store.return_space, store.put_aside_files, store.defer_sync]:
        with pytest.raises(everleaf.Closed):
            call()
    with pytest.raises(everleaf.Closed):
        store.rebuilt


def test_writes_of_a_thread_share_a_sync(tmp_path: Path) -> None:
    path = tmp_path / "a.pool"
    with everleaf.open(path, durability="power", max_size=1 << 26) as store:
        def write(first: int) -> None:
            store.defer_sync()
            for number in range(first, first + 500):
                store[b"%04d" % number] = b"v"
            store.wait_deferred()
            store.wait_deferred()

        threads = [threading.Thread(target=write, args=(first,)) for first in (0, 500)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.stat()["log_lag"] == 0
    # Only what is in the log counts.
    path.unlink()
    with everleaf.open(path) as store:
        assert len(store) == 1000 and store.rebuilt is not None


def test_a_map_is_loaded_at_once(store: everleaf.Store) -> None:
    squares = store.load_map("squares", ((number, number * number) for number in range(-500, 500)), keys=int, values=int)
    assert len(squares) == 1000 and squares[-500] == 250_000 and list(squares)[:2] == [-500, -499]
    with pytest.raises(everleaf.Error):
        store.load_map("squares", [])
    for pairs in [[(b"b", b""), (b"a", b"")], [(b"a", b""), (b"a", b"")]]:
        with pytest.raises(everleaf.Error):
            store.load_map("others", pairs)
    with pytest.raises(TypeError):
        store.load_map("others", [(b"a", 1)])
    with pytest.raises(ZeroDivisionError):
        store.load_map("others", ((b"%d" % (1 // (5 - number)), b"") for number in range(9)))
    assert store.map_names() == ["default", "squares"] and store.check() == []
    assert store.stat()["by_map"]["squares"]["keys"] == 1000


def test_a_map_is_loaded_in_a_store_with_a_log(tmp_path: Path) -> None:
    with everleaf.open(tmp_path / "a.pool", durability="power") as store:
        assert len(store.load_map("a", [(b"a", b"1"), (b"b", b"2")])) == 2
        with pytest.raises(everleaf.Error):
            store.load_map("b", [(b"b", b""), (b"a", b"")])
        assert store.map_names() == ["a", "default"]


def test_numbers_are_added_to_by_many_threads(store: everleaf.Store) -> None:
    for values, one in [(bytes, b"1"), (str, "1"), (int, 1)]:
        counters = store.map(f"counters of {values.__name__}", keys=str, values=values)
        counters.put("page", one, ttl=60)
        assert counters.add("other") == 0 and counters.add("other", -3) == 1

        def add() -> None:
            for _ in range(1000):
                counters.add("page", 2)

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counters.add("page", 0) == 8001 and int(counters["page"]) == 8001 and int(counters["other"]) == -2
        # When it expires stays as it is.
        assert counters.ttl("page") is not None and counters.ttl("other") is None
    store[b"text"] = b"seven"
    for amount in [1, 2**64, None, "1"]:
        with pytest.raises((everleaf.Error, OverflowError, TypeError)):
            store.add(b"text", amount)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        store.map("json", values="json").add(b"text", 1)
    assert store[b"text"] == b"seven"


def test_options_are_looked_at(tmp_path: Path) -> None:
    for durability in ["power", "process"]:
        # The second time it is there, and keeps what it has.
        with everleaf.open(tmp_path / "kept.pool", durability_of_new=durability, max_size=1 << 26) as store:
            assert store.stat()["durability"] == "power"
    path = tmp_path / "a.pool"
    options: dict[str, Any] = {
        "create_new": True, "initial_size": 1 << 20, "recovery_threads": 1, "domain": "process", "sweep": False,
        "tree": "hashed-leaf",
    }
    with everleaf.open(path, **options) as store:
        assert store.stat()["domain"] == "process" and path.stat().st_size >= 1 << 20
    with pytest.raises(everleaf.Error):
        everleaf.open(path, create_new=True)
    with pytest.raises(everleaf.NotFound):
        everleaf.open(tmp_path / "none", create=False)
    for wrong in [
        {"tree": "oak"}, {"domain": "?"}, {"durability": "?"}, {"max_size": "much"}, {"max_size": -1}, {"max_size": 2**64},
        {"snapshot_after": 1.5}, {"salvage_log": "yes"}, {"recovery_threads": -1}, {"verify_scans": 7}, {"other": 1},
    ]:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            everleaf.open(tmp_path / "other", **wrong)
    assert not (tmp_path / "other").exists()


def test_numbers_that_do_not_fit_into_an_array_are_told(store: everleaf.Store) -> None:
    """1000 came back as -24 of `i1`, and -1 as 18446744073709551615 of `u8`."""
    numbers = store.map("numbers", keys=int, values=int)
    numbers.update({1: 1000, 2: -1, 3: 100})
    for key, dtype, fits in [
        (1, "i1", False), (1, "i2", True), (2, "u8", False), (2, "i1", True), (3, "i1", True), (7, "i1", True), (1, ">i4", True), (1, "f8", True),
    ]:
        keys, out = numpy.array([key]), (numpy.full(1, 7, dtype), numpy.zeros(1, "?"))
        if fits:
            values, found = numbers.get_many(keys, dtype)
            assert values[0] == numbers.get(key, 0) and values.dtype == dtype and found[0] == (key in numbers)
            numbers.get_many(keys, out=out)
            assert out[0][0] == numbers.get(key, 7)
        else:
            for named in [{"dtype": dtype}, {"out": out}]:
                with pytest.raises(OverflowError):
                    numbers.get_many(keys, **named)
            assert out[0][0] == 7 and not out[1][0]
    for dtype in ["?", "S3", "M8[s]", "c16", "V8", "U3", "(2,)i4"]:
        with pytest.raises(TypeError):
            numbers.get_many(numpy.array([1]), dtype)
    reals = store.map("reals", keys=float, values=float)
    reals[1.0] = 2.5
    assert reals.get_many(numpy.array([1.0]), "f4")[0][0] == 2.5
    with pytest.raises(TypeError):
        reals.get_many(numpy.array([1.0]), "i8")
    assert numbers.get_many(numpy.array([], "i8"), "i1")[0].shape == (0,)


def test_arrays_that_are_not_two_or_share_memory_are_refused(store: everleaf.Store) -> None:
    keys = numpy.array([b"%04d" % number for number in range(600)], "V4")
    store.put_many(keys, keys)
    for pairs, values in [(keys, [b"v"] * 600), ([b"k"], keys), (keys, 7)]:
        with pytest.raises(TypeError, match="arrays"):
            store.put_many(pairs, values)
    shared = numpy.zeros(600 * 4, "u1")
    shared[:] = keys.view("u1")
    for out in [(shared.view("V4"), numpy.zeros(600, "?")), (numpy.zeros(600, "V4"), shared[:600].view("?"))]:
        with pytest.raises(ValueError, match="share"):
            store.get_many(shared.view("V4"), out=out)
    both = numpy.zeros(600 * 4, "u1")
    with pytest.raises(ValueError, match="each other"):
        store.get_many(keys, out=(both.view("V4"), both[600 * 3 :].view("?")))
    # Its own parts may be anything that is contiguous.
    found = numpy.zeros(600 * 5, "u1")
    store.get_many(keys, out=(found[: 600 * 4].view("V4"), found[600 * 4 :].view("?")))
    assert found[600 * 4 :].all() and found[: 600 * 4].tobytes() == keys.tobytes()


def test_an_inherited_store_does_nothing(store: everleaf.Store) -> None:
    """A child that returned space died."""
    store[b"a"] = b"1"
    child = os.fork()
    if child == 0:
        code = 0
        for call in [
            store.return_space, store.snapshot, store.save, store.sync, store.wait_deferred, store.check, store.events,
            lambda: store.load_map("other", [(b"a", b"b")]), lambda: store.add(b"a"), lambda: store.floor(b"a"),
        ]:
            try:
                call()
                code = 1
            except everleaf.Forked:
                pass
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0 and store[b"a"] == b"1"


def test_what_cannot_be_a_codec_makes_no_file(tmp_path: Path) -> None:
    """The pool was made, and stayed open and locked for as long as somebody had the exception, as a notebook has."""
    path = tmp_path / "a.pool"
    wrong: list[dict[str, Any]] = [{"keys": list}, {"values": list}, {"keys": "json"}, {"keys": "pickle"}]
    for options in wrong:
        with pytest.raises(TypeError) as kept:
            everleaf.open(path, **options)
        assert not path.exists() and kept.value
    everleaf.open(path).close()


def test_a_map_that_cannot_be_made_leaves_no_store_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.pool"
    monkeypatch.setattr(everleaf.Store, "__init__", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError) as kept:
        everleaf.open(path)
    monkeypatch.undo()
    everleaf.open(path).close()
    assert kept.value


def test_what_is_in_no_order_is_no_key(store: everleaf.Store) -> None:
    """9 came behind 10, and an equal object need not have been found."""
    for kind in ["json", "pickle", codecs.json, codecs.pickle]:
        with pytest.raises(TypeError, match="order"):
            store.map("m", keys=kind)
        with pytest.raises(TypeError, match="order"):
            store.load_map("m", [], keys=kind)
        store.map("v", values=kind)
    assert store.map_names() == ["default", "v"]


def test_a_batch_written_in_its_block_is_written_once(store: everleaf.Store) -> None:
    """The end of the block wrote it again, over what others had put, or was refused for what it had written."""
    with store.batch() as batch:
        batch.expect(store, b"k", None).put(store, b"k", b"v")
        batch.write()
        assert len(batch) == 0
        store[b"k"] = b"w"
    assert store[b"k"] == b"w"
    with store.batch() as batch:
        batch.put(store, b"k", b"x").write()
        store[b"k"] = b"y"
        batch.put(store, b"b", b"z")
    assert dict(store) == {b"b": b"z", b"k": b"y"}
    # One that was refused can be written when its condition holds.
    batch = store.batch().expect(store, b"k", b"v").put(store, b"k", b"again")
    with pytest.raises(everleaf.Refused):
        batch.write()
    store[b"k"] = b"v"
    batch.write()
    assert store[b"k"] == b"again" and len(batch) == 1


def test_errors_have_kinds(tmp_path: Path) -> None:
    """They had to be told by their text; a text file was "damaged", as if it could be repaired."""
    text, path = tmp_path / "a.txt", tmp_path / "a.pool"
    text.write_text("no pool\n" * 10_000)
    with pytest.raises(everleaf.NotAPool) as raised:
        everleaf.open(text)
    assert not isinstance(raised.value, everleaf.Corrupt) and isinstance(raised.value, everleaf.Error)
    with everleaf.open(path, view_memory=1, max_size=1 << 26) as store:
        store[b"k"] = b"v"
        with pytest.raises(everleaf.AlreadyExists):
            everleaf.open(path, create_new=True)
        with store.view() as view:
            store[b"k"] = b"w"
            with pytest.raises(everleaf.ViewLost, match="view"):
                view[b"k"]
        dropped = store.map("dropped")
        assert store.drop_map("dropped")
        with pytest.raises(everleaf.MapDropped):
            dropped[b"k"]
        numbers = store.map("numbers", keys=str, values=int)
        numbers["a"] = 2**63 - 1
        for add in [lambda: numbers.add("a"), lambda: numbers.insert("b", 2**63)]:
            with pytest.raises(OverflowError) as overflow:
                add()
            assert "key" not in str(overflow.value)
    assert issubclass(everleaf.MachineCrashed, everleaf.Error)


FULL_LOG = """
import resource, sys, everleaf
store = everleaf.open(sys.argv[1], durability="power", initial_size=1 << 26, max_size=1 << 26)
store[b"k"] = b"v"
# The file of the log is as long as the system lets it be, as on a disk that is full.
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
try:
    for number in range(100):
        store[b"%d" % number] = bytes(100_000)
except everleaf.Full as error:
    assert "log" in str(error), error
    print("full")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def test_a_log_without_space_is_full(tmp_path: Path) -> None:
    """It was any error, so that a program that waits for space ended."""
    ran = subprocess.run([sys.executable, "-c", FULL_LOG, str(tmp_path / "a.pool")], capture_output=True, text=True, timeout=300)
    assert (ran.returncode, ran.stdout) == (0, "full\n"), ran.stderr
