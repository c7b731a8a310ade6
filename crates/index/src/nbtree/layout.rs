//! Bytes of leaves, blocks and inner nodes.
//!
//! ```text
//!   Block (pool, 1024 bytes)          Leaf (DRAM, 128 bytes)          Inner (DRAM)
//!   0   state word   8                0   fingerprints      64        header             64
//!   8   low fence    8                64  meta               8        first heads        64  (level > 1)
//!   16  owner        8                72  successor          8        heads       2 or 8 x 64
//!   24  sum          8                80  order              8        children    2 or 8 x 64
//!   32  62 entries of 16              88  low, high         16        fences      2 or 8 x 64 (if any)
//!                                     104 block, skip, claimed, in flight
//! ```
//!
//! The owner word holds the tree's id (bits 0..32) and the bytes of prefix that the block's key
//! words skip (bits 32..64). The sum is 0, or that of what the block held at some clean close: 2^32
//! plus the CRC-32C of the block with its number as the first word and 0 as the fourth (`seal.rs`).

use std::marker::PhantomData;

use everleaf_alloc::BLOCK_SIZE;
use everleaf_machine::{
    Atomic, AtomicPair, AtomicPointer, FingerprintLine, LINE_SIZE, Machine, SortedLine,
};

/// Slots that a block has room for.
pub const SLOT_COUNT_MAX: usize = 62;
/// Children that an inner node above level 1 has room for.
pub const CHILD_COUNT_MAX: usize = 64;
/// Children that a node right above the leaves has room for.
pub const PARENT_CHILD_COUNT_MAX: usize = 16;
/// Children per group of an inner node.
pub const GROUP_SIZE: usize = 8;
/// Bytes of the common prefix that an inner node holds itself.
pub const INLINE_PREFIX_SIZE: usize = 40;
/// Bytes in front of a block's entries.
pub const BLOCK_HEADER_SIZE: usize = 32;

/// A leaf's entries and the word that says whether they count.
#[repr(C, align(1024))]
pub struct Block<M: Machine> {
    /// Encoded `BlockState`.
    pub state: Atomic<u64, M>,
    /// Lower fence; immutable while the block is not free.
    pub low: Atomic<u64, M>,
    /// Tree id and skipped prefix; immutable while the block is not free.
    pub owner: Atomic<u64, M>,
    /// Check sum of the contents at some clean close (`seal.rs`).
    pub sum: Atomic<u64, M>,
    /// The slots.
    pub entries: [AtomicPair<M>; SLOT_COUNT_MAX],
}

/// The owner word of a block.
pub fn owner_word(tree: u32, skip: usize) -> u64 {
    u64::from(tree) | (skip as u64) << 32
}

/// Tree id and skipped prefix length of an owner word.
pub fn owner_parts(word: u64) -> (u32, usize) {
    (word as u32, (word >> 32) as usize)
}

/// A leaf's metadata. Its key range `low..high` never changes.
#[repr(C, align(128))]
pub struct Leaf<M: Machine> {
    /// One byte of hash per slot; 0 where a removed key was.
    pub fingerprints: FingerprintLine<M>,
    /// Committed slots, `FREEZING`, `REPLACED`.
    pub meta: Atomic<u64, M>,
    /// What replaces this leaf; null until decided, then never null again.
    pub successor: AtomicPointer<Successor<M>, M>,
    /// The slots in key order, as of some committed set; or null.
    pub order: AtomicPointer<Order<M>, M>,
    /// Lower fence, inclusive.
    pub low: u64,
    /// Upper fence, exclusive; 0 means none.
    pub high: u64,
    /// The block with the entries.
    pub block: u32,
    /// Bytes of prefix that key words skip.
    pub skip: u32,
    /// Slots claimed; may exceed the slot count.
    pub claimed: Atomic<u32, M>,
    /// `Adr` domain only: writers whose effect may be visible and not yet durable.
    pub in_flight: Atomic<u32, M>,
}

/// What replaces a leaf (or two). Immutable but for `status`.
#[repr(C, align(64))]
pub struct Successor<M: Machine> {
    /// The leaf for keys below `split`, or for all.
    pub left: *mut Leaf<M>,
    /// The leaf for keys from `split` on; null if there is only one.
    pub right: *mut Leaf<M>,
    /// The fence between the two.
    pub split: u64,
    /// The two leaves being merged; null for a plain replacement.
    pub merge_left: *mut Leaf<M>,
    /// See `merge_left`.
    pub merge_right: *mut Leaf<M>,
    /// Merge only: undecided, committed or aborted.
    pub status: Atomic<u32, M>,
}

