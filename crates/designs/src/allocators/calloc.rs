//! Calloc, the allocator of NBTree's paper: a bitmap of all blocks, and for each thread a ring of blocks
//! that it freed lately and a log of one entry, which is used again and again.
//!
//! ```text
//!   thread  | block 8 | destination 8 | ring: 6 places 48 |              a line: the log, the ring
//!   chunk   | one bit for each block, 2048 | block | block | ..                            16 MiB
//! ```
//!
//! A block is allocated if its bit is set and no ring has it. A thread that frees a block puts it in its
//! ring, where its bit stays set; only if the ring is full is the bit cleared. It takes first what has been
//! in its ring longest, then the blocks of its list, whose bits are neighbours. When there is nothing else,
//! a block leaves the ring of another thread: its bit is cleared, then its place.
//!
//! Every change is logged first: which block, for which destination. After a crash *the block of an entry
//! is allocated if the destination names it, and free if not*: one rule for both calls, wherever the crash
//! fell. Rings are emptied before.
//!
//! *Source*: Zhang and others, IEEE TPDS 2024, section III-C. *Departures*: an entry there has the old and the
//! new leaves of a replacement, here what the tree uses as a log is a destination, and an entry lasts as long
//! as a call. There a block leaves the ring before an entry has it, and a crash in between leaks it; here
//! after. Which thread had a chunk is not recorded: recovery reads the bits. Log and ring share a line, so
//! that a ring changes with the end of an entry. The paper's caches are persistent; here every step is
//! made durable where they are not.
//!
//! Invariants, beside those of the module:
//! - C1 an entry is durable before what it speaks of, and erased, durably, before anybody else can change that:
//!   it would be asked again what it does not know;
//! - C2 a place of a ring is cleared, durably, before its block is in a list, or the entry that activates it is
//!   erased;
//! - C3 the bit of a block that leaves its ring for a list is cleared, durably, before its place.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Recovery, Session};
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering, SpinLock};

use super::lists::Lists;
use super::space::Space;
use super::{Allocator, Lines, Promise, Shape};

/// Lines of a chunk's bitmap.
const BITMAP_LINES: usize = 32;

/// Words of a thread's line: its entry, which is none if the block is 0, and the places of its ring.
const BLOCK: u64 = 0;
const DESTINATION: u64 = 1;
const RING: u64 = 2;
const RING_COUNT: usize = 6;

/// A block in a place of a ring.
struct Kept {
    place: u64,
    block: u64,
}

/// What a thread knows of its ring.
#[derive(Default)]
struct Ring {
    /// Free blocks, first the one that was freed first.
    kept: VecDeque<Kept>,
    /// Reserved ones: their places still have them.
    reserved: Vec<Kept>,
    /// Places that have none.
    empty: Vec<u64>,
}

impl Ring {
    /// The place of a block that was reserved from here.
    fn take_reserved(&mut self, block: u64) -> Option<Kept> {
        let at = self.reserved.iter().position(|kept| kept.block == block)?;
        Some(self.reserved.swap_remove(at))
    }
}

/// What an entry speaks of.
enum Change {
    Activate,
    Free,
}

/// See the module.
pub struct Calloc<M: Machine> {
    space: Space<M>,
    lists: Lists<M>,
    /// Held while the thread's line is used: more threads than lines share some.
    rings: Box<[SpinLock<Ring, M>]>,
}

impl<M: Machine> Calloc<M> {
    fn over(space: Space<M>) -> Self {
        let bits = BITMAP_LINES * LINE_SIZE * 8;
        assert!(space.chunk_blocks() <= bits, "a chunk has as many blocks as its lines have bits");
        // No more than a chunk has: rings would hold all of a small space.
        let count = RING_COUNT.min(space.chunk_blocks()) as u64;
        let ring = || Ring { empty: (RING..RING + count).rev().collect(), ..Ring::default() };
        let rings = (0..space.shape().threads).map(|_| SpinLock::new(ring())).collect();
        Calloc { lists: Lists::new(&space), space, rings }
    }

