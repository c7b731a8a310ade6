//! The end of old chunks, and a record that is changed where it is.

use everleaf_alloc::Session;
use everleaf_index::IndexError;
use everleaf_machine::{Machine, Ordering};

use super::record::{Mark, Record, removal_meta};
use super::{Held, Logs, State};

/// Records that are looked at together when a chunk is to be freed.
pub const GROUP: usize = 16;

/// A log and the chunk of it that is to be freed.
pub type Taken = (usize, u64);

impl State {
    /// Chunks that a look does not pass over.
    fn standing(&self, look: u64) -> usize {
        if !self.has_passed {
            return self.chunks.len();
        }
        self.chunks.iter().filter(|chunk| chunk.passed <= look).count()
    }
}

impl<M: Machine> Logs<M> {
    /// The log with the most chunks and the oldest of them, if all logs have more than `shared` and `each` for every
    /// one that has been written since the pool was opened; nothing if somebody is at work on it. Chunks that are
    /// passed over do not count.
    pub fn take_oldest(&self, each: usize, shared: usize) -> Option<Taken> {
        let (mut longest, mut limit, mut count) = ((0, 1), shared, 0);
        let look = self.look();
        for (log, state) in self.logs.iter().enumerate() {
            let state = state.lock();
            let chunks = state.standing(look);
            if state.added > 0 {
                limit += each;
                count += chunks;
            } else {
                // The last chunk stays until the log is written again.
                count += chunks.saturating_sub(1);
            }
            if chunks > longest.1 {
                longest = (log, chunks);
            }
        }
        if count > limit { self.take_of(longest.0, look) } else { None }
    }

    fn look(&self) -> u64 {
        // Relaxed: nothing else is told by it.
        self.looks.load(Ordering::Relaxed)
    }

    /// Takes the oldest chunk of a log that is not passed over. The newest one is being written.
    fn take_of(&self, log: usize, look: u64) -> Option<Taken> {
        let mut state = self.logs[log].lock();
        let found = state.chunks.iter().position(|chunk| chunk.passed <= look)?;
        if state.taken.is_some() || found + 1 == state.chunks.len() {
            return None;
        }
        state.taken = Some(found);
        Some((log, state.chunks[found].place))
    }

    /// Frees the chunks that `take` gives, as long as it gives some. `release` makes sure that the records that it
    /// gets are not needed any more, or says why it cannot: then their chunk stays, and trimming passes it over, so
    /// that those behind it are looked at too. If it was for want of space, it is looked at again after a while; a
    /// chunk with damage stays as long as the pool is open.
    pub fn trim(
        &self,
        session: &mut Session<M>,
        take: impl Fn() -> Option<Taken>,
        mut release: impl FnMut(&mut Session<M>, &[Option<Record>; GROUP]) -> Result<(), IndexError>,
    ) {
        // Relaxed: nothing else is told by it. Once a call, so that no chunk is looked at again and again in one.
        self.looks.fetch_add(1, Ordering::Relaxed);
        while let Some(taken) = take() {
            match self.release_all(session, taken, &mut release) {
                Ok(true) => self.drop_taken(session, taken.0),
                Ok(false) => self.pass_over(taken.0, true),
                Err(error) => self.pass_over(taken.0, !error.leaves_nothing()),
            }
        }
    }

    /// Makes sure that no record of a chunk is needed any more. False if some cannot be read.
    fn release_all(
        &self,
        session: &mut Session<M>,
        (log, chunk): Taken,
        release: &mut impl FnMut(&mut Session<M>, &[Option<Record>; GROUP]) -> Result<(), IndexError>,
    ) -> Result<bool, IndexError> {
        let mut count = 0;
        let mut records = self.records(chunk).map(|(_, record)| record).fuse();
        let mut group = [None; GROUP];
        loop {
            group.fill_with(|| records.next());
            count += group.iter().flatten().count();
            release(session, &group)?;
            if group.contains(&None) {
                return Ok(self.has_all(log, chunk, count));
            }
        }
    }

    /// Whether so many records of a chunk are all that were written, as far as it can be told. Behind one that the
    /// medium has lost there may be some that are needed.
    fn has_all(&self, log: usize, chunk: u64, count: usize) -> bool {
        let state = self.logs[log].lock();
        let place = state.chunks.iter().position(|one| one.place == chunk);
        let next = place.and_then(|place| state.chunks.get(place + 1));
        match next.and_then(|next| self.before(self.mark(chunk), next.place)) {
            Some(wanted) => count as u64 >= wanted,
            None => self.ends_at(chunk, count),
        }
    }

    /// The chunk that was taken of a log stays.
    fn pass_over(&self, log: usize, is_damaged: bool) {
        let mut state = self.logs[log].lock();
        let taken = state.taken.take().expect("it was taken");
        // For want of space as often as a chunk has records: it may be asked for with each of them.
        let passed = self.look() + self.shape.chunk_length as u64;
        state.chunks[taken].passed = if is_damaged { u64::MAX } else { passed };
        state.has_passed = true;
    }

    /// Chunks that trimming has found damaged.
    pub fn damaged(&self) -> usize {
        let of = |state: &State| state.chunks.iter().filter(|one| one.passed == u64::MAX).count();
        self.logs.iter().map(|log| of(&log.lock())).sum()
    }

    /// Nobody needs the chunk that was taken of a log.
    fn drop_taken(&self, session: &mut Session<M>, log: usize) {
        let mut state = self.logs[log].lock();
        let taken = state.taken.take().expect("it was taken");
        let chunk = state.chunks.remove(taken).expect("it is there").place;
        let before = taken.checked_sub(1).map(|before| state.chunks[before].place);
        let next = state.chunks.get(taken).map(|next| next.place);
        self.lead_to(log, before, next);
        drop(state);
        session.free_record(chunk, self.shape.chunk_size());
    }

    /// Makes the newest record of a key one of its removal, durably, if its number is above `flushed`; false if
    /// there is none. For who has no room for another record. One word of it changes, so a crash leaves the one or
    /// the other. Reads all of the log.
    ///
    /// The caller has the key's leaf locked, which needs the record: so nobody appends one of the key, and its chunk
    /// stays.
    #[cold]
    pub fn turn_to_removal(&self, key: u64, flushed: u64) -> bool {
        let mut newest: Option<(u64, u64, Mark)> = None;
        for state in self.logs.iter() {
            // Locked: nobody appends what is read here, or frees a chunk.
            let state = state.lock();
            for Held { place: chunk, .. } in &state.chunks {
                for (place, record) in self.records(*chunk).filter(|(_, record)| record.key == key)
                {
                    if record.sequence > newest.map_or(flushed, |(sequence, ..)| sequence) {
                        newest = Some((record.sequence, place, self.mark(*chunk)));
                    }
                }
            }
        }
        let Some((_, place, mark)) = newest else { return false };
        let word = &self.cells(place).meta;
        // Release: as in `append`; the other words stay what they are.
        word.store(removal_meta(mark, self.words(place)), Ordering::Release);
        // Persist: the removal before the write returns.
        self.medium.persist(word.as_ptr(), 8);
        true
    }
}
