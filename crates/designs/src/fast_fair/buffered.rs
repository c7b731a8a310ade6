//! Buffering: what is written is a record of the log and an entry of the leaf's buffer, which is in DRAM, until
//! the buffer is full. Then all of it goes to the leaf, record by record, or to a copy of it (`replace.rs`).
//!
//! Buffers are read and written under the lock of their leaf, by readers too.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_machine::{Machine, Ordering};

use super::FastFair;
use super::variant::Variant;
use crate::node::fast_node::{NONCE_BITS, Node, capacity};
use crate::node::write_buffer::{BUFFER_LENGTH, Buffer, Buffered, overlay};
use crate::node::write_log::{Limit, Record, SEQUENCE_BOUND, Shape, sort_by_sequence};

/// Keys and values, or words.
type Pairs = Vec<(u64, u64)>;

impl<V: Variant, M: Machine> FastFair<V, M> {
    /// The logs: of short chunks in small variants.
    pub(super) const LOGS: Shape = {
        assert!(V::BUFFER_CAPACITY <= BUFFER_LENGTH);
        if V::SMALL_LOGS { Shape::SMALL } else { Shape::USUAL }
    };

    /// The number of a leaf's place: no two leaves have the same.
    #[inline(always)]
    pub(super) fn number(&self, leaf: Node<V, M>) -> u64 {
        self.nodes.offset(leaf) / V::NODE_SIZE as u64
    }

    /// The buffer of a leaf, in a variant that has some.
    #[inline(always)]
    pub(super) fn buffer(&self, leaf: Node<V, M>) -> &Buffer<M> {
        self.buffers.part(self.number(leaf), 0)
    }

