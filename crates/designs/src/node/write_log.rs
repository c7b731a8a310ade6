//! The log of what is in write buffers: one writer a log, records that are linked per buffer.
//!
//! ```text
//!   root object   24 or 15 words: a link to the oldest chunk of each log
//!   chunk    | opening 4, log 4 | number 8 | before 8 | sum 4, "LOG2" | link 8 | - 24 | record | record | ...
//!   link     | place of a chunk 48 bits, sum 16 bits |
//!   record   | key 8 | value 8 | link 48 bits, upper 16 of the sequence | meta 8 |
//!   meta     | 0: is a value | 1..32: lower 31 of the sequence | 32..64: check sum |
//! ```
//!
//! A record's *sequence* counts the buffered writes of its leaf (or segment); a leaf inherits it when it
//! is split or merged, so the records of a key are in order whatever logs they are in. Its *link*, if the
//! tree needs one, is the place of the record before it in the same buffer, whose sequence is one less.
//! Line 0 of a leaf says up to which sequence the leaf has everything, so a flush ends a buffer's records
//! without one of its own.
//!
//! Each log has one writer at a time and each of its records is durable before the next one is written:
//! the first place of a chunk without a valid record is its end. The check sum covers the chunk's
//! mark: the opening of the pool, the log, and the number of the chunk among those of both. No chunk had
//! it before, so a chunk that is used again has no old records. A record changes only from one of a value to one
//! of a removal ([`Logs::turn_to_removal`]).
//!
//! *What a medium loses.* The head of a chunk says how many records the one before it has (*before*): fewer that are
//! whole are damage. So are heads and links whose sums are wrong (`chunk.rs`). What nobody can tell from a write that
//! was never made is the last record of a log, and those at its end if all of them are lost.

mod chunk;
mod fences;
mod record;
mod trim;
mod turn;
mod unread;

use std::collections::VecDeque;

use everleaf_alloc::{AllocError, Session};
use everleaf_index::{PoolBase, RootObject};
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering, SpinLock};
use everleaf_pool::Medium;

use chunk::{link, no_link};
use fences::{Fences, Unread};
pub use record::{Record, SEQUENCE_BOUND, sort_by_sequence};
pub use trim::{GROUP, Limit, Newest, Taken};
pub use turn::Needed;

use super::head_areas::Tail;

/// How many logs a tree has, and of how many records their chunks are. Sessions share logs if there
/// are more of them.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Logs of a tree.
    pub logs: usize,
    /// Records of a chunk.
    pub chunk_length: usize,
    /// Lines of the filter of a full chunk; none if chunks have no filters.
    pub filter_lines: usize,
}

impl Shape {
    /// Chunks of 64 KiB.
    pub const USUAL: Shape = Shape { logs: 24, chunk_length: 2046, filter_lines: 0 };
    /// The same, where the root object has words for fewer logs.
    pub const FEW: Shape = Shape { logs: 15, ..Shape::USUAL };
    /// For small geometries, where rare paths are to be common.
    pub const SMALL: Shape = Shape { logs: 2, chunk_length: 4, filter_lines: 0 };
    /// Chunks of 64 KiB with filters.
    pub const FILTERED: Shape = Shape { chunk_length: 1918, filter_lines: 64, ..Shape::USUAL };
    /// Small ones with filters.
    pub const SMALL_FILTERED: Shape = Shape { filter_lines: 1, ..Shape::SMALL };

    /// Bytes of a chunk.
    pub const fn chunk_size(self) -> usize {
        HEADER_SIZE + RECORD_SIZE * self.chunk_length + LINE_SIZE * self.filter_lines
    }

    /// Whether a chunk has a record at so many bytes from its beginning, or could.
    fn has_record_at(self, within: u64) -> bool {
        let records = HEADER_SIZE..HEADER_SIZE + RECORD_SIZE * self.chunk_length;
        records.contains(&(within as usize)) && within.is_multiple_of(RECORD_SIZE as u64)
    }
}

const _: () = assert!(Shape::FILTERED.chunk_size() == Shape::USUAL.chunk_size());

/// Chunks that a pool has room for, for each log that is written.
const POOL_PER_CHUNK: u64 = 64;
const HEADER_SIZE: usize = 64;
const RECORD_SIZE: usize = 32;

#[repr(C, align(32))]
struct Cells<M: Machine> {
    key: Atomic<u64, M>,
    value: Atomic<u64, M>,
    link: Atomic<u64, M>,
    meta: Atomic<u64, M>,
}

