//! The space that an allocator divides: one large record of the pool.
//!
//! ```text
//!   | lines of thread 0 | lines of thread 1 | .. | chunk 0 | chunk 1 | ..
//!   chunk   | lines of metadata | block | block | .. |
//! ```
//!
//! All metadata are zero, durably, before the space is given to anybody.

use std::path::Path;
use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Recovery, Session};
use everleaf_index::PoolBase;
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering};
use everleaf_pool::{Medium, PoolError};

/// Words of a line.
const LINE_WORDS: usize = LINE_SIZE / 8;

/// The sizes of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a block, a multiple of 64.
    pub block_bytes: usize,
    /// Bytes of a chunk, a multiple of 64.
    pub chunk_bytes: usize,
    /// Chunks there are.
    pub chunks: usize,
    /// Threads that have metadata of their own; more threads share them.
    pub threads: usize,
}

/// Cache lines of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// For each thread.
    pub of_thread: usize,
    /// For each chunk.
    pub of_chunk: usize,
}

/// See the module.
pub(super) struct Space<M: Machine> {
    heap: Arc<Heap<M>>,
    base: PoolBase<M>,
    medium: Medium<M>,
    start: u64,
    shape: Shape,
    lines: Lines,
}

// SAFETY: `base` is the pool's mapping, which the heap keeps; all of its words are atomic.
unsafe impl<M: Machine> Send for Space<M> {}
// SAFETY: as for `Send`.
unsafe impl<M: Machine> Sync for Space<M> {}

impl<M: Machine> Space<M> {
    /// A new space.
    ///
    /// # Errors
    /// No space in the pool.
    pub fn create(
        session: &mut Session<M>,
        shape: Shape,
        lines: Lines,
    ) -> Result<Self, AllocError> {
        let start = session.allocate_record(bytes(session.heap(), shape, lines))?;
        let space = Self::at(session.heap(), start, shape, lines);
        space.clear(start, shape.threads * lines.of_thread);
        for chunk in 0..shape.chunks {
            space.clear(space.chunk_start(chunk), lines.of_chunk);
        }
        // Persist: cleared metadata before anything names the space, or recovery would find blocks
        // of its last life allocated.
        space.medium.drain();
        Ok(space)
    }

    /// The space that was made at `start`, not marked yet.
    ///
    /// # Errors
    /// There is none.
    pub fn open(
        heap: &Arc<Heap<M>>,
        recovery: &Recovery<M>,
        start: u64,
        shape: Shape,
        lines: Lines,
    ) -> Result<Self, AllocError> {
        let needed = bytes(heap, shape, lines);
        if recovery.record_room(start).is_none_or(|room| room < needed) {
            let what = "the space of an allocator was expected here".into();
            return Err(AllocError::Corrupt { offset: start, what });
        }
        Ok(Self::at(heap, start, shape, lines))
    }

    /// Marks the space as in use.
    ///
    /// # Errors
    /// It is marked already.
    pub fn mark(&self, recovery: &Recovery<M>) -> Result<(), AllocError> {
        recovery.mark_record(self.start, bytes(&self.heap, self.shape, self.lines))
    }

    fn at(heap: &Arc<Heap<M>>, start: u64, shape: Shape, lines: Lines) -> Self {
        let sizes = [start as usize, shape.block_bytes, shape.chunk_bytes];
        assert!(sizes.iter().all(|size| size.is_multiple_of(LINE_SIZE)), "{shape:?} is of lines");
        let space = Space {
            heap: heap.clone(),
            base: PoolBase::of(heap),
            medium: heap.medium(),
            start,
            shape,
            lines,
        };
        assert!(space.chunk_blocks() > 0, "a chunk of {shape:?} has room for a block");
        space
    }

    /// Zeroes so many lines and starts their write-back.
    fn clear(&self, start: u64, lines: usize) {
        for index in 0..(lines * LINE_WORDS) as u64 {
            self.word(start + 8 * index).write_private(0);
        }
        let first = self.base.start().wrapping_add(start as usize);
        // Persist: completed by the drain in `create`.
        self.medium.flush(first, lines * LINE_SIZE);
    }

    /// Gives the space back to the pool.
    pub fn free(&self, session: &mut Session<M>) {
        session.free_record(self.start, bytes(&self.heap, self.shape, self.lines));
    }

    /// Where the space starts.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The sizes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How its stores are made durable.
    pub fn medium(&self) -> Medium<M> {
        self.medium
    }

    /// Which of the threads' lines a session uses.
    pub fn thread_of(&self, session: &Session<M>) -> usize {
        session.stripe() % self.shape.threads
    }

