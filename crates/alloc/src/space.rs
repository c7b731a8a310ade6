//! The global layer: chunks, taken from the frontier of the pool or from runs that were freed.
//!
//! Every change of ownership is one durable store of a header word (`layout.rs`), in an order that
//! leaves a walk from chunk to chunk well-formed at every instant:
//!
//! - S1 a walk that starts at the first chunk and steps by `run` meets exactly the chunks that own
//!   their space; words inside a run are never looked at;
//! - S2 when a run is split, the headers of what lies behind its head are durable before the head is
//!   rewritten; when runs are joined, one head is rewritten and the other becomes interior;
//! - S3 a chunk is given out only after its header says what it is;
//! - S4 space is returned to the system only of a free run whose durable header says so as a whole, and
//!   but for the page of this header: whatever of it a crash leaves, nobody looks there;
//! - S5 a chunk whose space may have been returned gets space again before anything is written to it,
//!   so that no store fails for want of space; the first page of a free run always has some;
//! - S6 what is read in such a chunk need not be durable: a crash may bring back what it held before.
//!
//! Chunks are taken, in this order: from the end of a free run that has its space; from the frontier,
//! as far as the pool reaches; from a free run whose space was returned; and from a larger pool. So a
//! disk is full only when nothing that has space is free.
//!
//! Callers hold the lock around [`Space`]: taking a chunk is rare (one in hundreds of allocations), and
//! costs a few searches in the sets of runs.

use std::collections::BTreeSet;
use std::path::Path;

use everleaf_machine::Machine;
use everleaf_pool::{Medium, Pool, PoolError};

use crate::error::AllocError;
use crate::holes::Holes;
use crate::layout::{ChunkHeader, ChunkKind, POOL_SIZE_MAX, block_size};
use crate::runs::Runs;

/// Where chunks are, and which are free. Chunk numbers count from offset 0 of the pool.
pub struct Space {
    /// Binary logarithm of the chunk size in bytes.
    shift: u32,
    /// The first chunk never given out.
    frontier: u64,
    /// Free chunks below the frontier.
    free: Runs,
    /// Those of them that have their space.
    backed: Runs,
    /// Free chunks that may have no space (S5).
    holes: Runs,
    /// Those of them at the start of a free run, whose first page has space all the same.
    heads: BTreeSet<u64>,
    /// Free chunks that were in use since the pool was opened, or got space again: what is seen of them need
    /// not be durable (S6).
    used: Runs,
    /// Whether the medium has refused to take space back.
    keeps_all: bool,
}

/// Bytes returned at once: a thread that wants a chunk waits meanwhile.
const RETURN_MAX: u64 = 8 << 20;
/// Space of a run that keeps its header.
pub(crate) const HEADER_PAGE: u64 = 4096;
/// Runs of just the right length that are looked at before a longer one is split.
const EXACT_TRIES: usize = 8;

/// A part of a free run that is being taken.
struct Part {
    start: u64,
    /// The run: its first chunk, and the one behind it.
    run: (u64, u64),
}

impl Space {
    /// Space whose chunks below `frontier` are all owned, but for those given to `add_free` next.
    pub fn new(shift: u32, frontier: u64) -> Self {
        Space {
            shift,
            frontier,
            free: Runs::default(),
            backed: Runs::default(),
            holes: Runs::default(),
            heads: BTreeSet::new(),
            used: Runs::default(),
            keeps_all: false,
        }
    }

    /// The first chunk never given out.
    pub fn frontier(&self) -> u64 {
        self.frontier
    }

    /// Free chunks below the frontier.
    pub fn free_chunks(&self) -> u64 {
        self.free.chunks()
    }