/// A chunk of a log.
#[derive(Clone, Copy)]
struct Held {
    place: u64,
    /// How many records it may have: as many as it has, when another chunk is behind it that this opening has added.
    records: usize,
    /// From which look on trimming does not pass it over.
    passed: u64,
    /// How many chunks had been freed when it was passed over: with another one there may be space for it.
    freed: u64,
}

impl Held {
    fn new(place: u64, records: usize) -> Self {
        Held { place, records, passed: 0, freed: 0 }
    }
}

struct State {
    /// Oldest first.
    chunks: VecDeque<Held>,
    /// Records of the newest.
    used: usize,
    /// How many it may have; as many as it has when nothing is added to it any more.
    end: usize,
    /// Chunks that were ever added in this opening.
    added: u64,
    /// Of the chunks, the one that somebody frees.
    taken: Option<usize>,
    /// Whether a chunk was ever passed over.
    has_passed: bool,
    /// Of what the records of the newest are.
    fences: Fences,
}

impl State {
    fn newest(&self) -> Option<u64> {
        self.chunks.back().map(|chunk| chunk.place)
    }
}

/// The logs of a tree.
pub struct Logs<M: Machine> {
    base: PoolBase<M>,
    medium: Medium<M>,
    root_object: RootObject<M>,
    /// The root object's word that names the oldest chunk of the first log.
    first_word: usize,
    generation: u32,
    shape: Shape,
    /// How many logs sessions share.
    writers: usize,
    logs: Box<[SpinLock<State, M>]>,
    /// How often somebody has looked for chunks to free.
    looks: Atomic<u64, M>,
    /// How many were freed.
    freed: Atomic<u64, M>,
    /// The chunks that opening found, in the order of their places. One that is given up stays here: no leaf
    /// needs its records then.
    found: Vec<u64>,
    /// Whether opening has left some chunks unread.
    has_left: bool,
    /// Chunks whose records opening has left to be read when they are needed. Taken last.
    unread: SpinLock<Vec<Unread>, M>,
}

// SAFETY: `base` is the pool's mapping, which the tree keeps; everything shared is atomic or locked.
unsafe impl<M: Machine> Send for Logs<M> {}
// SAFETY: as for `Send`.
unsafe impl<M: Machine> Sync for Logs<M> {}

impl<M: Machine> Logs<M> {
    /// Logs that the root object's words from `first_word` on name; there are none yet.
    pub fn new(
        base: PoolBase<M>,
        medium: Medium<M>,
        (root_object, first_word): (RootObject<M>, usize),
        generation: u32,
        shape: Shape,
    ) -> Self {
        let state = || State {
            chunks: VecDeque::new(),
            used: 0,
            added: 0,
            end: 0,
            taken: None,
            has_passed: false,
            fences: Fences::new(shape.filter_lines),
        };
        let logs = (0..shape.logs).map(|_| SpinLock::new(state())).collect();
        let (looks, freed) = (Atomic::new(0), Atomic::new(0));
        Logs {
            base,
            medium,
            root_object,
            first_word,
            generation,
            shape,
            writers: shape.logs,
            logs,
            looks,
            freed,
            found: vec![],
            has_left: false,
            unread: SpinLock::new(vec![]),
        }
    }

    /// The same for a pool that may have so many bytes: in a small one sessions share fewer logs, each of which has a
    /// chunk at least.
    pub fn for_pool(mut self, max_size: u64) -> Self {
        let enough = max_size / (POOL_PER_CHUNK * self.shape.chunk_size() as u64);
        self.writers = enough.clamp(1, self.shape.logs as u64) as usize;
        self
    }

    /// How large its chunks are.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The word that names the oldest chunk of a log.
    fn head(&self, log: usize) -> &Atomic<u64, M> {
        self.root_object.word(self.first_word + log)
    }

    fn cells(&self, record: u64) -> &Cells<M> {
        let start = self.base.start().wrapping_add(record as usize).cast();
        // SAFETY: the place of a record in a chunk, aligned, inside the pool, made of atomic words.
        unsafe { &*start }
    }

    fn place(chunk: u64, index: usize) -> u64 {
        chunk + (HEADER_SIZE + index * RECORD_SIZE) as u64
    }

    fn words(&self, record: u64) -> [u64; 4] {
        let cells = self.cells(record);
        // A thread that reads a record holds its leaf, or nobody writes the chunk any more, but to make a record one
        // of a removal.
        let [key, value, link] = [&cells.key, &cells.value, &cells.link].map(Atomic::read_private);
        // Relaxed: that changes this word only, and what it was is right for a thread that does not hold the leaf.
        [key, value, link, cells.meta.load(Ordering::Relaxed)]
    }

