//! Recovery: the list of leaves is walked, one line a leaf, repaired where a crash cut it, and middle
//! nodes and inner tree are built.
//!
//! Entries are read only in a leaf whose line 0 says that it has masked keys. Filters are built when their
//! leaf is first touched.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::{Geometry, IndexError, RootObject};
use everleaf_machine::{LINE_SIZE, Machine};

use super::Tree;
use super::layout::{FILTERED, HEAD_WORD, HIGH_MAX, Heading, LEAF_SIZE, VARIANT_WORD, slots, tag};
use super::variant::Variant;
use crate::node::head_areas::Found;
use crate::node::write_log::{Record, SEQUENCE_BOUND, sort_by_sequence};

pub(super) fn corrupt(offset: u64, what: impl Into<String>) -> AllocError {
    AllocError::Corrupt { offset, what: what.into() }
}

impl<V: Variant, G: Geometry, M: Machine> Tree<V, G, M> {
    pub(super) fn open_in(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
        at_once: bool,
    ) -> Result<Self, IndexError> {
        let heap = session.heap().clone();
        let root_object = RootObject::open(&heap, recovery, root, tag::<V>())?;
        let found = root_object.word(VARIANT_WORD).read_private();
        let are_filtered = V::CHECKPOINTED && found == u64::from(V::KIND) | FILTERED;
        if found != u64::from(V::KIND) && !are_filtered {
            let what = format!("the tree is of variant {found}, and this is {}", V::NAME);
            return Err(corrupt(0, what).into());
        }
        let mut tree = Self::assemble(session, root_object, are_filtered)?;
        let built = tree.find_leaves(session, recovery, at_once);
        if built.is_err() {
            tree.free_volatile(session);
        }
        built.map(|()| tree)
    }

    /// Gives middle nodes and inner tree their contents, or leaves that to threads that touch a leaf, if it can be
    /// done.
    fn find_leaves(
        &mut self,
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        at_once: bool,
    ) -> Result<(), IndexError> {
        if !V::CHECKPOINTED {
            return self.build(session, recovery, Found::default());
        }
        let found = self.areas.find(recovery)?;
        if found.is_some() {
            M::mark("sptree.resumed");
        }
        let found = found.unwrap_or_default();
        if at_once && found.leads && self.is_writable {
            self.leave_leaves(session, recovery, found)
        } else {
            self.build(session, recovery, found)
        }
    }

    /// Walks the list.
    fn build(
        &mut self,
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        found: Found,
    ) -> Result<(), IndexError> {
        let (mut leaves, mut cut): (Vec<(u64, u64)>, _) = (vec![], vec![]);
        let (mut keys, mut low) = (0, 0);
        let mut offset = self.root_object.word(HEAD_WORD).read_private();
        loop {
            self.check_place(Some(recovery), offset)?;
            recovery.mark_record(offset, LEAF_SIZE)?;
            let heading = self.mend(Some(recovery), offset, low)?;
            self.make_room(session, offset)?;
            let middle = self.table.at(offset);
            middle.set(&heading);
            middle.lock.unlock();
            keys += u64::from(heading.bitmap.count_ones());
            leaves.push((low, offset));
            if V::CHECKPOINTED && heading.covered != heading.high {
                cut.push(offset);
            }
            if heading.next == 0 {
                break;
            }
            (offset, low) = (heading.next, heading.high);
        }
        self.keys.add(0, keys as i64);
        self.leaves.add(0, leaves.len() as i64);
        self.load_top(session, &leaves)?;
        if V::CHECKPOINTED {
            self.find_heads(recovery, found, &leaves)?;
            self.logs.end_adoption();
            cut.into_iter().try_for_each(|offset| self.end_cut_split(offset))?;
        } else {
            self.find_records(recovery)?;
            self.logs.end_adoption();
            self.end_shared_records(&leaves)?;
        }
        Ok(())
    }

    /// Finds the newest record of each buffer; replays a plain log.
    fn find_records(&self, recovery: &Recovery<M>) -> Result<(), AllocError> {
        if !V::BUFFERED {
            return Ok(());
        }
        let mut plain = vec![];
        self.logs.recover(recovery, &[], |place, record| {
            if V::LINKED {
                self.find_head(self.known_leaf_for(record.key), record.sequence, place);
            } else {
                plain.push((place, record));
            }
        })?;
        self.replay(plain)
    }

    /// Brings the records of a plain log to the buffers, in the order of their numbers. Nobody else is active.
    fn replay(&self, mut records: Vec<(u64, Record)>) -> Result<(), AllocError> {
        sort_by_sequence(&mut records);
        if M::mutant("sptree.replays_backwards") {
            records.reverse();
        }
        let lost = records.into_iter().find(|(_, record)| !self.replay_record(*record));
        lost.map_or(Ok(()), |(place, record)| {
            let what = format!("record {} of the log has no room in its buffer", record.sequence);
            Err(corrupt(place, what))
        })
    }

    /// Puts a record into the buffer of its leaf, if that has not got it. False if there is no room.
    fn replay_record(&self, record: Record) -> bool {
        let place = self.place(self.known_leaf_for(record.key));
        let (middle, buffer) = (place.middle, self.buffer(place));
        if record.sequence <= middle.flushed() && !M::mutant("sptree.replays_flushed") {
            return true;
        }
        let found = buffer.find(record.key);
        if found.is_none() && buffer.len() == Self::BUFFER_CAPACITY {
            return false;
        }
        let was_there = found
            .map_or_else(|| place.leaf.find(record.key).is_some(), |(_, value)| value.is_some());
        self.keys.add(0, i64::from(record.value.is_some()) - i64::from(was_there));
        buffer.put(found.map(|(slot, _)| slot), (record.key, record.value));
        middle.note_record(record.sequence.max(middle.sequence()), 0);
        true
    }

