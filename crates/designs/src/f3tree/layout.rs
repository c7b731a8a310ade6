//! Where things are: the root object and the future objects.
//!
//! ```text
//!   root object   word 0      1         2                     3         4..8   8..24          24..32
//!           | "EVLF3TRE" | variant | global tree's root  | drained | 0    | newest object | 0 |
//!                                                                           of each front
//!   object, 512 bytes, or what its variant says
//!   line 0      | next: an offset, 0 for the last | 0 ...          |
//!   line 1..8   | key | value | stamp | 0 | key | value | stamp | 0 |
//! ```
//!
//! The *stamp* of an entry is twice its sequence number, plus one if the entry is a removal. It is
//! stored after key and value, in the same line, so that it vouches for them on the medium. An entry
//! counts if its sequence number is at least `drained`; all below is durable in the global tree. The
//! upper 12 bits of `drained` are a check sum of the lower 52.

use std::marker::PhantomData;

use everleaf_alloc::AllocError;
use everleaf_index::{PoolBase, ROOT_OBJECT_WORDS};
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering};
use everleaf_pool::Medium;

/// First word of a root object: "EVLF3TRE".
pub(super) const TAG: u64 = u64::from_le_bytes(*b"EVLF3TRE");
/// The root object's word that says which variant made it.
pub(super) const VARIANT_WORD: usize = 1;
/// The root object's word with the root value of the global tree.
pub(super) const GLOBAL_WORD: usize = 2;
/// The root object's word below which all sequence numbers are durable in the global tree.
pub(super) const DRAINED_WORD: usize = 3;
/// The root object's first word that refers to a front's newest object.
pub(super) const FRONT_WORD: usize = 8;
/// Fronts that a root object has room for.
pub(super) const FRONTS_MAX: usize = 16;
/// Bytes of an entry.
const ENTRY_SIZE: usize = 32;

/// Entries that an object of so many bytes has room for.
pub(super) const fn entries_max(object_size: usize) -> usize {
    (object_size - LINE_SIZE) / ENTRY_SIZE
}

const _: () = assert!(FRONT_WORD + FRONTS_MAX <= ROOT_OBJECT_WORDS && entries_max(512) == 14);

/// Sequence numbers are below this, which takes years to reach: a larger one is damage.
pub(super) const SEQUENCE_END: u64 = 1 << SEQUENCE_BITS;
const SEQUENCE_BITS: u32 = 52;

/// What the root object's word says of a number below which everything is drained. A number that nobody wrote
/// would make entries count that were replaced, or take away those that are pending.
pub(super) fn sealed(drained: u64) -> u64 {
    let sum = u64::from(crc32c::crc32c(&drained.to_le_bytes()));
    drained | sum << SEQUENCE_BITS
}

/// The number that the root object's word says; `None` if nobody wrote it.
pub(super) fn unsealed(word: u64) -> Option<u64> {
    let drained = word & (SEQUENCE_END - 1);
    (drained > 0 && sealed(drained) == word).then_some(drained)
}

/// A sequence number, and whether the entry is a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(pub u64);

impl Stamp {
    /// The stamp of an entry.
    pub fn new(sequence: u64, is_removal: bool) -> Self {
        Stamp(sequence << 1 | u64::from(is_removal))
    }

    /// The sequence number.
    pub fn sequence(self) -> u64 {
        self.0 >> 1
    }

