//! Bytes of blocks and of leaf metadata, and how many positions a leaf has.
//!
//! ```text
//!   Block (pool, 4096 bytes)          Fingerprints (DRAM, 256 bytes)     Cold (DRAM, 64 bytes)
//!   0   state word   8                0   a byte a position               0   flags       8
//!   8   low fence    8                    0: nothing is known             8   successor   8
//!   16  owner        8                    1: never to be claimed          16  order       8
//!   24  placement    8                    2..: of the position's key      24  low, high  16
//!   32  254 entries of 16                                                 40  skip, in flight 16
//! ```
//!
//! A leaf is its block: the number of the block, divided by the 1 KiB units that a block has, is the
//! leaf's number, and tells where fingerprints and metadata are. Position 0 and 1 would be where the
//! header is; their fingerprints are 1.

use everleaf_machine::{Atomic, AtomicPointer, LINE_SIZE, Machine};

use super::placement::Placement;
use crate::geometry::Production;
pub use crate::geometry::{HalfLeaves, LeafShape};
use crate::nbtree::state::NO_BLOCK;

/// Bytes in front of a block's entries.
pub const BLOCK_HEADER_SIZE: usize = 32;
/// Positions that a leaf of any shape has, at most.
pub const POSITION_COUNT_MAX: usize = 256;
/// The fingerprint of a position of which nothing is known.
pub const UNKNOWN: u8 = 0;
/// The fingerprint of a position that is never claimed any more.
pub const DEAD: u8 = 1;

/// What a block begins with.
#[repr(C)]
pub struct Header<M: Machine> {
    /// Encoded `BlockState`.
    pub state: Atomic<u64, M>,
    /// Lower fence; immutable while the block is not free.
    pub low: Atomic<u64, M>,
    /// Tree id and skipped prefix; immutable while the block is not free.
    pub owner: Atomic<u64, M>,
    /// How keys become lines (`placement.rs`), in the lower half; immutable while the block is not free.
    /// 0: by hash. Behind it [`SEALED`] and a check sum of the block, from its last clean close (`seal.rs`).
    pub placement: Atomic<u64, M>,
}

/// A leaf's metadata but for its fingerprints. Its key range `low..high` never changes.
#[repr(C, align(64))]
pub struct Cold<M: Machine> {
    /// [`FREEZING`], [`REPLACED`], [`RESTORED`].
    pub flags: Atomic<u64, M>,
    /// What replaces this leaf; null until decided, then never null again.
    pub successor: AtomicPointer<Successor<M>, M>,
    /// Guards the positions in key order, as of some set of claimed ones (`order.rs`); or 0.
    pub order: Atomic<u64, M>,
    /// Lower fence, inclusive.
    pub low: Atomic<u64, M>,
    /// Upper fence, exclusive; 0 means none.
    pub high: Atomic<u64, M>,
    /// Bytes of prefix that key words skip. A word of its own: it is read as what never changes.
    pub skip: Atomic<u64, M>,
    /// `Adr` domain only: writers whose effect may be visible and not yet durable.
    pub in_flight: Atomic<u64, M>,
}

/// `placement`: the upper half is a check sum.
pub const SEALED: u64 = 1 << 31;

/// `flags`: somebody has begun to replace the leaf.
pub const FREEZING: u64 = 1;
/// `flags`: the successor is the authority.
pub const REPLACED: u64 = 2;
/// `flags`: the volatile half of a leaf that opening has left is made (`restore.rs`).
pub const RESTORED: u64 = 4;

/// The number of no leaf, for the pool's header is there. Inner nodes lead to it in place of leaves that
/// opening has left, and a thread that comes there finds a leaf that is full and replaced, and looks again.
pub const NO_LEAF: u32 = 0;

/// The number of a leaf, and where its keys are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafId {
    /// That of its block, in blocks of its size.
    pub number: u32,
    /// Where keys begin to look.
    pub placement: Placement,
}