    /// The word that has a block's bit, and the bit.
    fn bit_of(&self, block: u64) -> (&Atomic<u64, M>, u64) {
        let (chunk, index) = self.space.place(block);
        let offset = self.space.chunk_start(chunk) + 8 * (index as u64 / 64);
        (self.space.word(offset), 1 << (index % 64))
    }

    fn is_set(&self, block: u64) -> bool {
        let (word, bit) = self.bit_of(block);
        word.read_private() & bit != 0
    }

    /// Sets or clears a block's bit, in the word that is returned. Not durable yet.
    fn set_bit(&self, block: u64, is_set: bool) -> &Atomic<u64, M> {
        let (word, bit) = self.bit_of(block);
        if is_set {
            // Relaxed: the bits of a word are of different blocks; only recovery and checks read them.
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            // Relaxed: the bits of a word are of different blocks, as in `fetch_or`.
            word.fetch_and(!bit, Ordering::Relaxed);
        }
        word
    }

    /// A word of a thread's line.
    fn word(&self, thread: usize, index: u64) -> &Atomic<u64, M> {
        self.space.word(self.space.thread_start(thread) + 8 * index)
    }

    /// Makes a place of a ring have a block, or 0. Not durable yet.
    fn set_place(&self, thread: usize, place: u64, block: u64) {
        // Relaxed: only the holder of the line, and recovery, read it.
        self.word(thread, place).store(block, Ordering::Relaxed);
    }

    /// Writes a thread's entry, durably.
    fn begin(&self, thread: usize, block: u64, destination: &Atomic<u64, M>) {
        let block_word = self.word(thread, BLOCK);
        if M::mutant("calloc.block_first") {
            // Relaxed: as the destination, which only the holder of the line and recovery read.
            block_word.store(block, Ordering::Relaxed);
        }
        let offset = self.space.offset_of(destination);
        // Relaxed: only the holder of the line, and recovery, read it.
        self.word(thread, DESTINATION).store(offset, Ordering::Relaxed);
        // Release: last, in the pool too, being on the same line: an entry that has a block has its
        // destination. Pairs with recovery's reads.
        block_word.store(block, Ordering::Release);
        if !M::mutant("calloc.no_entry_flush") {
            // Persist: the entry before what it speaks of, or nobody would end that (C1).
            self.space.medium().persist(block_word.as_ptr(), 8);
        }
    }

    /// Erases a thread's entry, durably, with what was stored to its ring before.
    fn end(&self, thread: usize) {
        let block_word = self.word(thread, BLOCK);
        // Release: behind the ring, in the pool too, being on the same line (C2). Pairs with recovery's reads.
        block_word.store(0, Ordering::Release);
        if !M::mutant("calloc.no_end_flush") {
            // Persist: the entry is erased before others change what it speaks of (C1).
            self.space.medium().persist(block_word.as_ptr(), 8);
        }
    }

    /// Changes what is recorded of a block and what its destination names, whatever the power does: a
    /// place of the thread's ring is left or taken, if it has one, else the bit changes. The caller has the
    /// thread's line.
    fn change(
        &self,
        thread: usize,
        change: Change,
        block: u64,
        destination: &Atomic<u64, M>,
        place: Option<u64>,
    ) {
        let (is_set, named, in_ring) = match change {
            Change::Activate => (true, block, 0),
            Change::Free => (false, 0, block),
        };
        if M::mutant("calloc.ring_first")
            && let Some(place) = place
        {
            self.set_place(thread, place, in_ring);
            // Persist: as the paper has it, the ring before the log.
            self.space.medium().persist(self.word(thread, place).as_ptr(), 8);
        }
        self.begin(thread, block, destination);
        let is_flushed = !M::mutant("calloc.no_change_flush");
        if place.is_none() {
            let bits = self.set_bit(block, is_set);
            if is_flushed {
                // Persist: completed by the next.
                self.space.medium().flush(bits.as_ptr(), 8);
            }
        }
        self.space.link(destination, named);
        if is_flushed {
            // Persist: bit and destination before the entry is erased, or a crash would keep one (A1, A3).
            self.space.medium().persist(destination.as_ptr(), 8);
        }
        let ends_first = M::mutant("calloc.ends_first");
        if ends_first {
            self.end(thread);
        }
        if let Some(place) = place {
            self.set_place(thread, place, in_ring);
        }
        if !ends_first {
            self.end(thread);
        }
    }

