//! Range scans: a leaf at a time, each found by a bound of the one before. Leaves have no siblings. A pin lasts
//! for one leaf: a long scan keeps no descriptor and no node from being used again.

use everleaf_alloc::Session;
use everleaf_machine::Machine;

use super::BzTree;
use super::search::LeafRange;
use super::state::VISIBLE;
use super::variant::Variant;

/// Keys and values.
pub(super) type Pairs = Vec<(u64, u64)>;

impl<V: Variant, M: Machine> BzTree<V, M> {
    /// The pairs of a leaf, ascending. Each was there at some moment of the call; of a key that was removed
    /// and added again meanwhile, the later one.
    pub(super) fn pairs(&self, stripe: usize, leaf: u64) -> Pairs {
        let count = self.status(stripe, leaf).count();
        let mut pairs = Pairs::with_capacity(count);
        for slot in 0..count {
            if self.meta(stripe, leaf, slot) == VISIBLE {
                pairs.push((self.key(leaf, true, slot), self.value(stripe, leaf, slot)));
            }
        }
        // Stable: pairs of one key stay in the order in which they were added.
        pairs.sort_by_key(|pair| pair.0);
        pairs.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                *earlier = *later;
            }
            is_same
        });
        pairs
    }

    /// The leaf of a key and its pairs, ascending.
    fn pairs_at(&self, session: &mut Session<M>, key: u64) -> (LeafRange, Pairs) {
        let session = session.pinned();
        let place = self.find_place(session.stripe(), key);
        (place, self.pairs(session.stripe(), place.leaf))
    }

    /// Appends up to `limit` pairs from `from` on.
    pub(super) fn scan_forward(
        &self,
        session: &mut Session<M>,
        mut from: u64,
        limit: usize,
        to: &mut Pairs,
    ) {
        let mut left = limit;
        while left > 0 {
            let (place, pairs) = self.pairs_at(session, from);
            let first = pairs.partition_point(|pair| pair.0 < from);
            let taken = &pairs[first..][..left.min(pairs.len() - first)];
            to.extend_from_slice(taken);
            left -= taken.len();
            let Some(high) = place.high else { return };
            from = high;
        }
    }

    /// Appends up to `limit` pairs from `from` on, descending.
    pub(super) fn scan_backward(
        &self,
        session: &mut Session<M>,
        mut from: u64,
        limit: usize,
        to: &mut Pairs,
    ) {
        let mut left = limit;
        while left > 0 {
            let (place, pairs) = self.pairs_at(session, from);
            let end = pairs.partition_point(|pair| pair.0 <= from);
            let taken = pairs[..end].iter().rev().take(left);
            let before = to.len();
            to.extend(taken);
            left -= to.len() - before;
            let Some(below) = place.low.checked_sub(1) else { return };
            from = below;
        }
    }
}