    /// The word at an offset of the pool.
    pub fn word(&self, offset: u64) -> &Atomic<u64, M> {
        self.heap.pool().word(offset)
    }

    /// Where a word of the pool is.
    pub fn offset_of(&self, word: &Atomic<u64, M>) -> u64 {
        (word.as_ptr().addr() - self.base.start().addr()) as u64
    }

    /// Where the lines of a thread are.
    pub fn thread_start(&self, thread: usize) -> u64 {
        self.start + (thread * self.lines.of_thread * LINE_SIZE) as u64
    }

    /// Where a chunk, and so its metadata, is.
    pub fn chunk_start(&self, chunk: usize) -> u64 {
        self.thread_start(self.shape.threads) + (chunk * self.shape.chunk_bytes) as u64
    }

    /// Blocks of a chunk.
    pub fn chunk_blocks(&self) -> usize {
        self.shape.chunk_bytes.saturating_sub(self.lines.of_chunk * LINE_SIZE)
            / self.shape.block_bytes
    }

    /// The block of this number in a chunk.
    pub fn block(&self, chunk: usize, index: usize) -> u64 {
        let metadata = self.lines.of_chunk * LINE_SIZE;
        self.chunk_start(chunk) + (metadata + index * self.shape.block_bytes) as u64
    }

    /// The chunk of a block, and its number there.
    ///
    /// # Panics
    /// If no block is there: of what is freed twice a destination says 0.
    pub fn place(&self, block: u64) -> (usize, usize) {
        self.find(block).unwrap_or_else(|| panic!("there is no block at {block}"))
    }

    /// Whether a block is at that offset.
    pub fn is_block(&self, offset: u64) -> bool {
        self.find(offset).is_some()
    }

    /// The chunk and the number of the block at an offset, if there is one.
    fn find(&self, offset: u64) -> Option<(usize, usize)> {
        let within = offset.checked_sub(self.chunk_start(0))? as usize;
        let (chunk, rest) = (within / self.shape.chunk_bytes, within % self.shape.chunk_bytes);
        let rest = rest.checked_sub(self.lines.of_chunk * LINE_SIZE)?;
        let index = rest / self.shape.block_bytes;
        let is_there = chunk < self.shape.chunks
            && index < self.chunk_blocks()
            && rest.is_multiple_of(self.shape.block_bytes);
        is_there.then_some((chunk, index))
    }

    /// Refuses what recovery is to repeat if nobody can have written that: `at` is where it says so.
    ///
    /// # Errors
    /// Damage.
    pub fn check_record(&self, at: u64, block: u64, destination: u64) -> Result<(), AllocError> {
        let end = self.chunk_start(self.shape.chunks);
        let can_be = destination.is_multiple_of(8)
            && destination >= self.heap.pool().data_start()
            && self.base.holds(destination, 8)
            && !(self.start..end).contains(&destination);
        if can_be && self.is_block(block) {
            return Ok(());
        }
        let what = format!("an allocator's record of block {block} for {destination} is damaged");
        Err(AllocError::Corrupt { offset: at, what })
    }

    /// All blocks, in ascending order.
    pub fn blocks(&self) -> impl Iterator<Item = u64> {
        (0..self.shape.chunks).flat_map(|chunk| self.blocks_of(chunk))
    }

    /// The blocks of a chunk, in ascending order.
    pub fn blocks_of(&self, chunk: usize) -> impl DoubleEndedIterator<Item = u64> {
        (0..self.chunk_blocks()).map(move |index| self.block(chunk, index))
    }

    /// Stores what a destination names: a block, or 0. Not durable yet.
    pub fn link(&self, destination: &Atomic<u64, M>, block: u64) {
        // Release: the block is filled; pairs with the acquire load of the thread that follows the word.
        destination.store(block, Ordering::Release);
    }

    /// What a destination names.
    pub fn named(&self, destination: &Atomic<u64, M>) -> u64 {
        // Acquire: pairs with the release in `link`.
        destination.load(Ordering::Acquire)
    }

    /// That there is no block left.
    pub fn full(&self) -> AllocError {
        let path = self.heap.pool().path().unwrap_or(Path::new("")).to_path_buf();
        let max = (self.shape.chunks * self.shape.chunk_bytes) as u64;
        AllocError::Pool(PoolError::PoolFull { path, needed: self.shape.block_bytes as u64, max })
    }
}

/// Bytes of a space: at least so many that the record has chunks of the heap to itself, and so starts
/// at a line.
fn bytes<M: Machine>(heap: &Heap<M>, shape: Shape, lines: Lines) -> usize {
    let wanted = shape.threads * lines.of_thread * LINE_SIZE + shape.chunks * shape.chunk_bytes;
    wanted.max(heap.chunk_size() - LINE_SIZE)
}