    /// Makes the block of a place one that no ring has and whose bit is not set, durably.
    fn empty_place(&self, thread: usize, place: u64, block: u64) {
        let medium = self.space.medium();
        let place_word = self.word(thread, place);
        if M::mutant("calloc.place_first") {
            self.set_place(thread, place, 0);
            // Persist: the place before the bit.
            medium.persist(place_word.as_ptr(), 8);
        }
        // Persist: the bit before the place, or the block would be allocated without a name (C3, A3).
        medium.persist(self.set_bit(block, false).as_ptr(), 8);
        self.set_place(thread, place, 0);
        if !M::mutant("calloc.no_place_flush") {
            // Persist: before the block is allocated again, which recovery would undo (C2).
            medium.persist(place_word.as_ptr(), 8);
        }
    }

    /// A block that another thread's ring has, taken out of it.
    fn take_from_others(&self, thread: usize) -> Option<u64> {
        let count = self.rings.len();
        (1..count).map(|step| (thread + step) % count).find_map(|other| {
            let mut ring = self.rings[other].lock();
            let Kept { place, block } = ring.kept.pop_front()?;
            self.empty_place(other, place, block);
            ring.empty.push(place);
            Some(block)
        })
    }

    /// Empties the rings, and ends what the entries speak of.
    ///
    /// # Errors
    /// A ring or an entry says what nobody wrote.
    fn recover(&self) -> Result<(), AllocError> {
        let threads = 0..self.space.shape().threads;
        let places = RING..RING + RING_COUNT as u64;
        for (thread, place) in
            threads.clone().flat_map(|thread| places.clone().map(move |place| (thread, place)))
        {
            let block = self.word(thread, place).read_private();
            if block == 0 || M::mutant("calloc.keeps_rings") {
                continue;
            }
            if !self.space.is_block(block) {
                let what = format!("a ring of an allocator has {block}, where no block is");
                return Err(AllocError::Corrupt { offset: self.space.thread_start(thread), what });
            }
            M::mark("calloc.ring_emptied");
            self.empty_place(thread, place, block);
        }
        threads.clone().try_for_each(|thread| self.replay(thread))
    }

    /// Ends what a thread's entry speaks of.
    ///
    /// # Errors
    /// It says what nobody wrote.
    fn replay(&self, thread: usize) -> Result<(), AllocError> {
        let [block, destination] =
            [BLOCK, DESTINATION].map(|index| self.word(thread, index).read_private());
        if block == 0 || M::mutant("calloc.no_replay") {
            return Ok(());
        }
        self.space.check_record(self.space.thread_start(thread), block, destination)?;
        M::mark("calloc.replayed");
        let destination = self.space.word(destination);
        let is_named = destination.read_private() == block && !M::mutant("calloc.frees_logged");
        // Persist: completed by the next. If only the process died, what was read may be in a cache.
        self.space.medium().flush(destination.as_ptr(), 8);
        // Persist: the bit before the entry is erased, or a second crash would keep it as it was.
        self.space.medium().persist(self.set_bit(block, is_named).as_ptr(), 8);
        self.end(thread);
        Ok(())
    }
}

impl<M: Machine> Allocator<M> for Calloc<M> {
    const NAME: &'static str = "calloc";
    const PROMISE: Promise = Promise::Exact;
    const CHUNK_BYTES: usize = 16 << 20;
    const LINES: Lines = Lines { of_thread: 1, of_chunk: BITMAP_LINES };

    fn create(session: &mut Session<M>, shape: Shape) -> Result<Self, AllocError> {
        Ok(Self::over(Space::create(session, shape, Self::LINES)?))
    }

    fn root(&self) -> u64 {
        self.space.start()
    }

