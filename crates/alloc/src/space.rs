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
//!   only whole units, but for that of this header: whatever of it a crash leaves, nobody looks there;
//! - S5 a unit whose space may have been returned gets all of it again before anything is written to it,
//!   so that no store fails for want of space; the units of headers and of what is in use always have it;
//! - S6 what is read in such a chunk need not be durable: a crash may bring back what it held before.
//!
//! Chunks are taken, in this order: from the end of a free run that has its space; from the frontier,
//! as far as the pool reaches; from a free run whose space was returned; and from a larger pool. So a
//! disk is full only when nothing that has space is free, and it has no room for a whole unit.
//!
//! A *unit* is what a store may need the space of ([`Pool::hole_unit`]): beside a hole of its unit, a store
//! to what has space fails on a full disk. Units are aligned, and no smaller than chunks here.
//!
//! Callers hold the lock around [`Space`]: taking a chunk is rare (one in hundreds of allocations), and
//! costs a few searches in the sets of runs.

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
    /// Binary logarithm of the chunks in a unit.
    unit: u32,
    /// The first chunk never given out.
    frontier: u64,
    /// Free chunks below the frontier.
    free: Runs,
    /// Those of them that have their space.
    backed: Runs,
    /// Free chunks that may have no space (S5): whole units.
    holes: Runs,
    /// Units whose space could be returned, by number.
    spare: Runs,
    /// Free chunks that were in use since the pool was opened, or got space again: what is seen of them need
    /// not be durable (S6).
    used: Runs,
    /// Whether the medium has refused to take space back.
    keeps_all: bool,
}

