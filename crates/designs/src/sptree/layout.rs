//! Where things are in the pool: the root object and the leaf.
//!
//! ```text
//!   root object   word 0       1                       2                     3..27              27..30   30..32
//!           | the tag    | the variant's number  | first leaf: offset  | logs (`write_log.rs`) | zero | areas |
//!
//!   leaf, 1216 bytes
//!   line 0     | low 8 | high 8 | next 8 | bitmap 8 | version 8 | covered 8 | sorted 8 | flushed 8 |
//!   line 1     | 64 tags, one byte each                                                      |
//!   line 2 ..  | 64 entries of key and value                                                 |
//!   line 18    | 64 slot numbers in the order of their keys, one byte each                   |
//! ```
//!
//! The tag is "EVLSPTR2" in a variant with buffers, whose words of logs have sums, "EVLSPTR1" in one without, and
//! "EVLSPTR4" in one with checkpoints, whose chunks of logs have filters if the upper half of the variant's word is
//! "FLTR"; it is 0 otherwise. The two areas are those of checkpoints (`head_areas.rs`), zero in a variant without.
//!
//! A leaf is in a class of records of 1280 bytes. Everything that says what a leaf holds is on line 0,
//! so a line's stores, which become durable in their order, are all the log that a change needs.

use everleaf_machine::{Atomic, FingerprintLine, Machine, Ordering};
use everleaf_pool::Medium;

use super::variant::Variant;
use crate::node::entry::{ENTRY_SIZE, Entry};
use crate::node::write_buffer::tag as key_tag;

/// First word of a root object. Programs whose logs had no sums had the same for all, and those whose checkpoints had
/// no places of leaves, and whose merges do not say that there was one, "EVLSPTR2" for those with checkpoints; those
/// whose chunks had no filters had "EVLSPTR3".
pub(super) const fn tag<V: Variant>() -> u64 {
    u64::from_le_bytes(match (V::BUFFERED, V::CHECKPOINTED) {
        (false, _) => *b"EVLSPTR1",
        (true, false) => *b"EVLSPTR2",
        (true, true) => *b"EVLSPTR4",
    })
}

/// The root object's word that says which variant the tree is of, and whether its logs have filters.
pub(super) const VARIANT_WORD: usize = 1;
/// The upper half of that word where logs have filters, and 0 where they have none, as in a pool that is made small.
/// Not one bit: the records of a chunk end elsewhere, and what is read wrongly would be lost without a word.
pub(super) const FILTERED: u64 = (u32::from_le_bytes(*b"FLTR") as u64) << 32;
/// The root object's word that names the first leaf.
pub(super) const HEAD_WORD: usize = 2;
/// The root object's first word that names the oldest chunk of a log.
pub(super) const LOG_WORD: usize = 3;
/// The root object's first word that names an area of checkpoints.
pub(super) const AREA_WORD: usize = 30;
/// Entries of a leaf.
pub(super) const ENTRY_COUNT: usize = 64;
/// The high fence of the last leaf, and no key.
pub(super) const HIGH_MAX: u64 = u64::MAX;
/// Bytes of a leaf.
pub(super) const LEAF_SIZE: usize = 1216;
/// Bytes from one leaf to the next in a chunk of leaves: the class of such records.
pub(super) const LEAF_STRIDE: u64 = 1280;

/// See the module.
#[repr(C, align(64))]
pub(super) struct Leaf<M: Machine> {
    low: Atomic<u64, M>,
    high: Atomic<u64, M>,
    next: Atomic<u64, M>,
    bitmap: Atomic<u64, M>,
    version: Atomic<u64, M>,
    covered: Atomic<u64, M>,
    sorted: Atomic<u64, M>,
    flushed: Atomic<u64, M>,
    tags: FingerprintLine<M>,
    entries: [Entry<M>; ENTRY_COUNT],
    order: [Atomic<u64, M>; ENTRY_COUNT / 8],
}

const _: () = assert!(size_of::<Leaf<everleaf_machine::Hardware>>() == LEAF_SIZE);

/// What line 0 says, as recovery and the check read it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heading {
    /// The keys are at least this.
    pub low: u64,
    /// The keys that count are below this.
    pub high: u64,
    /// The right neighbour; 0 if there is none.
    pub next: u64,
    /// The slots in use.
    pub bitmap: u64,
    /// The high fence up to which the bitmap is right: that of the leaf, unless a crash came between.
    pub covered: u64,
    /// The leaf has all buffered writes up to the one of this number.
    pub flushed: u64,
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

impl<M: Machine> Leaf<M> {
    /// Line 0, while nobody writes it.
    pub fn heading(&self) -> Heading {
        Heading {
            low: self.low.read_private(),
            high: self.high.read_private(),
            next: self.next.read_private(),
            bitmap: self.bitmap.read_private(),
            covered: self.covered.read_private(),
            flushed: self.flushed.read_private(),
        }
    }

    /// The low fence, which nobody writes when the leaf is in the list.
    pub fn low(&self) -> u64 {
        self.low.read_private()
    }

    /// Makes a leaf that nobody else has seen one of this heading.
    pub fn set_heading(&self, heading: Heading) {
        self.low.write_private(heading.low);
        self.high.write_private(heading.high);
        self.next.write_private(heading.next);
        self.bitmap.write_private(heading.bitmap);
        self.version.write_private(0);
        self.covered.write_private(heading.covered);
        self.sorted.write_private(0);
        self.flushed.write_private(heading.flushed);
    }

    /// The slots in use.
    #[inline(always)]
    pub fn bitmap(&self) -> u64 {
        // Acquire: the entries it names; pairs with the release in `commit`.
        self.bitmap.load(Ordering::Acquire)
    }

