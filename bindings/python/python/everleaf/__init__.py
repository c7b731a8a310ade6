"""An embedded ordered key-value store that survives the death of the process.

>>> import everleaf, tempfile, os
>>> path = os.path.join(tempfile.mkdtemp(), "trees.pool")
>>> with everleaf.open(path) as store:
...     store[b"oak"] = b"Quercus"
...     store[b"ash"] = b"Fraxinus"
...     list(store.items())
[(b'ash', b'Fraxinus'), (b'oak', b'Quercus')]
"""

from __future__ import annotations

from . import codecs
from ._everleaf import (
    AlreadyExists,
    Closed,
    Corrupt,
    Error,
    Forked,
    Full,
    Locked,
    MachineCrashed,
    MapDropped,
    NotAPool,
    NotFound,
    PoolGone,
    ReadOnly,
    ViewLost,
    __version__,
    restore,
)
from ._files import Rebuilt, Repaired, compact, repair, upgrade
from ._map import Batch, Map, Refused, View, Watch
from ._store import Store, open

__all__ = [
    "AlreadyExists", "Batch", "Closed", "Corrupt", "Error", "Forked", "Full", "Locked", "MachineCrashed", "Map", "MapDropped",
    "NotAPool", "NotFound", "PoolGone", "ReadOnly", "Rebuilt", "Refused", "Repaired", "Store", "View", "ViewLost", "Watch",
    "__version__", "codecs", "compact", "open", "repair", "restore", "upgrade",
]