/// Bytes returned at once: a thread that wants a chunk waits meanwhile.
const RETURN_MAX: u64 = 8 << 20;
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
    pub fn new<M: Machine>(pool: &Pool<M>, shift: u32, frontier: u64) -> Self {
        let is_chunk = M::mutant("alloc.returns_chunks");
        let unit = if is_chunk { shift } else { unit_shift(pool, shift) } - shift;
        Space {
            shift,
            unit,
            frontier,
            free: Runs::default(),
            backed: Runs::default(),
            holes: Runs::default(),
            spare: Runs::default(),
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
        self.note_spare::<M>(start, end + 1);
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
            // What is left behind begins with a header, which needs a unit that has its space.
            let end = if end == run.1 { end } else { end - 1 };
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

    /// Gets space for the units of free chunks (S5), all of it or none.
    fn fill<M: Machine>(&mut self, pool: &Pool<M>, start: u64, end: u64) -> Result<(), PoolError> {
        // With what is free beside them in their units: a store there would need it, too.
        let first = start >> self.unit << self.unit;
        let behind = end.next_multiple_of(1 << self.unit);
        let holes: Vec<(u64, u64)> = self.holes.within(first, behind).collect();
        for &(from, length) in &holes {
            let (mut from, mut to) = (from, from + length);
            if M::mutant("alloc.secures_chunks") {
                (from, to) = (from.max(start), to.min(end));
            }
            if !M::mutant("alloc.secures_nothing")
                && let Err(error) = pool.secure(from << self.shift, to << self.shift)
            {
                self.empty_again(pool, &holes);
                return Err(error);
            }
        }
        for (from, length) in holes {
            self.holes.cut(from, from + length);
            if !M::mutant("alloc.trusts_returned") {
                self.used.cut(from, from + length);
                self.used.add(from, length);
            }
            self.backed.add(from, length);
        }
        self.note_spare::<M>(first, behind);
        Ok(())
    }

    /// Returns what a filling that failed in the middle has got: nobody counts it, and so nobody would
    /// take or return it. S4 was kept when the chunks became holes.
    fn empty_again<M: Machine>(&self, pool: &Pool<M>, holes: &[(u64, u64)]) {
        for (from, length) in holes {
            // A refusal leaves what a hole may have: some space that is not counted.
            let _ = pool.release(from << self.shift, (from + length) << self.shift);
        }
    }

    /// Finds out which units of some chunks, and of their neighbours in their units, could be returned.
    fn note_spare<M: Machine>(&mut self, start: u64, end: u64) {
        let (first, behind) = (start >> self.unit, end.div_ceil(1 << self.unit));
        self.spare.cut(first, behind);
        let parts = self.backed.within(first << self.unit, behind << self.unit);
        for (from, length) in parts.collect::<Vec<_>>() {
            let is_head = self.free.at(from).is_some_and(|(head, _)| head == from)
                && !M::mutant("alloc.returns_header");
            let (first, behind) = whole_units(from + u64::from(is_head), from + length, self.unit);
            if first < behind {
                self.spare.add(first, behind - first);
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
        let unit = self.unit + self.shift;
        let spare = self.returnable_bytes().saturating_sub(keep) >> unit;
        let Some((first, length)) = self.spare.longest().filter(|_| spare > 0) else {
            return Ok(None);
        };
        let length = length.min(spare).min((RETURN_MAX >> unit).max(1));
        let (from, to) = (first << self.unit, (first + length) << self.unit);
        let Some((head, whole)) = self.free.at(from) else { return Ok(None) };
        // Persist: one header for the whole run before what is within it is gone (S4).
        self.commit(pool, head, free_run(whole));
        // Before it is tried: whatever an error leaves may have no space.
        self.backed.cut(from, to);
        self.spare.cut(first, first + length);
        self.holes.add(from, to - from);
        if pool.release(from << self.shift, to << self.shift)? {
            return Ok(Some(length << unit));
        }
        self.keeps_all = true;
        self.holes.cut(from, to);
        self.backed.add(from, to - from);
        Ok(None)
    }

    /// Bytes of free chunks whose space could be returned.
    pub fn returnable_bytes(&self) -> u64 {
        if self.keeps_all { 0 } else { self.spare.chunks() << (self.unit + self.shift) }
    }

    /// Bytes of free chunks that may have no space.
    pub fn hole_bytes(&self) -> u64 {
        self.holes.chunks() << self.shift
    }

    /// Notes at opening which units of these free runs have no space. All others have.
    pub fn note_holes<M: Machine>(&mut self, pool: &Pool<M>, runs: &[(u64, u64)], holes: &Holes) {
        let unit = self.unit + self.shift;
        for &(head, length) in runs {
            // A unit that has some space gets all of it, so that all can be returned again; where that
            // is refused, it counts as one that has none.
            let mut tried = None;
            let (first, behind) = whole_units(head + 1, head + length, self.unit);
            for (from, to) in holes.within(first << unit, behind << unit) {
                let (mut first, behind) = (from >> unit, to.div_ceil(1 << unit));
                if tried == Some(first) {
                    first += 1;
                }
                if first == behind {
                    continue;
                }
                let (start, end) = (first << self.unit, behind << self.unit);
                self.backed.cut(start, end);
                self.holes.add(start, end - start);
                for one in [first, behind - 1] {
                    let is_whole = from <= one << unit && (one + 1) << unit <= to;
                    if !is_whole && tried != Some(one) {
                        tried = Some(one);
                        let _ = self.fill(pool, one << self.unit, (one + 1) << self.unit);
                    }
                }
            }
            self.note_spare::<M>(head, head + length);
        }
    }

    /// Returns a run of chunks.
    pub fn give_back<M: Machine>(&mut self, pool: &Pool<M>, chunk: u64, count: u64) {
        self.backed.add(chunk, count);
        if !M::mutant("alloc.give_back_forgets_used") {
            self.used.add(chunk, count);
        }
        let (start, whole) = self.free.add(chunk, count);
        self.note_spare::<M>(chunk, chunk + count + 1);
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
    pub fn add_free<M: Machine>(&mut self, chunk: u64, count: u64) {
        self.backed.add(chunk, count);
        self.free.add(chunk, count);
        self.note_spare::<M>(chunk, chunk + count + 1);
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
        if M::SIMULATED && pool.has_holes() {
            // On hardware the store fails where the disk is full (S5).
            let holes = Holes(pool.holes().expect("they are known"));
            let unit = pool.hole_unit();
            let start = (chunk << self.shift) / unit * unit;
            let hole = holes.within(start, start + unit).next();
            assert_eq!(hole, None, "chunk {chunk} gets a header in a unit without space");
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

/// Binary logarithm of the bytes of a unit, for chunks of `1 << shift` bytes: of one at least.
pub(crate) fn unit_shift<M: Machine>(pool: &Pool<M>, shift: u32) -> u32 {
    pool.hole_unit().ilog2().max(shift)
}

/// The units that are whole among the chunks from `start` to `end`: the first, and the one behind the last.
pub(crate) fn whole_units(start: u64, end: u64, unit: u32) -> (u64, u64) {
    let first = start.div_ceil(1 << unit);
    (first, (end >> unit).max(first))
}

/// The header of a run of `count` free chunks.
fn free_run(count: u64) -> ChunkHeader {
    // A run never exceeds 2^32 chunks: the pool's largest size divided by the smallest chunk.
    ChunkHeader { kind: ChunkKind::Free, class: 0, run: count as u32 }
}
