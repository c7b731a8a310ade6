//! How large nodes are, and how many descriptors there are.

use crate::node::variant::{Named, variants};

/// A configuration of the tree.
pub trait Variant: Named {
    /// Pairs of a leaf, at least 2 and at most [`SLOT_COUNT_MAX`].
    const SLOT_COUNT: usize;
    /// Children of an inner node, at least 3.
    const CHILD_COUNT: usize;
    /// Descriptors.
    const DESCRIPTOR_COUNT: usize;
    /// Words of an entry of a descriptor: 3, or more that are not used.
    const ENTRY_WORDS: usize;
}

/// The most pairs that a leaf can have: a word says which of them are reserved.
pub const SLOT_COUNT_MAX: usize = 64;

variants! {
    /// Nodes of 1 KiB, as in the comparison of the NBTree paper, and descriptors of 256 bytes, as published.
    Standard "bztree" 0xA8 Variant {
        const SLOT_COUNT: usize = 42;
        const CHILD_COUNT: usize = 63;
        const DESCRIPTOR_COUNT: usize = 1024;
        const ENTRY_WORDS: usize = 7;
    }
    /// The same with descriptors of 128 bytes, without what the published ones have for managing memory.
    Compact "bztree-compact" 0xA9 Variant {
        const SLOT_COUNT: usize = 42;
        const CHILD_COUNT: usize = 63;
        const DESCRIPTOR_COUNT: usize = 1024;
        const ENTRY_WORDS: usize = 3;
    }
    /// Small nodes, and few descriptors: for tests.
    Small<SLOTS: usize = 2, DESCRIPTORS: usize = 16> "bztree-small" 0xAA Variant {
        const SLOT_COUNT: usize = SLOTS;
        const CHILD_COUNT: usize = 3;
        const DESCRIPTOR_COUNT: usize = DESCRIPTORS;
        const ENTRY_WORDS: usize = 3;
    }
}
