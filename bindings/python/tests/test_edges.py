"""What was wrong, or was lost, at the edges: keys that are tuples, numbers of NumPy, arrays that hold other things than they
seem to, memory that is not there, and stores that are closed while parts of them are held."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from operator import length_hint
from pathlib import Path
from typing import Any

import everleaf
import numpy
import pytest
from everleaf import codecs


@pytest.fixture
def store(tmp_path: Path):
    with everleaf.open(tmp_path / "a.pool", max_size=1 << 28) as store:
        yield store


def test_a_key_that_is_a_tuple_is_told_as_one(store: everleaf.Store) -> None:
    """Its parts were the arguments of the error."""
    trees = store.map("trees", keys=codecs.struct(str, int), values=str)
    key = ("oak", 7)
    trees[("ash", 1)] = "here"
    with trees.view() as view:
        for ask in [
            lambda: trees[key], lambda: trees.__delitem__(key), lambda: trees.pop(key), lambda: trees.ttl(key), lambda: view[key],
        ]:
            with pytest.raises(KeyError) as caught:
                ask()
            assert caught.value.args == (key,)
    with pytest.raises(KeyError) as caught:
        store[b"none"]
    assert caught.value.args == (b"none",)


def test_integers_of_numpy_are_integers(store: everleaf.Store) -> None:
    """They were "no int", and a loop over an array of keys was not possible."""
    numbers = store.map("numbers", keys=int, values=int)
    keys = numpy.array([5, -7, 2**62])
    for key in keys:
        numbers[key] = key
    assert dict(numbers) == {-7: -7, 5: 5, 2**62: 2**62}
    assert [numbers[key] for key in keys] == keys.tolist() == numbers.get_many(list(keys))
    assert numbers.bisect(numpy.int8(5)) == 2 and list(numbers.irange(numpy.uint8(5))) == [5, 2**62]
    assert codecs.integer.encode(numpy.int64(-7)) == codecs.integer.encode(-7)
    pairs = store.map("pairs", keys=codecs.struct(str, int))
    pairs[("oak", numpy.int16(3))] = b"v"
    assert list(pairs) == [("oak", 3)]
    for wrong, error in [
        (numpy.float64(5), TypeError), (numpy.array([5, 6]), TypeError), (5.0, TypeError), ("5", TypeError), (None, TypeError),
        (numpy.uint64(2**63), OverflowError), (2**63, OverflowError),
    ]:
        for ask in [lambda: numbers[wrong], lambda: numbers.insert(1, wrong), lambda: codecs.integer.encode(wrong)]:
            with pytest.raises(error):
                ask()


def test_numbers_that_an_array_cannot_hold_are_told(store: everleaf.Store) -> None:
    """70000 came back as infinity of `f2`, 2**53 + 1 as another number, and 1e300 as infinity of `f4`."""
    whole = store.map("whole", keys=int, values=int)
    for value, dtype, fits in [
        (70_000, "f2", False), (2048, "f2", True), (2049, "f2", False), (2**24 + 1, "f4", False), (2**24, "f4", True),
        (2**53 + 1, "f8", False), (-(2**53), "f8", True), (2**63 - 1, "f8", False), (-(2**63), "f8", True),
        (-(2**63), "f4", True), (-(2**63) + 1, "f8", False), (2**63 - 1, "longdouble", numpy.finfo("longdouble").nmant >= 62),
    ]:
        whole[1] = value
        look(whole, value, dtype, fits)
    real = store.map("real", keys=int, values=float)
    for number, dtype, fits in [(1e300, "f4", False), (-70_000.0, "f2", False), (float("inf"), "f2", True), (0.1, "f4", True), (0.1, "longdouble", True)]:
        real[1] = number
        look(real, number, dtype, fits)


def look(map: everleaf.Map[int, Any], value: Any, dtype: str, fits: bool) -> None:
    """Gets the value of key 1, and of one that is not there, into an array of a type."""
    keys, out = numpy.array([1, 2]), (numpy.full(2, 7, dtype), numpy.zeros(2, "?"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if fits:
            values, _ = map.get_many(keys, dtype)
            map.get_many(keys, out=out)
            assert values[0] == out[0][0] == numpy.array(value).astype(dtype)
            assert (values[1], out[0][1]) == (0, 7)
        else:
            for named in [{"dtype": dtype}, {"out": out}]:
                with pytest.raises(OverflowError):
                    map.get_many(keys, **named)
            assert out[0][0] == 7 and not out[1].any()


def test_long_floats_that_are_none_of_64_bits_are_told(store: everleaf.Store) -> None:
    if numpy.finfo("longdouble").nmant <= 52:
        pytest.skip("they are no longer than others")
    real = store.map("real", keys=float, values=float)
    long, short = numpy.array([1], "longdouble") / 3, numpy.array([0.5, numpy.inf], "longdouble")
    real.put_many(short, short)
    assert dict(real) == {0.5: 0.5, float("inf"): float("inf")}
    for keys, values in [(long, short[:1]), (short[:1], long)]:
        with pytest.raises(OverflowError):
            real.put_many(keys, values)
    with pytest.raises(OverflowError):
        real.get_many(long)


def test_arrays_with_fields_are_no_keys_and_masked_ones_nothing(store: everleaf.Store) -> None:
    """Keys were the bytes of the machine, out of order; and what was masked was stored."""
    fields = numpy.array([(1,), (2,)], [("a", "<i8")])
    plain = numpy.array([b"1", b"2"], "V1")
    with pytest.raises(TypeError, match="keys are bytes"):
        store.put_many(fields, plain)
    with pytest.raises(TypeError, match="keys are bytes"):
        store.get_many(fields, "V1")
    # As values they are bytes.
    store.put_many(plain, fields)
    assert store.get_many(plain, fields.dtype)[0].tolist() == [(1,), (2,)]
    store.clear()
    numbers = store.map("numbers", keys=int, values=int)
    masked = numpy.ma.array([1, 2], mask=[False, True])
    for use in [
        lambda: numbers.put_many(masked, numpy.array([1, 2])), lambda: numbers.put_many(numpy.array([1, 2]), masked),
        lambda: numbers.get_many(masked), lambda: numbers.get_many(numpy.array([1, 2]), out=(masked, numpy.zeros(2, "?"))),
    ]:
        with pytest.raises(TypeError, match="masked"):
            use()
    numbers.put_many(masked.compressed(), masked.compressed())
    assert dict(numbers) == {1: 1}


def test_tables_have_the_types_of_the_map(store: everleaf.Store) -> None:
    """The type was that of the first batch, and a later one failed; an empty table had none."""
    pyarrow = pytest.importorskip("pyarrow")
    mixed = store.map("mixed", keys=int, values="json")
    mixed.update({1: 1, 2: 1.5, 3: None})
    for size in [1, 2, 3]:
        table = everleaf._arrays.table(mixed.arrow_batches(size=size), (mixed._keys, mixed._values))
        assert table.to_pydict() == {"key": [1, 2, 3], "value": [1.0, 1.5, None]}
        assert table.schema.types == [pyarrow.int64(), pyarrow.float64()]
    assert mixed.to_arrow(7).schema.types == [pyarrow.int64(), pyarrow.null()]
    types = {bytes: pyarrow.binary(), str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    for keys, values in itertools.product(types, types):
        table = store.map(f"{keys} {values}", keys, values).to_arrow()
        assert table.schema.types == [types[keys], types[values]] and table.column_names == ["key", "value"]
    with pytest.raises(TypeError):
        store.map("few", str, float).put_arrow(pyarrow.table({"key": ["a", None], "value": [1.0, 2.0]}))


def test_a_holder_of_a_part_of_a_closed_store_is_told(tmp_path: Path) -> None:
    """`close` was silent, and the next `open` said that the store was not closed."""
    path = tmp_path / "a.pool"
    store = everleaf.open(path)
    store[b"k"] = b"v"
    pairs = iter(store.items())
    with pytest.warns(ResourceWarning, match="1 handles are held"):
        store.close()
    with pytest.raises(everleaf.Locked, match="iterators"):
        everleaf.open(path)
    del pairs
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with everleaf.open(path) as store:
            assert list(store.items()) == [(b"k", b"v")]
            store.close()


LITTLE_MEMORY = """
import resource, sys, threading, everleaf, numpy
store = everleaf.open(sys.argv[1], max_size=1 << 31)
texts = store.map("texts", str, str)
size = 200 << 20
long = bytes(size)
store[b"long"] = long
texts["long"] = "v" * size
store[b"old"] = long
view = store.view()
# What it was is kept for the view, in memory.
store[b"old"] = b""
big = bytearray(long)
keys, values = numpy.zeros(1, "V1"), numpy.zeros(1, f"V{size}")
many = numpy.zeros(1, "V65537")
def leave_little():
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20), resource.RLIM_INFINITY))
leave_little()
def fails(call, error):
    try:
        call()
    except error:
        return
    raise AssertionError(call)
