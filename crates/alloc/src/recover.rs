//! After a crash, or at any open: which blocks and records are in use?
//!
//! 1. [`Recovery::walk`] reads the header of every chunk (invariant S1 of `space.rs`).
//! 2. Every tree in the pool marks its live blocks and what they refer to, in parallel. A mark that
//!    cannot be right (outside its chunk, between two slots, given twice) is damage and is reported.
//! 3. [`Recovery::finish`] makes everything unmarked free; chunks without a mark become free runs. Or some of the
//!    marks are made when the pool is open (`late.rs`).
//!
//! Nothing here writes to the pool before `finish`, and what `finish` writes are free-run headers
//! that a crash may keep or lose; so recovery can be cut and repeated at any point.

use everleaf_machine::{Atomic, Machine, Ordering};
use everleaf_pool::Pool;

use crate::error::AllocError;
use crate::holes::Holes;
use crate::layout::{
    BLOCK_CLASS_COUNT, BLOCK_SIZE, CHUNK_HEADER_SIZE, ChunkHeader, ChunkKind, POOL_SIZE_MAX,
    block_size, blocks_of_chunk, blocks_per_chunk,
};
use crate::size_class::{CLASS_COUNT, class_size, slots_per_chunk};
use crate::space::whole_units;

/// A chunk (or run) in use, with a mark per slot.
pub(crate) struct Marked<M: Machine> {
    pub chunk: u64,
    pub header: ChunkHeader,
    /// Blocks, records, or 1.
    slots: usize,
    /// One bit per block, record, or large record.
    marks: Box<[Atomic<u64, M>]>,
}

impl<M: Machine> Marked<M> {
    fn new(chunk: u64, header: ChunkHeader, slots: usize) -> Self {
        let marks = (0..slots.div_ceil(64)).map(|_| Atomic::new(0)).collect();
        Marked { chunk, header, slots, marks }
    }

    /// Whether it holds leaf blocks of `class`.
    fn is_leaves(&self, class: usize) -> bool {
        self.header.kind == ChunkKind::Leaves && usize::from(self.header.class) == class
    }

    /// Sets the mark of `slot`; false if it was set.
    fn set(&self, slot: usize) -> bool {
        let bit = 1 << (slot % 64);
        // Relaxed: marks are read after all marking threads have been joined, or were noted (`LateMarks`).
        self.marks[slot / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    pub(crate) fn is_set(&self, slot: usize) -> bool {
        self.marks[slot / 64].read_private() >> (slot % 64) & 1 == 1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.marks.iter().all(|word| word.read_private() == 0)
    }
}

/// Where the mark of a record is: found first and set later, so that the misses of many overlap.
pub struct Mark<'r, M: Machine> {
    word: &'r Atomic<u64, M>,
    bit: u64,
    offset: u64,
}

impl<M: Machine> Mark<'_, M> {
    /// Whether the record was marked as in use.
    pub fn is_set(&self) -> bool {
        // Relaxed: a caller that must know what came before puts a fence behind it.
        self.word.load(Ordering::Relaxed) & self.bit != 0
    }

    /// Whether two of some marks are of the same record.
    ///
    /// For the marks of a leaf, some hundreds: one look at each, and a comparison with those before it for one that a
    /// filter of bits takes for one of them. That is seldom, unless somebody chose the records for it.
    pub fn are_twice(marks: &[Self]) -> bool {
        let mut seen = [0_u64; FILTER_BITS / 64];
        marks.iter().enumerate().any(|(index, mark)| {
            let place = filter_place(mark.offset);
            let (word, bit) = (&mut seen[place / 64], 1 << (place % 64));
            let was_seen = *word & bit != 0;
            *word |= bit;
            was_seen && marks[..index].iter().any(|before| before.offset == mark.offset)
        })
    }