    /// The record at a place that a valid record or the tree names, if it has this sequence. Its check sum is
    /// not looked at.
    pub fn read(&self, place: u64, sequence: u64) -> Option<Record> {
        let may_be_one = place.is_multiple_of(RECORD_SIZE as u64)
            && place != 0
            && self.base.holds(place, RECORD_SIZE);
        let record = || Record::decode_unchecked(self.words(place));
        may_be_one.then(record).filter(|record| record.sequence == sequence)
    }

    /// The record at a place that a valid record or recovery names, if it has this sequence and is still what
    /// was written: a medium may lose it after opening. Only records of chunks that opening found, and that were not
    /// given up and used again since: what a damaged leaf waits for may be in such a place, and is another leaf's now.
    pub fn read_found(&self, place: u64, sequence: u64) -> Option<Record> {
        let chunk = self.found[..self.found.partition_point(|chunk| *chunk <= place)].last()?;
        // Chunks are at multiples of a record's size.
        let is_one = self.shape.has_record_at(place - chunk);
        let is_old = || self.mark(*chunk)[0] >> 32 != u64::from(self.generation);
        let words = (is_one && is_old()).then(|| self.words(place))?;
        let record = if M::mutant("sptree.no_record_sum") {
            Some(Record::decode_unchecked(words))
        } else {
            Record::decode(words, self.mark(*chunk))
        };
        record.filter(|record| record.sequence == sequence)
    }

