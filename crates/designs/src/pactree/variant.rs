//! How far the search layer may be behind, and sizes for tests.

use crate::node::variant::{Named, variants};

/// A configuration of the tree.
pub trait Variant: Named {
    /// Pairs that a data node may have, up to 64.
    const CAPACITY: usize;
    /// Structure changes that may be on their way to the search layer, 2 at least.
    const LOG_LENGTH: usize;
    /// Structure changes that writers leave to later ones, below `LOG_LENGTH`.
    const LAG: usize;
}

variants! {
    /// As published: 64 pairs.
    Standard "pactree" 0x78 Variant {
        const CAPACITY: usize = 64;
        const LOG_LENGTH: usize = 64;
        const LAG: usize = 8;
    }
    /// A few pairs a node, and a short log: for tests.
    Small<PAIRS: usize = 2, LAG: usize = 1> "pactree-small" 0x79 Variant {
        const CAPACITY: usize = PAIRS;
        const LOG_LENGTH: usize = LAG + 2;
        const LAG: usize = LAG;
    }
}