    /// Marks the record as in use.
    ///
    /// # Errors
    /// It was marked before.
    pub fn set(self) -> Result<(), AllocError> {
        // Relaxed: marks are read after all marking threads have been joined, or were noted (`LateMarks`).
        let old = self.word.fetch_or(self.bit, Ordering::Relaxed);
        if old & self.bit == 0 {
            Ok(())
        } else {
            Err(corrupt(self.offset, "a record is in use twice"))
        }
    }
}

/// Of 254 records one falls on the bit of another.
const FILTER_BITS: usize = 1 << 15;

/// The bit of a record in a filter. Records of a size lie at equal distances: one multiplication would leave those of
/// some sizes a third of the bits.
fn filter_place(offset: u64) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = offset.wrapping_mul(FACTOR);
    ((mixed ^ mixed >> 32).wrapping_mul(FACTOR) >> (64 - FILTER_BITS.ilog2())) as usize
}

/// What recovery knows about the space of a pool.
pub struct Recovery<M: Machine> {
    pub(crate) shift: u32,
    first: u64,
    frontier: u64,
    pub(crate) chunks: Vec<Marked<M>>,
    pub(crate) free_runs: Vec<(u64, u64)>,
    /// What had no space when the pool was opened.
    pub(crate) holes: Holes,
    /// Chunk number - `first` -> index in `chunks` plus one, 0 for none.
    index: Vec<u32>,
}

impl<M: Machine> Recovery<M> {
    /// Reads the chunk headers of `pool`.
    pub(crate) fn walk(pool: &Pool<M>, shift: u32, first: u64) -> Result<Self, AllocError> {
        // What lies behind was never given out: a pool may be larger than its heap.
        let end = pool.size().min(POOL_SIZE_MAX) >> shift;
        let span = end.saturating_sub(first) as usize;
        let mut this = Recovery {
            shift,
            first,
            frontier: first,
            chunks: vec![],
            free_runs: vec![],
            holes: Holes::default(),
            index: vec![0; span],
        };
        let mut chunk = first;
        while chunk < end {
            let word = pool.word(chunk << shift).read_private();
            let header = ChunkHeader::decode(word).filter(|header| {
                let fits = u64::from(header.run) <= end - chunk;
                let class = usize::from(header.class);
                let is_class = match header.kind {
                    ChunkKind::Records => class < CLASS_COUNT,
                    ChunkKind::Leaves => class < BLOCK_CLASS_COUNT,
                    _ => true,
                };
                fits && is_class
            });
            let Some(header) = header else {
                let what = format!("chunk header {word:#018x} cannot be one");
                return Err(AllocError::Corrupt { offset: chunk << shift, what });
            };
            this.note(chunk, header);
            chunk += u64::from(header.run);
        }
        // Trailing space that was never used is the frontier's, also behind a free run: what both
        // had would be given out twice.
        let frontier = this.frontier;
        this.free_runs.retain(|(start, _)| *start < frontier);
        for (start, length) in &mut this.free_runs {
            *length = (*length).min(frontier - *start);
        }
        Ok(this)
    }

    fn note(&mut self, chunk: u64, header: ChunkHeader) {
        let run = u64::from(header.run);
        let slots = match header.kind {
            ChunkKind::Unused => {
                return match self.free_runs.last_mut() {
                    Some((start, length)) if *start + *length == chunk => *length += 1,
                    _ => self.free_runs.push((chunk, 1)),
                };
            }
            ChunkKind::Free => {
                if !M::mutant("recovery.frontier_before_free") {
                    self.frontier = chunk + run;
                }
                return self.free_runs.push((chunk, run));
            }
            ChunkKind::Leaves => blocks_per_chunk(usize::from(header.class), self.shift),
            ChunkKind::Records => slots_per_chunk(usize::from(header.class), 1 << self.shift),
            ChunkKind::Large => 1,
        };
        self.frontier = chunk + run;
        self.chunks.push(Marked::new(chunk, header, slots));
        self.index[(chunk - self.first) as usize] = self.chunks.len() as u32;
    }

