//! Range scans, both ways, leaf by leaf.
//!
//! *What a scan promises*: keys strictly ascending (or descending), none twice; every pair was
//! current at some instant of the scan; a key present during the whole scan is returned, one absent
//! during the whole scan is not. It is not a snapshot.
//!
//! Entries lie unsorted in a leaf. The order of its positions is computed once (`sort.rs`), kept in DRAM
//! (`order.rs`) and made anew when positions were added. A leaf that is replaced while it is read is read to
//! its end: its entries are frozen.

use std::cmp::Ordering as KeyOrder;

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Machine, Pair};

use super::HashedLeafTree;
use super::ahead::{Asked, NEXT_AHEAD, SHORT};
use super::layout::{DEAD, LeafId, LeafShape, UNKNOWN};
use super::order::Sorted;
use super::probe::usable;
use super::sort::{Held, HeldInRange};
use super::state::FROZEN_EMPTY;
use crate::kind::{Kind, sort_places};
use crate::nbtree::Extent;
use crate::nbtree::layout::Inner;
use crate::nbtree::shared::Shared;
use crate::nbtree::state::{EMPTY, TOMB, holds};

/// A leaf and where it hangs, so that its neighbour is found without a descent.
struct LeafInParent<M: Machine> {
    leaf: LeafId,
    parent: Shared<Inner<M>>,
    index: usize,
}

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// Visits the entries from `from` (inclusive) on, ascending, until `visit` returns false, which is
    /// expected after `limit`. The visitor gets the leaf's low fence (which completes `u64` keys) and
    /// the entry.
    ///
    /// # Errors
    /// Opening has left a leaf, and it is damaged.
    pub(crate) fn scan_forward(
        &self,
        session: &mut Session<M>,
        from: K::Key<'_>,
        limit: usize,
        extent: Extent,
        mut visit: impl FnMut(u64, Pair) -> bool,
    ) -> Result<(), AllocError> {
        let mut from = from;
        let mut place = self.place(session, from, limit)?;
        let mut first = true;
        let mut left = limit;
        loop {
            let leaf = place.leaf;
            let next = self.neighbour(&place);
            let asked = leaf.placement.is_scaled();
            let sorted = self.sorted_positions(session, leaf);
            let start = if first { self.lower_bound(leaf, &sorted, from, left) } else { 0 };
            let positions = &sorted.as_slice()[start..];
            if !first && left <= SHORT && !asked {
                self.prefetch_some(leaf, positions, left);
            }
            let ask_for_next = || {
                if let Some(next) = &next
                    && positions.len() < left
                {
                    let low = next.parent.fence::<K>(next.index);
                    self.prefetch_for_scan(next.leaf, low, low, left - positions.len());
                }
            };
            let next_at = if K::HAS_TAILS { positions.len().saturating_sub(NEXT_AHEAD) } else { 0 };
            if !K::HAS_TAILS {
                ask_for_next();
            }
            let low = self.cold(leaf).low.read_private();
            let mut asked = Asked::new(first, extent);
            for (index, position) in positions.iter().enumerate() {
                let position = usize::from(*position);
                if K::HAS_TAILS && index == next_at {
                    ask_for_next();
                }
                self.ask_ahead(&mut asked, leaf, index, positions.len(), |at| positions[at]);
                let entry = self.entry(leaf, position).load();
                if !holds(K::state(entry)) {
                    self.pass(leaf, position, entry);
                    continue;
                }
                self.observe(leaf, position);
                if !visit(low, entry) {
                    return Ok(());
                }
            }
            // Removed ones do not count: more may be wanted than this says.
            left = left.saturating_sub(positions.len()).max(1);
            let high = self.cold(leaf).high.read_private();
            if high == 0 {
                return Ok(());
            }
            place = match next {
                // Fences are unique, so equality says that nothing lies between.
                Some(next)
                    if (self.cold(next.leaf).low.read_private() == high
                        || M::mutant("hashed.scan_trusts_neighbour"))
                        && (!self.is_replaced(next.leaf)
                            || M::mutant("hashed.scan_ignores_replaced")) =>
                {
                    first = false;
                    next
                }
                _ => {
                    // After a merge the leaf may start below where we stand: skip what was seen.
                    from = K::fence_as_key(self.base, high);
                    first = true;
                    self.place(session, from, left)?
                }
            };
        }
    }

    /// Visits the entries below `to` (exclusive; `None` for all), descending, until `visit` returns
    /// false.
    ///
    /// # Errors
    /// As [`Self::scan_forward`].
    pub(crate) fn scan_backward(
        &self,
        session: &mut Session<M>,
        to: Option<K::Key<'_>>,
        extent: Extent,
        mut visit: impl FnMut(u64, Pair) -> bool,
    ) -> Result<(), AllocError> {
        let mut bound = to;
        let mut first = true;
        loop {
            let leaf = self.resolve_below(session, bound)?;
            self.prefetch_for_scan(leaf, 0, 0, usize::MAX);
            let sorted = self.sorted_positions(session, leaf);
            let positions = sorted.as_slice();
            let end = match bound {
                Some(key) if !self.is_above(leaf, key) => self.lower_bound(leaf, &sorted, key, 0),
                _ => positions.len(),
            };
            let low = self.cold(leaf).low.read_private();
            let mut asked = Asked::new(first, extent);
            first = false;
            for (index, position) in positions[..end].iter().rev().enumerate() {
                let position = usize::from(*position);
                self.ask_ahead(&mut asked, leaf, index, end, |at| positions[end - 1 - at]);
                let entry = self.entry(leaf, position).load();
                if !holds(K::state(entry)) {
                    self.pass(leaf, position, entry);
                    continue;
                }
                self.observe(leaf, position);
                if !visit(low, entry) {
                    return Ok(());
                }
            }
            if low == 0 {
                return Ok(());
            }
            bound = Some(K::fence_as_key(self.base, low));
        }
    }

    /// The authority for `key`, with its place under its parent if it hangs there directly.
    #[inline(always)]
    fn place(
        &self,
        session: &mut Session<M>,
        key: K::Key<'_>,
        limit: usize,
    ) -> Result<LeafInParent<M>, AllocError> {
        let mut node = self.inner.root();
        loop {
            let index = node.find::<K>(node.level, self.base, key, false);
            let child = node.child(index);
            if node.level > 1 {
                Shared::<Inner<M>>::prefetch::<K>(child, node.level - 1);
                // SAFETY: children above level 1 are inner nodes, read while pinned.
                node = unsafe { Shared::new(child.cast()) };
                continue;
            }
            let mut place = LeafInParent { leaf: LeafId::of_child(child), parent: node, index };
            self.prefetch_for_scan(place.leaf, node.fence::<K>(index), K::number(key), limit);
            if self.is_replaced(place.leaf) {
                place.leaf = self.resolve(session, key)?;
            }
            return Ok(place);
        }
    }

    /// The next leaf under the same parent, as the parent has it now.
    #[inline(always)]
    fn neighbour(&self, place: &LeafInParent<M>) -> Option<LeafInParent<M>> {
        let index = place.index + 1;
        if index >= usize::from(place.parent.count) {
            return None;
        }
        let leaf = LeafId::of_child(place.parent.child(index));
        Some(LeafInParent { leaf, parent: place.parent, index })
    }

    /// The authority for the greatest keys below `bound`.
    fn resolve_below(
        &self,
        session: &mut Session<M>,
        bound: Option<K::Key<'_>>,
    ) -> Result<LeafId, AllocError> {
        let (path, child) = match bound {
            Some(key) => self.inner.descend_path(key, true),
            None => self.inner.descend_last(),
        };
        let mut leaf = self.leaf_at(&path, child)?;
        let mut hopped = false;
        while self.is_replaced(leaf) {
            hopped = true;
            leaf = self.step(leaf, |split| {
                bound.is_none_or(|key| K::compare_fence(self.base, split, key) == KeyOrder::Less)
            });
        }
        if hopped {
            let low = self.cold(leaf).low.read_private();
            self.try_install(session, K::fence_as_key(self.base, low));
        }
        Ok(leaf)
    }

    /// Whether `key` lies above all keys of the leaf.
    fn is_above(&self, leaf: LeafId, key: K::Key<'_>) -> bool {
        let high = self.cold(leaf).high.read_private();
        high != 0 && K::compare_fence(self.base, high, key) != KeyOrder::Greater
    }

    /// How many of the sorted positions come before `key`. Asks for the entries of a short scan from
    /// there on.
    #[inline(always)]
    fn lower_bound(&self, leaf: LeafId, sorted: &Sorted, key: K::Key<'_>, limit: usize) -> usize {
        let skip = self.skip(leaf);
        let (low, high) = sorted.bounds(K::head(K::entry(key, skip, 0, EMPTY)));
        let positions = sorted.as_slice();
        if limit <= SHORT && !leaf.placement.is_scaled() {
            self.prefetch_some(leaf, &positions[low..], high - low + limit);
        }
        let load = |position: &u8| self.entry(leaf, usize::from(*position)).load();
        if !K::HAS_TAILS {
            let within = positions[low..high].partition_point(|position| {
                K::compare_to(self.base, load(position), skip, key) == KeyOrder::Less
            });
            return low + within;
        }
        let head = K::head(K::entry(key, skip, 0, EMPTY));
        let within = positions[low..high].partition_point(|at| K::head(load(at)) < head);
        let first = low + within;
        let ties = match positions.get(first) {
            Some(at) if K::head(load(at)) == head => {
                let behind = &positions[first..];
                &behind[..behind.partition_point(|at| K::head(load(at)) == head)]
            }
            _ => &[],
        };
        first + self.lower_bound_of_ties(leaf, ties, key)
    }

    /// [`Self::lower_bound`] among positions whose entries have the key's head: there the records decide. A removed
    /// one's may be gone: it is not asked, and is counted if what is behind it comes before the key.
    fn lower_bound_of_ties(&self, leaf: LeafId, ties: &[u8], key: K::Key<'_>) -> usize {
        let skip = self.skip(leaf);
        let load = |at: usize| self.entry(leaf, usize::from(ties[at])).load();
        let (mut count, mut end) = (0, ties.len());
        while count < end {
            let middle = count + (end - count) / 2;
            let found = (middle..end).map(|at| (at, load(at))).find(|one| K::state(one.1) != TOMB);
            match found {
                Some((at, entry)) if K::compare_to(self.base, entry, skip, key).is_lt() => {
                    count = at + 1;
                }
                // Those from `middle` on that were removed do not decide.
                _ => end = middle,
            }
        }
        // Those between the last one below the key and the first one that is not may be below it or not.
        while count < ties.len() && K::state(load(count)) == TOMB {
            self.pass(leaf, usize::from(ties[count]), load(count));
            count += 1;
        }
        count
    }

    /// `Adr` domain: a scan that passes a removed entry says that its key is absent, so the removal
    /// must be durable first, as in a search (I11).
    #[inline(always)]
    fn pass(&self, leaf: LeafId, position: usize, entry: Pair) {
        if K::state(entry) == TOMB && !M::mutant("hashed.no_scan_tomb_observe") {
            self.observe(leaf, position);
        }
    }

    /// The positions of a chunk that are claimed, or never will be.
    #[inline(always)]
    fn known(&self, leaf: LeafId, chunk: usize) -> u64 {
        !self.fingerprints(leaf, chunk).matches(UNKNOWN) & usable::<G>(chunk)
    }

    /// The positions that may hold keys, in key order.
    #[inline(always)]
    fn sorted_positions(&self, session: &mut Session<M>, leaf: LeafId) -> Sorted {
        let guard = self.order_guard(leaf);
        let known: [u64; 4] =
            std::array::from_fn(
                |chunk| {
                    if chunk < G::CHUNKS { self.known(leaf, chunk) } else { 0 }
                },
            );
        let covered: u32 = known.iter().map(|mask| mask.count_ones()).sum();
        let kept = self.kept_order(leaf, guard);
        match kept {
            // What is known stays known, so equal counts mean equal sets.
            Some(kept) if kept.covered == covered || M::mutant("hashed.old_order_does") => kept,
            _ => self.sort_positions(session, leaf, known),
        }
    }

    /// Sorts the positions, and keeps the result.
    #[cold]
    #[inline(never)]
    fn sort_positions(&self, session: &mut Session<M>, leaf: LeafId, known: [u64; 4]) -> Sorted {
        self.prefetch_entries(leaf);
        let later = M::mutant("hashed.order_covers_later");
        let covered = || match later {
            true => (0..G::CHUNKS).map(|chunk| self.known(leaf, chunk).count_ones()).sum(),
            false => known.iter().map(|mask| mask.count_ones()).sum(),
        };
        let sorted = if let Some(mut held) = self.held_in_range(leaf) {
            self.visit_held(leaf, known, |head, position| held.push(head, position));
            held.sort();
            Sorted::of(covered(), held.len(), |index| held.at(index))
        } else {
            let mut held = Held::new();
            self.visit_held(leaf, known, |head, position| held.push(head, position));
            held.sort();
            let held = held.as_mut_slice();
            if K::HAS_TAILS {
                self.order_ties(leaf, held);
            }
            Sorted::of(covered(), held.len(), |index| held[index])
        };
        self.keep_order(leaf, &sorted, session.stripe());
        sorted
    }

    /// Where to sort integers of this leaf, if its range is narrow enough.
    #[inline(always)]
    fn held_in_range(&self, leaf: LeafId) -> Option<HeldInRange> {
        let cold = self.cold(leaf);
        let (low, high) = (cold.low.read_private(), cold.high.read_private());
        if K::HAS_TAILS || high == 0 {
            return None;
        }
        HeldInRange::new(K::head(Pair { first: low, second: 0 }), high.saturating_sub(low))
    }

    /// Visits the positions that may hold keys with the heads of their entries, in no order.
    #[inline(always)]
    fn visit_held(&self, leaf: LeafId, known: [u64; 4], mut visit: impl FnMut(u64, u8)) {
        for (chunk, known) in known[..G::CHUNKS].iter().enumerate() {
            let mut mask = *known;
            if mask != 0 {
                // A dead position is one that was removed, durably, or that nobody ever claims.
                mask &= !self.fingerprints(leaf, chunk).matches(DEAD);
            }
            while mask != 0 {
                let position = chunk * G::CHUNK + mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let entry = self.entry(leaf, position).load();
                match K::state(entry) {
                    TOMB => self.pass(leaf, position, entry),
                    EMPTY | FROZEN_EMPTY => {}
                    _ => visit(K::head(entry), position as u8),
                }
            }
        }
    }

    /// Orders positions with equal heads, which lie side by side, by their records. None was of a removed
    /// entry when we looked, since we were pinned: so the records are there.
    fn order_ties(&self, leaf: LeafId, held: &mut [(u64, u8)]) {
        let load = |position: u8| self.entry(leaf, usize::from(position)).load();
        let ties = held.chunk_by_mut(|a, b| a.0 == b.0).filter(|ties| ties.len() > 1);
        for ties in ties {
            sort_places::<K, M, _>(self.base, ties, &|(_, position)| load(*position));
        }
    }
}
