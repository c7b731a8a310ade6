//! How many future objects a tree may have, and whether its writes look before they store.

use crate::fast_fair::variant as fast_fair;
use crate::node::variant::{Named, variants};

/// A configuration of the tree.
pub trait Variant: Named {
    /// The nodes of the global tree.
    type Global: fast_fair::Variant;
    /// Future objects of all fronts together, at least one of each. When they are full, writers evaluate
    /// before they go on.
    const OBJECTS_MAX: usize;
    /// Entries of a future object that are used, 1..=14.
    const ENTRIES: usize = 14;
    /// Lists of future objects: sessions share them by their number.
    const FRONTS: usize = 16;
    /// Parts of the table of pending keys, each with a lock.
    const SHARDS: usize = 32;
    /// Whether insert, update, upsert and remove store without looking, as published.
    const BLIND: bool = false;
    /// The node-based form: so many pending keys and more, between two neighbours of the global tree,
    /// become a leaf of it in one step. `None` is the key-based form.
    const RUN_MIN: Option<usize> = None;
}

/// As many keys as a future object has.
const OBJECT: Option<usize> = Some(14);

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
        const BLIND: bool = LOOKS == 0;
        const RUN_MIN: Option<usize> = if RUN == 0 { None } else { Some(RUN) };
    }
}