fails(lambda: store.put_many(keys, values), MemoryError)
fails(lambda: store[b"long"], MemoryError)
fails(lambda: texts["long"], MemoryError)
fails(lambda: store.get_many([b"long"]), MemoryError)
batch = store.batch()
fails(lambda: batch.put(store, b"k", long), MemoryError)
fails(lambda: batch.expect(store, b"k", long), MemoryError)
fails(lambda: store.load_map("loaded", [(b"k", long)]), MemoryError)
fails(lambda: store.pop(b"long"), MemoryError)
fails(lambda: texts.pop("long"), MemoryError)
fails(lambda: texts.popitem(), MemoryError)
fails(lambda: store.__setitem__(b"k", big), MemoryError)
fails(lambda: store.put(b"k", memoryview(big)), MemoryError)
fails(lambda: view[b"long"], MemoryError)
fails(lambda: view[b"old"], MemoryError)
fails(lambda: view.get_many([b"long"]), MemoryError)
fails(lambda: view.get_many([b"old"]), MemoryError)
fails(lambda: next(iter(view.values())), MemoryError)
fails(lambda: next(reversed(view.values())), MemoryError)
fails(lambda: next(iter(store.values())), MemoryError)
# What is replaced would be kept for the view.
fails(lambda: store.__setitem__(b"long", b"short"), MemoryError)
assert b"long" in view and b"old" not in texts
view.close()
leave_little()
assert store.compare_exchange(b"long", b"x", b"y") is False
fails(lambda: store.compare_exchange(b"none", None, long), MemoryError)
# While another thread has what a get may have to wait for, it copies.
checking = threading.Thread(target=store.check)
checking.start()
while checking.is_alive():
    fails(lambda: store[b"long"], MemoryError)
    fails(lambda: store.get_many([b"long"]), MemoryError)