    /// The slot of a key.
    #[inline(always)]
    pub fn find(&self, key: u64) -> Option<usize> {
        let candidates = self.bitmap() & self.tags.matches(key_tag(key));
        slots(candidates).find(|slot| self.entries[*slot].key() == key)
    }

    /// Asks for the entries of which one may be of this key.
    #[inline(always)]
    pub fn prefetch_slot(&self, key: u64) {
        let candidates = self.bitmap() & self.tags.matches(key_tag(key));
        slots(candidates).for_each(|slot| M::prefetch(self.entries[slot].as_ptr()));
    }

    /// The value in a slot.
    #[inline(always)]
    pub fn value(&self, slot: usize) -> u64 {
        self.entries[slot].value()
    }

    /// Key and value in a slot; a number that a torn read gave is cut to the leaf.
    #[inline(always)]
    pub fn pair(&self, slot: usize) -> (u64, u64) {
        self.entries[slot % ENTRY_COUNT].pair()
    }

    /// The tag in a slot, while nobody writes it.
    pub fn tag_at(&self, slot: usize) -> u8 {
        self.tags.read_private(slot)
    }

    /// The number up to which it has all buffered writes.
    pub fn flushed(&self) -> u64 {
        // Acquire: pairs with the release in `set_flushed`.
        self.flushed.load(Ordering::Acquire)
    }

    /// Fills a slot that the bitmap does not name, and starts its way to the medium.
    #[inline(always)]
    pub fn fill(&self, medium: Medium<M>, slot: usize, (key, value): (u64, u64)) {
        self.entries[slot].set(key, value);
        // Relaxed: published by the bitmap.
        self.tags.store(slot, key_tag(key), Ordering::Relaxed);
        // Persist: entry and tag, by the caller's drain, before the bitmap names them (S1).
        if !M::mutant("sptree.no_entry_flush") {
            medium.flush(self.entries[slot].as_ptr(), ENTRY_SIZE);
        }
        if !M::mutant("sptree.no_tag_flush") {
            // Persist: by the caller's drain (S1), or a search would miss the entry.
            medium.flush(self.tags.as_ptr().wrapping_add(slot), 1);
        }
    }

    /// Fills a slot that the bitmap does not name; not on its way to the medium yet.
    pub fn set_slot(&self, slot: usize, (key, value): (u64, u64)) {
        self.entries[slot].set(key, value);
        // Relaxed: published by the bitmap.
        self.tags.store(slot, key_tag(key), Ordering::Relaxed);
    }

    /// Starts the way of these slots to the medium, each line once.
    pub fn flush_slots(&self, medium: Medium<M>, filled: u64) {
        const LINE: usize = 64 / ENTRY_SIZE;
        // Waited for by the caller.
        if !M::mutant("sptree.no_tag_flush") {
            medium.flush(self.tags.as_ptr(), 1);
        }
        for first in (0..ENTRY_COUNT).step_by(LINE) {
            if filled >> first & 0xF != 0 && !M::mutant("sptree.no_entry_flush") {
                medium.flush(self.entries[first].as_ptr(), ENTRY_SIZE);
            }
        }
    }

    /// Says up to which buffered write the leaf has all. Not durable yet.
    pub fn set_flushed(&self, sequence: u64) {
        // Release: after the bitmap, on the medium too; recovery's view.
        self.flushed.store(sequence, Ordering::Release);
    }

    /// Fills a slot of a leaf that nobody else has seen.
    pub fn fill_private(&self, slot: usize, (key, value): (u64, u64)) {
        self.entries[slot].set(key, value);
        self.tags.write_private(slot, key_tag(key));
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
    #[inline(always)]
    pub fn persist_heading(&self, medium: Medium<M>) {
        // Persist: what line 0 says before the lock is opened, or a reader could see what a crash
        // takes back (S2).
        medium.persist(self.low.as_ptr(), 8);
    }

    /// Makes a leaf with entries in the first `count` slots durable.
    // Persist: the leaf before a link to it, or recovery would follow the link to garbage (S3).
    pub fn persist_new(&self, medium: Medium<M>, count: usize) {
        // Waited for below.
        medium.flush(self.low.as_ptr(), 8);
        medium.flush(self.tags.as_ptr(), 1);
        medium.flush(self.entries[0].as_ptr(), count * ENTRY_SIZE);
        // Persist: the leaf before a link to it (S3).
        medium.drain();
    }

    /// Makes another leaf the right neighbour. Not durable yet.
    pub fn set_next(&self, next: u64) {
        // Release: the neighbour is complete; pairs with recovery, which follows the link.
        self.next.store(next, Ordering::Release);
    }

    /// Moves the high fence. Not durable yet.
    pub fn set_high(&self, high: u64) {
        // Release: after the link, on the medium too; recovery's view.
        self.high.store(high, Ordering::Release);
    }

    /// Says up to where the bitmap is right. Not durable yet.
    pub fn set_covered(&self, covered: u64) {
        // Release: after the bitmap, on the medium too; recovery's view.
        self.covered.store(covered, Ordering::Release);
    }

    /// The stamp of the contents: what `sorted` is when `order` is theirs. No opening of the pool but
    /// the one of this generation has it.
    #[inline(always)]
    pub fn stamp(&self, generation: u32) -> u64 {
        // Relaxed: validated with the lock.
        let version = self.version.load(Ordering::Relaxed) as u32;
        let generation = if M::mutant("sptree.no_sort_generation") { 1 } else { generation };
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

    /// The first byte, for prefetching.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.low.as_ptr()
    }
}
