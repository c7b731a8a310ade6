"""Everleaf beside py-lmdb, sqlite3 and sortedcontainers, in one run: `python benchmark.py [keys]`.

Keys are eight bytes in a random order, values a hundred. Each figure is the median of three runs, in
thousands of operations a second; what is not installed is left out. LMDB writes without syncs, SQLite with
a write-ahead log and without syncs: all survive the death of the process, as Everleaf does, but for
sortedcontainers, which is memory.
"""

from __future__ import annotations

import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import everleaf

VALUE = b"v" * 100


def keys_of(count: int) -> list[bytes]:
    keys = [n.to_bytes(8, "big") for n in range(count)]
    random.Random(7).shuffle(keys)
    return keys


def of_everleaf(folder: str) -> dict[str, Callable[..., Any]]:
    store = everleaf.open(folder + "/everleaf.pool")
    return {
        "put": store.__setitem__,
        "get": store.__getitem__,
        "iterate": lambda: sum(1 for _ in store.items()),
        "put_many": lambda keys: store.put_many((key, VALUE) for key in keys),
        "get_many": store.get_many,
    }


def of_lmdb(folder: str) -> dict[str, Callable[..., Any]]:
    import lmdb

    env = lmdb.open(folder + "/lmdb", map_size=1 << 32, sync=False, writemap=True)

    def put(key: bytes, value: bytes) -> None:
        with env.begin(write=True) as txn:
            txn.put(key, value)

    def get(key: bytes) -> bytes:
        with env.begin() as txn:
            return bytes(txn.get(key))

    def iterate() -> int:
        with env.begin() as txn:
            return sum(1 for _ in txn.cursor())

    def put_many(keys: list[bytes]) -> None:
        with env.begin(write=True) as txn, txn.cursor() as cursor:
            cursor.putmulti([(key, VALUE) for key in keys])

    def get_many(keys: list[bytes]) -> Any:
        with env.begin() as txn, txn.cursor() as cursor:
            return cursor.getmulti(keys)

    return {"put": put, "get": get, "iterate": iterate, "put_many": put_many, "get_many": get_many}


def of_sqlite(folder: str) -> dict[str, Callable[..., Any]]:
    db = sqlite3.connect(folder + "/sqlite", isolation_level=None)
    db.execute("pragma journal_mode=wal")
    db.execute("pragma synchronous=off")
    db.execute("create table t (k blob primary key, v blob) without rowid")
    put = "insert or replace into t values (?, ?)"

    def put_many(keys: list[bytes]) -> None:
        db.execute("begin")
        db.executemany(put, [(key, VALUE) for key in keys])
        db.execute("commit")

    return {
        "put": lambda key, value: db.execute(put, (key, value)),
        "get": lambda key: db.execute("select v from t where k = ?", (key,)).fetchone()[0],
        "iterate": lambda: sum(1 for _ in db.execute("select k, v from t order by k")),
        "put_many": put_many,
    }


def of_sortedcontainers(_: str) -> dict[str, Callable[..., Any]]:
    from sortedcontainers import SortedDict

    map = SortedDict()
    return {
        "put": map.__setitem__,
        "get": map.__getitem__,
        "iterate": lambda: sum(1 for _ in map.items()),
        "put_many": lambda keys: map.update((key, VALUE) for key in keys),
    }


def measure(make: Callable[[str], dict[str, Callable[..., Any]]], keys: list[bytes]) -> dict[str, float]:
    rates: dict[str, list[float]] = {}
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            calls = make(folder)
            put, get = calls["put"], calls["get"]

            def timed(name: str, run: Callable[[], Any]) -> None:
                start = time.perf_counter()
                run()
                rates.setdefault(name, []).append(len(keys) / (time.perf_counter() - start) / 1000)

            timed("put", lambda: [put(key, VALUE) for key in keys])
            timed("get", lambda: [get(key) for key in keys])
            timed("iterate", calls["iterate"])
            for name in ("put_many", "get_many"):
                if name in calls:
                    timed(name, lambda: calls[name](keys))
    return {name: statistics.median(each) for name, each in rates.items()}


def main() -> None:
    keys = keys_of(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    names = ["put", "get", "iterate", "put_many", "get_many"]
    print(f"{'':18}" + "".join(f"{name:>10}" for name in names))
    for make in (of_everleaf, of_lmdb, of_sqlite, of_sortedcontainers):
        try:
            rates = measure(make, keys)
        except ImportError as error:
            print(f"{make.__name__[3:]:18}left out: {error}")
            continue
        row = (f"{rates[name]:10.0f}" if name in rates else f"{'-':>10}" for name in names)
        print(f"{make.__name__[3:]:18}" + "".join(row))


if __name__ == "__main__":
    main()
