"""Arrays that ask for a good part of a map: their rows are looked for in the order of their keys, in turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import everleaf
import numpy
import pytest

# More than are put in order together.
COUNT = 70_000


@pytest.fixture
def store(tmp_path: Path):
    with everleaf.open(tmp_path / "a.pool", max_size=1 << 28) as store:
        yield store


def asked_of(keys: Any) -> tuple[Any, Any]:
    """Some of the keys in no order, one or the other twice, and whether each is among every second one."""
    chosen = numpy.random.default_rng(5).integers(0, len(keys), len(keys) + 7)
    return keys[chosen], chosen % 2 == 0


@pytest.mark.parametrize("gap", [1, 3, 1 << 40])
def test_each_row_gets_the_value_of_its_own_number(store: everleaf.Store, gap: int) -> None:
    keys = (numpy.random.default_rng(7).permutation(COUNT) - COUNT // 2) * gap
    numbers = store.map("numbers", int, int)
    numbers.put_many(keys[::2], keys[::2] + 1)
    asked, there = asked_of(keys)
    values, found = numbers.get_many(asked)
    assert (found == there).all()
    assert (values == numpy.where(there, asked + 1, 0)).all()
    # What is absent stays as it was.
    values[:] = 77
    out = numbers.get_many(asked, out=(values, found))
    assert (out[1] == there).all() and (values == numpy.where(there, asked + 1, 77)).all()


def test_each_row_gets_the_value_of_its_own_float(store: everleaf.Store) -> None:
    keys = numpy.random.default_rng(7).standard_normal(COUNT) ** 15
    assert len(set(keys.tolist())) == COUNT
    reals = store.map("reals", float, float)
    reals.put_many(keys[::2], keys[::2] / 2)
    asked, there = asked_of(keys)
    values, found = reals.get_many(asked)
    assert (found == there).all() and (values == numpy.where(there, asked / 2, 0)).all()


@pytest.mark.parametrize(("size", "count"), [(1, 256), (2, 5000), (7, 9000), (12, 9000), (20, 9000)])
def test_each_row_gets_the_value_of_its_own_bytes(store: everleaf.Store, size: int, count: int) -> None:
    """The last bytes tell keys apart; and of twelve and twenty, not the first eight."""
    numbers = numpy.random.default_rng(7).permutation(count)
    keys = numpy.array([b"%0*d" % (size, n) if size > 2 else int(n).to_bytes(size, "big") for n in numbers], f"V{size}")
    store.put_many(keys[::2], numbers[::2].astype("i4"))
    chosen = numpy.random.default_rng(5).integers(0, count, max(count, 1024))
    values, found = store.get_many(keys[chosen], "i4")
    there = chosen % 2 == 0
    assert (found == there).all() and (values == numpy.where(there, numbers[chosen], 0)).all()


def test_a_value_of_another_size_is_told_of_whatever_its_turn(store: everleaf.Store) -> None:
    keys = numpy.arange(5000)
    numbers = store.map("numbers", int, bytes)
    numbers.put_many(keys, keys.view("V8"))
    numbers[4321] = b"short"
    with pytest.raises(ValueError, match="a value has 5 bytes, and the rows have 8"):
        numbers.get_many(keys[::-1], "V8")
