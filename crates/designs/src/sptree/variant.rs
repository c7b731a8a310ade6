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
    /// Whether opening restores all buffers, not each when its leaf is touched.
    const EAGER: bool = false;
}

variants! {
    /// Every write goes to its leaf.
    Unbuffered "sptree" 0x60 Variant {}
    /// As [`Unbuffered`], without filters.
    Unfiltered "sptree-unfiltered" 0x61 Variant { const FILTER: bool = false; }
    /// Writes are gathered in buffers, whose log is linked: buffers are restored when they are touched.
    Buffered "sptree-buffered" 0x62 Variant { const BUFFERED: bool = true; }
    /// As [`Buffered`]; opening restores all buffers, as with a plain log.
    Plain "sptree-plain" 0x63 Variant {
        const BUFFERED: bool = true;
        const EAGER: bool = true;
    }
    /// As [`Buffered`], without a log.
    Unlogged "sptree-unlogged" 0x65 Variant {
        const BUFFERED: bool = true;
        const LOGGED: bool = false;
    }
    /// As [`Buffered`], without filters.
    BufferedUnfiltered "sptree-buffered-unfiltered" 0x64 Variant {
        const BUFFERED: bool = true;
        const FILTER: bool = false;
    }
}
