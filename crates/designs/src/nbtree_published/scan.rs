//! Range scans, leaf by leaf, both ways. The paper has none.
//!
//! A leaf that is not linked has everything that was written, so copies are never looked at. What
//! is appended is in order and has no key twice; a key that was there all the time is not missed.

use everleaf_alloc::Session;
use everleaf_index::Geometry;
use everleaf_machine::{LINE_SIZE, Machine, Ordering};

use super::NbPublished;
use super::layout::{BLOCK_SIZE, Leaf};
use super::state::{COMMITTED, plain};
use super::variant::Variant;

/// Key-value pairs.
type Pairs = Vec<(u64, u64)>;

impl<V: Variant, G: Geometry, M: Machine> NbPublished<V, G, M> {
    /// Appends up to `limit` pairs from `from` on.
    pub(super) fn scan_forward(
        &self,
        session: &mut Session<M>,
        mut from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) {
        // A short scan allocates once; a long one grows as it goes.
        pairs.reserve(limit.min(256));
        let end = pairs.len().saturating_add(limit);
        let mut part = Pairs::new();
        while pairs.len() < end {
            let (_, high) = self.read_leaf(session, from, &mut part);
            let fits = part.iter().skip_while(|pair| pair.0 < from);
            pairs.extend(fits.take(end - pairs.len()));
            if high == 0 {
                return;
            }
            from = high;
        }
    }

    /// Appends up to `limit` pairs from `from` on, descending.
    pub(super) fn scan_backward(
        &self,
        session: &mut Session<M>,
        mut from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) {
        let end = pairs.len().saturating_add(limit);
        let mut part = Pairs::new();
        while pairs.len() < end {
            let (low, _) = self.read_leaf(session, from, &mut part);
            let fits = part.iter().rev().skip_while(|pair| pair.0 > from);
            pairs.extend(fits.take(end - pairs.len()));
            let Some(below) = low.checked_sub(1) else { return };
            from = below;
        }
    }

    /// Makes `part` the pairs of the leaf for `key`, ascending; gives the leaf's range.
    fn read_leaf(&self, session: &mut Session<M>, key: u64, part: &mut Pairs) -> (u64, u64) {
        loop {
            let leaf = self.find_leaf(session, key);
            let Some(_held) = self.hold_for_read(leaf) else { continue };
            self.collect(leaf, part);
            return (leaf.low(), leaf.high());
        }
    }

    /// Makes `part` the pairs of a leaf, ascending.
    fn collect(&self, leaf: &Leaf<M>, part: &mut Pairs) {
        part.clear();
        let block = self.block(leaf);
        let start = block.next.as_ptr();
        (0..BLOCK_SIZE).step_by(LINE_SIZE).for_each(|at| M::prefetch(start.wrapping_add(at)));
        // Acquire: committed slots are written; pairs with the commit in `write.rs`.
        let mut rest = leaf.bitmap.load(Ordering::Acquire) & COMMITTED;
        while rest != 0 {
            let slot = &block.slots[rest.trailing_zeros() as usize];
            rest &= rest - 1;
            // Acquire: pairs with the exchange in `remove`.
            let key = slot.key.load(Ordering::Acquire);
            if key != 0 {
                // Acquire: pairs with the exchanges of values.
                part.push((key, plain(slot.value.load(Ordering::Acquire))));
            }
        }
        part.sort_unstable_by_key(key_of);
        // Removed and inserted again while we read: both were there.
        part.dedup_by_key(|pair| pair.0);
    }
}

/// Not part of what is generic, so that sorting by it is compiled once.
fn key_of(pair: &(u64, u64)) -> u64 {
    pair.0
}