    /// Takes a run of `header.run` chunks and makes `header` its durable owner.
    pub fn take<M: Machine>(
        &mut self,
        pool: &Pool<M>,
        header: ChunkHeader,
    ) -> Result<u64, AllocError> {
        let count = u64::from(header.run);
        let part = match self.find_backed(count) {
            Some(part) => Some(part),
            None if (self.frontier + count) << self.shift <= pool.size().min(POOL_SIZE_MAX) => None,
            None => self.fill_or_grow(pool, count)?,
        };
        let Some(part) = part else {
            let start = self.frontier;
            self.frontier += count;
            self.own(pool, start, header);
            return Ok(start);
        };
        let (start, end) = (part.start, part.start + count);
        self.free.cut(start, end);
        self.backed.cut(start, end);
        let (head, behind) = part.run;
        if behind > end {
            if M::mutant("alloc.no_remainder") {
                self.free.cut(end, behind);
                self.backed.cut(end, behind);
            } else {
                // Persist: the remainder's header before the head of the run, or recovery
                // would walk into the middle of a run (S2).
                self.commit(pool, end, free_run(behind - end));
            }
        }
        if M::mutant("alloc.head_first") && start > head {
            self.commit(pool, head, free_run(start - head));
        }
        self.own(pool, start, header);
        self.used.cut(start, end);
        if start > head && !M::mutant("alloc.no_remainder") {
            // Persist: the owner's header came first (S2), and the head before the chunk is given
            // out: what it covers is never looked at.
            self.commit(pool, head, free_run(start - head));
        }
        Ok(start)
    }

    /// Makes `header` the durable owner of its run.
    fn own<M: Machine>(&self, pool: &Pool<M>, chunk: u64, header: ChunkHeader) {
        if header.kind == ChunkKind::Leaves && !M::mutant("alloc.no_clear") {
            self.clear_blocks(pool, chunk, block_size(usize::from(header.class)));
        }
        self.commit(pool, chunk, header);
    }

    /// Free chunks that have their space, from the end of theirs in their run.
    fn find_backed(&self, count: u64) -> Option<Part> {
        let part = |(start, length): (u64, u64)| {
            let (head, whole) = self.free.at(start)?;
            let (end, run) = (start + length, (head, head + whole));
            // What is left behind begins with a header, which needs a page.
            let has_page = end == run.1 || self.heads.contains(&end);
            let end = if has_page { end } else { end - 1 };
            (end >= start + count).then(|| Part { start: end - count, run })
        };
        let exact = self.backed.of_length(count).take(EXACT_TRIES).find_map(part);
        exact.or_else(|| self.backed.of_length(count + 1).next().and_then(part))
    }

