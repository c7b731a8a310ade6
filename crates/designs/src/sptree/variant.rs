//! The variants, as types.

use everleaf_index::Geometry;
use everleaf_machine::Machine;

use super::top::TopIndex;
use crate::node::art::Art;
use crate::node::inner::InnerTree;
use crate::node::variant::{Named, variants};

/// A configuration of the tree.
pub trait Variant: Named {
    /// What leads from a key to its leaf.
    type Top<G: Geometry, M: Machine>: TopIndex<M>;
    /// Whether a filter says which keys a leaf does not have.
    const FILTER: bool = true;
    /// Whether writes are gathered in buffers, with a log.
    const BUFFERED: bool = false;
    /// Whether what is in buffers is in a log too. If not, a crash takes it back.
    const LOGGED: bool = true;
    /// Whether the records of a buffer are linked, so that it can be restored by itself when its leaf is touched.
    /// If not, opening replays the whole log.
    const LINKED: bool = true;
    /// Whether the heads of buffers are written to the pool now and then, so that opening reads them and the records
    /// behind them only. If not, it reads all records of the logs.
    const CHECKPOINTED: bool = false;
}

variants! {
    /// Every write goes to its leaf.
    Unbuffered "sptree" 0x60 Variant { type Top<G: Geometry, M: Machine> = InnerTree<G, M>; }
    /// As [`Unbuffered`], without filters.
    Unfiltered "sptree-unfiltered" 0x61 Variant {
        type Top<G: Geometry, M: Machine> = InnerTree<G, M>;
        const FILTER: bool = false;
    }
    /// Writes are gathered in buffers, whose log is linked: buffers are restored when they are touched.
    Buffered "sptree-buffered" 0x62 Variant {
        type Top<G: Geometry, M: Machine> = InnerTree<G, M>;
        const BUFFERED: bool = true;
    }
    /// As [`Buffered`], with checkpoints of the heads of buffers: opening reads the last one and what the logs have
    /// behind it.
    Checkpointed "sptree-checkpointed" 0x6A Variant {
        type Top<G: Geometry, M: Machine> = InnerTree<G, M>;
        const BUFFERED: bool = true;
        const CHECKPOINTED: bool = true;
    }
    /// As [`Buffered`], with a plain log: its records have no links, and opening replays all of it.
    Plain "sptree-plain" 0x63 Variant {
        type Top<G: Geometry, M: Machine> = InnerTree<G, M>;
        const BUFFERED: bool = true;
        const LINKED: bool = false;
    }
    /// As [`Plain`], without filters.
    PlainUnfiltered "sptree-plain-unfiltered" 0x66 Variant {
        type Top<G: Geometry, M: Machine> = InnerTree<G, M>;
        const BUFFERED: bool = true;
        const LINKED: bool = false;
        const FILTER: bool = false;
    }
    /// As [`Buffered`], without a log.
    Unlogged "sptree-unlogged" 0x65 Variant {
        type Top<G: Geometry, M: Machine> = InnerTree<G, M>;
        const BUFFERED: bool = true;
        const LOGGED: bool = false;
    }
    /// As [`Unlogged`], without filters.
    UnfilteredUnlogged "sptree-unfiltered-unlogged" 0x67 Variant {
        type Top<G: Geometry, M: Machine> = InnerTree<G, M>;
        const BUFFERED: bool = true;
        const LOGGED: bool = false;
        const FILTER: bool = false;
    }
    /// As [`Buffered`], without filters.
    BufferedUnfiltered "sptree-buffered-unfiltered" 0x64 Variant {
        type Top<G: Geometry, M: Machine> = InnerTree<G, M>;
        const BUFFERED: bool = true;
        const FILTER: bool = false;
    }
    /// As [`Unbuffered`], with an adaptive radix tree above the leaves.
    Radix "sptree-art" 0x68 Variant { type Top<G: Geometry, M: Machine> = Art<G, M>; }
}
