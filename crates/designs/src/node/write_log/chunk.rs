//! Heads of chunks and the links that lead to them: written, followed, and read when a pool is opened.
//!
//! Nothing behind a head that was lost can be told from what was never written, so the sum of a head covers all of it
//! but the link, and the place too; and a link has a sum over what it leads from, the place it leads to, and the mark
//! that is there. One to nowhere has a sum like any other: a word that was lost is not the end of a log.

use everleaf_alloc::{AllocError, Recovery};
use everleaf_machine::{Atomic, Machine};

use super::record::{Mark, Record};
use super::{HEADER_SIZE, Logs, RECORD_SIZE};
use crate::node::head_areas::Tail;

/// The upper half of the sum of a head: which bytes it is of.
const FORMAT: u64 = u32::from_le_bytes(*b"LOG2") as u64;
/// The lower bits of a link are a place, the upper ones its sum.
const PLACE_BITS: u32 = 48;
/// Of what leads nowhere.
const NO_MARK: Mark = [0, 0];

/// See the module above.
#[repr(C)]
pub(super) struct ChunkHeader<M: Machine> {
    mark: [Atomic<u64, M>; 2],
    /// Records of the chunk before, if that is of the same opening.
    before: Atomic<u64, M>,
    sum: Atomic<u64, M>,
    pub(super) next: Atomic<u64, M>,
}

fn crc_of(words: [u64; 4]) -> u32 {
    let mut bytes = [0; 32];
    for (part, word) in bytes.chunks_exact_mut(8).zip(words) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    crc32c::crc32c(&bytes)
}

/// The sum of a head.
pub(super) fn head_sum(place: u64, mark: Mark, before: u64) -> u64 {
    FORMAT << 32 | u64::from(crc_of([place, mark[0], mark[1], before]))
}

/// The word that leads from a log, or a chunk, to the chunk of this mark at a place.
pub(super) fn link(from: u64, place: u64, mark: Mark) -> u64 {
    let crc = crc_of([from, place, mark[0], mark[1]]);
    place | u64::from(crc ^ crc >> 16) << PLACE_BITS
}

/// The word that leads from a log, or a chunk, nowhere.
pub(super) fn no_link(from: u64) -> u64 {
    link(from, 0, NO_MARK)
}

pub(super) fn corrupt(offset: u64, what: &str) -> AllocError {
    AllocError::Corrupt { offset, what: what.to_owned() }
}

impl<M: Machine> Logs<M> {
    pub(super) fn header(&self, chunk: u64) -> &ChunkHeader<M> {
        let start = self.base.start().wrapping_add(chunk as usize).cast();
        // SAFETY: a chunk is a record of at least a header's size, aligned, inside the pool, made of
        // atomic words.
        unsafe { &*start }
    }

    /// The mark of a chunk.
    pub(super) fn mark(&self, chunk: u64) -> Mark {
        let [opening, number] = &self.header(chunk).mark;
        [opening.read_private(), number.read_private()]
    }

    /// How many records the chunk in front of this one has, if the head of this one says so.
    pub(super) fn before(&self, mark: Mark, chunk: u64) -> Option<u64> {
        let [opening, number] = self.mark(chunk);
        let is_next = opening == mark[0] && number == mark[1].wrapping_add(1);
        is_next.then(|| self.header(chunk).before.read_private())
    }

    /// Writes the head of a chunk that nothing leads to, durably.
    pub(super) fn write_head(&self, chunk: u64, mark: Mark, before: u64) {
        let header = self.header(chunk);
        for (word, part) in header.mark.iter().zip(mark) {
            word.write_private(part);
        }
        header.before.write_private(before);
        header.sum.write_private(head_sum(chunk, mark, before));
        header.next.write_private(no_link(chunk));
        // Persist: the chunk before the log leads to it.
        self.medium.persist(header.mark[0].as_ptr(), HEADER_SIZE);
    }

    /// Says in the root object that there are no chunks, durably. Before the pool's directory names the tree.
    pub fn create(&self) {
        for log in 0..self.shape.logs {
            self.head(log).write_private(no_link(log as u64));
        }
        // Persist: before the pool's directory names the tree, or a log that was never begun would be a lost one.
        self.medium.persist(self.head(0).as_ptr(), self.shape.logs * 8);
    }

