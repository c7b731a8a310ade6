//! Splitting a full leaf without a log.
//!
//! 1. The new leaf is filled with the upper half and made durable; it is locked. Up to 2 everything
//!    can be undone and fail.
//! 2. The inner tree learns of it: a thread that looks for its keys waits.
//! 3. Line 0 of the old leaf: the link, the fence, the bitmap, and that the bitmap fits the fence, in
//!    this order, with one flush.
//! 4. The middle node of the old leaf follows. In a variant with a linked log, the old leaf's buffer is
//!    written to it. (In the checkpointed one, line 0 says only then that the bitmap fits the fence.)
//! 5. The new leaf is opened.

use everleaf_alloc::Session;
use everleaf_index::{Geometry, IndexError};
use everleaf_machine::Machine;

use super::layout::{Heading, LEAF_SIZE, slots};
use super::top::TopIndex;
use super::variant::Variant;
use super::{LeafAndMiddle, Tree};

impl<V: Variant, G: Geometry, M: Machine> Tree<V, G, M> {
    /// Moves the upper half of a leaf, locked by the caller, to a new one.
    #[cold]
    pub(super) fn split(
        &self,
        session: &mut Session<M>,
        place: LeafAndMiddle<'_, M>,
    ) -> Result<(), IndexError> {
        M::mark("sptree.split");
        let (leaf, middle) = (place.leaf, place.middle);
        let pairs = self.sorted_pairs(place);
        let (lower, upper) = pairs.split_at(pairs.len() / 2);
        let (low, high, next) = (upper[0].0, middle.high(), middle.next());
        // What was buffered for the new leaf is in it.
        let flushed = if M::mutant("sptree.split_replays") { 0 } else { middle.sequence() };
        let heading = Heading { low, high, next, bitmap: 0, covered: high, flushed };
        let right = self.new_leaf(session, heading, upper)?;
        let added = self.top.insert(session, low, right.offset, |leaf| self.low_of(leaf));
        if let Err(error) = added {
            session.free_record(right.offset, LEAF_SIZE);
            return Err(error.into());
        }
        let upper_slots = slots(leaf.bitmap()).filter(|slot| leaf.pair(*slot).0 >= low);
        let stays = leaf.bitmap() & !upper_slots.fold(0, |bits, slot| bits | 1 << slot);
        if M::mutant("sptree.bitmap_first") {
            leaf.commit(stays);
        }
        // S4: this order is the log.
        leaf.set_next(right.offset);
        leaf.set_high(low);
        leaf.commit(stays);
        // A checkpointed leaf's line 0 says so when the records of the left half are ended, if there are some.
        let is_late = V::CHECKPOINTED && middle.sequence() != middle.flushed();
        if !is_late || M::mutant("sptree.split_covers_first") {
            leaf.set_covered(low);
        }
        if !M::mutant("sptree.no_split_flush") {
            // Persist: the link before anybody writes to the new leaf, or a crash would lose what they
            // wrote (S2).
            leaf.persist_heading(self.medium);
        }
        middle.set_right(low, right.offset);
        if V::BUFFERED {
            self.end_records(place, low);
        }
        if V::FILTER && V::LINKED {
            middle.build_filter(lower.iter().map(|pair| pair.0));
        } else if V::FILTER {
            // What is buffered still, tombs too.
            self.build_filter(place);
        }
        right.middle.lock.unlock();
        self.splits.add(session.stripe(), 1);
        self.leaves.add(session.stripe(), 1);
        Ok(())
    }

    /// Ends the records of the left half of a split: what is left of its buffer goes to its leaf.
    ///
    /// Else records that are still needed would be linked to some whose keys are the right half's, which
    /// has them: their chunks may go (S9). The right half's lock is opened after this. In a plain log no record
    /// leads to another, and the left half keeps what is in its buffer.
    fn end_records(&self, place: LeafAndMiddle<'_, M>, low: u64) {
        self.buffer(place).keep(|key| key < low);
        if !V::LINKED {
            return;
        }
        // Without a log the filter, which is built of what is left, would not know keys under a tomb (S7).
        let has_some = if V::LOGGED {
            place.middle.sequence() != place.middle.flushed()
        } else {
            self.buffer(place).len() > 0
        };
        if has_some && !M::mutant("sptree.split_keeps_links") {
            let fits = self.write_back(place, None);
            assert!(fits, "a half has room for what was buffered for it");
        }
    }
}
