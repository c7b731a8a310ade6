"""Stores: named maps in one file."""

from __future__ import annotations

import html
import os
from typing import Any, Literal, Optional

from . import codecs
from ._everleaf import RawStore
from ._chart import Chart
from ._map import Batch, Map

Durability = Literal["process", "interval", "power"]
_DEFAULT = "default"


class Store(Map[Any, Any]):
    """An open store. It is its default map, and has further maps by name."""

    def __init__(
        self, store: RawStore, name: str, keys: Any, values: Any, path: Optional[str] = None
    ) -> None:
        super().__init__(store, name, keys, values)
        self._path = path

    def __repr__(self) -> str:
        if self.closed:
            return f"<everleaf.Store {self._path!r}, closed>"
        return f"<everleaf.Store {self._path!r}, {len(self)} keys, maps {self.map_names()}>"

    def _repr_html_(self) -> str:
        """For notebooks: the numbers of the store as a table."""
        if self.closed:
            return f"<p>{html.escape(repr(self))}</p>"
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(number))}</td></tr>"
            for name, number in self.stat().items()
        )
        return f"<table><caption>{html.escape(repr(self))}</caption>{rows}</table>"

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._store.is_closed()

    def map(self, name: str, keys: Any = bytes, values: Any = bytes) -> Map[Any, Any]:
        """The map of this name, made if it is missing. `keys` is bytes, str, int, float or a codec;
        `values` also "json". The types are not kept in the store: ask with the same ones."""
        return Map(self._store, name, codecs.find(keys), codecs.find(values))

    def map_names(self) -> list[str]:
        """The names of all maps."""
        return self._store.map_names()

    def drop_map(self, name: str) -> bool:
        """Removes a map with everything in it; says whether there was one."""
        return self._store.drop_map(name)

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
        """Makes everything durable that can be read now."""
        self._store.sync()

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
        them. Views, iterators, and batches that were begun without `with` keep the file open while they are held."""
        self._store.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open(
    path: str | os.PathLike[str],
    *,
    create: bool = True,
    read_only: bool = False,
    keys: Any = bytes,
    values: Any = bytes,
    durability: Optional[Durability] = None,
    interval_ms: int = 1000,
    max_size: Optional[int] = None,
    trust_after_machine_crash: bool = False,
    verify_reads: bool = False,
    view_memory: int = 0,
) -> Store:
    """Opens the pool at a path, and creates it if it is missing.

    `keys` and `values` are the types of the default map: bytes, str, int, float, or a codec; values also
    "json". `durability`: what is written survives the death of the process ("process"), a crash of the
    machine but for the last `interval_ms` ("interval"; after a kill, but for all since the opening until the
    log has a new snapshot), or any crash ("power"). A forked process cannot use a store that it inherits
    (`Forked`): open one after forking.
    """
    raw = RawStore(
        path,
        create=create and not read_only,
        read_only=read_only,
        max_size=max_size,
        durability_name=durability,
        interval_ms=interval_ms,
        trust_after_machine_crash=trust_after_machine_crash,
        verify_reads=verify_reads,
        view_memory=view_memory,
    )
    return Store(raw, _DEFAULT, codecs.find(keys), codecs.find(values), os.fspath(path))
