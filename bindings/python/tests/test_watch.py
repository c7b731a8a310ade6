"""Watches of keys, and batches that depend on them and on rollbacks."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import everleaf
import pytest


@pytest.fixture
def store(tmp_path: Path):
    with everleaf.open(tmp_path / "a.pool", max_size=1 << 28) as store:
        yield store


def test_a_watch_tells_of_every_write(store: everleaf.Store) -> None:
    store.update({b"a": b"1", b"b": b"2"})
    with store.watch(b"a") as watch, store.watch(b"a") as other:
        store[b"b"] = b"3"
        store.map("other")[b"a"] = b"1"
        assert not watch.broken
        store[b"a"] = b"1"
        assert watch.broken and other.broken
        with store.watch(b"a") as late:
            assert not late.broken
    with pytest.raises(everleaf.Closed):
        watch.broken
    with pytest.raises(everleaf.Closed):
        store.batch().expect_unwritten(watch)
    # A key that is not there, too; of the type of the map.
    numbers = store.map("numbers", keys=int, values=int)
    with numbers.watch(5) as watch:
        numbers[5] = 1
        assert watch.broken
    with pytest.raises(TypeError):
        numbers.watch(b"5")  # type: ignore[arg-type]


def test_a_watch_tells_of_an_expiry(store: everleaf.Store) -> None:
    store.put(b"a", b"1", ttl=0.05)
    with store.watch(b"a") as watch:
        batch = store.batch().put(store, b"b", b"2").expect_unwritten(watch)
        while b"a" in store:
            pass
        assert watch.broken
        with pytest.raises(everleaf.Refused):
            batch.write()
    assert b"b" not in store


def test_a_batch_depends_on_a_watch(store: everleaf.Store) -> None:
    """Threads count by reading and writing, and lose nothing."""
    counts = store.map("counts", values=int)
    counts[b"n"] = 0
    errors: list[BaseException] = []

    def count() -> None:
        try:
            for _ in range(100):
                counted = False
                while not counted:
                    with counts.watch(b"n") as watch:
                        was = counts[b"n"]
                        # Others run here, and write.
                        time.sleep(0)
                        try:
                            store.batch().put(counts, b"n", was + 1).expect_unwritten(watch).write()
                            counted = True
                        except everleaf.Refused as refused:
                            assert refused.number == 0
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and counts[b"n"] == 400


def put_while_there_is_room(store: everleaf.Store, keys: Iterator[bytes], value: bytes) -> int:
    count = 0
    try:
        for key in keys:
            store[key] = value
            count += 1
    except everleaf.Full:
        pass
    return count


def test_a_batch_depends_on_no_rollback(tmp_path: Path) -> None:
    """As the test in Rust: records take their space before the first change, and most leaves only when they are split,
    so that a batch of many small puts is rolled back when there is just too little room."""

    def spread() -> Iterator[bytes]:
        return ((number * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8) for number in itertools.count())

    with everleaf.open(tmp_path / "a.pool", max_size=8 << 20, sweep=False) as store:
        store[b"header"] = b"old"
        before, watch = store.rollback_count, store.watch(b"header")
        reader = store.batch().expect(store, b"header", b"old").expect_no_rollback(before).remove(store, b"copy")
        watcher = store.batch().expect_unwritten(watch).remove(store, b"copy")
        reader.write()
        watcher.write()
        pieces = put_while_there_is_room(store, (number.to_bytes(4) for number in itertools.count()), bytes(60_000))
        count = put_while_there_is_room(store, spread(), b"")
        many = store.batch().put(store, b"header", b"new")
        for key in itertools.islice(spread(), count, count + 30_000):
            many.put(store, key, b"")
        for number in range(pieces):
            del store[number.to_bytes(4)]
            with pytest.raises(everleaf.Full):
                many.write()
            if store.rollback_count > before:
                break
        assert store.rollback_count == before + 1 and store[b"header"] == b"old" and watch.broken
        with pytest.raises(everleaf.Refused) as refused:
            reader.write()
        assert refused.value.number == 1
        with pytest.raises(everleaf.Refused):
            watcher.write()
        store.batch().expect_no_rollback(store.rollback_count).remove(store, b"header").write()
        assert b"header" not in store
        with pytest.raises(OverflowError):
            store.batch().expect_no_rollback(-1)
        watch.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_watch_keeps_the_file_open(tmp_path: Path) -> None:
    path = tmp_path / "a.pool"
    for ends in ["close", "forget", "batch"]:
        store = everleaf.open(path, max_size=1 << 26)
        store[b"k"] = b"v"
        watch = store.watch(b"k")
        batch = store.batch().expect_unwritten(watch) if ends == "batch" else None
        store.close()
        with pytest.raises(everleaf.Locked):
            everleaf.open(path)
        assert not watch.broken
        with pytest.raises(everleaf.Closed):
            store.watch(b"k")
        if ends == "forget":
            del watch
        else:
            watch.close()
            watch.close()
        if batch is not None:
            with pytest.raises(everleaf.Locked):
                everleaf.open(path)
            with pytest.raises(everleaf.Closed):
                batch.write()
            del batch
        everleaf.open(path, create=False).close()


def test_a_forked_process_forgets_a_watch(store: everleaf.Store) -> None:
    store[b"k"] = b"v"
    watch = store.watch(b"k")
    child = os.fork()
    if child == 0:
        try:
            store.watch(b"k")
        except everleaf.Forked:
            # What the parent writes is not seen.
            told = watch.broken
            watch.close()
            os._exit(0 if told else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    store[b"k"] = b"w"
    assert watch.broken
    watch.close()