    fn open(
        heap: &Arc<Heap<M>>,
        recovery: &Recovery<M>,
        root: u64,
        shape: Shape,
    ) -> Result<Self, AllocError> {
        let mut this = Self::over(Space::open(heap, recovery, root, shape, Self::LINES)?);
        this.recover()?;
        this.lists = Lists::of_free(&this.space, |chunk, index| {
            !this.is_set(this.space.block(chunk, index))
        });
        Ok(this)
    }

    fn mark(&self, recovery: &Recovery<M>, _used: &BTreeSet<u64>) -> Result<(), AllocError> {
        self.space.mark(recovery)
    }

    fn is_block(&self, _recovery: &Recovery<M>, block: u64) -> bool {
        self.space.is_block(block)
    }

    fn holds(&self, block: u64) -> bool {
        self.is_set(block)
    }

    fn held(&self) -> Vec<u64> {
        self.space.blocks().filter(|block| self.holds(*block)).collect()
    }

    fn reserve(&self, session: &mut Session<M>) -> Result<u64, AllocError> {
        let thread = self.space.thread_of(session);
        let mut ring = self.rings[thread].lock();
        if let Some(kept) = ring.kept.pop_front() {
            let block = kept.block;
            ring.reserved.push(kept);
            return Ok(block);
        }
        drop(ring);
        let taken = self.lists.take(&self.space, thread);
        taken.or_else(|| self.take_from_others(thread)).ok_or_else(|| self.space.full())
    }

    fn cancel(&self, session: &mut Session<M>, block: u64) {
        let thread = self.space.thread_of(session);
        let mut ring = self.rings[thread].lock();
        match ring.take_reserved(block) {
            Some(kept) => ring.kept.push_front(kept),
            None => self.lists.put(thread, block),
        }
    }

    fn activate(&self, session: &mut Session<M>, block: u64, destination: &Atomic<u64, M>) {
        let thread = self.space.thread_of(session);
        let mut ring = self.rings[thread].lock();
        let place = ring.take_reserved(block).map(|kept| kept.place);
        self.change(thread, Change::Activate, block, destination, place);
        ring.empty.extend(place);
    }

    fn free_from(&self, session: &mut Session<M>, destination: &Atomic<u64, M>) {
        let (thread, block) = (self.space.thread_of(session), self.space.named(destination));
        assert!(self.space.is_block(block), "there is no block at {block}");
        let mut ring = self.rings[thread].lock();
        let place = ring.empty.pop();
        let is_early = place.is_none() && M::mutant("calloc.free_at_once");
        if is_early {
            self.lists.put(thread, block);
        }
        self.change(thread, Change::Free, block, destination, place);
        if let Some(place) = place {
            ring.kept.push_back(Kept { place, block });
        } else if !is_early {
            M::mark("calloc.ring_full");
            // After the entry is erased: it would free the block from the thread that has it next (C1).
            self.lists.put(thread, block);
        }
    }

    fn check(&self, used: &BTreeSet<u64>) -> Vec<String> {
        let mut known = BTreeSet::new();
        let mut stored = BTreeSet::new();
        for (thread, ring) in self.rings.iter().enumerate() {
            known.extend(ring.lock().kept.iter().map(|kept| (thread, kept.place, kept.block)));
            let places = (RING..RING + RING_COUNT as u64).map(|place| (thread, place));
            let all = places
                .map(|(thread, place)| (thread, place, self.word(thread, place).read_private()));
            stored.extend(all.filter(|(_, _, block)| *block != 0));
        }
        let in_rings: BTreeSet<u64> = known.iter().map(|(_, _, block)| *block).collect();
        let mut problems = self.lists.check(&self.space, &(used | &in_rings), false);
        if stored != known || in_rings.len() != known.len() || !used.is_disjoint(&in_rings) {
            problems.push(format!("rings have {stored:?}, to take are {known:?}, in use {used:?}"));
        }
        let marked: BTreeSet<u64> =
            self.space.blocks().filter(|block| self.is_set(*block)).collect();
        if marked != used | &in_rings {
            problems.push(format!("{marked:?} are set, {used:?} in use, {in_rings:?} in rings"));
        }
        problems
    }

    fn free_all(&self, session: &mut Session<M>) {
        self.space.free(session);
    }
}