/// The slots of a leaf in key order, for scans. Immutable.
#[repr(C, align(64))]
pub struct Order<M: Machine> {
    /// How many slots were committed when it was made: as long as as many are, it is complete.
    pub covered: u8,
    /// How many slots follow: the covered ones that had not been removed.
    pub count: u8,
    /// The slots.
    pub slots: [u8; SLOT_COUNT_MAX],
    machine: PhantomData<M>,
}

impl<M: Machine> Order<M> {
    /// An order of these slots, made when `covered` were committed.
    pub fn new(covered: u32, sorted: &[u8]) -> Self {
        let mut slots = [0; SLOT_COUNT_MAX];
        slots[..sorted.len()].copy_from_slice(sorted);
        Order { covered: covered as u8, count: sorted.len() as u8, slots, machine: PhantomData }
    }

    /// The slots in key order.
    #[inline(always)]
    pub fn sorted(&self) -> &[u8] {
        &self.slots[..usize::from(self.count)]
    }
}

/// The header of an inner node. All but the lock is immutable once the node can be reached.
///
/// Behind it, in lines of eight words: at level 2 and above the first head of each group; then the
/// heads of all groups; the children of all groups; and, for kinds whose heads do not say all, the
/// fences of all groups. A child is only ever replaced by one with the same range.
#[repr(C, align(64))]
pub struct Inner<M: Machine> {
    /// Locked, obsolete (`inner.rs`).
    pub lock: Atomic<u32, M>,
    /// 1 above leaves.
    pub level: u16,
    /// Children.
    pub count: u16,
    /// Bytes that all fences but the first share, skipped by the heads.
    pub skip: u32,
    /// The first bytes of the shared prefix.
    pub prefix: [u8; INLINE_PREFIX_SIZE],
}

/// Groups of a node of this level.
#[inline(always)]
pub const fn group_count(level: u16) -> usize {
    if level == 1 { PARENT_CHILD_COUNT_MAX / GROUP_SIZE } else { CHILD_COUNT_MAX / GROUP_SIZE }
}

/// Where the heads of a node of this level begin, in bytes.
#[inline(always)]
pub const fn heads_offset(level: u16) -> usize {
    if level == 1 { LINE_SIZE } else { 2 * LINE_SIZE }
}

/// Where the first heads of the groups are, at level 2 and above.
pub const FIRSTS_OFFSET: usize = LINE_SIZE;

/// Where the children begin.
#[inline(always)]
pub const fn children_offset(level: u16) -> usize {
    heads_offset(level) + group_count(level) * LINE_SIZE
}

/// Where the fences begin, if there are any.
#[inline(always)]
pub const fn fences_offset(level: u16) -> usize {
    children_offset(level) + group_count(level) * LINE_SIZE
}

/// Bytes of a node, with or without fences.
#[inline(always)]
pub const fn inner_size(level: u16, with_fences: bool) -> usize {
    let fences = if with_fences { group_count(level) * LINE_SIZE } else { 0 };
    fences_offset(level) + fences
}

/// A machine type with no behaviour for the layout asserts.
type Plain = everleaf_machine::Hardware;

const _: () = {
    assert!(size_of::<Block<Plain>>() == BLOCK_SIZE);
    assert!(std::mem::offset_of!(Block<Plain>, entries) == BLOCK_HEADER_SIZE);
    assert!(size_of::<Leaf<Plain>>() == 128);
    assert!(std::mem::offset_of!(Leaf<Plain>, meta) == 64);
    assert!(size_of::<Successor<Plain>>() == 64);
    assert!(size_of::<Order<Plain>>() == 64);
    assert!(size_of::<Inner<Plain>>() == LINE_SIZE);
    assert!(size_of::<SortedLine>() == LINE_SIZE);
    assert!(inner_size(1, false) == 320);
    assert!(inner_size(1, true) == 448);
    assert!(inner_size(2, false) == 1152);
    assert!(inner_size(2, true) == 1664);
};
