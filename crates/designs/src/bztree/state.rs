//! The states of a node and of its pairs: which thread brings them there, and what others do about it. And the
//! words.
//!
//! ```text
//!   node   ACTIVE ------> FROZEN ------> replaced, retired
//!
//!   pair   FREE --> RESERVED --> VISIBLE --> GONE
//!                       `--------------------^
//! ```
//!
//! | state | where it is | others |
//! |---|---|---|
//! | FROZEN | bit 38 of the status | read it; writers build what replaces it. No operation on it succeeds |
//! | RESERVED | metadata | readers pass; a thread that reserved a later pair waits for a while, and then gives it up |
//! | VISIBLE | metadata | read the pair |
//! | GONE | metadata | pass |
//!
//! A crash leaves frozen nodes active and reserved pairs gone: nobody is at work on them any more.

use everleaf_machine::{Atomic, Machine, Ordering};

use super::BzTree;
use super::layout::{INNER_PAIRS, LEAF, PAIR_SIZE, SHAPE, SORTED_MASK, leaf_pairs, meta_at};
use super::variant::Variant;

/// A leaf's metadata of a pair that nobody has.
pub(super) const FREE: u64 = 0;
/// That of a pair which is about to be written.
pub(super) const RESERVED: u64 = 1;
/// That of a pair that is there.
pub(super) const VISIBLE: u64 = 2;
/// That of a pair that was removed, or given up.
pub(super) const GONE: u64 = 3;

/// The first word of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status(pub u64);

impl Status {
    const FROZEN: u64 = 1 << 38;
    const DELETED: u64 = 1 << 16;

    /// Of a new node of so many pairs.
    pub fn of(count: usize) -> Self {
        Status(count as u64)
    }

    #[inline(always)]
    pub fn is_frozen(self) -> bool {
        self.0 & Self::FROZEN != 0
    }

    pub fn frozen(self) -> Self {
        Status(self.0 | Self::FROZEN)
    }

    pub fn active(self) -> Self {
        Status(self.0 & !Self::FROZEN)
    }

    /// Pairs that were reserved, ever.
    #[inline(always)]
    pub fn count(self) -> usize {
        (self.0 & (Self::DELETED - 1)) as usize
    }

    /// Pairs that were removed.
    pub fn deleted(self) -> usize {
        ((self.0 & (Self::FROZEN - 1)) >> 16) as usize
    }

    /// With one pair more.
    pub fn reserved(self) -> Self {
        Status(self.0 + 1)
    }

    /// With one pair less.
    pub fn removed(self) -> Self {
        Status(self.0 + Self::DELETED)
    }
}

impl<V: Variant, M: Machine> BzTree<V, M> {
    /// A word of a node.
    #[inline(always)]
    pub(super) fn word(&self, offset: u64) -> &Atomic<u64, M> {
        let start = self.base.start().wrapping_add(offset as usize).cast();
        // SAFETY: offsets come from the root object, from children that recovery has checked or the running tree has
        // stored, and from the allocator: inside a record of the pool, aligned, and not reclaimed while the
        // caller is pinned; an atomic word is valid whatever its bits are.
        unsafe { &*start }
    }

    /// Whether a node is a leaf, and how many of its pairs are sorted.
    #[inline(always)]
    pub(super) fn shape(&self, node: u64) -> (bool, usize) {
        // Relaxed: written before anything led to the node, and never again.
        let shape = self.word(node + SHAPE).load(Ordering::Relaxed);
        (shape & LEAF != 0, (shape & SORTED_MASK) as usize)
    }

    /// Where the pairs of a node begin.
    #[inline(always)]
    pub(super) fn pairs_of(is_leaf: bool) -> u64 {
        if is_leaf { leaf_pairs(V::SLOT_COUNT) } else { INNER_PAIRS }
    }

    /// Where a leaf's pair has its value.
    #[inline(always)]
    pub(super) fn value_at(leaf: u64, slot: usize) -> u64 {
        leaf + Self::pairs_of(true) + PAIR_SIZE * slot as u64 + 8
    }

    /// Where an inner node's pair has its child.
    #[inline(always)]
    pub(super) fn child_at(inner: u64, index: usize) -> u64 {
        inner + INNER_PAIRS + PAIR_SIZE * index as u64 + 8
    }

    /// The key of a pair that others can see.
    #[inline(always)]
    pub(super) fn key(&self, node: u64, is_leaf: bool, slot: usize) -> u64 {
        let place = node + Self::pairs_of(is_leaf) + PAIR_SIZE * slot as u64;
        // Relaxed: written before the pair became visible, which the caller has seen, and never again.
        self.word(place).load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn status(&self, stripe: usize, node: u64) -> Status {
        Status(self.words.read(stripe, node))
    }

    #[inline(always)]
    pub(super) fn meta(&self, stripe: usize, leaf: u64, slot: usize) -> u64 {
        self.words.read(stripe, leaf + meta_at(slot))
    }

    #[inline(always)]
    pub(super) fn value(&self, stripe: usize, leaf: u64, slot: usize) -> u64 {
        self.words.read(stripe, Self::value_at(leaf, slot))
    }

    #[inline(always)]
    pub(super) fn child(&self, stripe: usize, inner: u64, index: usize) -> u64 {
        self.words.read(stripe, Self::child_at(inner, index))
    }

    /// Freezes a node: from now on no operation on it succeeds. It need not be durable (Z3). False if it was
    /// frozen already.
    pub(super) fn freeze(&self, stripe: usize, node: u64) -> bool {
        loop {
            let status = self.status(stripe, node);
            if status.is_frozen() {
                return false;
            }
            // AcqRel: what was done to the node, for a thread that copies it; pairs with the acquire in
            // `Pmwcas::read`. Relaxed on failure: the loop looks again.
            let set = self.word(node).compare_exchange(
                status.0,
                status.frozen().0,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if set.is_ok() {
                return true;
            }
        }
    }

    /// Gives up a reserved pair; false if it is visible or gone. It need not be durable (Z4).
    pub(super) fn give_up(&self, leaf: u64, slot: usize) -> bool {
        // AcqRel, Relaxed: as in `freeze`.
        self.word(leaf + meta_at(slot))
            .compare_exchange(RESERVED, GONE, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn a_status_counts_and_freezes() {
        let status = Status::of(3).reserved().removed().removed();
        assert_eq!((status.count(), status.deleted(), status.is_frozen()), (4, 2, false));
        let frozen = status.frozen();
        assert_eq!((frozen.count(), frozen.deleted(), frozen.is_frozen()), (4, 2, true));
        assert_eq!(frozen.active(), status);
    }
}
