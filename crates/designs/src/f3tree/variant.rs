//! How many future objects a tree may have, and whether its writes look before they store.

use super::layout::entries_max;
use crate::fast_fair::variant as fast_fair;
use crate::node::variant::{Named, variants};

/// A configuration of the tree.
pub trait Variant: Named {
    /// The nodes of the global tree.
    type Global: fast_fair::Variant;
    /// Future objects of all fronts together, at least one of each. When they are full, writers evaluate
    /// before they go on.
    const OBJECTS_MAX: usize;
    /// Bytes of a future object: a line, and 32 for each entry.
    const OBJECT_SIZE: usize = 512;
    /// Entries of a future object that are used.
    const ENTRIES: usize = entries_max(Self::OBJECT_SIZE);
    /// Lists of future objects: sessions share them by their number.
    const FRONTS: usize = 16;
    /// Parts of the table of pending keys, each with a lock, and each evaluated by one thread at a time.
    const SHARDS: usize = 32;
    /// Keys that differ in so many low bits only are in one part: those that may become a leaf together.
    const SHARD_SHIFT: u32 = if Self::RUN_MIN.is_some() { 10 } else { 0 };
    /// Whether insert, update, upsert and remove store without looking, as published.
    const BLIND: bool = false;
    /// The node-based form: so many pending keys and more, between two neighbours of the global tree,
    /// become a leaf of it in one step. `None` is the key-based form.
    const RUN_MIN: Option<usize> = None;
}

/// As many keys as a future object has.
const OBJECT: Option<usize> = Some(14);

/// Entries of 500 objects of 14: as many as objects of other sizes have together.
const ALL_ENTRIES: usize = 500 * 14;

variants! {
    /// 500 future objects.
    Objects500 "f3-tree" 64 Variant {
        type Global = fast_fair::Standard;
        const OBJECTS_MAX: usize = 500;
    }
    /// 100 future objects.
    Objects100 "f3-tree-100" 65 Variant {
        type Global = fast_fair::Standard;
        const OBJECTS_MAX: usize = 100;
    }
    /// 1000 future objects.
    Objects1000 "f3-tree-1000" 66 Variant {
        type Global = fast_fair::Standard;
        const OBJECTS_MAX: usize = 1000;
    }
    /// As many future objects as the pool has room for.
    Unlimited "f3-tree-unlimited" 67 Variant {
        type Global = fast_fair::Standard;
        const OBJECTS_MAX: usize = usize::MAX;
    }
    /// 500 future objects; writes do not look at what is there.
    Blind "f3-tree-blind" 68 Variant {
        type Global = fast_fair::Standard;
        const OBJECTS_MAX: usize = 500;
        const BLIND: bool = true;
    }
    /// Future objects of 6 entries, with as many entries in all as 500 of 14 have.
    Entries6 "f3-tree-entries-6" 74 Variant {
        type Global = fast_fair::Standard;
        const OBJECT_SIZE: usize = 256;
        const OBJECTS_MAX: usize = ALL_ENTRIES / 6;
    }
    /// The same of 30.
    Entries30 "f3-tree-entries-30" 75 Variant {
        type Global = fast_fair::Standard;
        const OBJECT_SIZE: usize = 1024;
        const OBJECTS_MAX: usize = ALL_ENTRIES / 30;
    }
    /// The same of 62.
    Entries62 "f3-tree-entries-62" 76 Variant {
        type Global = fast_fair::Standard;
        const OBJECT_SIZE: usize = 2048;
        const OBJECTS_MAX: usize = ALL_ENTRIES / 62;
    }
    /// 500 future objects, node-based.
    Nodes500 "f3-tree-nodes" 70 Variant {
        type Global = fast_fair::Standard;
        const OBJECTS_MAX: usize = 500;
        const RUN_MIN: Option<usize> = OBJECT;
    }
    /// 100 future objects, node-based.
    Nodes100 "f3-tree-nodes-100" 71 Variant {
        type Global = fast_fair::Standard;
        const OBJECTS_MAX: usize = 100;
        const RUN_MIN: Option<usize> = OBJECT;
    }
    /// 1000 future objects, node-based.
    Nodes1000 "f3-tree-nodes-1000" 72 Variant {
        type Global = fast_fair::Standard;
        const OBJECTS_MAX: usize = 1000;
        const RUN_MIN: Option<usize> = OBJECT;
    }
    /// As many future objects as the pool has room for, node-based.
    NodesUnlimited "f3-tree-nodes-unlimited" 73 Variant {
        type Global = fast_fair::Standard;
        const OBJECTS_MAX: usize = usize::MAX;
        const RUN_MIN: Option<usize> = OBJECT;
    }
    /// A few entries, objects and records a node: for tests. `LOOKS` is 0 for writes that do not look;
    /// `RUN` keys are a leaf, or 0 in the key-based form.
    Small<ENTRIES: usize = 2, OBJECTS: usize = 2, LOOKS: u8 = 1, RUN: usize = 0> "f3-tree-small" 69 Variant {
        type Global = fast_fair::Small<3>;
        const OBJECTS_MAX: usize = OBJECTS;
        const ENTRIES: usize = ENTRIES;
        const FRONTS: usize = 2;
        const SHARDS: usize = 2;
        const SHARD_SHIFT: u32 = if RUN == 0 { 0 } else { 3 };
        const BLIND: bool = LOOKS == 0;
        const RUN_MIN: Option<usize> = if RUN == 0 { None } else { Some(RUN) };
    }
}
