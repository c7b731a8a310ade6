"""Everleaf beside other ordered and embedded stores that Python has, in one run.

    python benchmark.py [--keys N] [--many N] [--rounds N] [--array-rounds N] [--folder PATH] [--markdown FILE]
    python benchmark.py --arrays [--keys N] [--array-rounds N] [--folder PATH]

The page of results is made by `python benchmark.py --markdown ../../docs/results/python.md`, and by nothing else.

Keys are eight bytes in a random order, values a hundred. In each round every store is measured, in an order
that changes, each in a new file and the same way; a figure is the median of the rounds, in thousands of
operations for each second that the *process* used of the processors, threads of the store's own included: so
other programs on the machine matter less. A ratio is the median of the ratios of single rounds. What is not
installed is left out.

All but sortedcontainers, which is memory, survive the death of the process, without a sync: LMDB with `sync=False` and `writemap`,
SQLite with a write-ahead log and `synchronous=off`, LevelDB and RocksDB with their logs, GDBM as it is.
Single operations are single: what has transactions makes one for each, as the program does whose other
threads or processes write, too. Loops are written out for each store, so that none pays for another's call.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import everleaf

VALUE = b"v" * 100
Keys = list[bytes]
Figures = dict[str, float]


def keys_of(count: int) -> Keys:
    keys = [n.to_bytes(8, "big") for n in range(count)]
    random.Random(7).shuffle(keys)
    return keys


class Everleaf:
    name = "everleaf"

    def __init__(self, folder: str) -> None:
        self.store = everleaf.open(folder + "/everleaf.pool")

    def put(self, keys: Keys) -> None:
        store = self.store
        for key in keys:
            store[key] = VALUE

    def get(self, keys: Keys) -> None:
        store = self.store
        for key in keys:
            store[key]

    def iterate(self) -> int:
        count = 0
        for _ in self.store.items():
            count += 1
        return count

    def put_many(self, keys: Keys) -> None:
        self.store.put_many([(key, VALUE) for key in keys])

    def get_many(self, keys: Keys) -> None:
        self.store.get_many(keys)

    def prepare(self, keys: Keys) -> None:
        import numpy

        self.keys, self.values = numpy.array(keys, "V8"), numpy.full(len(keys), VALUE, "V100")
        # A virtual machine may wait for memory that nobody has touched before; the library that makes the first array
        # of this size must not pay for all.
        numpy.full(len(keys), VALUE, "V100")

    def put_array(self, _: Keys) -> None:
        self.store.put_many(self.keys, self.values)

    def get_array(self, _: Keys) -> None:
        self.store.get_many(self.keys, "V100")

    def close(self) -> None:
        self.store.close()


class SortedContainers:
    name = "sortedcontainers (memory)"

    def __init__(self, _: str) -> None:
        from sortedcontainers import SortedDict

        self.map = SortedDict()

    def put(self, keys: Keys) -> None:
        map = self.map
        for key in keys:
            map[key] = VALUE

    def get(self, keys: Keys) -> None:
        map = self.map
        for key in keys:
            map[key]

    def iterate(self) -> int:
        count = 0
        for _ in self.map.items():
            count += 1
        return count

    def put_many(self, keys: Keys) -> None:
        self.map.update([(key, VALUE) for key in keys])

    def close(self) -> None:
        self.map.clear()


class Lmdb:
    name = "py-lmdb"

    def __init__(self, folder: str) -> None:
        import lmdb

        self.env = lmdb.open(folder + "/lmdb", map_size=1 << 33, sync=False, writemap=True)

    def put(self, keys: Keys) -> None:
        begin = self.env.begin
        for key in keys:
            with begin(write=True) as txn:
                txn.put(key, VALUE)

    def get(self, keys: Keys) -> None:
        begin = self.env.begin
        for key in keys:
            with begin() as txn:
                txn.get(key)

    def get_in_one_transaction(self, keys: Keys) -> None:
        with self.env.begin() as txn:
            for key in keys:
                txn.get(key)

    def iterate(self) -> int:
        count = 0
        with self.env.begin() as txn:
            for _ in txn.cursor():
                count += 1
        return count

    def put_many(self, keys: Keys) -> None:
        with self.env.begin(write=True) as txn, txn.cursor() as cursor:
            cursor.putmulti([(key, VALUE) for key in keys])

    def get_many(self, keys: Keys) -> None:
        with self.env.begin() as txn, txn.cursor() as cursor:
            cursor.getmulti(keys)

    def close(self) -> None:
        self.env.close()


class LevelDb:
    name = "plyvel"

    def __init__(self, folder: str) -> None:
        import plyvel

        self.db = plyvel.DB(folder + "/leveldb", create_if_missing=True)

    def put(self, keys: Keys) -> None:
        put = self.db.put
        for key in keys:
            put(key, VALUE)

    def get(self, keys: Keys) -> None:
        get = self.db.get
        for key in keys:
            get(key)

    def iterate(self) -> int:
        count = 0
        for _ in self.db:
            count += 1
        return count

    def put_many(self, keys: Keys) -> None:
        with self.db.write_batch() as batch:
            for key in keys:
                batch.put(key, VALUE)

    def close(self) -> None:
        self.db.close()


class RocksDb:
    name = "rocksdict"

    def __init__(self, folder: str) -> None:
        import rocksdict

        self.rocksdict = rocksdict
        self.db = rocksdict.Rdict(folder + "/rocksdb", rocksdict.Options(raw_mode=True))

    def put(self, keys: Keys) -> None:
        db = self.db
        for key in keys:
            db[key] = VALUE

    def get(self, keys: Keys) -> None:
        db = self.db
        for key in keys:
            db[key]

    def iterate(self) -> int:
        count = 0
        for _ in self.db.items():
            count += 1
        return count

    def put_many(self, keys: Keys) -> None:
        batch = self.rocksdict.WriteBatch(raw_mode=True)
        for key in keys:
            batch.put(key, VALUE)
        self.db.write(batch)

    def get_many(self, keys: Keys) -> None:
        self.db[keys]

    def close(self) -> None:
        self.db.close()


class Sqlite:
    name = "sqlite3"
    statement = "insert or replace into t values (?, ?)"

    def __init__(self, folder: str) -> None:
        import sqlite3

        self.db = sqlite3.connect(folder + "/sqlite", isolation_level=None)
        self.db.execute("pragma journal_mode=wal")
        self.db.execute("pragma synchronous=off")
        self.db.execute("create table t (k blob primary key, v blob) without rowid")

    def put(self, keys: Keys) -> None:
        execute, statement = self.db.execute, self.statement
        for key in keys:
            execute(statement, (key, VALUE))

    def get(self, keys: Keys) -> None:
        execute = self.db.execute
        for key in keys:
            execute("select v from t where k = ?", (key,)).fetchone()[0]

    def iterate(self) -> int:
        count = 0
        for _ in self.db.execute("select k, v from t order by k"):
            count += 1
        return count

    def put_many(self, keys: Keys) -> None:
        self.db.execute("begin")
        self.db.executemany(self.statement, [(key, VALUE) for key in keys])
        self.db.execute("commit")

    def close(self) -> None:
        self.db.close()


class Gdbm:
    name = "dbm.gnu (no order)"

    def __init__(self, folder: str) -> None:
        import dbm.gnu

        self.db = dbm.gnu.open(folder + "/gdbm", "n")

    def put(self, keys: Keys) -> None:
        db = self.db
        for key in keys:
            db[key] = VALUE

    def get(self, keys: Keys) -> None:
        db = self.db
        for key in keys:
            db[key]

    def iterate(self) -> int:
        db, count, key = self.db, 0, self.db.firstkey()
        while key is not None:
            db[key]
            count += 1
            key = db.nextkey(key)
        return count

    def put_many(self, keys: Keys) -> None:
        self.put(keys)

    def close(self) -> None:
        self.db.close()


class Shelve:
    name = "shelve (no order)"

    def __init__(self, folder: str) -> None:
        import shelve

        self.db = shelve.open(folder + "/shelve", "n")
        # Its keys are text.
        self.texts: dict[int, list[str]] = {}

    def text(self, keys: Keys) -> list[str]:
        return self.texts.setdefault(id(keys), [key.hex() for key in keys])

    def put(self, keys: Keys) -> None:
        db = self.db
        for key in self.text(keys):
            db[key] = VALUE

    def get(self, keys: Keys) -> None:
        db = self.db
        for key in self.text(keys):
            db[key]

    def iterate(self) -> int:
        count = 0
        for _ in self.db.items():
            count += 1
        return count

    def put_many(self, keys: Keys) -> None:
        self.db.update(zip(self.text(keys), [VALUE] * len(keys)))

    def close(self) -> None:
        self.db.close()


STORES: list[Any] = [Everleaf, SortedContainers, Lmdb, LevelDb, RocksDb, Sqlite, Gdbm, Shelve]


def rate(count: int, run: Callable[[], Any]) -> float:
    """Thousands a second of the processors."""
    start = time.process_time()
    run()
    return count / (time.process_time() - start) / 1000


def measure(make: Any, keys: Keys, many: Keys, where: str | None = None) -> Figures:
    """One round of one store."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory(dir=where) as folder:
        os.mkdir(folder + "/single")
        store = make(folder + "/single")
        gc.collect()
        figures["put"] = rate(len(keys), lambda: store.put(keys))
        figures["get"] = rate(len(keys), lambda: store.get(keys))
        figures["iterate"] = rate(len(keys), lambda: check(store.iterate(), len(keys)))
        if hasattr(store, "prepare"):
            store.prepare(keys)
        for name in ("get_many", "get_array", "get_in_one_transaction"):
            if hasattr(store, name):
                figures[name] = rate(len(keys), lambda: getattr(store, name)(keys))
        store.close()
        for name in ("put_many", "put_array"):
            if hasattr(make, name):
                os.mkdir(f"{folder}/{name}")
                store = make(f"{folder}/{name}")
                if hasattr(store, "prepare"):
                    store.prepare(many)
                gc.collect()
                figures[name] = rate(len(many), lambda: getattr(store, name)(many))
                store.close()
    return figures