    /// Gets space for a part of a free run, or else (`None`) the pool to a size where the frontier has
    /// room.
    fn fill_or_grow<M: Machine>(
        &mut self,
        pool: &Pool<M>,
        count: u64,
    ) -> Result<Option<Part>, AllocError> {
        let mut refusal = None;
        let shortest = self.free.of_length(count).next();
        if let Some((head, length)) = shortest {
            let run = (head, head + length);
            let part = Part { start: run.1 - count, run };
            match self.fill(pool, part.start, run.1) {
                Ok(()) => return Ok(Some(part)),
                // The pool may grow where holes cannot be filled, as on another device's quota.
                Err(error @ PoolError::DiskFull { .. }) => refusal = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        match self.grow(pool, count) {
            Err(error) => Err(refusal.unwrap_or(error).into()),
            Ok(()) => Ok(None),
        }
    }

    fn grow<M: Machine>(&self, pool: &Pool<M>, count: u64) -> Result<(), PoolError> {
        let end = (self.frontier + count) << self.shift;
        if end > POOL_SIZE_MAX {
            let path = pool.path().unwrap_or(Path::new("(memory)")).into();
            return Err(PoolError::PoolFull { path, needed: end, max: POOL_SIZE_MAX });
        }
        // Not a step beyond what block numbers reach.
        pool.grow_within(end, POOL_SIZE_MAX).map(|_| ())
    }

    /// Gets space for free chunks (S5), all of it or none.
    fn fill<M: Machine>(&mut self, pool: &Pool<M>, start: u64, end: u64) -> Result<(), PoolError> {
        if !M::mutant("alloc.secures_nothing")
            && let Err(error) = pool.secure(start << self.shift, end << self.shift)
        {
            self.empty_again(pool, start, end);
            return Err(error);
        }
        self.holes.cut(start, end);
        if !M::mutant("alloc.trusts_returned") {
            self.used.cut(start, end);
            self.used.add(start, end - start);
        }
        while let Some(&head) = self.heads.range(start..end).next() {
            self.heads.remove(&head);
        }
        self.backed.cut(start, end);
        self.backed.add(start, end - start);
        Ok(())
    }

    /// Returns what a filling that failed in the middle has got: nobody counts it, and so nobody would
    /// take or return it. S4 was kept when the chunks became holes.
    fn empty_again<M: Machine>(&self, pool: &Pool<M>, start: u64, end: u64) {
        for (from, length) in self.holes.within(start, end) {
            let mut at = from;
            while at < from + length {
                // Up to the next chunk whose first page is kept.
                let to = self.heads.range(at + 1..from + length).next().copied();
                let to = to.unwrap_or(from + length);
                let kept = if self.heads.contains(&at) { HEADER_PAGE } else { 0 };
                // A refusal leaves what a hole may have: some space that is not counted.
                let _ = pool.release((at << self.shift) + kept, to << self.shift);
                at = to;
            }
        }
    }

    /// Returns space of free chunks to the system, some of one run, unless only `keep` bytes or less are
    /// left. Returns the bytes, or `None` if there is nothing to return, or the medium cannot do it.
    pub fn return_some<M: Machine>(
        &mut self,
        pool: &Pool<M>,
        keep: u64,
    ) -> Result<Option<u64>, AllocError> {
        let spare = self.returnable_bytes().saturating_sub(keep) >> self.shift;
        let Some((from, length)) = self.backed.longest().filter(|_| spare > 0) else {
            return Ok(None);
        };
        let Some((head, whole)) = self.free.at(from) else { return Ok(None) };
        let to = from + length.min(spare).min((RETURN_MAX >> self.shift).max(1));
        // Persist: one header for the whole run before what is within it is gone (S4).
        self.commit(pool, head, free_run(whole));
        // Before it is tried: whatever an error leaves may have no space.
        self.backed.cut(from, to);
        self.holes.add(from, to - from);
        let (mut first, end) = (from << self.shift, to << self.shift);
        if from == head && !M::mutant("alloc.returns_header") {
            self.heads.insert(head);
            first += HEADER_PAGE;
        }
        if pool.release(first, end)? {
            return Ok(Some(end - first));
        }
        self.keeps_all = true;
        self.holes.cut(from, to);
        self.heads.remove(&from);
        self.backed.add(from, to - from);
        Ok(None)
    }

    /// Bytes of free chunks whose space could be returned.
    pub fn returnable_bytes(&self) -> u64 {
        if self.keeps_all { 0 } else { self.backed.chunks() << self.shift }
    }

    /// Bytes of free chunks that may have no space.
    pub fn hole_bytes(&self) -> u64 {
        (self.holes.chunks() << self.shift) - self.heads.len() as u64 * HEADER_PAGE
    }

    /// Notes at opening which free chunks have no space. The first pages of free runs have.
    pub fn note_holes<M: Machine>(&mut self, pool: &Pool<M>, holes: &Holes) {
        let size = 1 << self.shift;
        for (head, length) in self.free.iter().collect::<Vec<_>>() {
            for (from, to) in holes.within(head << self.shift, (head + length) << self.shift) {
                let is_head = from <= (head << self.shift) + HEADER_PAGE;
                let from = if is_head { head << self.shift } else { from };
                let (first, end) = (from >> self.shift, to.div_ceil(size));
                self.backed.cut(first, end);
                // There already, if it is the second hole of a chunk.
                self.holes.cut(first, end);
                self.holes.add(first, end - first);
                if first == head {
                    self.heads.insert(head);
                }
                // A chunk of which a part has space gets all of it, so that all can be returned again;
                // where that is refused, it counts as one that has none.
                for (chunk, edge) in [(first, from), (end - 1, to)] {
                    if !edge.is_multiple_of(size) {
                        let _ = self.fill(pool, chunk, chunk + 1);
                    }
                }
            }
        }
    }

    /// Returns a run of chunks.
    pub fn give_back<M: Machine>(&mut self, pool: &Pool<M>, chunk: u64, count: u64) {
        self.backed.add(chunk, count);
        if !M::mutant("alloc.give_back_forgets_used") {
            self.used.add(chunk, count);
        }
        let (start, whole) = self.free.add(chunk, count);
        // One store joins the run with its neighbours (S2).
        self.commit(pool, start, free_run(whole));
        for former in [chunk, chunk + count] {
            // A header until now, and within a run from here on, where nobody looks (S1).
            if start < former && former < start + whole {
                M::lifetime(pool.word(former << self.shift).as_ptr(), 8, false);
            }
        }
    }

    /// Notes a run that recovery found free, without touching its header.
    pub fn add_free(&mut self, chunk: u64, count: u64) {
        self.backed.add(chunk, count);
        self.free.add(chunk, count);
    }

    /// Makes every block of a chunk that becomes a leaf chunk free, whatever was there before.
    fn clear_blocks<M: Machine>(&self, pool: &Pool<M>, chunk: u64, size: usize) {
        let start = chunk << self.shift;
        let medium: Medium<M> = pool.medium();
        // A word that is 0 now may be something else in the pool, where its record did not flush it.
        let is_used = self.used.at(chunk).is_some() && !M::mutant("alloc.clears_what_is_seen");
        let less = if M::mutant("alloc.clears_one_less") { size as u64 } else { 0 };
        for offset in (start..start + (1 << self.shift) - less).step_by(size).skip(1) {
            let state = pool.word(offset);
            borrow::<M>(state.as_ptr(), size, || {
                let is_free = state.read_private() == 0;
                if !is_free {
                    state.write_private(0);
                }
                if !is_free || is_used {
                    medium.flush(state.as_ptr(), 8);
                }
            });
        }
        // Persist: free blocks before the header that calls them blocks, or recovery would take
        // what is left of records for leaves (S3).
        if !M::mutant("alloc.no_clear_drain") {
            medium.drain();
        }
    }

    /// Rewrites the header word of a chunk, durably.
    fn commit<M: Machine>(&self, pool: &Pool<M>, chunk: u64, header: ChunkHeader) {
        if M::SIMULATED {
            // On hardware the store fails where the disk is full (S5).
            let has_page = self.holes.at(chunk).is_none() || self.heads.contains(&chunk);
            let page = chunk << self.shift;
            // Nor do the books say that there is some where there is none.
            let holes = pool.holes().unwrap_or_default();
            let has_page = has_page && !holes.iter().any(|(from, to)| (*from..*to).contains(&page));
            assert!(has_page, "chunk {chunk} gets a header on a page without space");
        }
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

/// Runs `work` on space that belongs to nobody, having told the machine so: a thread that touches it
/// then, or still has it, is caught by a simulated machine.
fn borrow<M: Machine>(start: *const u8, length: usize, work: impl FnOnce()) {
    M::lifetime(start, length, true);
    work();
    M::lifetime(start, length, false);
}

/// The header of a run of `count` free chunks.
fn free_run(count: u64) -> ChunkHeader {
    // A run never exceeds 2^32 chunks: the pool's largest size divided by the smallest chunk.
    ChunkHeader { kind: ChunkKind::Free, class: 0, run: count as u32 }
}
