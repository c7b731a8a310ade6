//! The order of a leaf's positions, kept in the slab for scans.
//!
//! It lies at a place of its own for each leaf, so that a scan asks for it as soon as it knows the leaf.
//! The word `Cold::order` guards it: a writer locks the word, and a reader looks at the word
//! before and after, and takes what it has read only if the word is the same. A scan that finds it
//! locked or changed sorts for itself, so that nobody waits.
//!
//! ```text
//!   Cold::order   0 lock | 1..32 version | 32..48 positions known | 48..64 positions that follow
//!   OrderPlace    7 samples of 8 bytes | 8 bytes free | 256 positions of a byte
//! ```

use everleaf_machine::{LINE_SIZE, Machine, Ordering};

use super::HashedLeafTree;
use super::layout::{
    LeafId, LeafShape, ORDER_SAMPLES as SAMPLES, OrderPlace, POSITION_COUNT_MAX,
    POSITIONS_IN_WORD as IN_WORD,
};
use crate::kind::Kind;

/// Orders of at most so many positions have no samples.
const UNSAMPLED: usize = 16;
/// The word that guards an order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Guard(u64);

impl Guard {
    const LOCKED: u64 = 1;
    /// Of a leaf that was given up; it counts as locked.
    const CLOSED: u64 = u64::MAX;
    const VERSION_STEP: u64 = 2;
    const VERSION_MASK: u64 = 0xffff_fffe;

    /// Of an order that is written over this one.
    fn next(self, covered: u32, count: usize) -> Self {
        let version = self.0.wrapping_add(Self::VERSION_STEP) & Self::VERSION_MASK;
        // 0 says that there was no order yet.
        let version = version.max(Self::VERSION_STEP);
        Guard(version | u64::from(covered) << 32 | (count as u64) << 48)
    }

    fn is_readable(self) -> bool {
        self.0 != 0 && self.0 & Self::LOCKED == 0
    }

    /// How many positions were known when the order was made: as long as as many are, it is complete.
    fn covered(self) -> u32 {
        u32::from((self.0 >> 32) as u16)
    }

    fn count(self) -> usize {
        (self.0 >> 48) as usize
    }
}

/// The positions of a leaf that held keys when it was made, in key order: a copy.
pub(super) struct Sorted {
    positions: [u8; POSITION_COUNT_MAX],
    count: usize,
    samples: [u64; SAMPLES],
    /// How many positions were known.
    pub covered: u32,
}

impl Sorted {
    /// Of so many positions, in key order, with the heads of their entries.
    #[inline(always)]
    pub fn of(covered: u32, count: usize, at: impl Fn(usize) -> (u64, u8)) -> Self {
        let mut sorted =
            Sorted { positions: [0; POSITION_COUNT_MAX], count, samples: [0; SAMPLES], covered };
        for (index, place) in sorted.positions[..count].iter_mut().enumerate() {
            *place = at(index).1;
        }
        if sorted.count > UNSAMPLED {
            let stride = sorted.stride();
            for (index, sample) in sorted.samples.iter_mut().enumerate() {
                let first = (index + 1) * stride;
                *sample = if first < count { at(first).0 } else { u64::MAX };
            }
        }
        sorted
    }

