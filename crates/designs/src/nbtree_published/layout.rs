//! Bytes of blocks and leaf metadata.
//!
//! ```text
//!   Block (pool, 1024 bytes)           Leaf (128 bytes: DRAM; coupled: behind the block)
//!   0   next block   8                 0   fingerprints           64
//!   8   low fence    8                 64  bitmap                  8   bit 63: smo_bit
//!   16  0           16                 72  copy_ptr                8
//!   32  62 entries of 16               80  num, flag, lock, copied 4 each
//!       key 8 | value 8                96  low, high               8 each
//!                                      112 block, right            8 each
//! ```

use everleaf_alloc::{AllocError, Session};
use everleaf_index::{Kind, PoolBase, U64Kind};
use everleaf_machine::{Atomic, AtomicPointer, FingerprintLine, LINE_SIZE, Machine, Ordering};

use super::variant::Variant;

/// Slots that a block has room for.
pub const SLOT_COUNT_MAX: usize = 62;
/// Bytes of a block.
pub const BLOCK_SIZE: usize = 1024;
/// Bytes of a leaf's metadata.
pub const LEAF_SIZE: usize = 128;

/// A key and its value.
///
/// A slot is filled once in the life of its leaf: value first, then key, which makes it durable as
/// a whole, since both are on one line. From then on the value changes, and the key at most to 0.
#[repr(C, align(16))]
pub struct Slot<M: Machine> {
    /// 0: empty, or removed.
    pub key: Atomic<u64, M>,
    /// The value, `COPIED` and `SYNCED` (`state.rs`).
    pub value: Atomic<u64, M>,
}

impl<M: Machine> Slot<M> {
    /// The address, for flushing.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.key.as_ptr()
    }
}

/// A leaf's entries: all that recovery reads.
#[repr(C, align(64))]
pub struct Block<M: Machine> {
    /// Offset of the right neighbour's block; 0 if there is none.
    pub next: Atomic<u64, M>,
    /// Lower fence; immutable while the block is in the list.
    pub low: Atomic<u64, M>,
    /// Zero.
    pub reserved: [Atomic<u64, M>; 2],
    /// The slots.
    pub slots: [Slot<M>; SLOT_COUNT_MAX],
}

/// A leaf's metadata. What is private here never changes while the leaf can be reached.
#[repr(C, align(64))]
pub struct Leaf<M: Machine> {
    /// One byte of hash per slot.
    pub fingerprints: FingerprintLine<M>,
    /// Committed slots, and `SMO`.
    pub bitmap: Atomic<u64, M>,
    /// The first of the leaves that replace this one; null until decided, then never again.
    pub copy: AtomicPointer<Leaf<M>, M>,
    /// Slots claimed; may exceed the slot count.
    pub num: Atomic<u32, M>,
    /// `SYNC` and `LINK`.
    pub flag: Atomic<u32, M>,
    /// The leaf's lock, in the variants that have one (`lock.rs`).
    pub lock: Atomic<u32, M>,
    copied: Atomic<u32, M>,
    low: Atomic<u64, M>,
    high: Atomic<u64, M>,
    block: Atomic<u64, M>,
    right: AtomicPointer<Leaf<M>, M>,
}

/// What a new leaf's metadata start with.
pub struct LeafStart<'s, M: Machine> {
    /// Keys of the first slots, in order; 0 where a slot is used up without a key.
    pub keys: &'s [u64],
    /// Lower fence, inclusive.
    pub low: u64,
    /// Upper fence, exclusive; 0 means none.
    pub high: u64,
    /// Offset of the block.
    pub block: u64,
    /// The leaf made together with this one for the upper half of its origin.
    pub right: *mut Leaf<M>,
}

impl<M: Machine> Leaf<M> {
    /// Writes metadata that nobody can reach.
    pub fn start(&self, start: &LeafStart<'_, M>) {
        let mut bitmap = 0;
        for slot in 0..LINE_SIZE {
            let key = start.keys.get(slot).copied().unwrap_or(0);
            bitmap |= u64::from(key != 0) << slot;
            let fingerprint = if key == 0 { 0 } else { fingerprint::<M>(key) };
            self.fingerprints.write_private(slot, fingerprint);
        }
        self.bitmap.write_private(bitmap);
        self.copy.write_private(std::ptr::null_mut());
        self.num.write_private(start.keys.len() as u32);
        self.flag.write_private(0);
        self.lock.write_private(0);
        self.copied.write_private(start.keys.len() as u32);
        self.low.write_private(start.low);
        self.high.write_private(start.high);
        self.block.write_private(start.block);
        self.right.write_private(start.right);
    }

