//! Range scans, both ways, leaf by leaf.
//!
//! *What a scan promises*: keys strictly ascending (or descending), none twice; every pair was
//! current at some instant of the scan; a key present during the whole scan is returned, one absent
//! during the whole scan is not. It is not a snapshot.
//!
//! Entries lie unsorted in a leaf. The order of its positions is computed once, kept in DRAM
//! (`order.rs`) and completed when positions were added. A leaf that is replaced while it is read is read to its end:
//! its entries are frozen.

use std::cmp::Ordering as KeyOrder;

use everleaf_alloc::Session;
use everleaf_machine::{LINE_SIZE, Machine, Pair};

use super::HashedLeafTree;
use super::layout::{DEAD, LeafId, LeafShape, UNKNOWN};
use super::order::Sorted;
use super::probe::usable;
use super::state::FROZEN_EMPTY;
use crate::kind::Kind;
use crate::nbtree::Extent;
use crate::nbtree::layout::Inner;
use crate::nbtree::shared::Shared;
use crate::nbtree::state::{EMPTY, TOMB, holds};

/// A scan of so many pairs asks for the entries it will read; a longer one for the whole leaf, whose
/// lines it would read nearly all.
const SHORT: usize = 40;

/// Records are asked for this many entries before they are visited, to begin with: it is not known how far
/// a scan will go. The distance grows with each that is visited.
const AHEAD: usize = 6;
/// How much it grows.
const AHEAD_STEP: usize = 2;
/// The farthest. Also the distance in leaves that a scan enters at their beginning.
const AHEAD_MAX: usize = 64;
/// The next leaf of a scan of records is asked for so many entries before the end of one.
const NEXT_AHEAD: usize = 32;
/// The rest of a long record is asked for so many entries before it is visited.
const REST_AHEAD: usize = 3;

/// How far a scan has asked for the records of a leaf.
struct Asked {
    records: usize,
    ahead: usize,
    extent: Extent,
}

impl Asked {
    fn new(is_first: bool, extent: Extent) -> Self {
        let ahead = if is_first { AHEAD } else { AHEAD_MAX };
        Asked { records: 0, ahead, extent }
    }
}

/// A leaf and where it hangs, so that its neighbour is found without a descent.
struct Place<M: Machine> {
    leaf: LeafId,
    parent: Shared<Inner<M>>,
    index: usize,
}