    /// The positions.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u8] {
        &self.positions[..self.count]
    }

    /// Positions between two samples.
    #[inline(always)]
    fn stride(&self) -> usize {
        self.count.div_ceil(SAMPLES + 1)
    }

    /// Bounds of the index of the first entry that is not below a key with this head, by the samples.
    #[inline(always)]
    pub fn bounds(&self, head: u64) -> (usize, usize) {
        if self.count <= UNSAMPLED {
            return (0, self.count);
        }
        let stride = self.stride();
        let below = self.samples.iter().filter(|sample| **sample < head).count();
        ((below * stride).min(self.count), ((below + 1) * stride).min(self.count))
    }
}

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// Words that positions of this shape take.
    const ORDER_WORDS: usize = G::POSITIONS.div_ceil(IN_WORD);

    /// The word that guards a leaf's order. It is loaded before the fingerprints: then all that was known
    /// when the order was made is known to a thread that loads them, and equal counts mean equal sets. (Loaded
    /// behind them, it may guard the order of a scan that looked at one chunk before and at another
    /// behind us.)
    #[inline(always)]
    pub(super) fn order_guard(&self, leaf: LeafId) -> Guard {
        // Acquire: what was written before the word was set; pairs with the release in `keep_order`.
        Guard(self.cold(leaf).order.load(Ordering::Acquire))
    }

    /// The order that this word guards, if there is one and nobody is at it.
    #[inline(always)]
    pub(super) fn kept_order(&self, leaf: LeafId, guard: Guard) -> Option<Sorted> {
        let (word, place) = (&self.cold(leaf).order, self.slab.order(leaf));
        if !guard.is_readable() {
            return None;
        }
        let mut sorted = Sorted {
            positions: [0; POSITION_COUNT_MAX],
            count: guard.count(),
            samples: [0; SAMPLES],
            covered: guard.covered(),
        };
        let words = sorted.positions.as_chunks_mut::<IN_WORD>().0;
        for (bytes, word) in words.iter_mut().zip(&place.positions[..Self::ORDER_WORDS]) {
            // Relaxed: of no use unless the guard is the same behind the memory fence below.
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        if sorted.count > UNSAMPLED {
            for (sample, word) in sorted.samples.iter_mut().zip(&place.samples) {
                // Relaxed: of no use unless the guard is the same behind the memory fence below.
                *sample = word.load(Ordering::Relaxed);
            }
        }
        // Acquire: the loads above come before that of the guard below. If one of them saw what a writer
        // stored, the guard is seen as the writer left it before that store, or later: pairs with the
        // memory fence in `keep_order`.
        if !M::mutant("hashed.order_no_acquire") {
            M::fence(Ordering::Acquire);
        }
        // Relaxed: ordered by the memory fence.
        if Guard(word.load(Ordering::Relaxed)) != guard {
            M::mark("hashed.order.changed");
            return None;
        }
        Some(sorted)
    }

    /// Keeps an order for later scans, unless somebody else is writing one or there is a later one.
    pub(super) fn keep_order(&self, leaf: LeafId, sorted: &Sorted, stripe: usize) {
        let (word, place) = (&self.cold(leaf).order, self.slab.order(leaf));
        // Relaxed: the exchange below decides.
        let before = Guard(word.load(Ordering::Relaxed));
        if before.0 & Guard::LOCKED != 0 || before.0 != 0 && before.covered() >= sorted.covered {
            return;
        }
        let locked = before.0 | Guard::LOCKED;
        // Acquire: behind the writer before us; pairs with the release below. Relaxed: then nothing is
        // done.
        let locked = if M::mutant("hashed.order_unlocked") { before.0 } else { locked };
        if word.compare_exchange(before.0, locked, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        // Release: the lock comes before the stores below in the eyes of a thread that sees one of them; pairs
        // with the memory fence in `kept_order`.
        if !M::mutant("hashed.order_no_release") {
            M::fence(Ordering::Release);
        }
        let words = sorted.positions.as_chunks::<IN_WORD>().0;
        for (word, bytes) in place.positions[..Self::ORDER_WORDS].iter().zip(words) {
            // Relaxed: between the memory fence and the release below.
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        if sorted.count > UNSAMPLED {
            for (word, sample) in place.samples.iter().zip(&sorted.samples) {
                // Relaxed: between the memory fence and the release below.
                word.store(*sample, Ordering::Relaxed);
            }
        }
        let after = before.next(sorted.covered, sorted.count);
        // Release: the order is complete; pairs with the acquire in `order_guard`. Relaxed: it fails only
        // when the leaf was given up meanwhile.
        let kept = word.compare_exchange(locked, after.0, Ordering::Release, Ordering::Relaxed);
        if kept.is_ok() && before.0 == 0 {
            self.ordered.add(stripe, 1);
        }
    }

    /// Forgets the order of a leaf that goes, and admits no other.
    pub(super) fn close_order(&self, leaf: LeafId, stripe: usize) {
        // Relaxed: nothing is read or handed on; a thread that has read the order keeps a copy.
        let before = self.cold(leaf).order.swap(Guard::CLOSED, Ordering::Relaxed);
        // A thread that has locked an order that was not there has not counted it, and will not.
        if before != 0 && before != Guard::LOCKED {
            self.ordered.add(stripe, -1);
        }
    }

    /// Asks for a leaf's order.
    #[inline(always)]
    pub(super) fn prefetch_order(&self, leaf: LeafId) {
        if M::SIMULATED {
            return;
        }
        let place = std::ptr::from_ref(self.slab.order(leaf)).cast::<u8>();
        for line in (0..size_of::<OrderPlace<M>>()).step_by(LINE_SIZE) {
            M::prefetch(place.wrapping_add(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_bound_where_a_key_may_be() {
        for count in [0, 1, 2, 7, 8, 9, 20, 63, 170, 254] {
            // Every head twice, as kinds with longer keys may have them.
            let in_order: Vec<(u64, u8)> =
                (0..count).map(|index| (index as u64 / 2 * 10 + 5, index as u8)).collect();
            let sorted = Sorted::of(9, in_order.len(), |index| in_order[index]);
            assert_eq!(sorted.as_slice().len(), count);
            for head in 0..=10 * (count as u64 + 2) {
                let first = in_order.partition_point(|(other, _)| *other < head);
                let (low, high) = sorted.bounds(head);
                assert!(low <= first && first <= high, "{count} {head}: {low} {first} {high}");
                assert!(high - low <= count.div_ceil(SAMPLES + 1).max(UNSAMPLED));
            }
        }
    }

    #[test]
    fn a_guard_tells_orders_apart_and_is_never_0_again() {
        let mut guard = Guard(0);
        assert!(!guard.is_readable());
        for round in 0..10 {
            let next = guard.next(200 + round, 100);
            assert!(next.is_readable() && next != guard);
            assert_eq!((next.covered(), next.count()), (200 + round, 100));
            guard = next;
        }
        let last = Guard(Guard::VERSION_MASK).next(254, 254);
        assert!(last.is_readable() && last.count() == 254 && last.covered() == 254);
    }
}