    /// Everything but free runs, as offsets in a pool of so many bytes: what must have its space before
    /// it is written, with all of its units of `1 << unit` bytes (at least a chunk). The unit of a free run's
    /// header is among it.
    pub(crate) fn used_ranges(&self, size: u64, unit: u32) -> Vec<(u64, u64)> {
        let mut ranges = vec![];
        let mut from = 0;
        for (chunk, run) in &self.free_runs {
            let (first, behind) = whole_units(chunk + 1, chunk + run, unit - self.shift);
            if first < behind {
                ranges.push((from, first << unit));
                from = behind << unit;
            }
        }
        ranges.push((from, size));
        ranges
    }

    /// Whether there is a chunk of blocks or records, in use or not: something was allocated once.
    pub fn has_chunks(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// The first chunk that was never used.
    pub(crate) fn frontier(&self) -> u64 {
        self.frontier
    }

    /// Free chunks in front of that.
    pub(crate) fn free_chunks(&self) -> u64 {
        self.free_runs.iter().map(|(_, length)| length).sum()
    }

    /// The leaf blocks of `class` in the pool, by block number, one list per leaf chunk.
    pub fn blocks_of(
        &self,
        class: usize,
    ) -> Vec<impl DoubleEndedIterator<Item = u32> + Clone + use<M>> {
        let leaves = self.chunks.iter().filter(|marked| marked.is_leaves(class));
        leaves.map(|marked| blocks_of_chunk(class, marked.chunk, self.shift)).collect()
    }

    fn chunk_at(&self, offset: u64) -> Option<&Marked<M>> {
        let chunk = (offset >> self.shift).checked_sub(self.first)?;
        let entry = *self.index.get(usize::try_from(chunk).ok()?)?;
        self.chunks.get((entry as usize).checked_sub(1)?)
    }

    /// Whether this is the number of a leaf block of `class`, in use or not.
    pub fn is_block(&self, class: usize, block: u32) -> bool {
        self.block_slot(class, block).is_some()
    }

    /// The chunk of a leaf block, and its place there.
    fn block_slot(&self, class: usize, block: u32) -> Option<(&Marked<M>, usize)> {
        let offset = u64::from(block) * BLOCK_SIZE as u64;
        let within = offset as usize & ((1 << self.shift) - 1);
        let marked = self.chunk_at(offset).filter(|marked| marked.is_leaves(class))?;
        let (slot, rest) = (within / block_size(class), within % block_size(class));
        (slot > 0 && rest == 0).then_some((marked, slot))
    }

    /// Marks a leaf block of `class` as live. May be called from many threads.
    ///
    /// # Errors
    /// There is no such block, or it was marked before.
    pub fn mark_block(&self, class: usize, block: u32) -> Result<(), AllocError> {
        let offset = u64::from(block) * BLOCK_SIZE as u64;
        let (marked, slot) = self
            .block_slot(class, block)
            .ok_or_else(|| corrupt(offset, "a leaf was expected here"))?;
        if marked.set(slot) { Ok(()) } else { Err(corrupt(offset, "a leaf is in use twice")) }
    }

    /// Marks the record of `size` bytes at `offset` as in use. May be called from many threads.
    ///
    /// # Errors
    /// There is no such record, or it was marked before.
    pub fn mark_record(&self, offset: u64, size: usize) -> Result<(), AllocError> {
        self.record_mark(offset, size)?.set()
    }

    /// The mark of the record of `size` bytes at `offset`, already asked for.
    ///
    /// # Errors
    /// There is no such record.
    pub fn record_mark(&self, offset: u64, size: usize) -> Result<Mark<'_, M>, AllocError> {
        let marked = self
            .chunk_at(offset)
            .ok_or_else(|| corrupt(offset, "a record was expected here, outside all chunks"))?;
        let within = (offset - (marked.chunk << self.shift)) as usize;
        let slot = match marked.header.kind {
            ChunkKind::Records => {
                let class_size = class_size(usize::from(marked.header.class));
                // Narrow numbers: this division is most of the work of opening a large store.
                let place = within.checked_sub(CHUNK_HEADER_SIZE).map(|place| place as u32);
                let slot = place.map(|place| (place, place / class_size as u32));
                slot.filter(|(place, slot)| {
                    slot * class_size as u32 == *place
                        && size <= class_size
                        && (*slot as usize) < marked.slots
                })
                .map(|(_, slot)| slot as usize)
            }
            ChunkKind::Large => {
                let room = (u64::from(marked.header.run) << self.shift) as usize;
                (within == CHUNK_HEADER_SIZE && size + CHUNK_HEADER_SIZE <= room).then_some(0)
            }
            _ => None,
        };
        let slot = slot.ok_or_else(|| {
            corrupt(offset, &format!("a record of {size} bytes cannot be at this place"))
        })?;
        let word = &marked.marks[slot / 64];
        M::prefetch(word.as_ptr().cast());
        Ok(Mark { word, bit: 1 << (slot % 64), offset })
    }