def check(count: int, expected: int) -> None:
    if count != expected:
        raise AssertionError(f"{count} pairs, not {expected}")


def rounds(arguments: argparse.Namespace) -> Iterator[dict[str, list[Figures]]]:
    """What is known after each round."""
    keys, many = keys_of(arguments.keys), keys_of(arguments.many)
    found: dict[str, list[Figures]] = {}
    stores = list(STORES)
    for number in range(arguments.rounds):
        for make in stores:
            try:
                figures = measure(make, keys, many, arguments.folder)
            except ImportError as error:
                print(f"{make.name} is left out: {error}", file=sys.stderr)
                continue
            found.setdefault(make.name, []).append(figures)
            shown = ", ".join(f"{name} {value:.0f}" for name, value in figures.items())
            print(f"round {number + 1}: {make.name}: {shown}", file=sys.stderr)
        stores.append(stores.pop(0))
        yield found


COLUMNS = ["put", "get", "iterate", "put_many", "get_many", "put_array", "get_array"]


def file_system(folder: str | None) -> str:
    """The type of the file system that has the folder."""
    path = os.path.realpath(folder or tempfile.gettempdir())
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    within = [mount for mount in mounts if os.path.commonpath([path, mount[1]]) == mount[1]]
    return max(within, key=lambda mount: len(mount[1]))[2]


