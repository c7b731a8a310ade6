//! Filters of what the records of a full chunk are of, and chunks that opening has left unread.
//!
//! ```text
//!   chunk    | head | records | filter line | filter line | ...
//!   line     | 448 bits, 5 for each name | sum 4, "LOGF" |
//! ```
//!
//! A record is *of* the leaf that it was written for, which has a name that stays its own: its low fence. Where a log
//! has filters, the names of the newest chunk's records are gathered in DRAM. When the chunk is full, they are put
//! behind its records, before the next chunk is linked to it.
//!
//! *A crash* leaves any of the lines whole and others not. Each has a sum of its own, over its bits, its number and
//! the mark of the chunk, so a line that was not written, is torn, was lost, or is of another chunk that was in the
//! place before, is known as such: it may have all names. A line that is whole has all names of the chunk that belong
//! there, since it is written when nothing is added to the chunk any more. So nothing waits for a filter, and it needs
//! no drain of its own.
//!
//! *Unread chunks* are those behind the tails of a checkpoint, where opening left them ([`Logs::leave`]): each is read
//! when somebody asks for a name that its filter may have ([`Logs::read_unread`]). One that is given up meanwhile is
//! taken from the list before its place is used again.

use everleaf_alloc::{AllocError, Recovery};
use everleaf_machine::{Atomic, LINE_SIZE, Machine};

use super::chunk::corrupt;
use super::record::{Mark, Record};
use super::{HEADER_SIZE, Logs, RECORD_SIZE, State};
use crate::node::head_areas::Tail;

/// The upper half of the sum of a line: which bytes it is of.
const FORMAT: u64 = u32::from_le_bytes(*b"LOGF") as u64;
/// Words of a line, but for that with its sum.
const BIT_WORDS: usize = LINE_SIZE / 8 - 1;
/// Bits of a name.
const PROBES: usize = 5;

type Bits = [u64; BIT_WORDS];

/// The line of a name, and its bits there.
fn bits_of(name: u64, lines: usize) -> (usize, Bits) {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    // The first leaf's is 0, and all of its bits were one.
    let mixed = (name ^ FACTOR).wrapping_mul(FACTOR);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(FACTOR);
    let line = ((mixed >> 32) * lines as u64) >> 32;
    let mut rest = (mixed ^ mixed >> 29).wrapping_mul(FACTOR);
    let mut bits = [0; BIT_WORDS];
    for _ in 0..PROBES {
        // Nine bits for one of 448 places.
        let place = ((rest >> 55) as usize * (BIT_WORDS * 64)) >> 9;
        bits[place / 64] |= 1 << (place % 64);
        rest <<= 9;
    }
    (line as usize, bits)
}

/// The last word of a line.
fn line_sum(mark: Mark, line: usize, bits: &Bits) -> u64 {
    let mut bytes = [0; 8 * (BIT_WORDS + 3)];
    let words = mark.into_iter().chain([line as u64]).chain(*bits);
    for (part, word) in bytes.chunks_exact_mut(8).zip(words) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    FORMAT << 32 | u64::from(crc32c::crc32c(&bytes))
}

/// Of what leaves the records of a log's newest chunk are.
pub(super) struct Fences {
    /// The chunk; 0 if there is none.
    chunk: u64,
    /// No line where logs have no filters.
    lines: Vec<Bits>,
}

impl Fences {
    pub(super) fn new(lines: usize) -> Self {
        Fences { chunk: 0, lines: vec![[0; BIT_WORDS]; lines] }
    }

    /// Begins with a chunk that has no records.
    pub(super) fn begin(&mut self, chunk: u64) {
        self.chunk = chunk;
        self.lines.fill([0; BIT_WORDS]);
    }

    /// Notes that the chunk has a record of this name.
    #[inline(always)]
    pub(super) fn add(&mut self, name: u64) {
        if self.lines.is_empty() {
            return;
        }
        let (line, bits) = bits_of(name, self.lines.len());
        self.lines[line].iter_mut().zip(bits).for_each(|(word, bits)| *word |= bits);
    }
}

/// A chunk whose records behind the tail opening has not read.
#[derive(Clone, Copy)]
pub(super) struct Unread {
    chunk: u64,
    mark: Mark,
    /// The number of the first record behind the tail.
    start: usize,
    /// How many records the chunk has, if the one behind it says so.
    wanted: Option<u64>,
    /// Whether somebody has found that it is damaged.
    is_lost: bool,
}

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
    /// A chunk that may have one has lost a record; it stays unread, and who asks again is told again. All others were
    /// visited.
    pub fn read_unread(
        &self,
        name: u64,
        mut visit: impl FnMut(u64, Record),
    ) -> Result<(), AllocError> {
        // Who frees a chunk waits for this lock.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 1918 names in 64 lines few others are taken for one of them, and none of them is missed.
    #[test]
    fn a_filter_has_its_names_and_few_others() {
        let mut fences = Fences::new(64);
        fences.begin(64);
        let name = |number: u64| number << 40;
        (1..1919).for_each(|number| fences.add(name(number)));
        let has = |number: &u64| {
            let (line, bits) = bits_of(name(*number), 64);
            fences.lines[line].iter().zip(bits).all(|(word, bits)| word & bits == bits)
        };
        assert_eq!((1..1919).filter(has).count(), 1918);
        assert!(!has(&0), "the first leaf's");
        let bits = (0..5000).map(|number| bits_of(name(number), 64).1);
        let few = bits.filter(|bits| bits.iter().map(|word| word.count_ones()).sum::<u32>() < 4);
        assert!(few.count() < 20, "a name has five bits, or four by chance");
        let wrong = (10_000..110_000).filter(has).count();
        assert!((1..1000).contains(&wrong), "{wrong} of 100,000");
    }

    #[test]
    fn no_flipped_bit_of_a_line_is_missed() {
        let (mark, bits) = ([3 << 32 | 1, 9], [1, 2, 3, 4, 5, 6, 7]);
        let sum = line_sum(mark, 2, &bits);
        for bit in 0..BIT_WORDS * 64 {
            let mut flipped = bits;
            flipped[bit / 64] ^= 1 << (bit % 64);
            assert_ne!(line_sum(mark, 2, &flipped), sum, "bit {bit}");
        }
        assert_ne!(line_sum(mark, 3, &bits), sum);
        assert_ne!(line_sum([3 << 32 | 1, 8], 2, &bits), sum);
        assert_ne!(sum, 0);
    }
}
