"""Numbers come back as they were, or are refused: integers in maps of floats, floats that are none, text that looks like one."""

from __future__ import annotations

import math
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


def test_integers_that_a_float_does_not_hold_are_told(store: everleaf.Store) -> None:
    """Two keys became one, and the value of the first was gone."""
    real = store.map("real", keys=float, values=float)
    parts = codecs.struct(float)
    for number, fits in [
        (2**53, True), (2**53 + 1, False), (-(2**53), True), (-(2**53) - 1, False), (2**63 - 1, False), (-(2**63), True),
        (2**62, True), (2**63, True), (2**64 - 1, False), (2**63 + 2048, True), (2**1000, True), (2**1000 + 1, False),
        (2**2000, False), (True, True),
    ]:
        kinds: list[Any] = [int]
        if type(number) is int and -(2**63) <= number < 2**64:
            kinds.append(numpy.uint64 if number >= 2**63 else numpy.int64)
        for kind in kinds:
            key = kind(number)
            if fits:
                real[key] = key
                assert real.pop(float(number)) == number and parts.decode(parts.encode((key,))) == (number,)
            else:
                for ask in [
                    lambda: real.insert(key, 1.0), lambda: real.insert(1.0, key), lambda: real.get_many([key]),
                    lambda: parts.encode((key,)), lambda: list(real.irange(key)),
                ]:
                    with pytest.raises(OverflowError):
                        ask()
    assert len(real) == 0


@pytest.mark.parametrize("kind", ["i8", "u8", ">i8", "i4", "u2"])
def test_integers_of_arrays_that_no_float_holds_are_told(store: everleaf.Store, kind: str) -> None:
    real, bounds = store.map("real", keys=float, values=float), numpy.iinfo(kind)
    one = numpy.array([1])
    for number in [0, 7, -1, 2**53, 2**53 + 1, -(2**53) - 1, bounds.min, bounds.max, bounds.max - 1, 2**63, 2**63 + 2048, 2**62 + 1]:
        if not bounds.min <= number <= bounds.max:
            continue
        array = numpy.array([5, number], kind)
        if int(float(number)) == number:
            real.put_many(array, array)
            assert dict(real) == {5.0: 5.0, float(number): float(number)} and real.get_many(array)[1].all()
        else:
            for ask in [lambda: real.put_many(array[1:], one), lambda: real.put_many(one, array[1:]), lambda: real.get_many(array)]:
                with pytest.raises(OverflowError):
                    ask()
        real.clear()
    empty = numpy.array([], kind)
    real.put_many(empty, empty)


def test_values_may_be_any_float(store: everleaf.Store) -> None:
    """What was missing in a column could not be stored, and -0.0 came back as 0.0."""
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    real = store.map("real", keys=str, values=float)
    numbers = [math.nan, -math.nan, -0.0, 0.0, math.inf, -math.inf, 5e-324, -1.5]
    names = [f"{number:02}" for number in range(len(numbers))]
    bits = [numpy.float64(number).tobytes() for number in numbers]

    def look(map: everleaf.Map[Any, float]) -> None:
        assert [numpy.float64(number).tobytes() for number in map.values()] == bits
        map.clear()

    real.update(zip(names, numbers))
    assert [numpy.float64(number).tobytes() for number in real.get_many(names)] == bits
    assert math.copysign(1, real["02"]) == -1.0 and math.isnan(real["00"])
    assert math.isnan(real.to_pandas()["00"]) and real.to_arrow()["value"].to_pylist()[2:] == numbers[2:]
    look(real)
    with store.batch() as batch:
        for name, number in zip(names, numbers):
            batch.put(real, name, number)
    look(real)
    assert real.put_pandas(pandas.Series(numbers, index=names)) == len(names)
    look(real)
    assert real.put_arrow(pyarrow.table({"key": names, "value": numbers})) == len(names)
    look(real)
    look(store.load_map("loaded", zip(names, numbers), keys=str, values=float))
    places = store.map("places", keys=int, values=float)
    places.put_many(numpy.arange(len(numbers)), numpy.array(numbers))
    assert places.get_many(numpy.arange(len(numbers)))[0].tobytes() == b"".join(bits)
    assert math.isnan(places.get_many(numpy.array([0]), "f4")[0][0])
    look(places)


def test_keys_are_floats_that_have_a_place_in_an_order(store: everleaf.Store) -> None:
    real = store.map("real", keys=float, values=float)
    real[-0.0] = 1.0
    assert 0.0 in real and math.copysign(1, next(iter(real))) == 1.0
    for ask in [
        lambda: real.insert(math.nan, 1.0), lambda: real.get(math.nan),
        lambda: real.put_many(numpy.array([math.nan]), numpy.array([1.0])), lambda: real.get_many(numpy.array([math.nan])),
        lambda: real.put_columns(numpy.array([[math.nan]]).view("u1"), numpy.array([[1.0]]).view("u1"), ("float", "float")),
    ]:
        with pytest.raises(ValueError, match="order"):
            ask()
    assert dict(real) == {0.0: 1.0}


def test_text_is_no_float_of_a_tuple(store: everleaf.Store) -> None:
    """It was read as one, and the text of one that is none came behind all numbers."""
    codec, real = codecs.struct(str, float), store.map("real", keys=float)
    for wrong in ["1.5", b"1.5", "nan", bytearray(b"1.5"), memoryview(b"1.5"), None, [1.5], 1 + 0j]:
        for ask in [lambda: codec.encode(("a", wrong)), lambda: real.insert(wrong, b"")]:
            with pytest.raises(TypeError):
                ask()
    for number in [math.nan, numpy.float32("nan")]:
        for ask in [lambda: codec.encode(("a", number)), lambda: real.insert(number, b"")]:
            with pytest.raises(ValueError):
                ask()

    class Half:
        def __float__(self) -> float:
            return 0.5

    half: Any = Half()
    real[half] = b"v"
    assert list(real) == [0.5] and codec.decode(codec.encode(("a", half))) == ("a", 0.5)