    /// Slots that were filled when the leaf was made.
    #[inline(always)]
    pub fn copied(&self) -> usize {
        self.copied.read_private() as usize
    }

    /// Lower fence, inclusive.
    #[inline(always)]
    pub fn low(&self) -> u64 {
        self.low.read_private()
    }

    /// Upper fence, exclusive; 0 means none.
    #[inline(always)]
    pub fn high(&self) -> u64 {
        self.high.read_private()
    }

    /// Offset of the block.
    #[inline(always)]
    pub fn block(&self) -> u64 {
        self.block.read_private()
    }

    /// The leaf made together with this one for the upper half of their origin; null if none was.
    #[inline(always)]
    pub fn right(&self) -> *mut Leaf<M> {
        self.right.read_private()
    }
}

/// Bytes of the record that holds a block, and the metadata if they are coupled.
pub const fn record_size<V: Variant>() -> usize {
    if V::COUPLED { BLOCK_SIZE + LEAF_SIZE } else { BLOCK_SIZE }
}

/// Whether metadata lie behind their block: not in a pool that must not be written.
pub fn in_pool<V: Variant>(is_writable: bool) -> bool {
    V::COUPLED && is_writable
}

/// Where the metadata of a coupled block are.
pub fn coupled_place<M: Machine>(base: PoolBase<M>, block: u64) -> *mut Leaf<M> {
    base.start().wrapping_add(block as usize + BLOCK_SIZE).cast()
}

/// Metadata in DRAM, private, of no leaf yet.
pub fn new_leaf<M: Machine>(session: &mut Session<M>) -> Result<*mut Leaf<M>, AllocError> {
    let place: *mut Leaf<M> = session.allocate_node(LEAF_SIZE)?.cast();
    let leaf = Leaf {
        fingerprints: FingerprintLine::new(),
        bitmap: Atomic::new(0),
        copy: AtomicPointer::new(std::ptr::null_mut()),
        num: Atomic::new(0),
        flag: Atomic::new(0),
        lock: Atomic::new(0),
        copied: Atomic::new(0),
        low: Atomic::new(0),
        high: Atomic::new(0),
        block: Atomic::new(0),
        right: AtomicPointer::new(std::ptr::null_mut()),
    };
    // SAFETY: the memory is ours, large enough and aligned.
    unsafe { place.write(leaf) };
    Ok(place)
}

impl<M: Machine> Block<M> {
    /// Fills a block that nobody can reach: these pairs in the first slots, all others empty. Not
    /// durable yet.
    pub fn fill(&self, low: u64, next: u64, pairs: &[(u64, u64)]) {
        self.next.write_private(next);
        self.low.write_private(low);
        self.reserved.iter().for_each(|word| word.write_private(0));
        for (index, slot) in self.slots.iter().enumerate() {
            // The contents of the record's last life go: a key that is not 0 is an entry (NP3).
            let kept = M::mutant("nbtree_published.no_clear");
            let empty = if kept { (slot.key.read_private(), 0) } else { (0, 0) };
            let (key, value) = pairs.get(index).copied().unwrap_or(empty);
            slot.value.write_private(value);
            slot.key.write_private(key);
        }
    }

    /// The right neighbour's block.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        // Acquire: the neighbour is complete; pairs with the exchange in `link.rs`.
        self.next.load(Ordering::Acquire)
    }
}

const _: () = {
    type Plain = everleaf_machine::Hardware;
    assert!(size_of::<Block<Plain>>() == BLOCK_SIZE);
    assert!(size_of::<Leaf<Plain>>() == LEAF_SIZE);
    assert!(std::mem::offset_of!(Leaf<Plain>, bitmap) == LINE_SIZE);
};

/// The fingerprint of a key.
#[inline(always)]
pub(super) fn fingerprint<M: Machine>(key: u64) -> u8 {
    <U64Kind as Kind<M>>::fingerprint(key)
}