    /// The valid records of a chunk with their places.
    pub fn records(&self, chunk: u64) -> impl Iterator<Item = (u64, Record)> + '_ {
        self.records_from(chunk, 0)
    }

    /// The same, from the one of number `start` in the chunk on.
    pub fn records_from(
        &self,
        chunk: u64,
        start: usize,
    ) -> impl Iterator<Item = (u64, Record)> + '_ {
        let mark = self.mark(chunk);
        let places = (start..self.shape.chunk_length).map(move |index| Self::place(chunk, index));
        places.map_while(move |place| {
            let words = self.words(place);
            let record = if M::mutant("sptree.no_record_sum") {
                Some(Record::decode_unchecked(words)).filter(|record| record.sequence != 0)
            } else {
                Record::decode(words, mark)
            };
            record.map(|record| (place, record))
        })
    }

    /// Whether a chunk that nobody writes has nothing valid from the record of number `end` on. A crash cannot leave
    /// something there behind one that is not valid, since a record is durable before the next one of its log is
    /// written.
    fn ends_at(&self, chunk: u64, end: usize) -> bool {
        let mark = self.mark(chunk);
        let is_valid = |index: usize| Record::decode(self.words(Self::place(chunk, index)), mark);
        !(end..self.shape.chunk_length).any(|index| is_valid(index).is_some())
    }

    /// Where each log ends: what is appended from now on is behind.
    pub fn tails(&self) -> Vec<Tail> {
        let tail = |log: &SpinLock<State, M>| {
            let state = log.lock();
            let Some(chunk) = state.newest() else { return Tail::default() };
            let [opening, number] = self.mark(chunk);
            Tail { opening: (opening >> 32) as u32, number, used: state.used as u32 }
        };
        self.logs.iter().map(tail).collect()
    }

    /// The number in a chunk of the first record behind a tail of its log: that of no record if the chunk is before it,
    /// and of the first one if the chunk is behind it, which all are when the tail's own chunk has been given up.
    pub fn start_behind(&self, chunk: u64, tail: Tail) -> usize {
        let [opening, number] = self.mark(chunk);
        match (opening >> 32, number).cmp(&(u64::from(tail.opening), tail.number)) {
            std::cmp::Ordering::Less => self.shape.chunk_length,
            std::cmp::Ordering::Equal => tail.used as usize,
            std::cmp::Ordering::Greater => 0,
        }
    }

    /// Takes over a chunk that recovery found.
    fn adopt(&self, log: usize, chunk: u64) {
        let mut state = self.logs[log].lock();
        let length = self.shape.chunk_length;
        state.chunks.push_back(Held::new(chunk, length));
        (state.used, state.end) = (length, length);
    }

    /// All chunks there are, as the running tree knows them.
    pub fn chunks(&self) -> Vec<u64> {
        let chunks = self.logs.iter().flat_map(|log| log.lock().chunks.clone());
        chunks.map(|chunk| chunk.place).collect()
    }

    /// Ends the adoption of chunks: from now on records of theirs can be found.
    pub fn end_adoption(&mut self) {
        self.found = self.chunks();
        self.found.sort_unstable();
    }

    /// Writes a record, durably; gives its place, and whether the log has grown by a chunk. A filter, where chunks have
    /// one, says that it is of its key.
    ///
    /// # Errors
    /// As [`Self::append_of`].
    #[inline(always)]
    pub fn append(
        &self,
        session: &mut Session<M>,
        record: Record,
    ) -> Result<(u64, bool), AllocError> {
        self.append_of(session, record, record.key)
    }

    /// The same of a record that is of this name.
    ///
    /// # Errors
    /// No space for a chunk; then nothing was written.
    #[inline(always)]
    pub fn append_of(
        &self,
        session: &mut Session<M>,
        record: Record,
        name: u64,
    ) -> Result<(u64, bool), AllocError> {
        let log = self.of(session);
        let mut state = self.logs[log].lock();
        let grows = state.used == state.end;
        if grows {
            self.add_chunk(session, log, &mut state)?;
        }
        let chunk = state.newest().expect("there is a chunk");
        let place = Self::place(chunk, state.used);
        let words = record.encode(self.mark(chunk));
        state.used += 1;
        state.fences.add(name);
        if M::mutant("sptree.log_reserves") {
            drop(state);
            self.write(place, words);
        } else {
            // Under the log's lock: it has one writer at a time.
            self.write(place, words);
            drop(state);
        }
        Ok((place, grows))
    }

    /// Writes the words of a record, durably.
    #[inline(always)]
    fn write(&self, place: u64, [key, value, link, meta]: [u64; 4]) {
        let cells = self.cells(place);
        // Relaxed: the words of a line become durable in their order, and the check sum tells.
        cells.key.store(key, Ordering::Relaxed);
        // Relaxed: the check sum tells whether the words are whole.
        cells.value.store(value, Ordering::Relaxed);
        // Relaxed: the check sum tells whether the words are whole.
        cells.link.store(link, Ordering::Relaxed);
        // Release: the record is whole; recovery's view.
        cells.meta.store(meta, Ordering::Release);
        if !M::mutant("sptree.no_record_flush") {
            // Persist: the record before the write returns, and before the next one of this log, or
            // recovery would stop in front of that.
            self.medium.persist(cells.key.as_ptr(), RECORD_SIZE);
        }
    }

    /// The log of a session.
    #[inline(always)]
    pub fn of(&self, session: &Session<M>) -> usize {
        session.stripe() % self.writers
    }

    #[cold]
    fn add_chunk(
        &self,
        session: &mut Session<M>,
        log: usize,
        state: &mut State,
    ) -> Result<(), AllocError> {
        let chunk = session.allocate_record(self.shape.chunk_size())?;
        self.seal(state);
        let mark = [u64::from(self.generation) << 32 | log as u64, state.added];
        let last = state.newest();
        self.write_head(chunk, mark, if last.is_some() { state.used as u64 } else { 0 });
        self.lead_to(log, last, Some(chunk));
        let used = state.used;
        if let Some(last) = state.chunks.back_mut() {
            last.records = used;
        }
        let length = self.shape.chunk_length;
        state.chunks.push_back(Held::new(chunk, length));
        (state.used, state.end) = (0, length);
        state.added += 1;
        state.fences.begin(chunk);
        Ok(())
    }

    /// Makes the link of a chunk, or of its log if there is none, lead to a chunk, or nowhere, durably.
    fn lead_to(&self, log: usize, from: Option<u64>, to: Option<u64>) {
        let from_log = (self.head(log), log as u64);
        let (word, from) = from.map_or(from_log, |chunk| (&self.header(chunk).next, chunk));
        let link = to.map_or(no_link(from), |chunk| link(from, chunk, self.mark(chunk)));
        // Release: the head of the chunk; recovery's view.
        word.store(link, Ordering::Release);
        // Persist: before a record in a new chunk is acknowledged, or recovery would miss it; and before a chunk that
        // nothing leads to any more is used again.
        self.medium.persist(word.as_ptr(), 8);
    }

    /// Bytes of all chunks there are.
    pub fn bytes(&self) -> u64 {
        let chunks: usize = self.logs.iter().map(|log| log.lock().chunks.len()).sum();
        (chunks * self.shape.chunk_size()) as u64
    }
}

#[cfg(test)]
mod tests;
