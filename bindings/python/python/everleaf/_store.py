"""Stores: named maps in one file."""

from __future__ import annotations

import os
from typing import Any, Literal, Optional

from . import codecs
from ._everleaf import RawStore
from ._map import Batch, Handle, Map

Durability = Literal["process", "interval", "power"]
_DEFAULT = "default"


class Store(Map[Any, Any]):
    """An open store. It is its default map, and has further maps by name."""

    def __init__(self, raw: RawStore, path: str, keys: Any, values: Any) -> None:
        found = raw.map(_DEFAULT, False)
        assert found is not None, "every store has a default map"
        super().__init__(Handle(raw), found, _DEFAULT, codecs.find(keys), codecs.find(values))
        self._handle, self._path = raw, path

    def __repr__(self) -> str:
        if self.closed:
            return f"<everleaf.Store {self._path!r}, closed>"
        return f"<everleaf.Store {self._path!r}, {len(self)} keys, maps {self.map_names()}>"

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._handle.is_closed()

    def map(self, name: str, keys: Any = bytes, values: Any = bytes) -> Map[Any, Any]:
        """The map of this name, made if it is missing. `keys` is bytes, str, int, float or a codec;
        `values` also "json". The types are not kept in the store: ask with the same ones."""
        found = self._handle.map(name, True)
        assert found is not None, "it was made"
        return Map(self._store, found, name, codecs.find(keys), codecs.find(values))

    def map_names(self) -> list[str]:
        """The names of all maps."""
        return self._handle.map_names()

    def drop_map(self, name: str) -> bool:
        """Removes a map with everything in it; says whether there was one."""
        return self._handle.drop_map(name)

    def batch(self) -> Batch:
        """Changes of any maps, done as one when the `with` block ends without an exception.

        >>> with store.batch() as batch:                               # doctest: +SKIP
        ...     batch.put(accounts, "ann", 60).put(accounts, "bob", 40)
        """
        return Batch(self._store)

    def sync(self) -> None:
        """Makes everything durable that can be read now."""
        self._handle.sync()

    def backup(self, path: str | os.PathLike[str]) -> int:
        """Copies the store to a new pool, while it goes on being used. Returns the number of pairs."""
        return self._handle.backup(path)

    def check(self) -> list[str]:
        """What is wrong in the pool; an empty list is good."""
        return self._handle.check()

    def stat(self) -> dict[str, Any]:
        """Numbers about the store."""
        return self._handle.statistics()

    def close(self) -> None:
        """Closes the store and its maps. Views and iterators keep the file open while they are held."""
        self._handle.close()

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
    return Store(raw, os.fspath(path), keys, values)
