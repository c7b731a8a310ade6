"""Stores: named maps in one file."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable
from typing import Any, Literal, Optional

from . import codecs
from ._everleaf import Error, RawStore
from ._chart import Chart
from ._files import Rebuilt
from ._map import Batch, Map, _shown

Durability = Literal["process", "interval", "power"]
Domain = Literal["adr", "eadr", "process"]
Tree = Literal["nbtree", "hashed-leaf"]
_DEFAULT = "default"


class Store(Map[Any, Any]):
    """An open store. It is its default map, and has further maps by name."""

    def __init__(
        self, store: RawStore, name: str, keys: Any, values: Any, path: Optional[str] = None
    ) -> None:
        super().__init__(store, name, keys, values)
        self._path = path

    def __repr__(self) -> str:
        shown = _shown(self._store, lambda: f"{len(self)} keys, maps {self.map_names()}")
        return f"<everleaf.Store {self._path!r}, {shown}>"

    def _repr_html_(self) -> str:
        """For notebooks: the numbers of the store as a table."""
        try:
            numbers = self.stat()
        except Error:
            return f"<p>{html.escape(repr(self))}</p>"
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(number))}</td></tr>" for name, number in numbers.items()
        )
        return f"<table><caption>{html.escape(repr(self))}</caption>{rows}</table>"

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._store.is_closed()

    def map(self, name: str, keys: Any = bytes, values: Any = bytes) -> Map[Any, Any]:
        """The map of this name, made if it is missing. `keys` is bytes, str, int, float or a codec;
        `values` also "json". The types are not kept in the store: ask with the same ones."""
        return Map(self._store, name, codecs.find_of_keys(keys), codecs.find(values))

    def map_names(self) -> list[str]:
        """The names of all maps."""
        return self._store.map_names()

    def drop_map(self, name: str) -> bool:
        """Removes a map with everything in it; says whether there was one."""
        return self._store.drop_map(name)

    def load_map(self, name: str, pairs: Iterable[tuple[Any, Any]], keys: Any = bytes, values: Any = bytes) -> Map[Any, Any]:
        """Makes a new map of pairs whose keys ascend, as one change: several times as fast as putting them, and its
        leaves are full. The bytes of all pairs are collected in memory first. With a log the map is written in batches,
        and a crash may leave a part of it. An error, and no map, if keys do not ascend or there is a map of that name."""
        self._store.load(name, codecs.find_of_keys(keys), codecs.find(values), pairs)
        return self.map(name, keys, values)

    def batch(self) -> Batch:
        """Changes of any maps, done as one when the `with` block ends without an exception.

        >>> import everleaf, tempfile
        >>> with everleaf.open(tempfile.mkdtemp() + "/bank.pool", keys=str, values=int) as store:
        ...     with store.batch() as batch:
        ...         _ = batch.put(store, "ann", 60).put(store, "bob", 40)
        ...     dict(store)
        {'ann': 60, 'bob': 40}
        """
        return Batch(self._store)

    def sync(self) -> None:
        """Of a store with a log (durability "interval" or "power"): makes durable all that can be read now. Without one
        ("process", the default) it makes nothing durable, and only looks for the pool's file (`PoolGone`)."""
        self._store.sync()

    def defer_sync(self) -> None:
        """Lets writes of the calling thread return before they are durable, from now on: nobody may be told of them before
        `wait_deferred` has returned. Many writes so share one sync of a store whose durability is "power". With asyncio, where a
        call is in any thread, use `everleaf.aio.deferred`."""
        self._store.defer_sync()

    def wait_deferred(self) -> None:
        """Waits until all writes of the calling thread are durable, after `defer_sync`."""
        self._store.wait_deferred()

    def snapshot(self) -> int:
        """Writes a snapshot of a store with a log, which shortens the log, while it goes on being used. Returns the number
        of pairs. Happens by itself, too (`snapshot_after` of `everleaf.open`)."""
        return self._store.snapshot()

    def save(self) -> int:
        """As `snapshot`, or without a log a backup beside the pool, with `.backup` behind its name, in place of the last
        one. Returns the number of pairs."""
        return self._store.save()

    def return_space(self) -> int:
        """Returns the disk space of what is free to the file system; how many bytes. Happens by itself, too."""
        return self._store.return_space()

    def put_aside_files(self) -> list[str]:
        """Files of the log that were found damaged, or belong to what a log has lost.

        Keep `damaged-log-..` until what was acknowledged behind the damage is not missed: it may be nowhere else.
        Nothing needs the others.
        """
        return [os.fspath(path) for path in self._store.put_aside_files()]

    @property
    def rebuilt(self) -> Optional[Rebuilt]:
        """What the pool was made from when it was opened; None: it was as it was left."""
        found = self._store.rebuilt()
        return None if found is None else Rebuilt(**found)

    @property
    def read_only(self) -> bool:
        """Whether it was opened read-only."""
        return self._store.is_read_only()

    @property
    def rollback_count(self) -> int:
        """How often a batch was rolled back for want of space since the store was opened; see `Batch.expect_no_rollback`."""
        return self._store.rollback_count()

    @property
    def log_failed(self) -> bool:
        """Whether its log has failed: then every write is refused until it is opened anew."""
        return self._store.has_log_failed()

    @property
    def pool_gone(self) -> bool:
        """Whether the file of its pool was removed, or another lies in its place, so that every write is refused
        (`PoolGone`); never where there is a log. What there is can be saved (`save`, `backup`)."""
        return self._store.is_pool_gone()

    def events(self) -> list[str]:
        """What the store did by itself since this was called last, a line for each: snapshots in the background and their
        failures, a log that failed, its closing. Of more than 1000 lines the first are lost. Also of a closed store."""
        return self._store.events()

    def backup(self, path: str | os.PathLike[str]) -> int:
        """Copies the store to a new pool, while it goes on being used. Returns the number of pairs."""
        return self._store.backup(path)

    def check(self) -> list[str]:
        """What is wrong in the pool; an empty list is good."""
        return self._store.check()

    def stat(self) -> dict[str, Any]:
        """Numbers about the store."""
        return self._store.statistics()

    def plot(self) -> Chart:
        """Where the bytes of the pool are, and what was done, as a picture: notebooks show it, and
        `plot().svg` is its text. It needs no other package."""
        return Chart(repr(self), self.stat())

    def close(self) -> None:
        """Closes the store and its maps. A call of another thread ends first; one with many keys, between two blocks of
        them. Views, watches, iterators, and batches that were begun without `with` keep the file open while they are held:
        then a `ResourceWarning` says so (Python shows it with `-X dev`), and until they are gone the pool is `Locked` for
        every other opening."""
        self._store.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open(
    path: str | os.PathLike[str],
    *,
    create: bool = True,
    create_new: bool = False,
    read_only: bool = False,
    keys: Any = bytes,
    values: Any = bytes,
    durability: Optional[Durability] = None,
    durability_of_new: Optional[Durability] = None,
    interval_ms: int = 1000,
    initial_size: Optional[int] = None,
    max_size: Optional[int] = None,
    trust_after_machine_crash: bool = False,
    salvage_log: bool = False,
    verify_reads: bool = False,
    verify_scans: bool = True,
    view_memory: int = 0,
    snapshot_after: Optional[int] = None,
    sweep: bool = True,
    recovery_threads: int = 0,
    tree: Optional[Tree] = None,
    domain: Optional[Domain] = None,
) -> Store:
    """Opens the pool at a path, and creates it if it is missing; with `create_new` it is an error if it is there.

    `keys` and `values` are the types of the default map: bytes, str, int, float, or a codec; values also
    "json". `durability`: what is written survives the death of the process ("process"), a crash of the
    machine but for the last `interval_ms` ("interval"; after a kill, but for all since the opening until the
    log has a new snapshot), or any crash ("power"); `durability_of_new` is that of a pool that is created, where one that is
    there keeps its own. A forked process cannot use a store that it inherits
    (`Forked`): open one after forking.

    After damage: `trust_after_machine_crash` opens a pool without a log although the machine crashed while it was open
    (then `check` it); `salvage_log` goes on with what can be proven of a damaged log, and `Store.rebuilt` says what that is.
    `verify_reads` compares the check sums of what is got, `verify_scans` those of what is iterated over.

    `snapshot_after` are bytes in the log after which a snapshot is written; `view_memory` bytes of old values that views may
    keep (0: any); `sweep` removes in the background what has expired, which `len` counts until then; `recovery_threads` 0 is one for each processor. A new
    pool has `initial_size` bytes, may grow to `max_size`, and keeps its maps in a `tree`: "nbtree" or "hashed-leaf".
    `domain` says what a write must reach to survive, and is detected if it is not said.
    """
    # Before anything is opened, or made.
    of_keys, of_values = codecs.find_of_keys(keys), codecs.find(values)
    raw = RawStore(
        path,
        create=create and not (create_new or read_only),
        create_new=create_new,
        read_only=read_only,
        durability=durability,
        durability_of_new=durability_of_new,
        interval_ms=interval_ms,
        initial_size=initial_size,
        max_size=max_size,
        trust_after_machine_crash=trust_after_machine_crash,
        salvage_log=salvage_log,
        verify_reads=verify_reads,
        verify_scans=verify_scans,
        view_memory=view_memory,
        snapshot_after=snapshot_after,
        sweep=sweep,
        recovery_threads=recovery_threads,
        tree=tree,
        domain=domain,
    )
    try:
        return Store(raw, _DEFAULT, of_keys, of_values, os.fspath(path))
    except BaseException:
        # What keeps the exception, as notebooks do, keeps what it was raised in.
        raw.close()
        raise
