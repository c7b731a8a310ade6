//! How high the list is, and sizes for tests.

use crate::node::variant::{Named, variants};

/// A configuration of the list.
pub trait Variant: Named {
    /// Levels, [`LEVEL_COUNT_MAX`] at most.
    const LEVEL_COUNT: usize;
    /// Binary logarithm of how many nodes of a level have one on the next level.
    const BRANCHING_SHIFT: u32;
}

/// The most levels that a list can have.
pub const LEVEL_COUNT_MAX: usize = 12;

variants! {
    /// As published: 12 levels, and every fourth node of a level is on the next one.
    Standard "p-skiplist" 0x98 Variant {
        const LEVEL_COUNT: usize = 12;
        const BRANCHING_SHIFT: u32 = 2;
    }
    /// Few levels, and half of the nodes of a level on the next one: for tests.
    Small<LEVELS: usize = 2> "p-skiplist-small" 0x99 Variant {
        const LEVEL_COUNT: usize = LEVELS;
        const BRANCHING_SHIFT: u32 = 1;
    }
}