    /// The chunk that the link of a log, or of a chunk, leads to, if there is one.
    fn follow(&self, from: u64, word: u64) -> Result<Option<u64>, AllocError> {
        let place = word & ((1 << PLACE_BITS) - 1);
        if place == 0 && word == no_link(from) {
            return Ok(None);
        }
        let lost = || corrupt(place, "a chunk of the log, or what leads to it, is damaged");
        let is_place = place != 0 && place.is_multiple_of(RECORD_SIZE as u64);
        if !is_place || !self.base.holds(place, self.shape.chunk_size()) {
            return Err(lost());
        }
        let (header, mark) = (self.header(place), self.mark(place));
        let sum = head_sum(place, mark, header.before.read_private());
        let is_whole = header.sum.read_private() == sum && word == link(from, place, mark);
        if is_whole { Ok(Some(place)) } else { Err(lost()) }
    }

    /// Visits the chunks of a log, oldest first.
    pub(super) fn walk(
        &self,
        log: usize,
        mut visit: impl FnMut(u64) -> Result<(), AllocError>,
    ) -> Result<(), AllocError> {
        let mut last = None;
        let mut next = self.follow(log as u64, self.head(log).read_private())?;
        while let Some(chunk) = next {
            let [opening, number] = self.mark(chunk);
            // Else the log could lead back into itself.
            if opening as u32 as usize != log || last >= Some((opening, number)) {
                return Err(corrupt(chunk, "a chunk of the log stands in another's place"));
            }
            last = Some((opening, number));
            visit(chunk)?;
            next = self.follow(chunk, self.header(chunk).next.read_private())?;
        }
        Ok(())
    }

    /// Visits the chunks of all logs, oldest first, as the pool has them. Nobody is at work.
    ///
    /// # Errors
    /// The visitor's; a chunk or a link is damaged.
    pub fn for_each_chunk(
        &self,
        mut visit: impl FnMut(u64) -> Result<(), AllocError>,
    ) -> Result<(), AllocError> {
        (0..self.shape.logs).try_for_each(|log| self.walk(log, &mut visit))
    }

    /// Marks the place of a chunk as in use.
    pub(super) fn mark_chunk(&self, recovery: &Recovery<M>, chunk: u64) -> Result<(), AllocError> {
        let size = self.shape.chunk_size();
        if recovery.record_room(chunk).is_none_or(|room| room < size) {
            return Err(corrupt(chunk, "a chunk of the log was expected here"));
        }
        recovery.mark_record(chunk, size)
    }

    /// Takes over what a crash has left: marks the chunks, and visits each record behind the tail of its log. Nothing
    /// is added to these chunks.
    ///
    /// # Errors
    /// A chunk, a link, or a record that is not the last of its log is damaged.
    pub fn recover(
        &self,
        recovery: &Recovery<M>,
        tails: &[Tail],
        mut visit: impl FnMut(u64, Record),
    ) -> Result<(), AllocError> {
        for log in 0..self.shape.logs {
            let tail = tails.get(log).copied().unwrap_or_default();
            // The chunk before, its mark, and up to which of its records all are whole.
            let mut last: Option<(u64, Mark, u64)> = None;
            self.walk(log, |chunk| {
                self.mark_chunk(recovery, chunk)?;
                if let Some((before, mark, count)) = last
                    && self.before(mark, chunk).is_some_and(|wanted| count < wanted)
                {
                    return Err(corrupt(before, "the log has a damaged record in the middle"));
                }
                let mut count = self.start_behind(chunk, tail);
                for (place, record) in self.records_from(chunk, count) {
                    visit(place, record);
                    count += 1;
                }
                if !self.ends_at(chunk, count) {
                    return Err(corrupt(chunk, "the log has a damaged record in the middle"));
                }
                self.adopt(log, chunk);
                last = Some((chunk, self.mark(chunk), count as u64));
                Ok(())
            })?;
        }
        Ok(())
    }
}
