//! From the buffer to the leaf, and the end of old chunks of the log.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::{Geometry, IndexError};
use everleaf_machine::Machine;

use super::layout::{ENTRY_COUNT, HIGH_MAX, slots};
use super::variant::Variant;
use super::{LeafAndMiddle, Tree};
use crate::node::write_buffer::{BUFFER_LENGTH, Buffered};
use crate::node::write_log::{GROUP, Limit, Newest, Record, Taken};

/// So many chunks of a log are a small part of what is free in the pool.
const PLENTY: usize = 256;
/// One of so many parts of what is free in the pool may be the log's.
const FREE_FOR_LOG: usize = 8;

impl<V: Variant, G: Geometry, M: Machine> Tree<V, G, M> {
    /// Entries that a buffer may have: so few that a half that was split off has room for them.
    pub(super) const BUFFER_CAPACITY: usize = {
        let third = if Self::CAPACITY < 3 { 1 } else { Self::CAPACITY / 3 };
        let most = if third < BUFFER_LENGTH { third } else { BUFFER_LENGTH };
        assert!((Self::CAPACITY + most) / 2 + most <= Self::CAPACITY);
        most
    };

    /// Linked records that a buffer may have: a key that is written over and over would have any number of
    /// them, and restoring its buffer would take as long.
    pub(super) const CHAIN_LENGTH: u64 = 4 * Self::BUFFER_CAPACITY as u64;

    /// Puts a write into the log, durably. True if the log has grown.
    #[inline(always)]
    pub(super) fn log(
        &self,
        session: &mut Session<M>,
        place: LeafAndMiddle<'_, M>,
        (key, value): Buffered,
    ) -> Result<bool, AllocError> {
        let sequence = place.middle.sequence() + 1;
        if !V::LOGGED || value.is_none() && M::mutant("sptree.unlogged_removal") {
            return Ok(false);
        }
        let link = if V::LINKED { place.middle.head() } else { 0 };
        let record = Record { key, value, sequence, link };
        // The name that stays the leaf's own, as long as no leaf is merged away.
        let name = if M::mutant("sptree.filter_names_key") { key } else { place.middle.low() };
        let (head, grows) = self.logs.append_of(session, record, name)?;
        place.middle.note_record(sequence, head);
        Ok(grows)
    }

    /// Writes the buffer of a leaf, locked by the caller, and one more entry to the leaf, durably: removals
    /// first, if only they make room. False if there is no room; then nothing is changed.
    ///
    /// *Durable* with line 0, which says both what the leaf has and that the log's records of it have
    /// ended.
    pub(super) fn write_back(&self, place: LeafAndMiddle<'_, M>, extra: Option<Buffered>) -> bool {
        let (leaf, buffer) = (place.leaf, self.buffer(place));
        // Looked for one after the other below, in lines that are asked for together here.
        buffer.iter().for_each(|(key, _)| leaf.prefetch_slot(key));
        let is_replaced = |key| extra.is_some_and(|(new, _)| new == key);
        let all = || buffer.iter().filter(|(key, _)| !is_replaced(*key)).chain(extra);
        let mut before = leaf.bitmap();
        let room = if Self::CAPACITY == ENTRY_COUNT { u64::MAX } else { (1 << Self::CAPACITY) - 1 };
        let puts = all().filter(|entry| entry.1.is_some()).count();
        let has_room = |bitmap: u64| puts <= (!bitmap & room).count_ones() as usize;
        if !has_room(before) {
            // In a full pool, the only room may be what is removed.
            let gone =
                all().filter(|entry| entry.1.is_none()).filter_map(|(key, _)| leaf.find(key));
            let stays = gone.fold(before, |bitmap, slot| bitmap & !(1 << slot));
            if !has_room(stays) {
                return false;
            }
            M::mark("sptree.removals_first");
            leaf.commit(stays);
            if !M::mutant("sptree.no_removals_flush") {
                // Persist: the removals before their slots are used again (S1).
                leaf.persist_heading(self.medium);
            }
            before = stays;
        }
        M::mark("sptree.flush");
        let mut free = slots(!before & room);
        let (mut after, mut filled) = (before, 0);
        for (key, value) in all() {
            if let Some(old) = leaf.find(key) {
                after &= !(1 << old);
            }
            if let (Some(value), Some(slot)) = (value, value.and_then(|_| free.next())) {
                leaf.set_slot(slot, (key, value));
                filled |= 1 << slot;
            }
        }
        if filled != 0 {
            leaf.flush_slots(self.medium, filled);
            // Persist: the entries before the bitmap names them (S1).
            self.medium.drain();
        }
        let sequence = place.middle.sequence();
        if M::mutant("sptree.flushed_first") {
            leaf.set_flushed(sequence);
        }
        leaf.commit(after | filled);
        if !M::mutant("sptree.no_flushed") {
            leaf.set_flushed(sequence);
        }
        if V::CHECKPOINTED {
            // After a split: its left half has no records that it shares with the right one any more.
            leaf.set_covered(place.middle.high());
        }
        // Persist: the leaf's part before the buffer is emptied, and before the log forgets it (S8).
        leaf.persist_heading(self.medium);
        buffer.empty();
        place.middle.note_applied(sequence);
        true
    }

