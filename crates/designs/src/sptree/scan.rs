//! Range scans, leaf by leaf, both ways.
//!
//! Each leaf is read at one instant (its version is validated before its pairs count), so a scan is a
//! sequence of such instants, in the order of the keys: no key twice, none that was there all the time is
//! missed. It is not a snapshot of several leaves.
//!
//! The first scan of a leaf that was written to notes the order of its slots, under the lock; those after
//! it follow the order. It is tagged with the opening of the pool, so a crash needs no repair.

use everleaf_alloc::Session;
use everleaf_index::{Geometry, IndexError};
use everleaf_machine::{LINE_SIZE, Machine};

use super::layout::{LEAF_SIZE, slots};
use super::search::Elsewhere;
use super::variant::Variant;
use super::{LeafAndMiddle, Tree};
use crate::node::version_lock::{Retry, Version};
use crate::node::write_buffer::{Buffered, overlay};

/// Keys and values.
type Pairs = Vec<(u64, u64)>;

/// What a scan saw of a leaf: its low fence and its neighbour, if there is one, with its own fence.
struct Seen {
    low: u64,
    next: Option<(u64, u64)>,
}

impl<V: Variant, G: Geometry, M: Machine> Tree<V, G, M> {
    /// Appends up to `limit` pairs from `from` on.
    pub(super) fn scan_forward(
        &self,
        session: &mut Session<M>,
        mut from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<(), IndexError> {
        // A short scan allocates once; a long one grows as it goes.
        pairs.reserve(limit.min(256));
        let end = pairs.len().saturating_add(limit);
        let mut attempt = 0;
        let mut place = None;
        while pairs.len() < end {
            let before = pairs.len();
            let here = place.take().map_or_else(|| self.seek_whole(session, from), Ok)?;
            match self.visit(here, from, end - before, pairs) {
                Ok(Ok(Seen { next: None, .. })) => return Ok(()),
                Ok(Ok(Seen { next: Some((next, low)), .. })) => {
                    // Else it is looked for, since it may be one that is not known yet.
                    place = (!self.is_lazy()).then(|| self.place(next));
                    (from, attempt) = (low, 0);
                }
                Ok(Err(elsewhere)) => place = self.move_right(elsewhere),
                Err(retry) => {
                    M::mark("sptree.scan_again");
                    // Only what this leaf gave is given up.
                    pairs.truncate(before);
                    self.restore_for_reader(here)?;
                    retry.pause::<M>(&mut attempt);
                }
            }
        }
        Ok(())
    }

    /// Appends up to `limit` pairs from `from` on, descending.
    pub(super) fn scan_backward(
        &self,
        session: &mut Session<M>,
        mut from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<(), IndexError> {
        let end = pairs.len().saturating_add(limit);
        let mut attempt = 0;
        let mut part = vec![];
        let mut place = None;
        while pairs.len() < end {
            part.clear();
            let here = place.take().map_or_else(|| self.seek_whole(session, from), Ok)?;
            // All of the leaf; the range is checked with the key that is looked for.
            match self.visit_from(here, from, 0, usize::MAX, &mut part) {
                Ok(Ok(Seen { low, .. })) => {
                    let fits = part.iter().rev().skip_while(|(key, _)| *key > from);
                    pairs.extend(fits.take(end - pairs.len()));
                    let Some(below) = low.checked_sub(1) else { return Ok(()) };
                    (from, attempt) = (below, 0);
                }
                Ok(Err(elsewhere)) => place = self.move_right(elsewhere),
                Err(retry) => {
                    self.restore_for_reader(here)?;
                    retry.pause::<M>(&mut attempt);
                }
            }
        }
        Ok(())
    }

    /// The leaf for a key, all of it asked for.
    fn seek_whole(
        &self,
        session: &mut Session<M>,
        key: u64,
    ) -> Result<LeafAndMiddle<'_, M>, IndexError> {
        let place = self.place(self.leaf_for(session, key)?);
        self.prefetch_whole(place);
        Ok(place)
    }

    #[inline(always)]
    fn prefetch_whole(&self, place: LeafAndMiddle<'_, M>) {
        place.middle.prefetch(false);
        let last = LEAF_SIZE / LINE_SIZE - 1;
        // Line 0 and the order, which say what is read next, and then the entries.
        for line in [0, last].into_iter().chain(2..last) {
            M::prefetch(place.leaf.as_ptr().wrapping_add(line * LINE_SIZE));
        }
    }

    #[inline(always)]
    fn visit(
        &self,
        place: LeafAndMiddle<'_, M>,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<Result<Seen, Elsewhere>, Retry> {
        self.visit_from(place, from, from, limit, pairs)
    }

    /// Appends the pairs from `from` on of the leaf for `key`.
    #[inline(always)]
    fn visit_from(
        &self,
        place: LeafAndMiddle<'_, M>,
        key: u64,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<Result<Seen, Elsewhere>, Retry> {
        let version = place.middle.view()?;
        if V::BUFFERED && place.middle.needs_restore() {
            return Err(Retry::Now);
        }
        let seen = self.check_range(place, key).map(|()| {
            let next = match place.middle.next() {
                0 => None,
                next => {
                    if !self.is_lazy() {
                        self.prefetch_whole(self.place(next));
                    }
                    Some((next, place.middle.high()))
                }
            };
            if V::BUFFERED && self.buffer(place).len() > 0 {
                self.collect_buffered(place, version, from, limit, pairs);
            } else {
                self.collect(place, version, from, limit, pairs);
            }
            Seen { low: place.middle.low(), next }
        });
        if place.middle.is_current(version) { Ok(seen) } else { Err(Retry::Now) }
    }

    /// Appends up to `limit` pairs from `from` on, ascending, good if the version is found unchanged
    /// afterwards.
    #[inline(always)]
    fn collect(
        &self,
        place: LeafAndMiddle<'_, M>,
        version: Version,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) {
        let leaf = place.leaf;
        if leaf.sorted() != leaf.stamp(self.generation) {
            return self.collect_unsorted(place, version, from, limit, pairs);
        }
        let end = pairs.len().saturating_add(limit);
        let high = place.middle.high();
        let mut left = leaf.bitmap().count_ones();
        for word in 0.. {
            let mut slots = leaf.order_word(word);
            for _ in 0..left.min(8) {
                let pair = leaf.pair(slots as u8 as usize);
                slots >>= 8;
                if pair.0 >= from && pair.0 < high {
                    if pairs.len() == end {
                        return;
                    }
                    pairs.push(pair);
                }
            }
            left = left.saturating_sub(8);
            if left == 0 {
                return;
            }
        }
    }

    /// The same of a leaf with a buffer.
    fn collect_buffered(
        &self,
        place: LeafAndMiddle<'_, M>,
        version: Version,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) {
        let mut part = vec![];
        self.collect(place, version, from, usize::MAX, &mut part);
        let high = place.middle.high();
        let fits = self.buffer(place).iter().filter(|(key, _)| *key >= from && *key < high);
        overlay(&mut part, &fits.collect::<Vec<Buffered>>());
        pairs.extend(part.into_iter().take(limit));
    }

    /// The same of a leaf whose order is not known. Notes it if nobody else is at work on the leaf.
    fn collect_unsorted(
        &self,
        place: LeafAndMiddle<'_, M>,
        version: Version,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) {
        let leaf = place.leaf;
        let notes = self.is_writable && place.middle.lock.upgrade(version);
        let stamp = leaf.stamp(self.generation);
        let keyed = |slot| (leaf.pair(slot).0, slot as u8);
        let mut order: Vec<(u64, u8)> = slots(leaf.bitmap()).map(keyed).collect();
        order.sort_unstable();
        let slots: Vec<u8> = order.iter().map(|(_, slot)| *slot).collect();
        let high = place.middle.high();
        let fits = slots.iter().map(|slot| leaf.pair(usize::from(*slot)));
        pairs.extend(fits.filter(|(key, _)| *key >= from && *key < high).take(limit));
        if notes {
            leaf.set_order(&slots, stamp);
            place.middle.lock.unlock_unchanged();
        }
    }

    /// All pairs of a leaf, ascending. The caller holds the lock, or nobody is active.
    pub(super) fn sorted_pairs(&self, place: LeafAndMiddle<'_, M>) -> Pairs {
        let high = place.middle.high();
        let all = slots(place.leaf.bitmap()).map(|slot| place.leaf.pair(slot));
        let mut pairs: Pairs = all.filter(|(key, _)| *key < high).collect();
        if V::BUFFERED {
            overlay(&mut pairs, &self.buffer(place).iter().collect::<Vec<Buffered>>());
        }
        pairs.sort_unstable();
        pairs
    }
}
