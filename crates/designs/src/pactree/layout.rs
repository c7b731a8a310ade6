//! Where things are in the pool: the root object and the data node. The log is in `log.rs`, the nodes of the
//! search layer in `node/radix`.
//!
//! ```text
//!   root object   word 0       1                      2                  3     4..16   16..32
//!           | "EVLPACT1" | the variant's number | first data node  | log | zero  | root of the search layer |
//!
//!   data node, 1216 bytes
//!   line 0     | low 8 | high 8 | next 8 | bitmap 8 | prev 8 | version 8 | sorted 8 | lock 8 |
//!   line 1     | 64 fingerprints, one byte each                                             |
//!   line 2 ..  | 64 entries of key and value                                                |
//!   line 18    | 64 slot numbers in the order of their keys, one byte each                  |
//! ```
//!
//! A data node is in a class of records of 1280 bytes, aligned to a line: the stores to line 0 become
//! durable in their order. One whose high fence is its low one has been merged away.

use everleaf_machine::{Atomic, FingerprintLine, Machine, Ordering};
use everleaf_pool::Medium;

use crate::node::entry::{ENTRY_SIZE, Entry};
use crate::node::version_lock::VersionLock;

/// First word of a root object: "EVLPACT1".
pub(super) const TAG: u64 = u64::from_le_bytes(*b"EVLPACT1");
/// The root object's word that says which variant the tree is of.
pub(super) const VARIANT_WORD: usize = 1;
/// The root object's word that names the first data node.
pub(super) const HEAD_WORD: usize = 2;
/// The root object's word that names the log.
pub(super) const LOG_WORD: usize = 3;
/// The root object's first link of the search layer.
pub(super) const ROOT_WORD: usize = 16;
/// Entries that a data node has room for.
pub(super) const ENTRY_COUNT: usize = 64;
/// The high fence of the last data node, and no key.
pub(super) const HIGH_MAX: u64 = u64::MAX;
/// Bytes of a data node.
pub(super) const NODE_SIZE: usize = 1216;

/// See the module.
#[repr(C, align(64))]
pub(super) struct Node<M: Machine> {
    low: Atomic<u64, M>,
    high: Atomic<u64, M>,
    next: Atomic<u64, M>,
    bitmap: Atomic<u64, M>,
    prev: Atomic<u64, M>,
    version: Atomic<u64, M>,
    sorted: Atomic<u64, M>,
    pub lock: VersionLock<M>,
    fingerprints: FingerprintLine<M>,
    entries: [Entry<M>; ENTRY_COUNT],
    order: [Atomic<u64, M>; ENTRY_COUNT / 8],
}

const _: () = assert!(size_of::<Node<everleaf_machine::Hardware>>() == NODE_SIZE);

/// One byte of a key's hash.
#[inline(always)]
fn fingerprint(key: u64) -> u8 {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// The slots of a bitmap, ascending.
#[inline(always)]
pub(super) fn slots(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        slot
    })
}

impl<M: Machine> Node<M> {
    /// The keys are at least this. It never changes.
    #[inline(always)]
    pub fn low(&self) -> u64 {
        // Relaxed: written before anybody could find the node.
        self.low.load(Ordering::Relaxed)
    }

    /// The keys are below this.
    #[inline(always)]
    pub fn high(&self) -> u64 {
        // Relaxed: validated with the lock.
        self.high.load(Ordering::Relaxed)
    }