/// Where the placement begins in a child of an inner node.
const PLACEMENT_SHIFT: u32 = 33;

impl LeafId {
    /// The leaf of a block.
    #[inline(always)]
    pub fn of_block<S: LeafShape>(number: u32, placement: Placement) -> Self {
        LeafId { number: number >> S::BLOCK_CLASS, placement }
    }

    /// The number of its block.
    #[inline(always)]
    pub fn block<S: LeafShape>(self) -> u32 {
        self.number << S::BLOCK_CLASS
    }

    /// As the child of an inner node: no address, and not null.
    #[inline(always)]
    pub fn as_child(self) -> *mut () {
        let placement = (self.placement.to_bits() as usize) << PLACEMENT_SHIFT;
        std::ptr::without_provenance_mut(placement | (self.number as usize) << 1 | 1)
    }

    /// The leaf that is a child of an inner node.
    #[inline(always)]
    pub fn of_child(child: *mut ()) -> Self {
        let word = child.addr();
        let placement = Placement::from_bits((word >> PLACEMENT_SHIFT) as u32);
        LeafId { number: (word >> 1) as u32, placement }
    }

    /// What inner nodes lead to in place of a leaf of this number that opening has left.
    pub fn stand_in(number: u32) -> Self {
        LeafId { number: NO_LEAF, placement: Placement::from_bits(number) }
    }

    /// The number of the leaf that opening has left, if this stands in for one.
    #[inline(always)]
    pub fn stands_in_for(self) -> Option<u32> {
        (self.number == NO_LEAF).then(|| self.placement.to_bits())
    }
}

/// What replaces a leaf (or two). Immutable but for `status`.
#[repr(C, align(64))]
pub struct Successor<M: Machine> {
    /// The leaf for keys below `split`, or for all.
    pub left: LeafId,
    /// The leaf for keys from `split` on, if there are two.
    pub right: Option<LeafId>,
    /// The fence between the two.
    pub split: u64,
    /// The two leaves being merged; none for a plain replacement.
    pub merging: Option<(LeafId, LeafId)>,
    /// Merge only: undecided, committed or aborted.
    pub status: Atomic<u32, M>,
}

/// Heads of entries that divide an order into equal parts.
pub const ORDER_SAMPLES: usize = 7;
/// Positions in a word of an order.
pub const POSITIONS_IN_WORD: usize = 8;

/// Where the positions of a leaf lie in key order, for scans. It means nothing unless `Cold::order`
/// says so.
#[repr(C, align(64))]
pub struct OrderPlace<M: Machine> {
    /// Heads of the entries that begin its second to eighth part.
    pub samples: [Atomic<u64, M>; ORDER_SAMPLES],
    /// Of no meaning.
    pub unused: Atomic<u64, M>,
    /// The positions.
    pub positions: [Atomic<u64, M>; POSITION_COUNT_MAX / POSITIONS_IN_WORD],
}

/// A machine type with no behaviour for the layout asserts.
type Plain = everleaf_machine::Hardware;

const _: () = {
    assert!(PLACEMENT_SHIFT + Placement::BITS < usize::BITS);
    assert!(SEALED >> Placement::BITS > 0);
    // The number of every block has room where a placement has.
    assert!(NO_BLOCK >> Placement::BITS == 0);
    assert!(size_of::<Header<Plain>>() == BLOCK_HEADER_SIZE);
    assert!(size_of::<Cold<Plain>>() == LINE_SIZE);
    assert!(size_of::<Successor<Plain>>() == LINE_SIZE);
    assert!(size_of::<OrderPlace<Plain>>() == 5 * LINE_SIZE);
    assert!(<Production as LeafShape>::CAPACITY * 16 + BLOCK_HEADER_SIZE == 4096);
    assert!(<HalfLeaves as LeafShape>::CAPACITY * 16 + BLOCK_HEADER_SIZE == 2048);
};