def ratio(found: dict[str, list[Figures]], one: tuple[str, str], other: tuple[str, str]) -> str:
    """How many times as fast, by rounds."""
    each = sorted(
        a[one[1]] / b[other[1]] for a, b in zip(found[one[0]], found[other[0]])
    )
    return f"{statistics.median(each):.2f} ({each[0]:.2f} to {each[-1]:.2f})"


def table(found: dict[str, list[Figures]]) -> Iterator[str]:
    yield "| | " + " | ".join(COLUMNS) + " |"
    yield "|---|" + "---:|" * len(COLUMNS)
    for make in STORES:
        if each := found.get(make.name):
            medians = (
                f"{statistics.median(figures[name] for figures in each):.0f}" if name in each[0] else ""
                for name in COLUMNS
            )
            yield f"| {make.name} | " + " | ".join(medians) + " |"


def comparisons(found: dict[str, list[Figures]]) -> Iterator[str]:
    yield "| Everleaf's | over | times (least to greatest of the rounds) |"
    yield "|---|---|---|"
    mine, lmdb = Everleaf.name, Lmdb.name
    for other in [make.name for make in STORES[1:] if make.name in found]:
        for name in ("put", "get", "iterate", "put_many"):
            yield f"| {name} | {name} of {other} | {ratio(found, (mine, name), (other, name))} |"
    if lmdb in found:
        kept = ratio(found, (mine, "get"), (lmdb, "get_in_one_transaction"))
        yield f"| get | get of {lmdb} in one transaction that is kept, and sees nothing new | {kept} |"
    many = ratio(found, (mine, "get_many"), (mine, "get"))
    yield f"| get_many of a list | a loop of gets that keeps nothing | {many} |"


