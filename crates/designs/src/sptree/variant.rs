//! The variants, as types.

use crate::node::variant::{Named, variants};

/// A configuration of the tree.
pub trait Variant: Named {
    /// Whether a filter says which keys a leaf does not have.
    const FILTER: bool = true;
    /// Whether writes are gathered in buffers, with a log.
    const BUFFERED: bool = false;
    /// Whether what is in buffers is in a log too. If not, a crash takes it back.
    const LOGGED: bool = true;
    /// Whether the records of a buffer are linked, so that it can be restored by itself when its leaf is touched.
    /// If not, opening replays the whole log.
    const LINKED: bool = true;
}

variants! {
    /// Every write goes to its leaf.
    Unbuffered "sptree" 0x60 Variant {}
    /// As [`Unbuffered`], without filters.
    Unfiltered "sptree-unfiltered" 0x61 Variant { const FILTER: bool = false; }
    /// Writes are gathered in buffers, whose log is linked: buffers are restored when they are touched.
    Buffered "sptree-buffered" 0x62 Variant { const BUFFERED: bool = true; }
    /// As [`Buffered`], with a plain log: its records have no links, and opening replays all of it.
    Plain "sptree-plain" 0x63 Variant {
        const BUFFERED: bool = true;
        const LINKED: bool = false;
    }
    /// As [`Plain`], without filters.
    PlainUnfiltered "sptree-plain-unfiltered" 0x66 Variant {
        const BUFFERED: bool = true;
        const LINKED: bool = false;
        const FILTER: bool = false;
    }
    /// As [`Buffered`], without a log.
    Unlogged "sptree-unlogged" 0x65 Variant {
        const BUFFERED: bool = true;
        const LOGGED: bool = false;
    }
    /// As [`Unlogged`], without filters.
    UnfilteredUnlogged "sptree-unfiltered-unlogged" 0x67 Variant {
        const BUFFERED: bool = true;
        const LOGGED: bool = false;
        const FILTER: bool = false;
    }
    /// As [`Buffered`], without filters.
    BufferedUnfiltered "sptree-buffered-unfiltered" 0x64 Variant {
        const BUFFERED: bool = true;
        const FILTER: bool = false;
    }
}
