//! The global layer: chunks, taken from the frontier of the pool or from runs that were freed.
//!
//! Every change of ownership is one durable store of a header word (`layout.rs`), in an order that
//! leaves a walk from chunk to chunk well-formed at every instant:
//!
//! - S1 a walk that starts at the first chunk and steps by `run` meets exactly the chunks that own
//!   their space; words inside a run are never looked at;
//! - S2 when a run is split, the header of the remainder is durable before the head of the run is
//!   rewritten; when runs are joined, one head is rewritten and the other becomes interior;
//! - S3 a chunk is given out only after its header says what it is;
//! - S4 space is returned to the system only of a free run whose durable header says so as a whole, and
//!   but for the page of this header: whatever of it a crash leaves, nobody looks there;
//! - S5 a chunk whose space may have been returned gets space again before anything is written to it,
//!   so that no store fails for want of space.
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
    /// Free chunks that may have no space (S5), but for the first page of a run: as `free`.
    holes: BTreeMap<u64, u64>,
}

/// Bytes returned at once: whoever wants a chunk waits meanwhile.
const RETURN_MAX: u64 = 32 << 20;
/// Space of a run that keeps its header.
pub(crate) const HEADER_PAGE: u64 = 4096;

impl Space {
    /// Space whose chunks below `frontier` are all owned, but for those given to `add_free` next.
    pub fn new(shift: u32, frontier: u64) -> Self {
        Space { shift, frontier, free: BTreeMap::new(), holes: BTreeMap::new() }
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
        let chunk = match self.find_run(count) {
            Some((start, length)) => {
                self.fill(pool, start, count, length)?;
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

    /// A free run of at least `count` chunks; rather one that has its space.
    fn find_run(&self, count: u64) -> Option<(u64, u64)> {
        let mut fitting = self.free.iter().filter(|(_, length)| **length >= count);
        let has_space = |(start, _): &(&u64, &u64)| !self.has_hole(**start, count);
        let found = fitting.clone().find(has_space).or_else(|| fitting.next());
        found.map(|(start, length)| (*start, *length))
    }

    /// Whether some of these chunks may have no space.
    fn has_hole(&self, chunk: u64, count: u64) -> bool {
        let before = self.holes.range(..chunk + count).next_back();
        before.is_some_and(|(start, length)| start + length > chunk)
    }

    /// Gets space for the first `count` chunks of a free run, and for the header of the rest (S5).
    fn fill<M: Machine>(
        &mut self,
        pool: &Pool<M>,
        start: u64,
        count: u64,
        length: u64,
    ) -> Result<(), AllocError> {
        let needed = count + u64::from(length > count);
        if !self.has_hole(start, needed) {
            return Ok(());
        }
        let rest = if length > count { HEADER_PAGE } else { 0 };
        pool.secure(start << self.shift, ((start + count) << self.shift) + rest)?;
        let mut at =
            self.holes.range(..start + count).next_back().map(|(at, length)| (*at, *length));
        while let Some((hole, length)) = at.filter(|(hole, length)| hole + length > start) {
            self.holes.remove(&hole);
            if hole < start {
                self.holes.insert(hole, start - hole);
            }
            let end = hole + length;
            if end > start + count {
                self.holes.insert(start + count, end - start - count);
            }
            // What is left before the run ends where it begins, so this comes to an end.
            at = self.holes.range(..start + count).next_back().map(|(at, length)| (*at, *length));
        }
        Ok(())
    }

    /// Returns space of free chunks to the system, some of one run. Returns the bytes, or `None` if there
    /// is nothing to return, or the medium cannot do it.
    pub fn return_some<M: Machine>(&mut self, pool: &Pool<M>) -> Result<Option<u64>, AllocError> {
        let runs = self.free.iter().map(|(start, length)| (*start, *length));
        let whole = |(start, length)| {
            let (from, to) = self.whole_part(start, start + length)?;
            Some((start, length, from, to))
        };
        let Some((start, length, from, to)) = runs.filter_map(whole).next() else {
            return Ok(None);
        };
        // Persist: one header for the whole run before what is within it is gone (S4).
        self.commit(pool, start, free_run(length));
        // Before it is tried: whatever an error leaves may have no space.
        self.holes.insert(from, to - from);
        let kept = if from == start { HEADER_PAGE } else { 0 };
        let (first, end) = ((from << self.shift) + kept, to << self.shift);
        let returned = pool.release(first, end)?;
        Ok(returned.then_some(end - first))
    }

    /// The first chunks of a free run that have their space, not more than are returned at once.
    fn whole_part(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let mut from = start;
        while let Some((hole, length)) = self.holes.range(..=from).next_back()
            && hole + length > from
        {
            from = hole + length;
        }
        let hole = self.holes.range(from..).next().map_or(end, |(hole, _)| *hole);
        let to = end.min(hole).min(from + (RETURN_MAX >> self.shift).max(1));
        (from < to).then_some((from, to))
    }

    /// Notes that free chunks may have no space: found at opening.
    pub fn note_holes(&mut self) {
        self.holes = self.free.clone();
    }

    /// Free chunks that may have no space.
    pub fn hole_chunks(&self) -> u64 {
        self.holes.values().sum()
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
