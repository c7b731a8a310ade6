//! The global layer: chunks, taken from the frontier of the pool or from runs that were freed.
//!
//! Every change of ownership is one durable store of a header word (`layout.rs`), in an order that
//! leaves a walk from chunk to chunk well-formed at every instant:
//!
//! - S1 a walk that starts at the first chunk and steps by `run` meets exactly the chunks that own
//!   their space; words inside a run are never looked at;
//! - S2 when a run is split, the header of the remainder is durable before the head of the run is
//!   rewritten; when runs are joined, one head is rewritten and the other becomes interior;
//! - S3 a chunk is given out only after its header says what it is.
//!
//! Callers hold the lock around [`Space`]: taking a chunk is rare (one in hundreds of allocations).

use std::collections::BTreeMap;
use std::path::Path;

use everleaf_machine::Machine;
use everleaf_pool::{Medium, Pool, PoolError};

use crate::error::AllocError;
use crate::layout::{BLOCK_SIZE, ChunkHeader, ChunkKind, POOL_SIZE_MAX};

/// Where chunks are, and which are free. Chunk numbers count from offset 0 of the pool.
pub struct Space {
    /// Binary logarithm of the chunk size in bytes.
    shift: u32,
    /// The first chunk never given out.
    frontier: u64,
    /// Runs of free chunks below the frontier: first chunk -> count. Neighbours are joined.
    free: BTreeMap<u64, u64>,
}

impl Space {
    /// Space whose chunks below `frontier` are all owned, but for those given to `add_free` next.
    pub fn new(shift: u32, frontier: u64) -> Self {
        Space { shift, frontier, free: BTreeMap::new() }
    }

    /// The first chunk never given out.
    pub fn frontier(&self) -> u64 {
        self.frontier
    }

    /// Free chunks below the frontier.
    pub fn free_chunks(&self) -> u64 {
        self.free.values().sum()
    }

    /// Takes a run of `header.run` chunks and makes `header` its durable owner.
    pub fn take<M: Machine>(
        &mut self,
        pool: &Pool<M>,
        header: ChunkHeader,
    ) -> Result<u64, AllocError> {
        let count = u64::from(header.run);
        let chunk = match self.free.iter().find(|(_, length)| **length >= count) {
            Some((&start, &length)) => {
                if length > count && !M::mutant("alloc.no_remainder") {
                    // Persist: the remainder's header before the head of the run, or recovery
                    // would walk into the middle of a run (S2).
                    self.commit(pool, start + count, free_run(length - count));
                    self.free.insert(start + count, length - count);
                }
                self.free.remove(&start);
                start
            }
            None => {
                let end = (self.frontier + count) << self.shift;
                if end > POOL_SIZE_MAX {
                    let path = pool.path().unwrap_or(Path::new("(memory)")).into();
                    return Err(
                        PoolError::PoolFull { path, needed: end, max: POOL_SIZE_MAX }.into()
                    );
                }
                if end > pool.size() {
                    pool.grow(end)?;
                }
                let start = self.frontier;
                self.frontier += count;
                start
            }
        };
        if header.kind == ChunkKind::Leaves && !M::mutant("alloc.no_clear") {
            self.clear_blocks(pool, chunk);
        }
        self.commit(pool, chunk, header);
        Ok(chunk)
    }

    /// Returns a run of chunks.
    pub fn give_back<M: Machine>(&mut self, pool: &Pool<M>, chunk: u64, count: u64) {
        let (start, count) = self.join(chunk, count);
        // One store joins the run with its neighbours (S2).
        self.commit(pool, start, free_run(count));
    }

    /// Notes a run that recovery found free, without touching its header.
    pub fn add_free(&mut self, chunk: u64, count: u64) {
        self.join(chunk, count);
    }

    /// Joins a free run with its free neighbours; returns the whole run.
    fn join(&mut self, mut start: u64, mut count: u64) -> (u64, u64) {
        if let Some((&before, &length)) = self.free.range(..start).next_back()
            && before + length == start
        {
            self.free.remove(&before);
            start = before;
            count += length;
        }
        if let Some(length) = self.free.remove(&(start + count)) {
            count += length;
        }
        self.free.insert(start, count);
        (start, count)
    }

    /// Makes every block of a chunk that becomes a leaf chunk free, whatever was there before.
    fn clear_blocks<M: Machine>(&self, pool: &Pool<M>, chunk: u64) {
        let start = chunk << self.shift;
        let medium: Medium<M> = pool.medium();
        for offset in (start..start + (1 << self.shift)).step_by(BLOCK_SIZE).skip(1) {
            let state = pool.word(offset);
            own::<M>(state.as_ptr(), BLOCK_SIZE, || {
                if state.read_private() != 0 {
                    state.write_private(0);
                    medium.flush(state.as_ptr(), 8);
                }
            });
        }
        // Persist: free blocks before the header that calls them blocks, or recovery would take
        // what is left of records for leaves (S3).
        medium.drain();
    }

    /// Rewrites the header word of a chunk, durably.
    fn commit<M: Machine>(&self, pool: &Pool<M>, chunk: u64, header: ChunkHeader) {
        let word = pool.word(chunk << self.shift);
        // Whatever the place was before, it is a header from now on.
        M::lifetime(word.as_ptr(), 8, false);
        M::lifetime(word.as_ptr(), 8, true);
        word.write_private(header.encode());
        if !M::mutant("alloc.no_header_flush") {
            // Persist: the owner before anything is stored into the chunk (S3).
            pool.medium().persist(word.as_ptr(), 8);
        }
    }
}

/// Runs `work` on space that belongs to nobody, having told the machine so: whoever else touches it
/// then, or still has it, is caught by a simulated machine.
fn own<M: Machine>(start: *const u8, length: usize, work: impl FnOnce()) {
    M::lifetime(start, length, true);
    work();
    M::lifetime(start, length, false);
}

/// The header of a run of `count` free chunks.
fn free_run(count: u64) -> ChunkHeader {
    // A run never exceeds 2^32 chunks: the pool's largest size divided by the smallest chunk.
    ChunkHeader { kind: ChunkKind::Free, class: 0, run: count as u32 }
}
