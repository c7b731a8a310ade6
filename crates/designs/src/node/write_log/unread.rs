//! Filters in the pool, and chunks that opening has left unread.
//!
//! *Unread chunks* are those behind the tails of a checkpoint, where opening left them ([`Logs::leave`]): each is read
//! when somebody asks for a name that its filter may have ([`Logs::read_unread`]). One that is given up meanwhile is
//! taken from the list before its place is used again.

use everleaf_alloc::{AllocError, Recovery};
use everleaf_machine::{Atomic, LINE_SIZE, Machine};

use super::chunk::corrupt;
use super::fences::{BIT_WORDS, Bits, Unread, bits_of, line_sum};
use super::record::Record;
use super::{HEADER_SIZE, Logs, RECORD_SIZE, State};
use crate::node::head_areas::Tail;

impl<M: Machine> Logs<M> {
    fn filter_word(&self, chunk: u64, line: usize, word: usize) -> &Atomic<u64, M> {
        debug_assert!(line < self.shape.filter_lines && word <= BIT_WORDS);
        let records = HEADER_SIZE + self.shape.chunk_length * RECORD_SIZE;
        let at = chunk as usize + records + line * LINE_SIZE + word * 8;
        let start = self.base.start().wrapping_add(at).cast();
        // SAFETY: a chunk is a record with room for so many lines behind its records, aligned, inside the pool, made of
        // atomic words.
        unsafe { &*start }
    }

    /// Puts the filter of the newest chunk of a log behind its records, if nothing was in the chunk before. Nothing is
    /// added to it any more, and nobody reads the filter before the pool is opened again.
    pub(super) fn seal(&self, state: &State) {
        let fences = &state.fences;
        if fences.chunk == 0 || state.newest() != Some(fences.chunk) {
            return;
        }
        let mark = self.mark(fences.chunk);
        for (line, bits) in fences.lines.iter().enumerate() {
            let sum = line_sum(mark, line, bits);
            for (word, part) in bits.iter().chain([&sum]).enumerate() {
                self.filter_word(fences.chunk, line, word).write_private(*part);
            }
            // Persist: by a drain that comes some time. Until then the sum may be wrong, and the records count.
            self.medium.flush(self.filter_word(fences.chunk, line, 0).as_ptr(), LINE_SIZE);
        }
    }

    /// Whether a chunk may have a record of this name.
    fn may_have(&self, one: &Unread, name: u64) -> bool {
        if self.shape.filter_lines == 0 {
            return true;
        }
        let (line, bits) = bits_of(name, self.shape.filter_lines);
        let word = |word| self.filter_word(one.chunk, line, word).read_private();
        let found: Bits = std::array::from_fn(word);
        let is_whole = word(BIT_WORDS) == line_sum(one.mark, line, &found);
        let has_all = found.iter().zip(bits).all(|(word, bits)| word & bits == bits);
        has_all || !is_whole && !M::mutant("sptree.believes_filters")
    }

    /// Takes over what a crash has left, as [`Logs::recover`] does, but reads no record: those behind the tails are
    /// left to [`Logs::read_unread`].
    ///
    /// # Errors
    /// A chunk or a link is damaged.
    pub fn leave(&mut self, recovery: &Recovery<M>, tails: &[Tail]) -> Result<(), AllocError> {
        let mut unread: Vec<Unread> = vec![];
        for log in 0..self.shape.logs {
            let tail = tails.get(log).copied().unwrap_or_default();
            let first = unread.len();
            self.walk(log, |chunk| {
                self.mark_chunk(recovery, chunk)?;
                let mark = self.mark(chunk);
                if let Some(before) = unread[first..].last_mut() {
                    before.wanted = self.before(before.mark, chunk);
                }
                let start = self.start_behind(chunk, tail);
                if start < self.shape.chunk_length {
                    unread.push(Unread { chunk, mark, start, wanted: None, is_lost: false });
                }
                self.adopt(log, chunk);
                Ok(())
            })?;
        }
        self.has_left = !unread.is_empty();
        *self.unread.get_mut() = unread;
        Ok(())
    }

    /// Visits the records of all unread chunks that may have one of this name, and of one chunk more, so that all are
    /// read some time. They are not unread then.
    ///
    /// # Errors
    /// A chunk that may have one has lost a record; it stays unread, and a caller that asks again is told again. All
    /// others were visited.
    pub fn read_unread(
        &self,
        name: u64,
        mut visit: impl FnMut(u64, Record),
    ) -> Result<(), AllocError> {
        // A thread that frees a chunk waits for this lock.
        let mut unread = self.unread.lock();
        let (mut is_more, mut all, mut index) = (true, Ok(()), 0);
        while let Some(one) = unread.get(index).copied() {
            let is_asked = self.may_have(&one, name);
            if !is_asked && (!is_more || one.is_lost) {
                index += 1;
                continue;
            }
            is_more &= is_asked;
            match self.read_one(&one) {
                Ok(records) => {
                    records.into_iter().for_each(|(place, record)| visit(place, record));
                    unread.swap_remove(index);
                }
                Err(error) => {
                    unread[index].is_lost = true;
                    index += 1;
                    if is_asked {
                        all = all.and(Err(error));
                    }
                }
            }
        }
        all
    }

    /// The records of an unread chunk.
    fn read_one(&self, one: &Unread) -> Result<Vec<(u64, Record)>, AllocError> {
        let records: Vec<_> = self.records_from(one.chunk, one.start).collect();
        let count = one.start + records.len();
        let is_short = one.wanted.is_some_and(|wanted| (count as u64) < wanted);
        if is_short || !self.ends_at(one.chunk, count) {
            return Err(corrupt(one.chunk, "the log has a damaged record in the middle"));
        }
        Ok(records)
    }

    /// Takes a chunk that nobody needs from the unread ones, before its place is used again; or all.
    pub(super) fn forget_unread(&self, chunk: Option<u64>) {
        if self.has_left {
            self.unread.lock().retain(|one| chunk.is_some_and(|chunk| one.chunk != chunk));
        }
    }

    /// Nobody needs the records of unread chunks any more.
    pub fn forget_all_unread(&self) {
        self.forget_unread(None);
    }

    /// Chunks that opening has left unread, and that nobody has read yet.
    pub fn unread_chunks(&self) -> usize {
        self.unread.lock().len()
    }
}
