//! Buffering: what is written is a record of the log and an entry of its partition's buffer, which is in DRAM, until
//! the buffer is full. Then all of it goes to the list (`fill.rs`).
//!
//! Buffers are written under the lock of their partition. Readers take none: they look again if it was changed.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_machine::{Machine, Ordering};

use super::PSkiplist;
use super::layout::live;
use super::variant::Variant;
use crate::node::write_buffer::{BUFFER_LENGTH, Buffered, overlay};
use crate::node::write_log::{Limit, Record, Shape, sort_by_sequence};

impl<V: Variant, M: Machine> PSkiplist<V, M> {
    /// The logs: of short chunks in small variants.
    pub(super) const LOGS: Shape = {
        assert!(V::BUFFER_CAPACITY <= BUFFER_LENGTH);
        if V::SMALL_LOGS { Shape::SMALL } else { Shape::FEW }
    };

    /// The partition of a key, or one on the left of that.
    #[inline(always)]
    pub(super) fn partition_of(&self, key: u64) -> u64 {
        if V::CACHED {
            return self.partitions.cached(key);
        }
        if !self.is_writable {
            return self.guide.partition_point(|guide| guide.0 <= key) as u64;
        }
        let (node, _) = self.above(key, V::LOW_LEVELS);
        // Relaxed: written before the node was linked on this level.
        if node == self.head { 0 } else { self.number_word(node).load(Ordering::Relaxed) }
    }

    /// The partition of a key, locked.
    fn lock_partition(&self, key: u64) -> u64 {
        self.partitions.lock(self.partition_of(key), key)
    }

    /// The value of a key in the list, whatever the buffer of its partition says.
    #[inline(always)]
    fn stored(&self, number: u64, key: u64) -> Option<u64> {
        let node = self.find_in(self.partitions.at(number).node(), key)?;
        live(self.read_word(node))
    }

    /// The value of a key in a variant with buffers. The caller is pinned.
    ///
    /// *Linearizes at* the load of the version of its partition that is found unchanged afterwards.
    #[inline(always)]
    pub(super) fn read_buffered(&self, key: u64) -> Option<u64> {
        self.partitions.look(self.partition_of(key), key, |number| {
            match self.partitions.buffer(number).find(key) {
                Some((_, value)) => value,
                None => self.stored(number, key),
            }
        })
    }

