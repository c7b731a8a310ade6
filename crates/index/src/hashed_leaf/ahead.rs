//! What a scan asks for before it reads it.
//!
//! Of a scaled leaf the lines follow from the keys. Of another a short scan of integers asks for the entries that
//! it will read, when the order has told which; a longer one, and a scan of records, which nobody has told how far
//! it will go, for the whole leaf. Records are asked for some way ahead of where the scan reads, and the rest of
//! a long one shortly before. Near the end of a leaf the next one is asked for.

use everleaf_machine::{LINE_SIZE, Machine};

use super::HashedLeafTree;
use super::layout::{LeafId, LeafShape};
use crate::kind::Kind;
use crate::nbtree::Extent;
use crate::nbtree::state::holds;

/// A scan of so many pairs asks for the entries it will read; a longer one for the whole leaf, whose
/// lines it would read nearly all.
pub(super) const SHORT: usize = 40;

/// Records are asked for this many entries before they are visited, to begin with: it is not known how far
/// a scan will go. The distance grows with each that is visited.
const AHEAD: usize = 12;
/// How much it grows.
const AHEAD_STEP: usize = 2;
/// The farthest: what was asked for in vain when a scan ends costs as much as what was not. Also the distance in
/// leaves that a scan enters at their beginning.
const AHEAD_MAX: usize = 24;
/// The next leaf of a scan of records is asked for so many entries before the end of one.
pub(super) const NEXT_AHEAD: usize = 32;
/// The rest of a long record is asked for so many entries before it is visited.
const REST_AHEAD: usize = 3;

/// How far a scan has asked for the records of a leaf.
pub(super) struct Asked {
    records: usize,
    ahead: usize,
    extent: Extent,
}

impl Asked {
    pub fn new(is_first: bool, extent: Extent) -> Self {
        let ahead = if is_first { AHEAD } else { AHEAD_MAX };
        Asked { records: 0, ahead, extent }
    }
}

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// Asks for the records of entries of this leaf, of which `count` come in the order of `position_of`, before
    /// the one at `index` is visited. The entries were asked for when the leaf was found.
    #[inline(always)]
    pub(super) fn ask_ahead(
        &self,
        asked: &mut Asked,
        leaf: LeafId,
        index: usize,
        count: usize,
        position_of: impl Fn(usize) -> u8,
    ) {
        if !K::HAS_TAILS || M::SIMULATED {
            return;
        }
        let place = |at: usize| usize::from(position_of(at));
        let records = (index + asked.ahead).min(count);
        while asked.records < records {
            let entry = self.entry(leaf, place(asked.records)).load();
            M::prefetch(K::reference(self.base, entry));
            asked.records += 1;
        }
        asked.ahead = (asked.ahead + AHEAD_STEP).min(AHEAD_MAX);
        if asked.extent == Extent::Whole && index + REST_AHEAD < count {
            let entry = self.entry(leaf, place(index + REST_AHEAD)).load();
            // The record of a removed one may be gone.
            if holds(K::state(entry)) {
                K::ask_for_rest(self.base, K::payload(entry));
            }
        }
    }

    /// Asks for what a scan of `limit` pairs reads of a leaf before it can tell which entries it needs:
    /// of a scaled leaf, which begins at `low`, for as many lines from that of the number `from` on as
    /// have so many pairs; of another, if it is no short scan, for all entries.
    #[inline(always)]
    pub(super) fn prefetch_for_scan(&self, leaf: LeafId, low: u64, from: u64, limit: usize) {
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
    pub(super) fn prefetch_some(&self, leaf: LeafId, positions: &[u8], count: usize) {
        if M::SIMULATED {
            return;
        }
        for position in &positions[..positions.len().min(count)] {
            M::prefetch(self.entry_place(leaf, usize::from(*position)));
        }
    }

    /// Asks for all entries of a leaf.
    #[inline(always)]
    pub(super) fn prefetch_entries(&self, leaf: LeafId) {
        if M::SIMULATED {
            return;
        }
        let block = self.block_start(leaf);
        for line in (0..G::BLOCK_BYTES).step_by(LINE_SIZE) {
            M::prefetch(block.wrapping_add(line));
        }
    }
}
