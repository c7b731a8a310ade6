//! The paper's variants of the tree, as types.

use crate::node::variant::{Named, variants};

/// How much a tree uses of what it has for leaves that come from another allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaUse {
    /// Areas, which sessions share.
    pub areas: usize,
    /// Entries of an area's log.
    pub entries: usize,
    /// Places of an area's ring.
    pub places: usize,
}

impl AreaUse {
    /// All there is.
    pub const ALL: AreaUse = AreaUse { areas: 8, entries: 4, places: 16 };
    /// So little that threads wait for each other's entries, and rings are full: to be proven.
    pub const LITTLE: AreaUse = AreaUse { areas: 1, entries: 1, places: 2 };
}

/// A configuration of the tree.
pub trait Variant: Named {
    /// Whether a writer locks its leaf.
    const WRITERS_LOCK: bool = false;
    /// Whether a reader locks its leaf too. Only with [`Self::WRITERS_LOCK`].
    const READERS_LOCK: bool = false;
    /// Whether a leaf's metadata lie in the pool, beside its entries.
    const COUPLED: bool = false;
    /// The [allocator](crate::allocators) that a new tree's leaves come from, and how many there can be;
    /// none is Calloc.
    const ALLOCATOR: Option<(&'static str, usize)> = None;
    /// How much is used of what is there for leaves of another allocator than Calloc.
    const AREA_USE: AreaUse = AreaUse::ALL;
}

variants! {
    /// The tree of the paper: nobody locks a leaf. **Loses writes** when several threads use it.
    LockFree "nbtree-published" 0x50 Variant {}
    /// The paper's NBTree-W: writers lock their leaf, readers do not.
    WriteLocks "nbtree-w" 0x51 Variant { const WRITERS_LOCK: bool = true; }
    /// The paper's NBTree-WR: writers and readers lock their leaf.
    AllLocks "nbtree-wr" 0x52 Variant {
        const WRITERS_LOCK: bool = true;
        const READERS_LOCK: bool = true;
    }
    /// The paper's coupled leaf: as [`LockFree`], with the metadata in the pool.
    Coupled "nbtree-coupled" 0x53 Variant { const COUPLED: bool = true; }
    /// [`AllLocks`] on few blocks of [`PmdkLike`](crate::allocators::PmdkLike): to be proven.
    LockedOnPmdk "nbtree-wr-pmdk" 0x54 Variant {
        const WRITERS_LOCK: bool = true;
        const READERS_LOCK: bool = true;
        const ALLOCATOR: Option<(&'static str, usize)> = Some(("pmdk-like", 20));
    }
    /// The same on [`NvmMallocLike`](crate::allocators::NvmMallocLike), which uses little of its areas.
    LockedOnNvmMalloc "nbtree-wr-nvm-malloc" 0x55 Variant {
        const WRITERS_LOCK: bool = true;
        const READERS_LOCK: bool = true;
        const ALLOCATOR: Option<(&'static str, usize)> = Some(("nvm-malloc-like", 20));
        const AREA_USE: AreaUse = AreaUse::LITTLE;
    }
    /// The same on [`NvAllocLike`](crate::allocators::NvAllocLike), which uses little of its areas.
    LockedOnNvAlloc "nbtree-wr-nvalloc" 0x56 Variant {
        const WRITERS_LOCK: bool = true;
        const READERS_LOCK: bool = true;
        const ALLOCATOR: Option<(&'static str, usize)> = Some(("nvalloc-like", 20));
        const AREA_USE: AreaUse = AreaUse::LITTLE;
    }
    /// The same on [`Everleaf`](crate::allocators::Everleaf).
    LockedOnEverleaf "nbtree-wr-everleaf" 0x57 Variant {
        const WRITERS_LOCK: bool = true;
        const READERS_LOCK: bool = true;
        const ALLOCATOR: Option<(&'static str, usize)> = Some(("everleaf", 20));
    }
    /// The same on [`Calloc`](crate::allocators::Calloc), which is not the one inside the tree.
    LockedOnCalloc "nbtree-wr-calloc" 0x58 Variant {
        const WRITERS_LOCK: bool = true;
        const READERS_LOCK: bool = true;
        const ALLOCATOR: Option<(&'static str, usize)> = Some(("calloc", 20));
    }
}
