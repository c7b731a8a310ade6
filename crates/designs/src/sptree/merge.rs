//! Merging two neighbours that are together no more than half a leaf, without a log.
//!
//! 1. Both are locked, and the inner tree forgets the right one: a thread that looks for its keys comes to
//!    the left one and waits.
//! 2. The right one's pairs are copied into free slots of the left one, durably.
//! 3. Line 0 of the left leaf: that its bitmap does not fit its fence, the bitmap, the fence, the link,
//!    and that it fits again, in this order, with one flush. Up to the fence the copies are masked.
//! 4. The right one's lock is opened for ever.

use everleaf_alloc::Session;
use everleaf_index::Geometry;
use everleaf_machine::Machine;

use super::layout::{LEAF_SIZE, slots};
use super::state::LOCK_GENERATION;
use super::top::TopIndex;
use super::variant::Variant;
use super::{LeafAndMiddle, Tree};

impl<V: Variant, G: Geometry, M: Machine> Tree<V, G, M> {
    /// Merges a leaf, locked by the caller, that lost a key, if it has few and a neighbour fits. True if
    /// it is gone: then its lock has been opened for ever.
    #[inline(always)]
    pub(super) fn shrink(&self, session: &mut Session<M>, place: LeafAndMiddle<'_, M>) -> bool {
        let count = place.leaf.bitmap().count_ones() as usize;
        // Now and then is enough: a look at a neighbour is a line read.
        let is_due = count.is_multiple_of((Self::CAPACITY / 16).max(1));
        // As long as leaves are not known, none leaves the list: what leads to them may lead there.
        count * 4 <= Self::CAPACITY && is_due && !self.is_lazy() && self.merge_any(session, place)
    }

    #[cold]
    fn merge_any(&self, session: &mut Session<M>, place: LeafAndMiddle<'_, M>) -> bool {
        let count = place.leaf.bitmap().count_ones() as usize;
        let next = place.middle.next();
        if next != 0 {
            let right = self.place(next);
            // Only tried: the thread that holds it may want the lock that we hold.
            if right.middle.lock.try_lock(LOCK_GENERATION) {
                if self.ready(right, count) && self.merge(session, place, right) {
                    return false;
                }
                self.leave(right);
            }
        }
        let low = place.middle.low();
        let before = self.top.left_neighbour(low, place.offset, |leaf| self.low_of(leaf));
        let Some(before) = before else { return false };
        let left = self.place(before);
        if !left.middle.lock.try_lock(LOCK_GENERATION) {
            return false;
        }
        let fits = left.middle.next() == place.offset && self.ready(left, count);
        if fits && self.merge(session, left, place) {
            left.middle.lock.unlock();
            return true;
        }
        self.leave(left);
        false
    }

    /// Opens a neighbour that stays.
    fn leave(&self, place: LeafAndMiddle<'_, M>) {
        // Its buffer may have been emptied.
        if V::BUFFERED { place.middle.lock.unlock() } else { place.middle.lock.unlock_unchanged() }
    }

    /// Empties the buffer of a neighbour, locked by the caller, that may be merged with a leaf of `count`
    /// keys. False if they do not fit.
    fn ready(&self, place: LeafAndMiddle<'_, M>, count: usize) -> bool {
        if !V::BUFFERED {
            return true;
        }
        // A neighbour whose records are damaged stays: a thread that looks for its keys is told.
        if place.middle.needs_restore() && self.restore(place).is_err() {
            return false;
        }
        let keys = place.leaf.bitmap().count_ones() as usize;
        let buffer = self.buffer(place);
        if (keys + count + buffer.len()) * 2 > Self::CAPACITY {
            return false;
        }
        buffer.len() == 0 || self.write_back(place, None)
    }

    /// Moves everything from `right` to `left`, both locked by the caller, if it fits. Then the lock of
    /// `right` has been opened for ever.
    fn merge(
        &self,
        session: &mut Session<M>,
        left: LeafAndMiddle<'_, M>,
        right: LeafAndMiddle<'_, M>,
    ) -> bool {
        let (into, from) = (left.leaf.bitmap(), right.leaf.bitmap());
        let together = (into.count_ones() + from.count_ones()) as usize;
        if together * 2 > Self::CAPACITY {
            return false;
        }
        let (low, both) = (right.middle.low(), (right.offset, left.offset));
        if !self.top.remove(session, low, both, |leaf| self.low_of(leaf)) {
            return false;
        }
        M::mark("sptree.merge");
        if V::CHECKPOINTED {
            self.areas.note_merge();
        }
        let free = slots(!into);
        let mut bitmap = into;
        for (slot, source) in free.zip(slots(from)) {
            left.leaf.fill(self.medium, slot, right.leaf.pair(source));
            bitmap |= 1 << slot;
        }
        if from != 0 {
            // Persist: the copies before the bitmap names them (S1).
            self.medium.drain();
        }
        let (high, next) = (right.middle.high(), right.middle.next());
        if M::mutant("sptree.link_first") {
            left.leaf.set_next(next);
        }
        // S4: this order is the log.
        left.leaf.set_covered(0);
        left.leaf.commit(bitmap);
        let sequence = left.middle.sequence().max(right.middle.sequence());
        if V::BUFFERED {
            left.leaf.set_flushed(sequence);
        }
        left.leaf.set_high(high);
        left.leaf.set_next(next);
        left.leaf.set_covered(high);
        if !M::mutant("sptree.no_merge_flush") {
            // Persist: the merge before the right leaf is used again, or the list would lead into it (S3).
            left.leaf.persist_heading(self.medium);
        }
        left.middle.set_right(high, next);
        if V::BUFFERED {
            left.middle.note_applied(sequence);
        }
        if V::FILTER {
            self.build_filter(left);
        }
        right.middle.lock.unlock_dead();
        self.leaves.add(session.stripe(), -1);
        // Without the flush nothing may be waited for: in small programs only that uses the place again.
        if M::mutant("sptree.free_at_once") || M::mutant("sptree.no_merge_flush") {
            session.free_record(right.offset, LEAF_SIZE);
        } else {
            session.retire_record(right.offset, LEAF_SIZE);
        }
        true
    }
}