/// Sorts what is nearly in order, by insertion. Gives up, with the same items in some order, when it is
/// not.
fn settle(held: &mut [(u64, u8)]) -> bool {
    let mut patience = 8 * held.len() + 64;
    for index in 1..held.len() {
        let item = held[index];
        let mut at = index;
        while at > 0 && held[at - 1].0 > item.0 {
            held[at] = held[at - 1];
            at -= 1;
        }
        held[at] = item;
        patience = patience.saturating_sub(index - at);
        if patience == 0 {
            return false;
        }
    }
    true
}

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// Visits the entries from `from` (inclusive) on, ascending, until `visit` returns false, which is
    /// expected after `limit`. The visitor gets the leaf's low fence (which completes `u64` keys) and
    /// the entry.
    pub(crate) fn scan_forward(
        &self,
        session: &mut Session<M>,
        from: K::Key<'_>,
        limit: usize,
        extent: Extent,
        mut visit: impl FnMut(u64, Pair) -> bool,
    ) {
        let mut from = from;
        let mut place = self.place(session, from, limit);
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
                self.ask_ahead(&mut asked, leaf, index, |at| positions.get(at).copied());
                let entry = self.entry(leaf, position).load();
                if !holds(K::state(entry)) {
                    self.pass(leaf, position, entry);
                    continue;
                }
                self.observe(leaf, position);
                if !visit(low, entry) {
                    return;
                }
            }
            // Removed ones do not count: more may be wanted than this says.
            left = left.saturating_sub(positions.len()).max(1);
            let high = self.cold(leaf).high.read_private();
            if high == 0 {
                return;
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
                    self.place(session, from, left)
                }
            };
        }
    }

    /// Visits the entries below `to` (exclusive; `None` for all), descending, until `visit` returns
    /// false.
    pub(crate) fn scan_backward(
        &self,
        session: &mut Session<M>,
        to: Option<K::Key<'_>>,
        extent: Extent,
        mut visit: impl FnMut(u64, Pair) -> bool,
    ) {
        let mut bound = to;
        let mut first = true;
        loop {
            let leaf = self.resolve_below(session, bound);
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
                self.ask_ahead(&mut asked, leaf, index, |at| {
                    (at < end).then(|| positions[end - 1 - at])
                });
                let entry = self.entry(leaf, position).load();
                if !holds(K::state(entry)) {
                    self.pass(leaf, position, entry);
                    continue;
                }
                self.observe(leaf, position);
                if !visit(low, entry) {
                    return;
                }
            }
            if low == 0 {
                return;
            }
            bound = Some(K::fence_as_key(self.base, low));
        }
    }

    /// The authority for `key`, with its place under its parent if it hangs there directly.
    #[inline(always)]
    fn place(&self, session: &mut Session<M>, key: K::Key<'_>, limit: usize) -> Place<M> {
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
            let mut place = Place { leaf: LeafId::of_child(child), parent: node, index };
            self.prefetch_for_scan(place.leaf, node.fence::<K>(index), K::number(key), limit);
            if self.is_replaced(place.leaf) {
                place.leaf = self.resolve(session, key);
            }
            return place;
        }
    }

    /// The next leaf under the same parent, as the parent has it now.
    #[inline(always)]
    fn neighbour(&self, place: &Place<M>) -> Option<Place<M>> {
        let index = place.index + 1;
        if index >= usize::from(place.parent.count) {
            return None;
        }
        let leaf = LeafId::of_child(place.parent.child(index));
        Some(Place { leaf, parent: place.parent, index })
    }

    /// The authority for the greatest keys below `bound`.
    fn resolve_below(&self, session: &mut Session<M>, bound: Option<K::Key<'_>>) -> LeafId {
        let mut leaf = match bound {
            Some(key) => LeafId::of_child(self.inner.descend_path(key, true).1),
            None => self.last_leaf(),
        };
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
        leaf
    }

    fn last_leaf(&self) -> LeafId {
        let mut node = self.inner.root();
        loop {
            let child = node.child(usize::from(node.count) - 1);
            if node.level == 1 {
                return LeafId::of_child(child);
            }
            // SAFETY: children above level 1 are inner nodes, read while pinned.
            node = unsafe { Shared::new(child.cast()) };
        }
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
        let mut count = low + within;
        // Among equal heads the records decide. A removed one's may be gone: it is counted, for it is not
        // visited anyway.
        for position in &positions[count..] {
            let entry = load(position);
            if K::head(entry) != head {
                break;
            }
            if K::state(entry) == TOMB {
                self.pass(leaf, usize::from(*position), entry);
            } else if K::compare_to(self.base, entry, skip, key) != KeyOrder::Less {
                break;
            }
            count += 1;
        }
        count
    }

    /// Asks for the records of entries of this leaf, which come in the order of `position_of`, before that
    /// at `index` is visited. The entries were asked for when the leaf was found.
    #[inline(always)]
    fn ask_ahead(
        &self,
        asked: &mut Asked,
        leaf: LeafId,
        index: usize,
        position_of: impl Fn(usize) -> Option<u8>,
    ) {
        if !K::HAS_TAILS || M::SIMULATED {
            return;
        }
        while asked.records < index + asked.ahead {
            let Some(position) = position_of(asked.records) else { break };
            let entry = self.entry(leaf, usize::from(position)).load();
            M::prefetch(K::reference(self.base, entry));
            asked.records += 1;
        }
        asked.ahead = (asked.ahead + AHEAD_STEP).min(AHEAD_MAX);
        if asked.extent == Extent::Whole
            && let Some(position) = position_of(index + REST_AHEAD)
        {
            let entry = self.entry(leaf, usize::from(position)).load();
            // The record of a removed one may be gone.
            if holds(K::state(entry)) {
                K::ask_for_rest(self.base, K::payload(entry));
            }
        }
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
            _ => self.sort_positions(session, leaf, known, kept.as_ref()),
        }
    }

    /// Sorts the positions, beginning with those of an older order, and keeps the result.
    #[cold]
    #[inline(never)]
    fn sort_positions(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        known: [u64; 4],
        older: Option<&Sorted>,
    ) -> Sorted {
        self.prefetch_entries(leaf);
        let mut held: Vec<(u64, u8)> = Vec::with_capacity(G::CAPACITY);
        let mut entries: Vec<Pair> = vec![];
        if K::HAS_TAILS {
            entries.resize(G::POSITIONS, Pair { first: 0, second: 0 });
        }
        // A dead position is one that was removed, durably, or that nobody ever claims.
        let mut left: [u64; 4] = std::array::from_fn(|chunk| match known[chunk] {
            0 => 0,
            mask => mask & !self.fingerprints(leaf, chunk).matches(DEAD),
        });
        let mut hold = |position: usize| {
            let entry = self.entry(leaf, position).load();
            match K::state(entry) {
                TOMB => return self.pass(leaf, position, entry),
                EMPTY | FROZEN_EMPTY => return,
                _ => held.push((K::head(entry), position as u8)),
            }
            if K::HAS_TAILS {
                entries[position] = entry;
            }
        };
        let scaled = leaf.placement.is_scaled();
        if scaled {
            // From the line of the lowest key on, which nearly is the order.
            let first = self.probe_start(leaf, self.cold(leaf).low.read_private());
            let (chunk, behind) = (first / G::CHUNK, u64::MAX << (first % G::CHUNK));
            let turns = (0..=G::CHUNKS).map(|turn| ((chunk + turn) % G::CHUNKS, turn));
            for (chunk, turn) in turns {
                let mut mask = left[chunk];
                match turn {
                    0 => mask &= behind,
                    turn if turn == G::CHUNKS => mask &= !behind,
                    _ => {}
                }
                while mask != 0 {
                    hold(chunk * G::CHUNK + mask.trailing_zeros() as usize);
                    mask &= mask - 1;
                }
            }
        } else {
            for position in older.map_or(&[][..], Sorted::as_slice) {
                let position = usize::from(*position);
                let (chunk, bit) = (position / G::CHUNK, 1 << (position % G::CHUNK));
                if left[chunk] & bit != 0 {
                    left[chunk] &= !bit;
                    hold(position);
                }
            }
            for (chunk, mask) in left.iter_mut().enumerate() {
                while *mask != 0 {
                    hold(chunk * G::CHUNK + mask.trailing_zeros() as usize);
                    *mask &= *mask - 1;
                }
            }
        }
        // Byte strings are never scaled, whatever a damaged placement says: equal heads need their records.
        if K::HAS_TAILS || !scaled || !settle(&mut held) {
            // A stable sort: it goes through what is in order already only once.
            held.sort_by(|a, b| {
                let heads = a.0.cmp(&b.0);
                let entry = |position: u8| entries[usize::from(position)];
                match K::HAS_TAILS {
                    true => heads.then_with(|| K::compare(self.base, entry(a.1), entry(b.1))),
                    false => heads,
                }
            });
        }
        let covered = known.iter().map(|mask| mask.count_ones()).sum();
        let sorted = Sorted::of(covered, &held);
        self.keep_order(leaf, &sorted, session.stripe());
        sorted
    }

    /// Asks for what a scan of `limit` pairs reads of a leaf before it can tell which entries it needs:
    /// of a scaled leaf, which begins at `low`, for as many lines from that of the number `from` on as
    /// have so many pairs; of another, if it is no short scan, for all entries.
    #[inline(always)]
    fn prefetch_for_scan(&self, leaf: LeafId, low: u64, from: u64, limit: usize) {
        if M::SIMULATED {
            return;
        }
        M::prefetch(self.cold(leaf).flags.as_ptr());
        for chunk in 0..G::CHUNKS {
            M::prefetch(self.fingerprints(leaf, chunk).as_ptr());
        }
        self.prefetch_order(leaf);
        if leaf.placement.is_scaled() {
            self.prefetch_lines(leaf, low, from, limit);
        } else if limit > SHORT {
            self.prefetch_entries(leaf);
        }
    }

    /// The first position of the line where the search for a number begins in a scaled leaf.
    #[inline(always)]
    fn probe_start(&self, leaf: LeafId, number: u64) -> usize {
        leaf.placement.line(G::POSITIONS.div_ceil(G::LINE), 0, number) * G::LINE
    }

    /// Asks for the lines of a scaled leaf with low fence `low` that have `count` keys from `from` on.
    #[inline(always)]
    fn prefetch_lines(&self, leaf: LeafId, low: u64, from: u64, count: usize) {
        let lines = G::POSITIONS.div_ceil(G::LINE);
        let line = |number| leaf.placement.line(lines, 0, number);
        let (first, start) = (line(low), line(from));
        // As if a line had three keys, and one more, since they do not begin with the line.
        let wanted = (count / 3 + 2).min(lines - (start + lines - first) % lines);
        for at in start..start + wanted {
            let position = (at % lines * G::LINE).max(G::HEADER_POSITIONS);
            M::prefetch(self.entry_place(leaf, position));
        }
    }

    /// Asks for the entries at the first `count` of some positions.
    #[inline(always)]
    fn prefetch_some(&self, leaf: LeafId, positions: &[u8], count: usize) {
        if M::SIMULATED {
            return;
        }
        for position in &positions[..positions.len().min(count)] {
            M::prefetch(self.entry_place(leaf, usize::from(*position)));
        }
    }

    /// Asks for all entries of a leaf.
    #[inline(always)]
    fn prefetch_entries(&self, leaf: LeafId) {
        if M::SIMULATED {
            return;
        }
        let block = self.block_start(leaf);
        for line in (0..G::BLOCK_BYTES).step_by(LINE_SIZE) {
            M::prefetch(block.wrapping_add(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::settle;

    #[test]
    fn what_is_nearly_in_order_is_sorted_and_what_is_not_is_left_whole() {
        let near: Vec<(u64, u8)> = (0..200u8).map(|index| (u64::from(index ^ 3), index)).collect();
        let far: Vec<(u64, u8)> = (0..200u8).map(|index| (u64::from(200 - index), index)).collect();
        for (items, is_near) in [(near, true), (far, false), (vec![], true), (vec![(1, 1)], true)] {
            let mut held = items.clone();
            assert_eq!(settle(&mut held), is_near);
            assert_eq!(held.is_sorted(), is_near);
            let mut expected = items;
            expected.sort_unstable();
            held.sort_unstable();
            assert_eq!(held, expected);
        }
    }
}