    /// One write of a variant with buffers. The session is pinned.
    ///
    /// *Linearizes at* the opening of the partition's lock. *Durable* when it returns.
    pub(super) fn write_buffered(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, AllocError> {
        let key = change.key;
        loop {
            let number = self.lock_partition(key);
            let (partition, buffer) = (self.partitions.at(number), self.partitions.buffer(number));
            let found = buffer.find(key);
            let old = found.map_or_else(|| self.stored(number, key), |(_, value)| value);
            let (outcome, effect) = change.decide(old);
            let value = match effect {
                Effect::None => {
                    partition.unlock_unchanged();
                    return Ok(outcome);
                }
                Effect::Put => Some(change.value),
                Effect::Delete => None,
            };
            let entry = (key, value);
            if found.is_none() && buffer.len() == V::BUFFER_CAPACITY {
                match self.make_place(session, number, entry, old.is_some())? {
                    true => return Ok(outcome),
                    false => continue,
                }
            }
            let Ok(grows) = self.log_write(session, number, entry) else {
                // Without space for the log there may still be some for a node.
                M::mark("skiplist.write_through");
                if found.is_some() {
                    self.empty_buffer(session, number)?;
                    continue;
                }
                let mut made = vec![];
                let placed = self.place(session, number, &[entry], &mut made);
                self.open(session, number, &made);
                return placed.map(|()| outcome);
            };
            buffer.put(found.map(|(slot, _)| slot), entry);
            partition.unlock();
            if grows {
                self.trim_logs(session);
            }
            return Ok(outcome);
        }
    }

    /// Puts a write of a locked partition into the log, durably. True if the log has grown.
    #[inline(always)]
    fn log_write(
        &self,
        session: &mut Session<M>,
        number: u64,
        (key, value): Buffered,
    ) -> Result<bool, AllocError> {
        if !V::LOGGED || value.is_none() && M::mutant("skiplist.unlogged_removal") {
            return Ok(false);
        }
        let buffers = &self.partitions.buffers;
        let sequence = buffers.sequence(number) + 1;
        let record = Record { key, value, sequence, link: 0 };
        let (_, grows) = buffers.logs.append(session, record)?;
        buffers.set_sequence(number, sequence);
        Ok(grows)
    }

    /// Brings the full buffer of a locked partition to the list, and opens it. If there is no space, does a write that
    /// needs none, of a key that the list has and the buffer has not; true if it did.
    ///
    /// # Errors
    /// No space for either.
    fn make_place(
        &self,
        session: &mut Session<M>,
        number: u64,
        entry: Buffered,
        is_stored: bool,
    ) -> Result<bool, AllocError> {
        let mut made = vec![];
        let filled = self.fill(session, number, &mut made);
        let writes = filled.is_err() && is_stored;
        let placed = if writes { self.place(session, number, &[entry], &mut made) } else { filled };
        self.open(session, number, &made);
        placed.map(|()| writes)
    }

    /// Brings the buffer of a locked partition to the list, and opens it.
    ///
    /// # Errors
    /// No space; then what has no place yet stays in the buffer.
    fn empty_buffer(&self, session: &mut Session<M>, number: u64) -> Result<(), AllocError> {
        let mut made = vec![];
        let filled = self.fill(session, number, &mut made);
        self.open(session, number, &made);
        filled
    }

    /// Brings all that was written before the call to the list. Others may be at work.
    ///
    /// They do not hold it up: a partition is locked once, and what lies behind the greatest key that there was at
    /// the beginning does not count.
    pub(super) fn flush_buffers(&self, session: &mut Session<M>) -> Result<(), AllocError> {
        let greatest = self.greatest(session);
        let mut from = Some(0);
        while let Some(key) = from.filter(|key| *key <= greatest) {
            // Pinned for one partition: what others give up meanwhile can be used again soon.
            let mut session = session.pinned();
            let number = self.lock_partition(key);
            // What is split off is emptied with it.
            from = self.partitions.at(number).last().checked_add(1);
            self.empty_buffer(&mut session, number)?;
            if M::mutant("skiplist.persists_one") {
                break;
            }
        }
        Ok(())
    }

    /// A key that is not less than any in a buffer.
    fn greatest(&self, session: &mut Session<M>) -> u64 {
        let _pinned = session.pinned();
        let number = self.lock_partition(u64::MAX);
        let keys = self.partitions.entries(number, 0).into_iter().map(|(key, _)| key);
        let greatest = keys.fold(self.low(number), u64::max);
        self.partitions.at(number).unlock_unchanged();
        greatest
    }

    /// The first key that belongs to a partition.
    pub(super) fn low(&self, number: u64) -> u64 {
        if number == 0 { 0 } else { self.key(self.partitions.at(number).node()) }
    }

    /// Frees old chunks of the longest log while there are too many, by bringing to the list what still needs
    /// them. If the pool is full, they stay.
    #[cold]
    fn trim_logs(&self, session: &mut Session<M>) {
        let logs = &self.partitions.buffers.logs;
        let shared = self.chunks_shared();
        let limit = Limit { each: if V::SMALL_LOGS { 2 } else { 16 }, shared, most: usize::MAX };
        let take = || logs.take_oldest(limit).inspect(|_| M::mark("skiplist.collect"));
        logs.trim(session, usize::MAX, take, |session, records| {
            let mut needed =
                records.iter().flatten().filter(|_| !M::mutant("skiplist.no_forced_flush"));
            needed.try_for_each(|record| Ok(self.release_record(session, *record)?))
        });
    }

    /// Chunks that all logs may have together beside a few of each: twice those that full buffers need.
    fn chunks_shared(&self) -> usize {
        2 * self.partitions.count() as usize * V::BUFFER_CAPACITY / Self::LOGS.chunk_length
    }

    /// Makes sure that a record is not needed any more.
    fn release_record(&self, session: &mut Session<M>, record: Record) -> Result<(), AllocError> {
        let number = self.lock_partition(record.key);
        let partition = self.partitions.at(number);
        if record.sequence <= self.flushed(partition.node()) {
            partition.unlock_unchanged();
            return Ok(());
        }
        M::mark("skiplist.forced_flush");
        self.empty_buffer(session, number)
    }

    /// The pairs of a partition from `from` on, with its buffer; good if the version is found unchanged afterwards.
    pub(super) fn pairs(&self, number: u64, from: u64) -> Vec<(u64, u64)> {
        let partition = self.partitions.at(number);
        let last = partition.last();
        let mut node = match partition.node() {
            first if first == self.head || self.key(first) < from => {
                let before = self.last_from(first, self.low_levels(), |key| key < from);
                self.load(before, 0).node()
            }
            first => first,
        };
        let mut pairs = vec![];
        while node != 0 && self.key(node) <= last {
            let next = self.load(node, 0).node();
            M::prefetch(self.link(next, 0).as_ptr());
            if let Some(value) = live(self.read_word(node)) {
                pairs.push((self.key(node), value));
            }
            node = next;
        }
        let entries = self.partitions.entries(number, from);
        if !entries.is_empty() {
            overlay(&mut pairs, &entries);
        }
        pairs
    }

    /// Brings the log's records to the buffers, and gives how many more keys there are for it. Nobody else is active.
    pub(super) fn restore_buffers(&self, recovery: &Recovery<M>) -> Result<i64, AllocError> {
        let logs = &self.partitions.buffers.logs;
        let mut records = vec![];
        logs.recover(recovery, &[], |place, record| records.push((place, record)))?;
        // The numbers of a partition's writes ascend, whatever logs they are in (K10).
        sort_by_sequence(&mut records);
        if M::mutant("skiplist.no_sequence") {
            records.reverse();
        }
        let lost = records.into_iter().find(|(_, record)| !self.restore_record(*record));
        if let Some((offset, record)) = lost {
            let what = format!("record {} of the log has no room in its buffer", record.sequence);
            return Err(AllocError::Corrupt { offset, what });
        }
        let growth = |number| {
            let entries = self.partitions.entries(number, 0).into_iter();
            let each = |(key, value): Buffered| {
                i64::from(value.is_some()) - i64::from(self.stored(number, key).is_some())
            };
            entries.map(each).sum::<i64>()
        };
        Ok((0..self.partitions.count()).map(growth).sum())
    }

    /// Puts a record into the buffer of its partition, if that has not got it. False if there is no room.
    fn restore_record(&self, record: Record) -> bool {
        let number = self.lock_partition(record.key);
        let (partition, buffer) = (self.partitions.at(number), self.partitions.buffer(number));
        partition.unlock_unchanged();
        if record.sequence <= self.flushed(partition.node()) {
            return true;
        }
        let place = buffer.find(record.key);
        if place.is_none() && buffer.len() == V::BUFFER_CAPACITY {
            return false;
        }
        buffer.put(place.map(|(slot, _)| slot), (record.key, record.value));
        let buffers = &self.partitions.buffers;
        if record.sequence > buffers.sequence(number) {
            buffers.set_sequence(number, record.sequence);
        }
        true
    }

    /// Marks the chunks of the log.
    pub(super) fn mark_logs(&self, used: &Recovery<M>) -> Result<(), AllocError> {
        if !V::BUFFERED {
            return Ok(());
        }
        let size = Self::LOGS.chunk_size();
        self.partitions.buffers.logs.for_each_chunk(|chunk| used.mark_record(chunk, size))
    }

    /// Gives the chunks of the log back; nobody can reach the list any more.
    pub(super) fn free_logs(&self, session: &mut Session<M>) {
        if V::BUFFERED {
            for chunk in self.partitions.buffers.logs.chunks() {
                session.free_record(chunk, Self::LOGS.chunk_size());
            }
        }
    }
}