    /// The right neighbour; 0 if there is none.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        // Acquire: the neighbour; pairs with the release in `set_next`.
        self.next.load(Ordering::Acquire)
    }

    /// The left neighbour; of a node that was merged away, the one that has its keys; 0 if there is none.
    #[inline(always)]
    pub fn prev(&self) -> u64 {
        // Acquire: the neighbour; pairs with the release in `set_prev`.
        self.prev.load(Ordering::Acquire)
    }

    /// The slots in use.
    #[inline(always)]
    pub fn bitmap(&self) -> u64 {
        // Acquire: the entries it names; pairs with the release in `commit`.
        self.bitmap.load(Ordering::Acquire)
    }

    /// Number of keys.
    pub fn count(&self) -> usize {
        self.bitmap().count_ones() as usize
    }

    /// The slot of a key.
    #[inline(always)]
    pub fn find(&self, key: u64) -> Option<usize> {
        let candidates = self.bitmap() & self.fingerprints.matches(fingerprint(key));
        slots(candidates).find(|slot| self.entries[*slot].key() == key)
    }

    /// The value in a slot.
    #[inline(always)]
    pub fn value(&self, slot: usize) -> u64 {
        self.entries[slot].value()
    }

    /// Key and value in a slot; a number that a torn read gave is cut to the node.
    #[inline(always)]
    pub fn pair(&self, slot: usize) -> (u64, u64) {
        self.entries[slot % ENTRY_COUNT].pair()
    }

    /// Whether the fingerprint in a slot is that of its key, while nobody writes it.
    pub fn is_marked(&self, slot: usize) -> bool {
        self.fingerprints.read_private(slot) == fingerprint(self.entries[slot].key())
    }

    /// The slots in use whose keys are below `high`.
    pub fn slots_below(&self, high: u64) -> u64 {
        let below = slots(self.bitmap()).filter(|slot| self.entries[*slot].key() < high);
        below.fold(0, |bits, slot| bits | 1 << slot)
    }

    /// Makes a record that nobody else has seen a node with these pairs in its first slots, locked by the
    /// caller, and durable.
    pub fn build(
        &self,
        medium: Medium<M>,
        generation: u32,
        (low, high): (u64, u64),
        (prev, next): (u64, u64),
        pairs: &[(u64, u64)],
    ) {
        self.low.write_private(low);
        self.high.write_private(high);
        self.next.write_private(next);
        self.bitmap.write_private(if pairs.len() < 64 { (1 << pairs.len()) - 1 } else { u64::MAX });
        self.prev.write_private(prev);
        self.version.write_private(0);
        self.sorted.write_private(0);
        self.lock.reset_held(generation);
        for (slot, (key, value)) in pairs.iter().enumerate() {
            self.entries[slot].set(*key, *value);
            self.fingerprints.write_private(slot, fingerprint(*key));
        }
        if !M::mutant("pactree.no_new_flush") {
            // Persist: lines 0 and 1 and the entries in use, before the log or a link names the node (PT3).
            medium.flush(self.as_ptr(), 2 * 64);
            medium.flush(self.entries[0].as_ptr(), pairs.len() * ENTRY_SIZE);
            medium.drain();
        }
    }

    /// Fills a slot that the bitmap does not name, and starts its way to the medium.
    #[inline(always)]
    pub fn fill(&self, medium: Medium<M>, slot: usize, (key, value): (u64, u64)) {
        self.entries[slot].set(key, value);
        // Relaxed: published by the bitmap.
        self.fingerprints.store(slot, fingerprint(key), Ordering::Relaxed);
        if !M::mutant("pactree.no_entry_flush") {
            // Persist: by the caller's drain, before the bitmap names the entry (PT1).
            medium.flush(self.entries[slot].as_ptr(), ENTRY_SIZE);
        }
        if !M::mutant("pactree.no_fingerprint_flush") {
            // Persist: by the caller's drain, or a search would miss the entry.
            medium.flush(self.fingerprints.as_ptr().wrapping_add(slot), 1);
        }
    }

    /// Replaces the value in a slot in use, durably. The caller holds the lock.
    pub fn set_value(&self, medium: Medium<M>, slot: usize, value: u64) {
        let entry = &self.entries[slot];
        entry.set(entry.key(), value);
        if !M::mutant("pactree.no_value_flush") {
            // Persist: the value before the lock is opened (PT2).
            medium.persist(entry.as_ptr(), ENTRY_SIZE);
        }
    }

    /// Makes another set of entries count; not durable yet. The caller holds the lock.
    #[inline(always)]
    pub fn commit(&self, bitmap: u64) {
        // Relaxed: only the holder of the lock writes it, and readers validate.
        let version = self.version.load(Ordering::Relaxed).wrapping_add(1);
        // Relaxed: only the holder of the lock writes it, and readers validate.
        self.version.store(version, Ordering::Relaxed);
        // Release: the entries it names; pairs with the acquire in `bitmap` and with recovery.
        self.bitmap.store(bitmap, Ordering::Release);
    }

    /// Makes line 0 durable.
    // Persist: what line 0 says before the lock is opened, or before the log says that it is done (PT2, PT4).
    #[inline(always)]
    pub fn persist_heading(&self, medium: Medium<M>) {
        medium.persist(self.as_ptr(), 8);
    }

    /// Makes another node the right neighbour. Not durable yet.
    pub fn set_next(&self, next: u64) {
        // Release: the neighbour is complete; pairs with the acquire in `next`.
        self.next.store(next, Ordering::Release);
    }

    /// Makes another node the left neighbour, and starts its way to the medium. The caller holds that
    /// one's lock.
    pub fn set_prev(&self, medium: Medium<M>, prev: u64) {
        // Release: the neighbour is complete; pairs with the acquire in `prev`.
        self.prev.store(prev, Ordering::Release);
        // Persist: by the caller's drain, before the log forgets the change (PT4).
        medium.flush(self.as_ptr(), 8);
    }

    /// Moves the high fence. Not durable yet.
    pub fn set_high(&self, high: u64) {
        // Release: after the link, on the medium too; recovery's view.
        self.high.store(high, Ordering::Release);
    }

    /// The stamp of the contents: what `sorted` is when `order` is theirs. No opening of the pool but
    /// the one of this generation has it.
    #[inline(always)]
    pub fn stamp(&self, generation: u32) -> u64 {
        // Relaxed: validated with the lock.
        let version = self.version.load(Ordering::Relaxed) as u32;
        let generation = if M::mutant("pactree.no_sort_generation") { 1 } else { generation };
        u64::from(generation) << 32 | u64::from(version)
    }

    /// The stamp of the contents that `order` is of.
    #[inline(always)]
    pub fn sorted(&self) -> u64 {
        // Acquire: the order; pairs with the release in `set_order`.
        self.sorted.load(Ordering::Acquire)
    }

    /// Eight slots of the order, beginning with number `8 * word`.
    #[inline(always)]
    pub fn order_word(&self, word: usize) -> u64 {
        // Relaxed: see `sorted`.
        self.order[word].load(Ordering::Relaxed)
    }

    /// Notes the slots in the order of their keys. Nobody relies on it after a crash, so nothing is
    /// flushed. The caller holds the lock.
    pub fn set_order(&self, slots: &[u8], stamp: u64) {
        for (word, part) in self.order.iter().zip(slots.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..part.len()].copy_from_slice(part);
            // Relaxed: published by the stamp.
            word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
        // Release: the order; pairs with the acquire in `sorted`.
        self.sorted.store(stamp, Ordering::Release);
    }

    /// The first byte.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.low.as_ptr()
    }
}
