"""What is done with the files of stores that nobody has open, and what a store says of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal, Optional

from ._everleaf import compact as _compact
from ._everleaf import repair as _repair
from ._everleaf import upgrade as _upgrade


@dataclass(frozen=True)
class Rebuilt:
    """What a pool was made from when it was opened, because it was missing or could not be used."""

    snapshot_pairs: int
    """Pairs from the snapshot."""
    replayed: int
    """Writes and batches that were replayed from the log."""
    skipped: list[str]
    """Why newer snapshots were passed over."""
    damages: list[str]
    """What was damaged in the log, if it was salvaged: what was logged behind the first of it is lost."""
    kept: Optional[os.PathLike[str]] = None
    """Where the file is that was replaced, if it may be another pool, or have what the log has not. Nothing removes it but a
    later one of the same pool, which takes its place."""


@dataclass(frozen=True)
class Repaired:
    """What a repair kept and what it had to drop."""

    kept: int
    """Pairs that were kept."""
    doubtful: int
    """Of these, pairs that may be old states of their keys."""
    maps: list[str]
    """Names of maps that were kept; one whose name was lost is called `lost-` and a number."""
    lost: list[str]
    """Of each map whose name was lost a sentence that says what it may be."""
    is_complete: bool
    """Whether the pool was closed cleanly, so that what is missing is told in `dropped`. If not, pairs may be missing that
    nothing tells of."""
    dropped: list[str]
    """What could not be proven, and what else was damaged: a sentence each."""


def repair(damaged: str | os.PathLike[str], path: str | os.PathLike[str]) -> Repaired:
    """Reads a damaged pool, which stays as it is and nobody has open, and writes all that can be proven of it to a new pool.
    A pool that only was not closed needs no repair: open it.

    >>> import everleaf, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with everleaf.open(folder + "/a.pool") as store:
    ...     store[b"oak"] = b"Quercus"
    >>> everleaf.repair(folder + "/a.pool", folder + "/b.pool").kept
    1
    """
    return Repaired(**_repair(damaged, path))


def compact(
    path: str | os.PathLike[str],
    *,
    tree: Optional[Literal["nbtree", "hashed-leaf"]] = None,
    trust_after_machine_crash: bool = False,
    salvage_log: bool = False,
) -> int:
    """Writes a pool that nobody has open anew, as small as it can be, in its place; returns its bytes. With `tree` its maps
    are then in that one. If it is cut short, the old pool is there."""
    return _compact(
        path, tree=tree, trust_after_machine_crash=trust_after_machine_crash, salvage_log=salvage_log
    )


def upgrade(path: str | os.PathLike[str]) -> list[str]:
    """Lets a pool have everything that this version can do, after which older versions refuse it. Returns what was new."""
    return _upgrade(path)
