"""Views: several maps of one moment, keys that expire meanwhile, and what iterating over one holds."""

from __future__ import annotations

import threading
import tracemalloc
from pathlib import Path
from typing import Any

import everleaf
import pytest
from everleaf import codecs


@pytest.fixture
def store(tmp_path: Path):
    with everleaf.open(tmp_path / "a.pool", max_size=1 << 28) as store:
        yield store


def test_iterating_over_a_view_holds_a_page_of_bytes(store: everleaf.Store) -> None:
    """It held up to 256 pairs, whatever their size: 16 MiB for the first of these, and 80 MiB for the seventeenth."""
    store.put_many((b"%03d" % number, bytes(1 << 20)) for number in range(100))
    with store.view() as view:
        for back in [False, True]:
            pairs = view.range(reverse=back)
            tracemalloc.start()
            try:
                for _ in range(17):
                    next(pairs)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert peak < 8 << 20, back
            assert sum(1 for _ in pairs) == 83


def test_the_len_of_a_view_goes_with_the_time(store: everleaf.Store) -> None:
    """It was counted once, and stayed when a key had expired."""
    store[b"a"] = b"1"
    while not store.get(b"k"):
        store.put(b"k", b"v", ttl=0.3)
    with store.view() as view:
        # Whichever comes first.
        assert len(view) == 2 or b"k" not in view
        while b"k" in view:
            pass
        assert len(view) == 1 and view.keys() == {b"a"} and list(view) == [b"a"] and view.peekitem(0) == (b"a", b"1")


def test_views_of_two_maps_are_of_one_moment(store: everleaf.Store) -> None:
    """There was a view of one map only: of two, each was of its own moment."""
    one, two = store.map("one", keys=str, values=int), store.map("two", keys=int, values=int)
    one["n"], two[7] = 1000, 0
    stopped = threading.Event()

    def move() -> None:
        while not stopped.is_set():
            moved = two[7] + 1
            with store.batch() as batch:
                batch.put(one, "n", 1000 - moved).put(two, 7, moved)

    mover = threading.Thread(target=move)
    mover.start()
    try:
        while two[7] == 0:
            pass
        for _ in range(300):
            with one.view() as first, first.of(two) as second:
                assert first["n"] + second[7] == 1000
    finally:
        stopped.set()
        mover.join()


def test_a_view_of_another_map_is_a_view_of_its_own(store: everleaf.Store, tmp_path: Path) -> None:
    other = store.map("other", keys=str, values=int)
    store[b"k"], other["k"] = b"v", 7
    view = store.view()
    of_other = view.of(other)
    again = of_other.of(store)
    other["k"], store[b"k"] = 8, b"w"
    view.close()
    assert dict(of_other.items()) == {"k": 7} and again[b"k"] == b"v" and "other" in repr(of_other)
    with pytest.raises(everleaf.Closed):
        view.of(other)
    later = store.map("later")
    later[b"k"] = b"v"
    with of_other.of(later) as empty:
        assert len(empty) == 0 and not empty
    with everleaf.open(tmp_path / "b.pool", max_size=1 << 26) as stranger:
        with of_other.of(stranger) as wrong, pytest.raises(everleaf.Error, match="another store"):
            wrong.get(b"k")
    of_other.close()
    again.close()
    # Nothing is kept of them.
    assert store.stat()["views"] == 0


def test_a_view_goes_with_the_last_that_has_it(store: everleaf.Store) -> None:
    slow: codecs.Codec[Any] = codecs.Codec("slow", bytes, bytes)
    other = store.map("other", slow, slow)
    with store.view() as view:
        pairs = iter(view.of(other).items())
    assert store.stat()["views"] == 1 and next(pairs, None) is None
    del pairs
    assert store.stat()["views"] == 0