    /// One write of a variant with buffers. The session is pinned.
    ///
    /// *Linearizes at* the opening of the leaf's lock. *Durable* when it returns.
    pub(super) fn write_buffered(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, AllocError> {
        loop {
            let mut stray = None;
            let leaf = self.lock_leaf(change.key, &mut stray)?;
            let done = self.write_to_buffer(session, leaf, change);
            self.help(session, stray);
            if let Some((outcome, grows)) = done? {
                if grows {
                    self.trim_logs(session);
                }
                return Ok(outcome);
            }
        }
    }

    /// Does a write on the buffer of a locked leaf, and opens it; says whether the log has grown. Nothing if
    /// room had to be made first.
    fn write_to_buffer(
        &self,
        session: &mut Session<M>,
        leaf: Node<V, M>,
        change: &Change,
    ) -> Result<Option<(Outcome, bool)>, AllocError> {
        let (buffer, key) = (self.buffer(leaf), change.key);
        let found = buffer.find(key);
        let old = found.map_or_else(|| self.stored(leaf, key), |(_, value)| value);
        let (outcome, effect) = change.decide(old);
        let value = match effect {
            Effect::None => {
                self.nodes.unlock(leaf);
                return Ok(Some((outcome, false)));
            }
            Effect::Put => Some(change.value),
            Effect::Delete => None,
        };
        if found.is_none() && buffer.len() == V::BUFFER_CAPACITY {
            return self.empty_buffer(session, leaf).map(|()| None);
        }
        let Ok(grows) = self.log_write(session, leaf, (key, value)) else {
            return self.write_through(session, leaf, change);
        };
        buffer.put(found.map(|(slot, _)| slot), (key, value));
        self.nodes.unlock(leaf);
        Ok(Some((outcome, grows)))
    }

    /// A write to a locked leaf when there is no space for the log: the leaf itself is durable.
    fn write_through(
        &self,
        session: &mut Session<M>,
        leaf: Node<V, M>,
        change: &Change,
    ) -> Result<Option<(Outcome, bool)>, AllocError> {
        M::mark("fast_fair.write_through");
        if self.fill_in(session, leaf)? {
            return self.write_locked(session, leaf, change).map(|outcome| Some((outcome, false)));
        }
        Ok(None)
    }

    /// The value of a key in a locked leaf, whatever its buffer says.
    #[inline(always)]
    fn stored(&self, leaf: Node<V, M>, key: u64) -> Option<u64> {
        let count = leaf.count();
        let slot = leaf.position(key, count);
        let is_there = slot < count && leaf.key(slot).read_private() == key;
        is_there.then(|| leaf.value(slot).read_private() >> NONCE_BITS)
    }

    /// Puts a write of a locked leaf into the log, durably. True if the log has grown.
    #[inline(always)]
    fn log_write(
        &self,
        session: &mut Session<M>,
        leaf: Node<V, M>,
        (key, value): Buffered,
    ) -> Result<bool, AllocError> {
        if !V::LOGGED || value.is_none() && M::mutant("fast_fair.unlogged_removal") {
            return Ok(false);
        }
        let number = self.number(leaf);
        let sequence = self.buffers.sequence(number) + 1;
        let record = Record { key, value, sequence, link: 0 };
        let (_, grows) = self.buffers.logs.append(session, record)?;
        self.buffers.set_sequence(number, sequence);
        Ok(grows)
    }

    /// Brings the buffer of a locked leaf to the pool, and opens it. If there is no place for all of it, the
    /// leaf is split, and the halves have what is left in their buffers.
    ///
    /// # Errors
    /// No space; then nothing was changed that could be seen.
    pub(super) fn empty_buffer(
        &self,
        session: &mut Session<M>,
        leaf: Node<V, M>,
    ) -> Result<(), AllocError> {
        // Without space for a copy there may still be room in the leaf.
        if V::OUT_OF_PLACE && self.replace(session, leaf)? {
            return Ok(());
        }
        if self.fill_in(session, leaf)? {
            self.nodes.unlock(leaf);
        }
        Ok(())
    }

    /// Brings the buffer of a locked leaf into it. True if the leaf is still locked, false if it was split and
    /// opened.
    ///
    /// # Errors
    /// No space for a split; then the leaf is open.
    fn fill_in(&self, session: &mut Session<M>, leaf: Node<V, M>) -> Result<bool, AllocError> {
        if self.fill(leaf) {
            Ok(true)
        } else {
            self.split_with_buffer(session, leaf).map(|()| false)
        }
    }

    /// Brings the buffer of a locked leaf into it. False if there was no place for all of it: what is in its
    /// place already is in the log and in the buffer as well (B1).
    fn fill(&self, leaf: Node<V, M>) -> bool {
        M::mark("fast_fair.fill_in");
        let (buffer, nodes) = (self.buffer(leaf), &self.nodes);
        let sequence = self.buffers.sequence(self.number(leaf));
        if M::mutant("fast_fair.flushed_first") {
            nodes.set_flushed(leaf, sequence);
        }
        // Removals first: in a full pool, the only room may be what they leave.
        let (gone, put): (Vec<Buffered>, Vec<Buffered>) =
            buffer.iter().partition(|(_, value)| value.is_none());
        for (key, value) in gone.into_iter().chain(put) {
            let count = leaf.count();
            let slot = leaf.position(key, count);
            let is_there = slot < count && leaf.key(slot).read_private() == key;
            match value {
                Some(value) if is_there => {
                    nodes.replace(leaf, slot, leaf.fresh_word(value, key, count));
                }
                Some(value) if count < capacity::<V>() => {
                    nodes.insert(leaf, key, leaf.fresh_word(value, key, count));
                }
                Some(_) => return false,
                None if is_there => nodes.remove(leaf, slot),
                None => {}
            }
        }
        if V::LOGGED {
            nodes.set_flushed(leaf, sequence);
        }
        buffer.empty();
        true
    }

    /// Splits a locked leaf and its buffer, and opens both halves.
    fn split_with_buffer(
        &self,
        session: &mut Session<M>,
        leaf: Node<V, M>,
    ) -> Result<(), AllocError> {
        let split = self.split(session, leaf);
        let (right, low) = split.inspect_err(|_| self.nodes.unlock(leaf))?;
        self.split_buffer(leaf, right, low);
        self.nodes.unlock(right);
        self.nodes.unlock(leaf);
        // As in `split_and_insert`.
        let _ = self.add_separator(session, 1, low, right);
        Ok(())
    }

    /// Gives the right half of a leaf its part of the buffer; both are locked.
    fn split_buffer(&self, leaf: Node<V, M>, right: Node<V, M>, low: u64) {
        let (from, to) = (self.buffer(leaf), self.buffer(right));
        from.iter().filter(|(key, _)| *key >= low).for_each(|entry| to.put(None, entry));
        from.keep(|key| key < low);
    }

    /// Brings all that was written before the call to the pool. Others may be at work.
    ///
    /// They do not hold it up: a leaf is locked once, and filled in while it is, and what lies behind the
    /// greatest key that there was at the beginning does not count. Nothing is replaced here, which would take
    /// space.
    pub(super) fn flush_buffers(&self, session: &mut Session<M>) -> Result<(), AllocError> {
        let last = self.greatest(session)?;
        let mut from = Some(0);
        while let Some(key) = from.filter(|key| *key <= last) {
            from = self.flush_leaf_buffer(session, key)?;
            if M::mutant("fast_fair.persists_one") {
                break;
            }
        }
        Ok(())
    }

    /// A key that is not less than any that was written before the call and whose leaf may not have it yet.
    fn greatest(&self, session: &mut Session<M>) -> Result<u64, AllocError> {
        let _pinned = session.pinned();
        let leaf = self.lock_leaf(u64::MAX, &mut None)?;
        let buffered = self.buffer(leaf).iter().map(|(key, _)| key);
        let last = buffered.fold(self.nodes.low(leaf), u64::max);
        self.nodes.unlock(leaf);
        Ok(last)
    }

    /// Brings the buffer of a key's leaf into it, and gives the low fence of the leaf behind it.
    fn flush_leaf_buffer(
        &self,
        session: &mut Session<M>,
        key: u64,
    ) -> Result<Option<u64>, AllocError> {
        // Pinned for one leaf: what others give up meanwhile can be used again soon.
        let mut session = session.pinned();
        let leaf = self.lock_leaf(key, &mut None)?;
        // Relaxed: only holders of the lock change it.
        let next = self.nodes.follow(leaf.sibling().load(Ordering::Relaxed));
        let mut made = vec![];
        let filled = match &next {
            Ok(_) => self.fill_whole(&mut session, leaf, &mut made),
            Err(_) => Ok(()),
        };
        self.nodes.unlock(leaf);
        for (low, right) in made {
            // As in `split_and_insert`.
            let _ = self.add_separator(&mut session, 1, low, right);
        }
        filled?;
        Ok(next?.map(|next| self.nodes.low(next)))
    }

    /// Brings the buffer of a locked leaf into it, and into what is split off, noted in `made`, if there is no
    /// place for all of it. The leaf stays locked meanwhile, so that nobody adds to its buffer.
    ///
    /// # Errors
    /// No space for a split; what has no place yet stays in the buffers.
    fn fill_whole(
        &self,
        session: &mut Session<M>,
        leaf: Node<V, M>,
        made: &mut Vec<(u64, Node<V, M>)>,
    ) -> Result<(), AllocError> {
        if self.buffer(leaf).len() == 0 {
            return Ok(());
        }
        while !self.fill(leaf) {
            let (right, low) = self.split(session, leaf)?;
            self.split_buffer(leaf, right, low);
            let filled = self.fill_whole(session, right, made);
            self.nodes.unlock(right);
            made.push((low, right));
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
        let limit = Limit { each: if V::SMALL_LOGS { 2 } else { 16 }, shared, most: usize::MAX };
        let take = || logs.take_oldest(limit).inspect(|_| M::mark("fast_fair.collect"));
        logs.trim(session, usize::MAX, take, |session, records| {
            let mut needed =
                records.iter().flatten().filter(|_| !M::mutant("fast_fair.no_forced_flush"));
            needed.try_for_each(|record| Ok(self.release_record(session, *record)?))
        });
    }

    /// Chunks that all logs may have together beside a few of each: twice those that full buffers need.
    fn chunks_shared(&self) -> usize {
        2 * self.leaves.sum() as usize * V::BUFFER_CAPACITY / Self::LOGS.chunk_length
    }

    /// Makes sure that a record is not needed any more.
    fn release_record(&self, session: &mut Session<M>, record: Record) -> Result<(), AllocError> {
        loop {
            let leaf = self.lock_leaf(record.key, &mut None)?;
            if record.sequence <= leaf.flushed_word().read_private() {
                self.nodes.unlock(leaf);
                return Ok(());
            }
            M::mark("fast_fair.forced_flush");
            self.empty_buffer(session, leaf)?;
        }
    }

    /// Lays the buffer of a leaf over its words from `from` on, which begin at `start`.
    pub(super) fn overlay(&self, leaf: Node<V, M>, from: u64, start: usize, words: &mut Pairs) {
        let entries = self.buffer(leaf).iter().filter(|(key, _)| *key >= from);
        let as_word = |(key, value): Buffered| (key, value.map(|value| value << NONCE_BITS));
        let entries: Vec<Buffered> = entries.map(as_word).collect();
        if !entries.is_empty() {
            let mut own = words.split_off(start);
            overlay(&mut own, &entries);
            words.extend(own);
        }
    }

    /// Keys of a leaf that holds `keys` and its buffer, in a variant with one; checks the buffer.
    pub(super) fn check_buffer(
        &self,
        leaf: Node<V, M>,
        keys: &[u64],
        bound: Option<u64>,
        problems: &mut Vec<String>,
    ) -> u64 {
        if !V::BUFFERED {
            return keys.len() as u64;
        }
        let (low, buffer) = (self.nodes.low(leaf), self.buffer(leaf));
        let number = self.number(leaf);
        if buffer.iter().any(|(key, _)| key < low || bound.is_some_and(|bound| key >= bound)) {
            problems.push(format!("the buffer of the leaf from {low} on has keys of another (B1)"));
        }
        if V::LOGGED
            && buffer.len() > 0
            && leaf.flushed_word().read_private() >= self.buffers.sequence(number)
        {
            problems.push(format!("the leaf from {low} on says that it has its buffer (B1)"));
        }
        let stays = keys.iter().filter(|key| buffer.find(**key).is_none()).count();
        (stays + buffer.iter().filter(|entry| entry.1.is_some()).count()) as u64
    }

    /// Gives a leaf that recovery found its parts in DRAM.
    pub(super) fn adopt_leaf(
        &self,
        session: &mut Session<M>,
        leaf: Node<V, M>,
    ) -> Result<(), AllocError> {
        if !V::BUFFERED {
            return Ok(());
        }
        let flushed = leaf.flushed_word().read_private();
        if flushed >= SEQUENCE_BOUND {
            let what = format!("a leaf says that {flushed} writes are in their place");
            return Err(self.damage(leaf, &what));
        }
        self.buffers.make_room(session, self.number(leaf))?;
        self.buffers.set_sequence(self.number(leaf), flushed);
        Ok(())
    }

    /// Brings the log's records to the buffers. Nobody else is active.
    pub(super) fn restore_buffers(&self, recovery: &Recovery<M>) -> Result<(), AllocError> {
        if !V::BUFFERED {
            return Ok(());
        }
        let logs = &self.buffers.logs;
        let mut records = vec![];
        logs.recover(recovery, &[], |place, record| records.push((place, record)))?;
        // The numbers of a leaf's writes ascend, whatever logs they are in (B1).
        sort_by_sequence(&mut records);
        if M::mutant("fast_fair.no_sequence") {
            records.reverse();
        }
        for (place, record) in records {
            if !self.restore_record(record)? {
                let what =
                    format!("record {} of the log has no room in its buffer", record.sequence);
                return Err(AllocError::Corrupt { offset: place, what });
            }
        }
        Ok(())
    }

    /// Puts a record into the buffer of its leaf, if that has not got it. False if there is no room.
    fn restore_record(&self, record: Record) -> Result<bool, AllocError> {
        let Some(mut leaf) = self.find(record.key, 0, None)? else { return Ok(false) };
        while let Some(next) = self.nodes.follow(leaf.sibling().read_private())?
            && self.nodes.is_right(next, record.key)
        {
            leaf = next;
        }
        if record.sequence <= leaf.flushed_word().read_private() {
            return Ok(true);
        }
        let (buffer, number) = (self.buffer(leaf), self.number(leaf));
        let place = buffer.find(record.key);
        if place.is_none() && buffer.len() == V::BUFFER_CAPACITY {
            return Ok(false);
        }
        buffer.put(place.map(|(slot, _)| slot), (record.key, record.value));
        if record.sequence > self.buffers.sequence(number) {
            self.buffers.set_sequence(number, record.sequence);
        }
        Ok(true)
    }

    /// Marks the chunks of the log.
    pub(super) fn mark_logs(&self, used: &Recovery<M>) -> Result<(), AllocError> {
        if !V::BUFFERED {
            return Ok(());
        }
        let size = Self::LOGS.chunk_size();
        self.buffers.logs.for_each_chunk(|chunk| used.mark_record(chunk, size))
    }

    /// Gives the chunks of the log back; nobody can reach the tree any more.
    pub(super) fn free_logs(&self, session: &mut Session<M>) {
        if V::BUFFERED {
            for chunk in self.buffers.logs.chunks() {
                session.free_record(chunk, Self::LOGS.chunk_size());
            }
        }
    }
}