def page(found: dict[str, list[Figures]], arrays: list[ArrayTimes], arguments: argparse.Namespace) -> Iterator[str]:
    yield "# Python: Everleaf beside other stores"
    yield ""
    yield "Made by `python benchmark.py --markdown`, in `bindings/python`; not edited by hand."
    yield ""
    yield from (__doc__ or "").split("\n\n", 3)[3].strip().splitlines()
    yield ""
    where = "on a disk" if file_system(arguments.folder) != "tmpfs" else "in memory (tmpfs)"
    day = time.strftime("%d %B %Y").lstrip("0")
    yield (f"{day}. Files {where}; {arguments.keys} keys, {arguments.many} for `put_many` and `put_array`; "
           f"{len(found[Everleaf.name])} rounds; "
           f"Python {platform.python_version()}, {os.cpu_count()} processors, {platform.machine()}. `put_array` and "
           "`get_array` are `put_many` and `get_many` of NumPy arrays.")
    yield ""
    yield "Thousands a second:"
    yield ""
    yield from table(found)
    yield ""
    yield from comparisons(found)
    yield ""
    yield from array_page(arrays, arguments)


class Arrays:
    """`get_many` of an array, and loops that do the same: of a map of bytes, and of one of integers."""

    def __init__(self, folder: str, count: int) -> None:
        import numpy

        self.store = everleaf.open(folder + "/everleaf.pool")
        self.numbers = self.store.map("numbers", int, int)
        self.keys = {"bytes": numpy.array(keys_of(count), "V8"), "int": numpy.random.default_rng(7).permutation(count)}
        self.dtypes = {"bytes": "V100", "int": "i8"}
        self.store.put_many(self.keys["bytes"], numpy.full(count, VALUE, "V100"))
        self.numbers.put_many(self.keys["int"], self.keys["int"] * 7)
        self.kept = {of: (numpy.zeros(count, dtype), numpy.zeros(count, "?")) for of, dtype in self.dtypes.items()}

    def runs(self, of: str) -> dict[str, Callable[[], Any]]:
        """What is timed of a map, by its name."""
        map, keys, kept = self.store if of == "bytes" else self.numbers, self.keys[of], self.kept[of]

        def fill() -> None:
            get, (values, found) = map.get, kept
            for index, key in enumerate(keys.tolist()):
                value = get(key)
                if value is not None:
                    values[index] = value
                    found[index] = True

        def fill_by_items() -> None:
            get, (values, found) = map.get, kept
            make = bytes if of == "bytes" else int
            for index, key in enumerate(keys):
                value = get(make(key))
                if value is not None:
                    values[index] = value
                    found[index] = True

        def collect() -> list[Any]:
            get = map.get
            return [get(key) for key in keys.tolist()]

        return {
            BASE: lambda: map.get_many(keys, out=kept),
            "get_many": lambda: map.get_many(keys, self.dtypes[of]),
            LOOP: fill_by_items,
            TOLIST: fill,
            LIST: collect,
        }


# Of one number of keys: of each map, by the name of what was timed, nanoseconds for each key in each round.
ArrayTimes = dict[str, dict[str, list[float]]]
BASE = "get_many, out="