checking.join()
assert store.pop(b"old") == b""
fails(lambda: store.popitem(), MemoryError)
assert len(batch) == 0
fails(lambda: store.put_many(many, keys), everleaf.Error)
print("alive", len(store))
"""


def test_memory_that_is_not_there_is_an_exception(tmp_path: Path) -> None:
    """The interpreter ended: a notebook lost its kernel."""
    ran = subprocess.run([sys.executable, "-c", LITTLE_MEMORY, str(tmp_path / "a.pool")], capture_output=True, text=True, timeout=600)
    assert (ran.returncode, ran.stdout) == (0, "alive 1\n"), ran.stderr


def test_pop_and_setdefault_are_those_of_a_dictionary(store: everleaf.Store) -> None:
    store[b"k"] = b"v"
    with pytest.raises(TypeError, match="one default"):
        store.pop(b"k", b"1", b"2")  # type: ignore[call-overload]
    assert store[b"k"] == b"v" and store.pop(b"none", b"1") == b"1"
    # What was made twice need not be the same.
    made = itertools.count()
    numbered: codecs.Codec[str] = codecs.Codec("numbered", lambda text: f"{text} {next(made)}".encode(), bytes.decode)
    texts = store.map("texts", str, numbered)
    assert texts.setdefault("a", "first") == texts["a"] == "first 0" and texts.setdefault("a", "other") == "first 0"


def test_what_is_no_value_is_not_removed_by_a_pop(store: everleaf.Store) -> None:
    """It was removed first and read then: the exception was all that was left of it."""
    raw, texts = store.map("both"), store.map("both", values="json")
    raw[b"k"] = b"no json"
    with pytest.raises(ValueError):
        texts.pop(b"k")
    with pytest.raises(ValueError):
        texts.popitem()
    assert dict(raw) == {b"k": b"no json"}
    raw[b"k"] = b"[1]"
    assert texts.pop(b"k", None) == [1] and texts.pop(b"k", None) is None and not raw


def test_an_interrupt_ends_what_is_long(tmp_path: Path) -> None:
    """Arrays went on to their end, however long that took; so did lists, and a list that is made of the pairs."""

    class Interrupt(Exception):
        pass

    def interrupt(*_: Any) -> None:
        raise Interrupt

    count = 1_500_000
    keys = numpy.arange(count)
    pairs = [(key, key) for key in range(count)]
    with everleaf.open(tmp_path / "a.pool", max_size=1 << 30) as store:
        numbers, shorter = store.map("numbers", int, int), store.map("shorter", int, int)
        shorter.put_many(keys[:200_000], keys[:200_000])
        asked, of_pairs, to_load, collected = iter(range(count)), iter(pairs), iter(pairs), []
        out = (numpy.zeros(count, "i8"), numpy.zeros(count, "?"))
        calls: list[tuple[Callable[[], Any], Callable[[], int]]] = [
            (lambda: numbers.put_many(keys, keys), lambda: count - len(numbers)),
            (lambda: shorter.get_many(keys % 200_000, out=out), lambda: count - int(out[1].sum())),
            (lambda: numbers.put_many(of_pairs), lambda: length_hint(of_pairs)),
            (lambda: shorter.get_many(asked), lambda: length_hint(asked)),
            (lambda: store.load_map("loaded", to_load, int, int), lambda: length_hint(to_load)),
            (lambda: collected.extend(shorter.items()), lambda: len(shorter) - len(collected)),
        ]
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            for number, (call, left) in enumerate(calls):
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                with pytest.raises(Interrupt):
                    call()
                assert left() > 0, f"call {number} did all it had to do"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        # An iterator that was interrupted has lost nothing.
        assert store.check() == [] and "loaded" not in store.map_names()