    /// The largest record that can start at `offset`, in bytes; `None` if none can. For readers
    /// of untrusted references: a length found there must not exceed it.
    pub fn record_room(&self, offset: u64) -> Option<usize> {
        let marked = self.chunk_at(offset)?;
        let within = (offset - (marked.chunk << self.shift)) as usize;
        match marked.header.kind {
            ChunkKind::Records => {
                let class = usize::from(marked.header.class);
                let place = within.checked_sub(CHUNK_HEADER_SIZE)?;
                let valid = place % class_size(class) == 0
                    && place / class_size(class) < slots_per_chunk(class, 1 << self.shift);
                valid.then_some(class_size(class))
            }
            ChunkKind::Large if within == CHUNK_HEADER_SIZE => {
                Some(((marked.header.run as usize) << self.shift) - CHUNK_HEADER_SIZE)
            }
            _ => None,
        }
    }
}

pub(crate) fn corrupt(offset: u64, what: &str) -> AllocError {
    AllocError::Corrupt { offset, what: what.to_string() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use everleaf_machine::Hardware;

    use super::*;

    fn are_twice(offsets: &[u64]) -> bool {
        let word = Atomic::<u64, Hardware>::new(0);
        let mark = |offset: &u64| Mark { word: &word, bit: 1, offset: *offset };
        Mark::are_twice(&offsets.iter().map(mark).collect::<Vec<_>>())
    }

    /// Few places, many, and any distance between records: now two are the same, now none, and the filter tells some
    /// apart and others not.
    #[test]
    fn marks_are_twice_as_a_set_says() {
        let (mut counts, mut collisions, mut state) = ([0, 0], 0, 1_u64);
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        for round in 0..2000_u64 {
            let (places, distance) = (1 << (8 + round % 16), 16 << (round / 16 % 8));
            let count = next() % 300;
            let offsets: Vec<_> = (0..count).map(|_| next() % places * distance).collect();
            let different: BTreeSet<_> = offsets.iter().collect();
            let expected = different.len() < offsets.len();
            assert_eq!(are_twice(&offsets), expected, "{offsets:?}");
            let bits: BTreeSet<_> = offsets.iter().map(|offset| filter_place(*offset)).collect();
            counts[usize::from(expected)] += 1;
            collisions += u64::from(!expected && bits.len() < offsets.len());
        }
        assert!(counts[0] > 200 && counts[1] > 200 && collisions > 50, "{counts:?}, {collisions}");
    }

    /// Records of one size that lie side by side are told apart.
    #[test]
    fn neighbours_fall_together_seldom() {
        for size in (16..=2048_u64).step_by(16) {
            let bits: BTreeSet<_> = (0..254).map(|slot| filter_place(64 + slot * size)).collect();
            assert!(bits.len() >= 245, "{} places for records of {size} bytes", bits.len());
        }
    }
}