    /// Ends the records of leaves that were being split: some of them are linked to records of keys that
    /// have gone to the right half. Restored now and written to the leaf, so that a chunk which the right
    /// half does not need may be dropped (S9).
    fn end_shared_records(&self, leaves: &[(u64, u64)]) -> Result<(), AllocError> {
        if !V::BUFFERED || self.unrestored.sum() == 0 {
            return Ok(());
        }
        for (_, offset) in leaves {
            let place = self.place(*offset);
            if !place.middle.needs_restore() || place.middle.has_own_records() {
                continue;
            }
            // No search is known to come here.
            self.restore(place)?;
            if self.is_writable
                && !M::mutant("sptree.open_keeps_links")
                && !self.write_back(place, None)
            {
                return Err(corrupt(*offset, "half a leaf has no room for its buffer"));
            }
        }
        Ok(())
    }

    /// Refuses a place where no leaf can be. Without what opening knows of the pool's records only one that is not in
    /// the pool.
    pub(super) fn check_place(
        &self,
        recovery: Option<&Recovery<M>>,
        offset: u64,
    ) -> Result<(), AllocError> {
        let is_one = match recovery {
            Some(recovery) => recovery.record_room(offset).is_some_and(|room| room >= LEAF_SIZE),
            None => offset != 0 && self.base.holds(offset, LEAF_SIZE),
        };
        if is_one && offset.is_multiple_of(LINE_SIZE as u64) {
            Ok(())
        } else {
            Err(corrupt(offset, "a leaf was expected here"))
        }
    }

    /// Line 0 of the leaf from `low` on, after the repairs that it needs. Nobody else is at work on it.
    pub(super) fn mend(
        &self,
        recovery: Option<&Recovery<M>>,
        offset: u64,
        low: u64,
    ) -> Result<Heading, IndexError> {
        let leaf = self.leaf(offset);
        let mut heading = leaf.heading();
        if heading.low != low || heading.high <= low {
            let what = format!("a leaf for {:?} to {} stands at {low}", heading.low, heading.high);
            return Err(corrupt(offset, what).into());
        }
        // Far from what records can hold, and more than any index will ever write.
        if heading.flushed >= SEQUENCE_BOUND {
            let what = format!("a leaf says that {} writes are in their place", heading.flushed);
            return Err(corrupt(offset, what).into());
        }
        if Self::CAPACITY < 64 && heading.bitmap >> Self::CAPACITY != 0 {
            let what = format!("the bitmap {:#x} names more slots than there are", heading.bitmap);
            return Err(corrupt(offset, what).into());
        }
        let next = self.follow(recovery, &heading)?;
        let is_masked = heading.covered != heading.high && !M::mutant("sptree.keeps_masked");
        if next == heading.next && !is_masked {
            return Ok(heading);
        }
        if !self.is_writable {
            return Err(IndexError::ReadOnly);
        }
        if next != heading.next {
            M::mark("sptree.dropped_dummy");
            leaf.set_next(next);
            heading.next = next;
        }
        if is_masked {
            M::mark("sptree.cleared_masked");
            let masked = slots(heading.bitmap).filter(|slot| leaf.pair(*slot).0 >= heading.high);
            heading.bitmap &= !masked.fold(0, |bits, slot| bits | 1 << slot);
            leaf.commit(heading.bitmap);
            // A checkpointed leaf may have records that are to be ended first: `end_cut_split` says it then.
            if !V::CHECKPOINTED {
                leaf.set_covered(heading.high);
            }
        }
        // Persist: the repair before the tree changes again, or a raised fence would bring masked keys
        // back (S5).
        leaf.persist_heading(self.medium);
        Ok(heading)
    }

    /// The right neighbour, after those that a crash left behind.
    fn follow(&self, recovery: Option<&Recovery<M>>, heading: &Heading) -> Result<u64, IndexError> {
        let mut next = heading.next;
        loop {
            if next == 0 {
                if heading.high != HIGH_MAX {
                    let what = format!("the list ends at {}", heading.high);
                    return Err(corrupt(0, what).into());
                }
                return Ok(0);
            }
            self.check_place(recovery, next)?;
            // A leaf that is known may be written by others, but for its low fence.
            if self.leaf(next).low() >= heading.high {
                return Ok(next);
            }
            // Nobody can find it.
            let other = self.leaf(next).heading();
            if other.low <= heading.low {
                return Err(corrupt(next, "a leaf that stands behind a later one").into());
            }
            next = other.next;
        }
    }

    /// Marks what the tree uses.
    pub(super) fn mark_all(&self, used: &Recovery<M>) -> Result<(), AllocError> {
        self.root_object.mark(used)?;
        let mut offset = self.root_object.word(HEAD_WORD).read_private();
        while offset != 0 {
            used.mark_record(offset, LEAF_SIZE)?;
            offset = self.leaf(offset).heading().next;
        }
        if V::BUFFERED {
            let size = self.logs.shape().chunk_size();
            self.logs.for_each_chunk(|chunk| used.mark_record(chunk, size))?;
            self.areas.for_each_block(|block, size| used.mark_record(block, size))?;
        }
        Ok(())
    }
}
