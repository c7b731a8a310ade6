"""What a dictionary does, and a map did not: keys that cannot be there, keys that have expired, pairs of all kinds."""

from __future__ import annotations

import pickle
from collections import namedtuple
from pathlib import Path
from typing import Any

import everleaf
import numpy
import pytest
from everleaf import codecs


@pytest.fixture
def store(tmp_path: Path):
    with everleaf.open(tmp_path / "a.pool", max_size=1 << 28, sweep=False) as store:
        yield store


def test_what_has_expired_is_not_there(store: everleaf.Store) -> None:
    """It is counted until it is removed; `bool`, sets, and a loop of `popitem` went by that."""
    texts = store.map("texts", keys=str, values="json")
    while store.get(b"k") is None:
        store.put(b"k", b"v", ttl=0.3)
    while "k" not in texts:
        texts.put("k", [1], ttl=0.3)
    texts["a"] = [2]
    while b"k" in store or "k" in texts:
        pass
    assert len(store) == 1 and not store and list(store) == []
    while store:
        store.popitem()
    assert store.keys() == set() and store.items() == set() and set() == store.keys() and store.keys() <= {b"a"}
    assert store.keys() < {b"a"} and not store.keys() < set() and not store.keys() > set() and store.keys() >= set()
    assert len(texts) == 2 and texts and texts.keys() == {"a"} and {"a"} == texts.keys() and texts.keys() != {"k", "a"}
    assert {"a"} <= texts.keys() <= {"a", "b"} and {"a", "b"} > texts.keys() and not {"b"} <= texts.keys()
    assert texts.keys() > set() and texts.keys().isdisjoint({"k"}) and texts.keys() & {"a", "k"} == {"a"}
    # Values that have no hash.
    assert texts.items() == {"a": [2]}.items() and texts.items() != {"a": [3]}.items() and texts.items() == texts.items()
    for unequal in [["a"], 7, None]:
        assert texts.keys() != unequal
        with pytest.raises(TypeError):
            texts.keys() <= unequal
    with pytest.raises(TypeError, match="unhashable"):
        hash(texts.keys())


def test_what_no_key_can_be_is_not_there(store: everleaf.Store) -> None:
    texts, numbers = store.map("texts", keys=str, values=int), store.map("numbers", keys=int, values=int)
    real, pairs = store.map("real", keys=float), store.map("pairs", keys=codecs.struct(str, int))
    texts["a"], numbers[1], real[1.0], pairs[("a", 1)] = 1, 1, b"v", b"v"
    with texts.view() as view:
        for mapping, others in [
            (texts, [1, b"a", None, "\ud800", ("a",)]), (view, [1, "\ud800"]), (numbers, ["1", 2**70, 1.5]),
            (real, ["1", 2**53 + 1, float("nan")]), (pairs, ["a", ("a", "b"), ("a", 1, 2), 7]), (store, ["text", 7]),
        ]:
            for key in others:
                assert key not in mapping and key not in mapping.keys() and (key, 1) not in mapping.items()
                assert not mapping.keys() & {key} and mapping.keys().isdisjoint({key})
        for items in [texts.items(), view.items()]:
            assert ("a", 1) in items and ("a", 2) not in items and ("b", 1) not in items
            assert "a1" not in items and ("a", 1, 2) not in items and ["a", 1] not in items
    # Asking for it is a mistake all the same.
    with pytest.raises(TypeError):
        texts.get(1)
    # What a codec raises of its own is told.
    broken: codecs.Codec[Any] = codecs.Codec("broken", lambda key: bytes(1 // 0), bytes)
    with pytest.raises(ZeroDivisionError):
        "a" in store.map("broken", broken)
    # A value that cannot be read is not taken for a key that is none.
    raw, read = store.map("raw"), store.map("raw", values="json")
    raw[b"k"] = b"no json"
    with pytest.raises(ValueError):
        (b"k", 1) in read.items()


def test_an_update_is_by_pairs(store: everleaf.Store) -> None:
    """It asked for each key of the other map, and raised KeyError for one that went in between."""
    raw = store.map("other")
    raw.update({b"a": b"1", b"b": b"2", b"c": b"3"})

    def decode(data: bytes) -> bytes:
        raw.pop(b"b", None)
        return data

    fleeting: codecs.Codec[bytes] = codecs.Codec("fleeting", bytes, decode)
    store.update(store.map("other", values=fleeting))
    assert {b"a", b"c"} <= store.keys() and b"b" not in raw
    texts = store.map("texts", keys=str, values=int)
    point = namedtuple("point", "x y")

    class Keyed:
        def keys(self) -> list[str]:
            return ["keyed"]

        def __getitem__(self, key: str) -> int:
            return 5

    texts.update({"a": 1}, b=2)
    texts.update([("c", 3), ["d", 4], point("e", 5)], f=6)
    texts.update(Keyed())
    texts.update()
    texts.update(other=7, self=8)
    model = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "keyed": 5, "other": 7, "self": 8}
    assert dict(texts) == model
    texts |= [["g", 9], iter(["h", 10]), numpy.array(["i", 11], object)]
    texts.put_many([["j", 12]])
    assert dict(texts) == model | {"g": 9, "h": 10, "i": 11, "j": 12}
    for wrong, error in [
        (["ab"], TypeError), ([b"ab"], TypeError), ([("a",)], ValueError), ([("a", 1, 2)], ValueError), ([7], TypeError), (7, TypeError),
        ([[]], ValueError),
    ]:
        for put in [texts.update, texts.put_many, texts.__ior__, lambda pairs: store.load_map("loaded", pairs, str, int)]:
            with pytest.raises(error):
                put(wrong)
    assert "loaded" not in store.map_names()


def test_a_place_that_is_not_there_is_no_empty_map(store: everleaf.Store) -> None:
    store[b"k"] = b"v"
    for place in [5, 1, -2]:
        with pytest.raises(IndexError):
            store.popitem(place)
    assert store.popitem(0) == (b"k", b"v")
    for place in [0, -1, 5]:
        with pytest.raises(KeyError):
            store.popitem(place)


def test_a_refusal_can_be_sent_to_another_process() -> None:
    """Its text was taken for its number."""
    refused = pickle.loads(pickle.dumps(everleaf.Refused(3)))
    assert (refused.number, str(refused)) == (3, "condition 3 of the batch did not hold")


def test_what_never_comes_is_never(store: everleaf.Store) -> None:
    """It was 1.8e16 seconds; and a key whose time came while it was asked had less than none."""
    store.put(b"k", b"v", ttl=float("inf"))
    assert store.ttl(b"k") is None
    store.expire(b"k", 3600)
    store.expire(b"k", float("inf"))
    assert store.ttl(b"k") is None
    with store.batch() as batch:
        batch.put(store, b"b", b"v", ttl=float("inf"))
    assert store.ttl(b"b") is None
    for _ in range(3):
        store.put(b"k", b"v", ttl=0.02)
        try:
            while True:
                left = store.ttl(b"k")
                assert left is not None and 0 <= left <= 0.021
        except KeyError:
            pass
