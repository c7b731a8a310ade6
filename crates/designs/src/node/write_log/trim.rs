//! The end of old chunks.

use everleaf_alloc::Session;
use everleaf_index::IndexError;
use everleaf_machine::{Machine, Ordering};

use super::record::Record;
use super::{Held, Logs, State};

/// Records that are looked at together when a chunk is to be freed.
pub const GROUP: usize = 16;

/// How many chunks all logs may have.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// For every log that has been written since the pool was opened.
    pub each: usize,
    /// Beside those.
    pub shared: usize,
    /// In any case, but for one of each that is written.
    pub most: usize,
}

/// What becomes of the newest chunk of a log when chunks are freed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Newest {
    /// It stays.
    Stays,
    /// It stays if something may be added to it.
    StaysIfOpen,
    /// It may go. Nothing is added to it then.
    Goes,
}

/// A log and the chunk of it that is to be freed.
pub type Taken = (usize, u64);

/// A look for chunks to free.
#[derive(Clone, Copy)]
struct Look {
    number: u64,
    /// Chunks that were freed before.
    freed: u64,
}

impl Look {
    fn passes_over(self, chunk: &Held) -> bool {
        chunk.passed > self.number && (chunk.passed == u64::MAX || chunk.freed == self.freed)
    }
}

impl State {
    /// Chunks that a look does not pass over.
    fn standing(&self, look: Look) -> usize {
        if !self.has_passed {
            return self.chunks.len();
        }
        self.chunks.iter().filter(|chunk| !look.passes_over(chunk)).count()
    }

    /// Whether the newest chunk is one to which something may be added.
    fn is_open(&self) -> bool {
        self.used < self.end
    }
}

impl<M: Machine> Logs<M> {
    /// The log with the most chunks and the oldest of them, if all logs have more than the limit; nothing if somebody
    /// is at work on it. Chunks that are passed over do not count.
    pub fn take_oldest(&self, Limit { each, shared, most }: Limit) -> Option<Taken> {
        let (mut longest, mut written, mut count) = ((0, 1), 0, 0);
        let look = self.look();
        for (log, state) in self.logs.iter().enumerate() {
            let state = state.lock();
            let chunks = state.standing(look);
            if state.added > 0 {
                written += 1;
                count += chunks;
            } else {
                // The last chunk stays until the log is written again.
                count += chunks.saturating_sub(1);
            }
            if chunks > longest.1 {
                longest = (log, chunks);
            }
        }
        let limit = (shared + written * each).min(most.max(written));
        if count > limit { self.take_of(longest.0, look, Newest::Stays) } else { None }
    }

    /// The log with the most chunks and the oldest of them, however few there are: for when the pool is full.
    pub fn take_for_space(&self, newest: Newest) -> Option<Taken> {
        let look = self.look();
        let mut longest = (0, 0);
        for (log, state) in self.logs.iter().enumerate() {
            let state = state.lock();
            let stays = newest == Newest::StaysIfOpen && state.is_open();
            let chunks = state.standing(look).saturating_sub(usize::from(stays));
            if state.taken.is_none() && chunks > longest.1 {
                longest = (log, chunks);
            }
        }
        if longest.1 > 0 { self.take_of(longest.0, look, newest) } else { None }
    }

    fn look(&self) -> Look {
        // Relaxed: nothing else is told by them.
        let [number, freed] = [&self.looks, &self.freed].map(|word| word.load(Ordering::Relaxed));
        Look { number, freed }
    }

    /// Takes the oldest chunk of a log that is not passed over.
    fn take_of(&self, log: usize, look: Look, newest: Newest) -> Option<Taken> {
        let mut state = self.logs[log].lock();
        let found = state.chunks.iter().position(|chunk| !look.passes_over(chunk))?;
        if state.taken.is_some() {
            return None;
        }
        if found + 1 == state.chunks.len() {
            if newest == Newest::Stays || newest == Newest::StaysIfOpen && state.is_open() {
                return None;
            }
            // Nothing is added to it while it is looked at, nor if it stays.
            state.end = state.used;
        }
        state.taken = Some(found);
        Some((log, state.chunks[found].place))
    }

    /// Frees the chunks that `take` gives, as long as it gives some, but no more than `most`; how many there were.
    ///
    /// `release` makes sure that the records that it gets are not needed any more, or says why it cannot: then their
    /// chunk stays, and trimming passes it over, so that those behind it are looked at too. If it was for want of
    /// space, it is looked at again after a while; a chunk with damage stays as long as the pool is open.
    pub fn trim(
        &self,
        session: &mut Session<M>,
        most: usize,
        take: impl Fn() -> Option<Taken>,
        mut release: impl FnMut(&mut Session<M>, &[Option<Record>; GROUP]) -> Result<(), IndexError>,
    ) -> usize {
        // Relaxed: nothing else is told by it. Once a call, so that no chunk is looked at again and again in one.
        self.looks.fetch_add(1, Ordering::Relaxed);
        let mut freed = 0;
        while freed < most
            && let Some(taken) = take()
        {
            match self.release_all(session, taken, &mut release) {
                Ok(true) => {
                    self.drop_taken(session, taken.0);
                    freed += 1;
                }
                Ok(false) => self.pass_over(taken.0, true),
                Err(error) => self.pass_over(taken.0, !error.leaves_nothing()),
            }
        }
        freed
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
                return Ok(self.has_all(&self.logs[log].lock(), chunk, count));
            }
        }
    }

    /// Whether so many records of a chunk of a log are all that were written, as far as it can be told. Behind one that
    /// the medium has lost there may be some that are needed.
    pub(super) fn has_all(&self, state: &State, chunk: u64, count: usize) -> bool {
        let place = state.chunks.iter().position(|one| one.place == chunk);
        let next = place.and_then(|place| state.chunks.get(place + 1));
        let is_ours = self.mark(chunk)[0] >> 32 == u64::from(self.generation);
        match next.and_then(|next| self.before(self.mark(chunk), next.place)) {
            Some(wanted) => count as u64 >= wanted,
            None if next.is_none() && is_ours => count == state.used,
            None => self.ends_at(chunk, count),
        }
    }

    /// The chunk that was taken of a log stays.
    fn pass_over(&self, log: usize, is_damaged: bool) {
        let mut state = self.logs[log].lock();
        let taken = state.taken.take().expect("it was taken");
        // For want of space as often as a chunk has records, since it may be asked for with each of them, or until
        // another chunk is freed.
        let Look { number, freed } = self.look();
        let passed = number + self.shape.chunk_length as u64;
        let chunk = &mut state.chunks[taken];
        (chunk.passed, chunk.freed) = (if is_damaged { u64::MAX } else { passed }, freed);
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
        if next.is_none() {
            // The one before is the newest again, and nothing is added to it.
            let used = state.chunks.back().map_or(0, |newest| newest.records);
            (state.used, state.end) = (used, used);
        }
        self.lead_to(log, before, next);
        drop(state);
        // Before the place is used again: a thread that reads it now is waited for.
        self.forget_unread(Some(chunk));
        session.free_record(chunk, self.shape.chunk_size());
        // Relaxed: nothing else is told by it.
        self.freed.fetch_add(1, Ordering::Relaxed);
    }
}
