//! How large segments are, how far a key may be from its home, and which of the three techniques of
//! SPTree's authors are at work: buffering, out-of-place writing, caching.

use crate::node::variant::{Named, variants};
use crate::node::write_buffer::BUFFER_LENGTH;
use crate::node::write_log::Shape;

/// A configuration of the index.
pub trait Variant: Named {
    /// Lines of pairs in a segment, at least 1. With the line of its head they fill a record of the
    /// allocator.
    const LINES: usize = 255;
    /// Pairs of a line that are used, 1..=4.
    const PAIRS: usize = 4;
    /// Lines in which a key is looked for, 1..=`LINES`.
    const PROBES: usize = 4;
    /// Buffering: whether writes are gathered in DRAM, with a log, before they go to their segment.
    const BUFFERED: bool = false;
    /// Whether what is in buffers is in a log too. If not, a crash takes it back.
    const LOGGED: bool = true;
    /// Out-of-place writing: whether a full buffer goes to a copy of its segment, not into it.
    const OUT_OF_PLACE: bool = false;
    /// Caching: whether the directory is in DRAM too.
    const CACHED: bool = false;
    /// Parts of a segment's buffer.
    const NODES: usize = 32;
    /// Entries of such a part, at most 14.
    const NODE_LENGTH: usize = 12;
    /// The logs of a variant with buffers.
    const LOGS: Logging = Logging::Usual;
}

/// How large the chunks of logs are.
#[derive(Clone, Copy, Debug)]
pub enum Logging {
    /// 64 KiB, of many logs.
    Usual,
    /// A few records, of two logs: for tests.
    Small,
}

impl Logging {
    pub(super) const fn shape(self) -> Shape {
        match self {
            Logging::Usual => Shape::USUAL,
            Logging::Small => Shape::SMALL,
        }
    }

    /// Chunks that a log may have in an index without keys.
    pub(super) const fn chunks_min(self) -> usize {
        match self {
            Logging::Usual => 16,
            Logging::Small => 2,
        }
    }
}

/// Bits of [`Small`]'s techniques.
const BUFFERED: u8 = 1;
const OUT_OF_PLACE: u8 = 2;
const CACHED: u8 = 4;
const UNLOGGED: u8 = 8;

variants! {
    /// Segments of 16 KiB; a key is in one of four lines.
    Standard "cceh" 0x80 Variant {}
    /// As [`Standard`], with buffers.
    Buffered "cceh-b" 0x81 Variant {
        const BUFFERED: bool = true;
    }
    /// As [`Buffered`]; a full buffer goes to a new segment.
    OutOfPlace "cceh-bo" 0x82 Variant {
        const BUFFERED: bool = true;
        const OUT_OF_PLACE: bool = true;
    }
    /// As [`OutOfPlace`], with the directory in DRAM too.
    Whole "cceh-boc" 0x83 Variant {
        const BUFFERED: bool = true;
        const OUT_OF_PLACE: bool = true;
        const CACHED: bool = true;
    }
    /// As [`Standard`], with the directory in DRAM too.
    Cached "cceh-c" 0x84 Variant {
        const CACHED: bool = true;
    }
    /// As [`Buffered`], with the directory in DRAM too.
    BufferedCached "cceh-bc" 0x89 Variant {
        const BUFFERED: bool = true;
        const CACHED: bool = true;
    }
    /// As [`BufferedCached`], without a log.
    BufferedCachedUnlogged "cceh-bc-unlogged" 0x8A Variant {
        const BUFFERED: bool = true;
        const CACHED: bool = true;
        const LOGGED: bool = false;
    }
    /// As [`Buffered`], without a log.
    BufferedUnlogged "cceh-b-unlogged" 0x85 Variant {
        const BUFFERED: bool = true;
        const LOGGED: bool = false;
    }
    /// As [`OutOfPlace`], without a log.
    OutOfPlaceUnlogged "cceh-bo-unlogged" 0x86 Variant {
        const BUFFERED: bool = true;
        const OUT_OF_PLACE: bool = true;
        const LOGGED: bool = false;
    }
    /// As [`Whole`], without a log.
    WholeUnlogged "cceh-boc-unlogged" 0x87 Variant {
        const BUFFERED: bool = true;
        const OUT_OF_PLACE: bool = true;
        const CACHED: bool = true;
        const LOGGED: bool = false;
    }
    /// A few lines with a few pairs each: for tests. `TECHNIQUES` is 0 for none, 1 for buffering, plus 2 for
    /// out-of-place writing, plus 4 for caching, plus 8 for no log.
    Small<LINES: usize = 2, PAIRS: usize = 2, PROBES: usize = 2, TECHNIQUES: u8 = 0> "cceh-small" 0x88 Variant {
        const LINES: usize = LINES;
        const PAIRS: usize = PAIRS;
        const PROBES: usize = PROBES;
        const BUFFERED: bool = TECHNIQUES & BUFFERED != 0;
        const OUT_OF_PLACE: bool = TECHNIQUES & OUT_OF_PLACE != 0;
        const CACHED: bool = TECHNIQUES & CACHED != 0;
        const LOGGED: bool = TECHNIQUES & UNLOGGED == 0;
        const NODES: usize = 2;
        const NODE_LENGTH: usize = 2;
        const LOGS: Logging = Logging::Small;
    }
}

const _: () = assert!(Standard::NODE_LENGTH <= BUFFER_LENGTH);
