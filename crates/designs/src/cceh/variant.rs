//! How large segments are, how far a key may be from its home, and which of the three techniques of
//! SPTree's authors are at work: buffering, out-of-place writing, caching.

use crate::node::write_buffer::BUFFER_LENGTH;
use crate::node::write_log::Shape;

/// A configuration of the index.
pub trait Variant: Copy + Default + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Its number in the pool's directory.
    const KIND: u16;
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

macro_rules! variants {
    ($($(#[$doc:meta])* $type:ident $name:literal $kind:literal $bits:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $type;
        impl Variant for $type {
            const NAME: &'static str = $name;
            const KIND: u16 = $kind;
            const BUFFERED: bool = $bits & BUFFERED != 0;
            const OUT_OF_PLACE: bool = $bits & OUT_OF_PLACE != 0;
            const CACHED: bool = $bits & CACHED != 0;
            const LOGGED: bool = $bits & UNLOGGED == 0;
        }
    )*};
}

/// Bits of [`Small`]'s techniques.
const BUFFERED: u8 = 1;
const OUT_OF_PLACE: u8 = 2;
const CACHED: u8 = 4;
const UNLOGGED: u8 = 8;

variants! {
    /// Segments of 16 KiB; a key is in one of four lines.
    Standard "cceh" 0x80 0;
    /// As [`Standard`], with buffers.
    Buffered "cceh-b" 0x81 1;
    /// As [`Buffered`]; a full buffer goes to a new segment.
    OutOfPlace "cceh-bo" 0x82 3;
    /// As [`OutOfPlace`], with the directory in DRAM too.
    Whole "cceh-boc" 0x83 7;
    /// As [`Standard`], with the directory in DRAM too.
    Cached "cceh-c" 0x84 4;
    /// As [`Buffered`], without a log.
    BufferedUnlogged "cceh-b-unlogged" 0x85 9;
    /// As [`OutOfPlace`], without a log.
    OutOfPlaceUnlogged "cceh-bo-unlogged" 0x86 11;
    /// As [`Whole`], without a log.
    WholeUnlogged "cceh-boc-unlogged" 0x87 15;
}

/// A few lines with a few pairs each: for tests. `TECHNIQUES` is 0 for none, 1 for buffering, plus 2 for
/// out-of-place writing, plus 4 for caching, plus 8 for no log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Small<
    const LINES: usize = 2,
    const PAIRS: usize = 2,
    const PROBES: usize = 2,
    const TECHNIQUES: u8 = 0,
>;

impl<const LINES: usize, const PAIRS: usize, const PROBES: usize, const TECHNIQUES: u8> Variant
    for Small<LINES, PAIRS, PROBES, TECHNIQUES>
{
    const NAME: &'static str = "cceh-small";
    const KIND: u16 = 0x88;
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

const _: () = assert!(Standard::NODE_LENGTH <= BUFFER_LENGTH);