def measure_arrays(arguments: argparse.Namespace, count: int) -> ArrayTimes:
    """Nanoseconds for each key, turn by turn."""
    found: ArrayTimes = {}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        measured = Arrays(folder, count)
        for of in measured.dtypes:
            runs = measured.runs(of)
            times = found[of] = {name: [] for name in runs}
            turns, order = list(runs.items()), random.Random(7)
            for number in range(arguments.array_rounds + 1):
                # What ran before has left the caches to what comes next: none always comes behind the same one.
                order.shuffle(turns)
                for name, run in turns:
                    # As often as gives a time that can be told from none.
                    repeat = max(1, 200_000 // count) if name.startswith("get_many") else 1
                    start = time.process_time()
                    for _ in range(repeat):
                        run()
                    if number:
                        # The first round touches what the others find.
                        times[name].append((time.process_time() - start) * 1e9 / count / repeat)
        measured.store.close()
    return found


def by_base(times: dict[str, list[float]], name: str) -> str:
    """How many times as long as `get_many` with `out=` it takes: the medians, and the rounds."""
    of_medians = statistics.median(times[name]) / statistics.median(times[BASE])
    by_round = sorted(one / other for one, other in zip(times[name], times[BASE]))
    return f"{of_medians:.1f} ({by_round[0]:.1f} to {by_round[-1]:.1f})"


def print_arrays(found: ArrayTimes, arguments: argparse.Namespace) -> None:
    for of, times in found.items():
        rounds = arguments.array_rounds
        print(f"{of}, {arguments.keys} keys, {rounds} rounds: ns for each key, median (least to greatest); by {BASE}")
        for name, each in times.items():
            median = statistics.median(each)
            print(f"  {name}: {median:.0f} ({min(each):.0f} to {max(each):.0f}); {by_base(times, name)}")


# How many keys the page has them for: what the caches hold, and more.
ARRAY_KEYS = [10_000, 200_000]
KINDS = {"bytes": "8 and 100 bytes", "int": "`int`, `int`"}
LOOP, TOLIST, LIST = "loop that fills the arrays", "the same over keys.tolist()", "list of gets over keys.tolist()"


def array_page(measured: list[ArrayTimes], arguments: argparse.Namespace) -> Iterator[str]:
    yield "## `get_many` of arrays"
    yield ""
    yield (f"Nanoseconds of processor time for each key: medians of {arguments.array_rounds} rounds, in which all take "
           "turns in one process, in an order that changes. The loop is "
           "`for index, key in enumerate(keys): value = store.get(bytes(key))` (`int(key)` of integers), and puts "
           "each value and whether it was found into the arrays that `get_many` fills with `out=`; over "
           "`keys.tolist()` it makes no key. The list of gets is "
           "`[get(key) for key in keys.tolist()]`, which fills no array.")
    yield ""
    names = [BASE, "get_many", LOOP, TOLIST, LIST]
    yield "| keys and values | keys | " + " | ".join(names) + " |"
    yield "|---|---:|" + "---:|" * len(names)
    for count, found in zip(ARRAY_KEYS, measured):
        for of, times in found.items():
            medians = (f"{statistics.median(times[name]):.0f}" for name in names)
            yield f"| {KINDS[of]} | {count} | " + " | ".join(medians) + " |"
    yield ""
    yield f"By `{BASE}`, the medians (least to greatest of the rounds):"
    yield ""
    yield "| keys and values | keys | " + " | ".join(names[2:]) + " |"
    yield "|---|---:|---|---|---|"
    for count, found in zip(ARRAY_KEYS, measured):
        for of, times in found.items():
            yield f"| {KINDS[of]} | {count} | " + " | ".join(by_base(times, name) for name in names[2:]) + " |"
    yield ""
    yield from goal(measured)


GOAL = 10


def goal(measured: list[ArrayTimes]) -> Iterator[str]:
    """Which loops are not as many times as slow as is wanted, by their medians."""
    yield f"Wanted are {GOAL} times the loop, by the medians:"
    yield ""
    for name in [LOOP, TOLIST, LIST]:
        missed = [
            f"{KINDS[of]}, {count} keys ({by_base(times, name).split()[0]})"
            for count, found in zip(ARRAY_KEYS, measured) for of, times in found.items()
            if statistics.median(times[name]) < GOAL * statistics.median(times[BASE])
        ]
        yield f"- {name}: " + ("missed with " + "; ".join(missed) if missed else "reached") + "."


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--array-rounds", type=int, default=21, help="rounds of get_many of arrays, which are short")
    parser.add_argument("--folder", help="where the files are made (default: where temporary files are)")
    parser.add_argument("--markdown", metavar="FILE", help="write the page of results there")
    parser.add_argument("--arrays", action="store_true", help="only get_many of arrays, beside loops that do the same")
    arguments = parser.parse_args()
    if arguments.arrays:
        print_arrays(measure_arrays(arguments, arguments.keys), arguments)
        return
    # First, in a process that has done nothing else.
    arrays = [measure_arrays(arguments, count) for count in ARRAY_KEYS]
    lines: list[str] = []
    for found in rounds(arguments):
        lines = list(page(found, arrays, arguments))
        if arguments.markdown:
            Path(arguments.markdown).write_text("\n".join(lines) + "\n")
    print("\n".join(lines[lines.index("Thousands a second:"):]))


if __name__ == "__main__":
    main()