    /// Whether the entry is a removal.
    pub fn is_removal(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The objects of one pool.
pub(super) struct Objects<M: Machine> {
    base: PoolBase<M>,
    medium: Medium<M>,
    /// Bytes of one.
    size: usize,
    machine: PhantomData<M>,
}

// SAFETY: `base` is the pool's mapping, which the tree's heap keeps; all its words are atomic.
unsafe impl<M: Machine> Send for Objects<M> {}
// SAFETY: as for `Send`.
unsafe impl<M: Machine> Sync for Objects<M> {}

impl<M: Machine> Objects<M> {
    /// The objects, of `size` bytes each, of the pool that begins at `base`.
    pub fn new(base: PoolBase<M>, medium: Medium<M>, size: usize) -> Self {
        Objects { base, medium, size, machine: PhantomData }
    }

    /// Refuses an offset at which no object can be.
    pub fn check_place(&self, offset: u64) -> Result<(), AllocError> {
        if offset.is_multiple_of(LINE_SIZE as u64) && self.base.holds(offset, self.size) {
            return Ok(());
        }
        let what = "a front refers to a place where no future object can be".to_string();
        Err(AllocError::Corrupt { offset, what })
    }

    /// The word of an object that refers to the next older one.
    pub fn next(&self, object: u64) -> &Atomic<u64, M> {
        self.word(object)
    }

    /// Where entry `index` of an object is.
    pub fn entry(object: u64, index: usize) -> u64 {
        object + (LINE_SIZE + index * ENTRY_SIZE) as u64
    }

    /// Key and value of the entry at `entry`.
    pub fn pair(&self, entry: u64) -> (u64, u64) {
        (self.word(entry).read_private(), self.word(entry + 8).read_private())
    }

    /// The stamp of the entry at `entry`, while others may store it.
    pub fn stamp(&self, entry: u64) -> Stamp {
        // Relaxed: compared with `drained` only, and the thread that stores another stamp keeps the
        // sequence number on the same side of it (F3).
        Stamp(self.stamp_word(entry).load(Ordering::Relaxed))
    }

    /// Stamp, key and value of the entry at `entry`, while others may fill it: key and value are those of the stamp,
    /// or the stamp is below what `drained` is by now, or another thread changes the entry of this key.
    pub fn whole(&self, entry: u64) -> (Stamp, u64, u64) {
        // Acquire: key and value; pairs with the release in `restamp`.
        let stamp = Stamp(self.stamp_word(entry).load(Ordering::Acquire));
        // Relaxed: the stamp has been read.
        let key = self.word(entry).load(Ordering::Relaxed);
        // Relaxed: the stamp has been read.
        (stamp, key, self.word(entry + 8).load(Ordering::Relaxed))
    }

    fn stamp_word(&self, entry: u64) -> &Atomic<u64, M> {
        self.word(entry + 16)
    }

    /// Writes an object that nobody can reach, without entries, and makes it durable.
    pub fn build(&self, object: u64, next: u64) {
        self.next(object).write_private(next);
        for index in 0..entries_max(self.size) {
            self.stamp_word(Self::entry(object, index)).write_private(0);
        }
        if M::mutant("f3.object_unflushed") {
            return;
        }
        // Persist: the object before its front refers to it, or recovery would believe the entries
        // of its last life.
        self.medium.persist(self.start(object), self.size);
    }

    /// Fills the free entry at `entry`, durably.
    pub fn fill(&self, entry: u64, key: u64, value: u64, stamp: Stamp) {
        if M::mutant("f3.stamp_first") {
            // Relaxed: a planted bug.
            self.stamp_word(entry).store(stamp.0, Ordering::Relaxed);
        }
        // Relaxed: published by the stamp; the old stamp is below `drained`, so that nobody, and no
        // recovery, reads the pair under it.
        self.word(entry).store(key, Ordering::Relaxed);
        self.change(entry, value, stamp);
    }

    /// Gives the entry at `entry` another value and stamp, durably. A crash in between leaves the old
    /// stamp with the old or the new value: the write has not happened, or has.
    pub fn change(&self, entry: u64, value: u64, stamp: Stamp) {
        // Release: published by the stamp, but a reader of all entries that sees it under the old one has to see
        // why it could be stored; pairs with the fence in `search.rs`.
        self.word(entry + 8).store(value, Ordering::Release);
        self.restamp(entry, stamp);
    }

    /// Gives the entry at `entry` another stamp, durably.
    pub fn restamp(&self, entry: u64, stamp: Stamp) {
        // Release: after key and value, also on the medium; recovery's view.
        self.stamp_word(entry).store(stamp.0, Ordering::Release);
        if M::mutant("f3.no_entry_flush") {
            return;
        }
        // Persist: the entry before the table of pending keys shows it (F1). Stamp and pair are on
        // one line, so one flush is enough.
        self.medium.persist(self.start(entry), ENTRY_SIZE);
    }

    fn start(&self, offset: u64) -> *const u8 {
        self.base.start().wrapping_add(offset as usize)
    }

    fn word(&self, offset: u64) -> &Atomic<u64, M> {
        // SAFETY: inside an object, which lies in the pool and is given back with the tree only;
        // aligned; an atomic word is valid whatever its bits are.
        unsafe { &*self.start(offset).cast::<Atomic<u64, M>>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_with_a_flipped_bit_is_believed() {
        for drained in [1, 2, 77, 1 << 20, SEQUENCE_END - 1] {
            let word = sealed(drained);
            assert_eq!(unsealed(word), Some(drained));
            for one in 0..64 {
                assert_eq!(unsealed(word ^ 1 << one), None, "{drained}, bit {one}");
            }
        }
        assert_eq!((unsealed(0), unsealed(1), unsealed(u64::MAX)), (None, None, None));
    }
}
