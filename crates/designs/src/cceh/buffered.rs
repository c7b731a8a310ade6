//! The buffers of the segments, in DRAM, and their log: what is written is a record of the log and an entry
//! of a buffer until the buffer is full.
//!
//! A segment's buffer has several parts, and a hash says in which one a key is. A part is that of SPTree's
//! leaves (`node/write_buffer.rs`); the log is SPTree's too (`node/write_log.rs`), without links, since
//! opening reads all of it.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_machine::Machine;

use super::Cceh;
use super::layout::{NO_KEY, Pair, Segment, hash_of};
use super::variant::Variant;
use crate::node::write_buffer::{Buffer, Buffered};
use crate::node::write_log::{Limit, Record};

impl<V: Variant, M: Machine> Cceh<V, M> {
    /// The number of a segment's place: no two segments have the same.
    fn number(segment: Segment<'_, V, M>) -> u64 {
        segment.offset / Segment::<V, M>::SIZE as u64
    }

    /// The parts of a segment's buffer.
    pub(super) fn nodes(&self, segment: Segment<'_, V, M>) -> impl Iterator<Item = &Buffer<M>> {
        self.buffers.parts(Self::number(segment))
    }

    /// The part of a segment's buffer that a hash is in.
    #[inline(always)]
    pub(super) fn node(&self, segment: Segment<'_, V, M>, hash: u64) -> &Buffer<M> {
        self.buffers.part(Self::number(segment), hash % V::NODES as u64)
    }

    /// The entries of a segment's buffer, removals first: in a full pool, the only room may be what they leave.
    pub(super) fn entries(&self, segment: Segment<'_, V, M>) -> Vec<Buffered> {
        let all = self.nodes(segment).flat_map(Buffer::iter);
        let (mut gone, put): (Vec<Buffered>, Vec<Buffered>) =
            all.partition(|(_, value)| value.is_none());
        gone.extend(put);
        gone
    }

    /// The number of the last buffered write of a segment. The caller holds its lock.
    pub(super) fn sequence(&self, segment: Segment<'_, V, M>) -> u64 {
        self.buffers.sequence(Self::number(segment))
    }

    /// Notes a buffered write. The caller holds the lock.
    pub(super) fn set_sequence(&self, segment: Segment<'_, V, M>, sequence: u64) {
        self.buffers.set_sequence(Self::number(segment), sequence);
    }

    /// Makes sure that a segment has its parts in DRAM; those of a new one are empty.
    pub(super) fn make_room(
        &self,
        session: &mut Session<M>,
        segment: Segment<'_, V, M>,
    ) -> Result<(), AllocError> {
        if V::BUFFERED { self.buffers.make_room(session, Self::number(segment)) } else { Ok(()) }
    }

