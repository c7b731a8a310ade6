//! How high the list is, which of the three techniques of SPTree's authors are at work (buffering, out-of-place
//! writing, caching), and sizes for tests.

use crate::node::variant::{Named, variants};
use crate::node::write_buffer::BUFFER_LENGTH;

/// A configuration of the list.
pub trait Variant: Named {
    /// Levels, [`LEVEL_COUNT_MAX`] at most.
    const LEVEL_COUNT: usize = LEVEL_COUNT_MAX;
    /// Binary logarithm of how many nodes of a level have one on the next level.
    const BRANCHING_SHIFT: u32 = 2;
    /// Levels of a node that is not tall. In a variant with buffers or caching a tall node begins a partition of
    /// the list, and stays.
    const LOW_LEVELS: usize = 2;
    /// Buffering: whether writes are gathered in DRAM, with a log, before they go to their partition.
    const BUFFERED: bool = false;
    /// Whether what is in buffers is in a log too. If not, a crash takes it back.
    const LOGGED: bool = true;
    /// Out-of-place writing: whether the new nodes of a full buffer are made, and linked, all together.
    const OUT_OF_PLACE: bool = false;
    /// Caching: whether an inner tree in DRAM leads to the tall nodes, in place of the levels above the low ones.
    const CACHED: bool = false;
    /// Entries of a buffer, at most 14.
    const BUFFER_CAPACITY: usize = BUFFER_LENGTH;
    /// Whether there are few logs with short chunks: for tests.
    const SMALL_LOGS: bool = false;
}

/// The most levels that a list can have.
pub const LEVEL_COUNT_MAX: usize = 12;

/// Bits of [`Small`]'s techniques.
const BUFFERED: u8 = 1;
const OUT_OF_PLACE: u8 = 2;
const CACHED: u8 = 4;
const UNLOGGED: u8 = 8;

variants! {
    /// As published: 12 levels, and every fourth node of a level is on the next one.
    Standard "p-skiplist" 0x98 Variant {}
    /// As [`Standard`], with the tall nodes found in DRAM.
    Cached "p-skiplist-c" 0xC0 Variant {
        const CACHED: bool = true;
    }
    /// As [`Standard`], with buffers and a log.
    Buffered "p-skiplist-b" 0xC1 Variant {
        const BUFFERED: bool = true;
    }
    /// As [`Buffered`]; the new nodes of a full buffer are made and linked all together.
    OutOfPlace "p-skiplist-bo" 0xC2 Variant {
        const BUFFERED: bool = true;
        const OUT_OF_PLACE: bool = true;
    }
    /// As [`OutOfPlace`], with the tall nodes found in DRAM.
    Whole "p-skiplist-boc" 0xC3 Variant {
        const BUFFERED: bool = true;
        const OUT_OF_PLACE: bool = true;
        const CACHED: bool = true;
    }
    /// As [`Buffered`], without a log.
    BufferedUnlogged "p-skiplist-b-unlogged" 0xC4 Variant {
        const BUFFERED: bool = true;
        const LOGGED: bool = false;
    }
    /// As [`OutOfPlace`], without a log.
    OutOfPlaceUnlogged "p-skiplist-bo-unlogged" 0xC5 Variant {
        const BUFFERED: bool = true;
        const LOGGED: bool = false;
        const OUT_OF_PLACE: bool = true;
    }
    /// As [`Whole`], without a log.
    WholeUnlogged "p-skiplist-boc-unlogged" 0xC6 Variant {
        const BUFFERED: bool = true;
        const LOGGED: bool = false;
        const OUT_OF_PLACE: bool = true;
        const CACHED: bool = true;
    }
    /// As [`Buffered`], with the tall nodes found in DRAM.
    BufferedCached "p-skiplist-bc" 0xC7 Variant {
        const BUFFERED: bool = true;
        const CACHED: bool = true;
    }
    /// As [`BufferedCached`], without a log.
    BufferedCachedUnlogged "p-skiplist-bc-unlogged" 0xC8 Variant {
        const BUFFERED: bool = true;
        const LOGGED: bool = false;
        const CACHED: bool = true;
    }
    /// Few levels, and half of the nodes of a level on the next one: for tests. `TECHNIQUES` is 0 for none, 1 for
    /// buffering, plus 2 for out-of-place writing, plus 4 for caching, plus 8 for no log.
    Small<LEVELS: usize = 2, TECHNIQUES: u8 = 0> "p-skiplist-small" 0x99 Variant {
        const LEVEL_COUNT: usize = LEVELS;
        const BRANCHING_SHIFT: u32 = 1;
        const LOW_LEVELS: usize = if LEVELS > 2 { 2 } else { 1 };
        const BUFFERED: bool = TECHNIQUES & BUFFERED != 0;
        const LOGGED: bool = TECHNIQUES & UNLOGGED == 0;
        const OUT_OF_PLACE: bool = TECHNIQUES & OUT_OF_PLACE != 0;
        const CACHED: bool = TECHNIQUES & CACHED != 0;
        const BUFFER_CAPACITY: usize = 2;
        const SMALL_LOGS: bool = true;
    }
}