    /// Writes all that was written before the call to the leaves. Others may be at work.
    ///
    /// They do not hold it up: a leaf is locked once, and has its buffer when it is opened, also if it had to be
    /// split, and what lies behind the greatest key that there was at the beginning does not count.
    pub(super) fn flush_buffers(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        let last = self.greatest(session)?;
        let mut from = 0;
        while from <= last {
            // Pinned for one leaf: what others give up meanwhile can be used again soon.
            let mut session = session.pinned();
            let place = self.lock_leaf(&mut session, from)?;
            from = place.middle.high();
            let is_empty = self.buffer(place).len() == 0 || self.write_back(place, None);
            // The right half of a split has its part of the buffer, and the left one gets its own.
            let room = if is_empty { Ok(()) } else { self.split(&mut session, place) };
            place.middle.lock.unlock();
            room?;
            if M::mutant("sptree.persists_one") {
                break;
            }
        }
        Ok(())
    }

    /// A key that is not less than any that was written before the call and whose leaf may not have it yet.
    fn greatest(&self, session: &mut Session<M>) -> Result<u64, IndexError> {
        let mut session = session.pinned();
        let place = self.lock_leaf(&mut session, HIGH_MAX - 1)?;
        let buffered = self.buffer(place).iter().map(|(key, _)| key);
        let last = buffered.fold(place.middle.low(), u64::max);
        place.middle.lock.unlock_unchanged();
        Ok(last)
    }

    /// Frees old chunks of the longest log while there are too many, by flushing the buffers that
    /// still need them. What cannot be flushed, because the pool is full or a record is damaged, stays.
    #[cold]
    pub(super) fn trim_logs(&self, session: &mut Session<M>) {
        let limit = self.chunk_limit();
        self.trim(session, usize::MAX, || self.logs.take_oldest(limit));
        if limit.most < PLENTY {
            // The allocator gives a session places for several chunks at once, and keeps what it frees for it: with
            // many sessions that is most of a small pool.
            session.give_back();
        }
    }

    /// Frees the chunks of logs that `take` gives, but no more than `most`; how many there were.
    fn trim(
        &self,
        session: &mut Session<M>,
        most: usize,
        take: impl Fn() -> Option<Taken>,
    ) -> usize {
        let take = || take().inspect(|_| M::mark("sptree.collect"));
        self.logs
            .trim(session, most, take, |session, records| self.release_records(session, records))
    }

    /// Frees the chunks of logs to which nothing is added any more, when there was no space for another one.
    #[cold]
    pub(super) fn make_space_for_log(&self, session: &mut Session<M>) {
        self.trim(session, usize::MAX, || self.logs.take_for_space(Newest::StaysIfOpen));
    }

    /// Frees what the log has of a full pool, so that a leaf can be split: chunks to which nothing is added any more,
    /// or the others, or the checkpoints. False if there is nothing that can be freed.
    #[cold]
    pub(super) fn make_space_for_leaf(&self, session: &mut Session<M>) -> bool {
        if !V::LOGGED {
            return false;
        }
        let by = [Newest::StaysIfOpen, Newest::Goes].into_iter();
        let mut freed = by
            .map(|newest| self.trim(session, usize::MAX, || self.logs.take_for_space(newest)) > 0);
        let is_freed = freed.any(|is_freed| is_freed);
        is_freed || V::CHECKPOINTED && self.areas.give_up(session)
    }

    /// Sixteen chunks for each log, and twice those that full buffers need. In a pool that is nearly full less: while
    /// there is space for splits, so that what old chunks have can go to its leaves.
    fn chunk_limit(&self) -> Limit {
        let (each, per_leaf) = if G::SLOT_COUNT < 62 { (2, 0) } else { (16, BUFFER_LENGTH * 2) };
        let shape = self.logs.shape();
        let shared = self.leaf_count() as usize * per_leaf / shape.chunk_length;
        let free = self.heap.pool().max_size().saturating_sub(self.heap.used_bytes());
        let factor = if self.is_lazy() { 2 } else { 1 };
        let most = free as usize / FREE_FOR_LOG / shape.chunk_size();
        Limit { each: each * factor, shared: shared * factor, most }
    }

    /// Makes sure that these records are not needed any more. Most are not: their leaves have been written
    /// since, which one line of each leaf says, so all those lines are asked for together.
    fn release_records(
        &self,
        session: &mut Session<M>,
        records: &[Option<Record>; GROUP],
    ) -> Result<(), IndexError> {
        if M::mutant("sptree.no_forced_flush") {
            return Ok(());
        }
        let mut places = [None; GROUP];
        for (found, record) in places.iter_mut().zip(records) {
            let Some(record) = *record else { continue };
            let place = self.place(self.leaf_for(session, record.key)?);
            place.middle.prefetch(false);
            *found = Some((place, record));
        }
        for (place, record) in places.into_iter().flatten() {
            if !self.is_written_back(place, record) {
                self.release_record(session, record)?;
            }
        }
        Ok(())
    }

    /// Whether a leaf is the one of a record and has what it says, durably. False if others are at work on it.
    fn is_written_back(&self, place: LeafAndMiddle<'_, M>, record: Record) -> bool {
        let Ok(version) = place.middle.view() else { return false };
        let is_its_own = self.check_range(place, record.key).is_ok();
        is_its_own && record.sequence <= place.middle.flushed() && place.middle.is_current(version)
    }

    /// Makes sure that a record is not needed any more.
    fn release_record(&self, session: &mut Session<M>, record: Record) -> Result<(), IndexError> {
        loop {
            let place = self.lock_leaf(session, record.key)?;
            if record.sequence <= place.middle.flushed() {
                place.middle.lock.unlock_unchanged();
                return Ok(());
            }
            M::mark("sptree.forced_flush");
            let room =
                if self.write_back(place, None) { Ok(()) } else { self.split(session, place) };
            place.middle.lock.unlock();
            room?;
        }
    }
}