    /// A new segment with its parts in DRAM.
    ///
    /// # Errors
    /// No space; then nothing is left behind.
    pub(super) fn new_segment(
        &self,
        session: &mut Session<M>,
    ) -> Result<Segment<'_, V, M>, AllocError> {
        let offset = session.allocate_record(Segment::<V, M>::SIZE)?;
        let segment = self.segment(offset);
        let room = self.make_room(session, segment);
        room.inspect_err(|_| session.free_record(offset, Segment::<V, M>::SIZE))?;
        Ok(segment)
    }

    /// One write of a variant with buffers. The caller is pinned.
    ///
    /// *Linearizes at* the opening of the segment's lock. *Durable* when it returns.
    pub(super) fn write_buffered(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, AllocError> {
        let (key, hash) = (change.key, hash_of(change.key));
        loop {
            let segment = self.lock_segment(hash);
            let node = self.node(segment, hash);
            let place = node.find(key);
            let stored = || segment.find(hash, key).map(Pair::value);
            let (outcome, effect) = change.decide(place.map_or_else(stored, |(_, value)| value));
            if effect == Effect::None {
                segment.head.lock.unlock_unchanged();
                return Ok(outcome);
            }
            if place.is_none() && node.len() == V::NODE_LENGTH {
                self.empty_buffer(session, segment)?;
                continue;
            }
            let value = (effect == Effect::Put).then_some(change.value);
            let Ok(grows) = self.log(session, segment, (key, value)) else {
                match self.write_through(session, segment, change)? {
                    Some(outcome) => return Ok(outcome),
                    None => continue,
                }
            };
            node.put(place.map(|(slot, _)| slot), (key, value));
            segment.head.lock.unlock();
            if grows {
                self.trim_logs(session);
            }
            return Ok(outcome);
        }
    }

    /// A write to a locked segment when there is no space for the log: the segment itself is durable. Nothing if
    /// it was split first.
    #[cold]
    fn write_through(
        &self,
        session: &mut Session<M>,
        segment: Segment<'_, V, M>,
        change: &Change,
    ) -> Result<Option<Outcome>, AllocError> {
        M::mark("cceh.write_through");
        if self.fill_in(session, segment)? {
            return self.write_locked(session, segment, change);
        }
        Ok(None)
    }

    /// Puts a write of a locked segment into the log, durably. True if the log has grown.
    fn log(
        &self,
        session: &mut Session<M>,
        segment: Segment<'_, V, M>,
        (key, value): Buffered,
    ) -> Result<bool, AllocError> {
        if !V::LOGGED || value.is_none() && M::mutant("cceh.unlogged_removal") {
            return Ok(false);
        }
        let sequence = self.sequence(segment) + 1;
        let (_, grows) =
            self.buffers.logs.append(session, Record { key, value, sequence, link: 0 })?;
        self.set_sequence(segment, sequence);
        Ok(grows)
    }

    /// Brings the buffer of a locked segment to the pool, and opens it. If there is no place for all of it,
    /// the segment is split, and the halves have what is left in their buffers.
    ///
    /// # Errors
    /// No space; then nothing was changed that could be seen.
    fn empty_buffer(
        &self,
        session: &mut Session<M>,
        segment: Segment<'_, V, M>,
    ) -> Result<(), AllocError> {
        // Without space for a copy there may still be room in the segment.
        if V::OUT_OF_PLACE && self.replace(session, segment)? {
            return Ok(());
        }
        if self.fill_in(session, segment)? {
            segment.head.lock.unlock();
        }
        Ok(())
    }

    /// Brings the buffer of a locked segment into it. True if it is still locked, false if it was split and
    /// opened.
    ///
    /// # Errors
    /// No space for a split; then it is open.
    fn fill_in(
        &self,
        session: &mut Session<M>,
        segment: Segment<'_, V, M>,
    ) -> Result<bool, AllocError> {
        if self.take_in(segment) { Ok(true) } else { self.split(session, segment).map(|()| false) }
    }

    /// Brings the buffer of a locked segment into it. False if there was no place for all of it: what is in its
    /// place already is in the log and in the buffer as well.
    fn take_in(&self, segment: Segment<'_, V, M>) -> bool {
        M::mark("cceh.fill_in");
        let sequence = self.sequence(segment);
        if M::mutant("cceh.flushed_first") {
            segment.set_flushed(sequence);
        }
        for (key, value) in self.entries(segment) {
            match segment.apply(key, value) {
                Ok(Some(pair)) if !M::mutant("cceh.no_fill_flush") => {
                    // Persist: by the drain below, before the head says that the pairs are there (C5).
                    self.medium.flush(pair.as_ptr(), size_of::<Pair<M>>());
                }
                Ok(_) => {}
                Err(_) => {
                    // Persist: what was flushed above. If a split finds no space, a later call finds
                    // those pairs in their places and flushes them no more (C5).
                    self.medium.drain();
                    return false;
                }
            }
        }
        // Persist: the pairs before the head says that they are there (C5).
        self.medium.drain();
        if V::LOGGED {
            segment.set_flushed(sequence);
            // Persist: the head before the buffer is emptied, and before the log forgets it (C5).
            self.medium.persist(segment.as_ptr(), 32);
        }
        self.nodes(segment).for_each(Buffer::empty);
        true
    }

    /// Makes a new segment of a locked one and its buffer, puts it in its place, and opens it; or splits it, if it
    /// has no place for all. False, and nothing was done, if there is no space for a new one.
    fn replace(
        &self,
        session: &mut Session<M>,
        segment: Segment<'_, V, M>,
    ) -> Result<bool, AllocError> {
        M::mark("cceh.replace");
        let size = Segment::<V, M>::SIZE;
        let Ok(copy) = self.new_segment(session) else { return Ok(false) };
        copy.build(self.generation, (segment.low(), segment.depth()), Some(segment));
        let mut entries = self.entries(segment).into_iter();
        if entries.any(|(key, value)| copy.apply(key, value).is_err()) {
            session.free_record(copy.offset, size);
            return self.split(session, segment).map(|()| true);
        }
        let sequence = self.sequence(segment);
        if !M::mutant("cceh.no_flushed") {
            copy.set_flushed(sequence);
        }
        self.set_sequence(copy, sequence);
        if !M::mutant("cceh.no_copy_flush") {
            // Persist: the copy before an entry leads to it (C2).
            self.medium.persist(copy.as_ptr(), size);
        }
        self.lock_directory();
        self.point(copy);
        self.directory_lock.unlock();
        self.nodes(segment).for_each(Buffer::empty);
        copy.head.lock.unlock();
        segment.head.lock.unlock_dead();
        if M::mutant("cceh.free_segment_at_once") {
            session.free_record(segment.offset, size);
        } else {
            session.retire_record(segment.offset, size);
        }
        Ok(true)
    }

    /// Gives the upper half of a locked segment, which is locked too, its part of the buffer.
    pub(super) fn split_buffer(&self, segment: Segment<'_, V, M>, upper: Segment<'_, V, M>) {
        if !V::BUFFERED {
            return;
        }
        self.set_sequence(upper, self.sequence(segment));
        for (from, to) in self.nodes(segment).zip(self.nodes(upper)) {
            to.empty();
            let gone = from.iter().filter(|(key, _)| upper.covers(hash_of(*key)));
            gone.for_each(|entry| to.put(None, entry));
            from.keep(|key| !upper.covers(hash_of(key)));
        }
    }

    /// Brings all that was written before the call to the pool. Others may be at work.
    ///
    /// They do not hold it up: a segment is locked once, and filled in while it is. Nothing is replaced here,
    /// which would take space.
    pub(super) fn flush_buffers(&self, session: &mut Session<M>) -> Result<(), AllocError> {
        let mut next = Some(0);
        while let Some(hash) = next {
            // Pinned for one segment: what others give up meanwhile can be used again soon.
            let mut session = session.pinned();
            let segment = self.lock_segment(hash);
            let width = 1_u64.checked_shl(64 - segment.depth());
            next = width.and_then(|width| segment.low().checked_add(width));
            if self.nodes(segment).all(|node| node.len() == 0) {
                segment.head.lock.unlock_unchanged();
            } else {
                let filled = self.fill_whole(&mut session, segment);
                segment.head.lock.unlock();
                filled?;
            }
            if M::mutant("cceh.persists_one") {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Brings the buffer of a locked segment into it, and into upper halves that are split off if there is no
    /// place for all of it. The segment stays locked meanwhile, so that nobody adds to its buffer.
    ///
    /// # Errors
    /// No space for a split; what has no place yet stays in the buffers.
    fn fill_whole(
        &self,
        session: &mut Session<M>,
        segment: Segment<'_, V, M>,
    ) -> Result<(), AllocError> {
        while !self.take_in(segment) {
            let upper = self.split_locked(session, segment)?;
            let filled = self.fill_whole(session, upper);
            upper.head.lock.unlock();
            filled?;
        }
        Ok(())
    }

    /// Frees old chunks of the longest log while there are too many, by bringing to the pool what still
    /// needs them. If the pool is full, they stay.
    #[cold]
    fn trim_logs(&self, session: &mut Session<M>) {
        let logs = &self.buffers.logs;
        let shared = self.chunks_shared();
        let limit = Limit { each: V::LOGS.chunks_min(), shared, most: usize::MAX };
        let take = || logs.take_oldest(limit).inspect(|_| M::mark("cceh.collect"));
        logs.trim(session, usize::MAX, take, |session, records| {
            let mut needed =
                records.iter().flatten().filter(|_| !M::mutant("cceh.no_forced_flush"));
            needed.try_for_each(|record| Ok(self.release_record(session, *record)?))
        });
    }

    /// Chunks that all logs may have together beside a few of each: twice those that full buffers need.
    fn chunks_shared(&self) -> usize {
        // A directory has no more segments than entries, and seldom less than half as many.
        let segments = self.directory().count() as usize;
        segments * V::NODES * V::NODE_LENGTH / V::LOGS.shape().chunk_length
    }

    /// Makes sure that a record is not needed any more.
    fn release_record(&self, session: &mut Session<M>, record: Record) -> Result<(), AllocError> {
        let hash = hash_of(record.key);
        loop {
            let segment = self.lock_segment(hash);
            if record.sequence <= segment.flushed() {
                segment.head.lock.unlock_unchanged();
                return Ok(());
            }
            M::mark("cceh.forced_flush");
            self.empty_buffer(session, segment)?;
        }
    }

    /// Keys of a segment and its buffer; good if the version is found unchanged afterwards.
    pub(super) fn key_count(&self, segment: Segment<'_, V, M>) -> u64 {
        if !V::BUFFERED {
            return segment.pairs().count() as u64;
        }
        let is_buffered = |key| self.node(segment, hash_of(key)).find(key).is_some();
        let stored = segment.pairs().filter(|(key, _)| !is_buffered(*key)).count();
        let values = self.entries(segment).iter().filter(|entry| entry.1.is_some()).count();
        (stored + values) as u64
    }

    /// Puts a record that recovery found into the buffer of its segment, if that has not got it. Records
    /// come in the order of their numbers. False if there is no room. Nobody else is active.
    pub(super) fn restore_record(&self, record: Record) -> bool {
        let hash = hash_of(record.key);
        let segment = self.segment_of(hash);
        if record.sequence <= segment.flushed() {
            return true;
        }
        let node = self.node(segment, hash);
        let place = node.find(record.key);
        if record.key == NO_KEY || place.is_none() && node.len() == V::NODE_LENGTH {
            return false;
        }
        node.put(place.map(|(slot, _)| slot), (record.key, record.value));
        if record.sequence > self.sequence(segment) {
            self.set_sequence(segment, record.sequence);
        }
        true
    }
}
