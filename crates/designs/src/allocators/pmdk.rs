//! An allocator after PMDK's: what is allocated is in a bitmap for each chunk, and each thread has a
//! redo log (a lane) that carries the bit and the destination together.
//!
//! ```text
//!   lane    | kind 8 | bitmap word 8 | bit 8 | destination 8 | block 8 | 0 24 |      a line
//!   chunk   | bitmap 64 | block | block | ..                                          256 KiB
//! ```
//!
//! A reservation is volatile. Publishing it writes the lane (first persist), does what the lane says
//! (second), and erases the lane (third): four lines are flushed, two of them metadata, one of those
//! twice.
//!
//! *Source*: the Persistent Memory Development Kit, `libpmemobj`: `pmemobj_reserve`, `pmemobj_publish`,
//! heaps of chunks, runs with bitmaps. *Departures*: no header in front of a block (its 16 bytes would
//! shift lines); a lane's kind is stored behind its operands on the same line, where PMDK has a check
//! sum; the lane is a thread's and not taken from a pool of 1024.
//!
//! Invariants, beside those of the module:
//! - L1 while a lane has a kind, nobody else has its block or its destination;
//! - L2 a lane is erased, durably, before its thread does anything else: repeating what is done and
//!   known to others would undo what they did since.

use std::collections::BTreeSet;
use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Recovery, Session};
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering, SpinLock};

use super::lists::Lists;
use super::space::Space;
use super::{Allocator, Lines, Promise, Shape};

/// Words of a lane. The kind is one of those below; 0 is none.
const KIND: u64 = 0;
const BITMAP: u64 = 1;
const BIT: u64 = 2;
const DESTINATION: u64 = 3;
const BLOCK: u64 = 4;

/// The bit is set, the destination names the block.
const ACTIVATE: u64 = 1;
/// The bit is cleared, the destination names nothing.
const FREE: u64 = 2;

/// See the module.
pub struct PmdkLike<M: Machine> {
    space: Space<M>,
    lists: Lists<M>,
    /// Held while the lane is used: more threads than lanes share some.
    lanes: Box<[SpinLock<(), M>]>,
}

impl<M: Machine> PmdkLike<M> {
    fn over(space: Space<M>) -> Self {
        let lanes = (0..space.shape().threads).map(|_| SpinLock::new(())).collect();
        PmdkLike { lists: Lists::new(&space), space, lanes }
    }

    /// Where the bitmap word of a block is, and its bit.
    fn bit_of(&self, block: u64) -> (u64, u64) {
        let (chunk, index) = self.space.place(block);
        assert!(index < LINE_SIZE * 8, "a chunk has as many blocks as its line has bits");
        (self.space.chunk_start(chunk) + 8 * (index as u64 / 64), 1 << (index % 64))
    }

    fn is_allocated(&self, block: u64) -> bool {
        let (word, bit) = self.bit_of(block);
        self.space.word(word).read_private() & bit != 0
    }

    /// A word of a thread's lane.
    fn lane(&self, thread: usize, index: u64) -> &Atomic<u64, M> {
        self.space.word(self.space.thread_start(thread) + 8 * index)
    }

    /// Does both changes, whatever the power does: bit and destination.
    fn change(&self, thread: usize, kind: u64, block: u64, destination: &Atomic<u64, M>) {
        let _held = self.lanes[thread].lock();
        let (word, bit) = self.bit_of(block);
        let kind_word = self.lane(thread, KIND);
        if M::mutant("pmdk.kind_first") {
            // Relaxed: as the operands, which only the holder of the lane and recovery read.
            kind_word.store(kind, Ordering::Relaxed);
        }
        let operands = [
            (BITMAP, word),
            (BIT, bit),
            (DESTINATION, self.space.offset_of(destination)),
            (BLOCK, block),
        ];
        for (index, value) in operands {
            // Relaxed: only the holder of the lane, and recovery, read it.
            self.lane(thread, index).store(value, Ordering::Relaxed);
        }
        // Release: last, in the pool too, being on the same line: a lane that has a kind has its operands.
        // Pairs with recovery's reads.
        kind_word.store(kind, Ordering::Release);
        if !M::mutant("pmdk.no_lane_flush") {
            // Persist: the lane before what it says, or a crash would keep half of that (A1, A3).
            self.space.medium().persist(kind_word.as_ptr(), 8);
        }
        self.apply(thread);
        // Relaxed: only the holder of the lane, and recovery, read it.
        kind_word.store(0, Ordering::Relaxed);
        if !M::mutant("pmdk.no_erase_flush") {
            // Persist: the lane is erased before anybody can know what it did (L2).
            self.space.medium().persist(kind_word.as_ptr(), 8);
        }
    }

    /// Does what a lane says, which may have been done before, durably.
    fn apply(&self, thread: usize) {
        let [kind, word, bit, destination, block] =
            [KIND, BITMAP, BIT, DESTINATION, BLOCK].map(|index| self.lane(thread, index));
        let (bitmap, bit) = (self.space.word(word.read_private()), bit.read_private());
        let destination = self.space.word(destination.read_private());
        if kind.read_private() == ACTIVATE {
            // Relaxed: the bits of a word are of different blocks; only recovery and checks read them.
            bitmap.fetch_or(bit, Ordering::Relaxed);
            self.space.link(destination, block.read_private());
        } else {
            // Relaxed: the bits of a word are of different blocks, as in `fetch_or`.
            bitmap.fetch_and(!bit, Ordering::Relaxed);
            self.space.link(destination, 0);
        }
        if M::mutant("pmdk.no_apply_flush") {
            return;
        }
        // Persist: completed by the next.
        self.space.medium().flush(bitmap.as_ptr(), 8);
        // Persist: both changes before the lane is erased, or a crash would keep neither (A1).
        self.space.medium().persist(destination.as_ptr(), 8);
    }

    /// Does what the lanes say that a crash has left.
    ///
    /// # Errors
    /// A lane says what nobody wrote.
    fn replay(&self) -> Result<(), AllocError> {
        for thread in 0..self.space.shape().threads {
            let kind = self.lane(thread, KIND);
            if kind.read_private() == 0 {
                continue;
            }
            self.check_lane(thread)?;
            M::mark("pmdk.replayed");
            if !M::mutant("pmdk.no_replay") {
                self.apply(thread);
            }
            kind.write_private(0);
            // Persist: before anybody changes what the lane speaks of (L2).
            self.space.medium().persist(kind.as_ptr(), 8);
        }
        Ok(())
    }

    fn check_lane(&self, thread: usize) -> Result<(), AllocError> {
        let [kind, word, bit, destination, block] = [KIND, BITMAP, BIT, DESTINATION, BLOCK]
            .map(|index| self.lane(thread, index).read_private());
        let at = self.space.thread_start(thread);
        self.space.check_record(at, block, destination)?;
        if [ACTIVATE, FREE].contains(&kind) && (word, bit) == self.bit_of(block) {
            return Ok(());
        }
        let what = format!("an allocator's lane of kind {kind} has bit {bit:#x} of word {word}");
        Err(AllocError::Corrupt { offset: at, what })
    }
}

impl<M: Machine> Allocator<M> for PmdkLike<M> {
    const NAME: &'static str = "pmdk-like";
    const PROMISE: Promise = Promise::Exact;
    const CHUNK_BYTES: usize = 256 << 10;
    const LINES: Lines = Lines { of_thread: 1, of_chunk: 1 };

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
        this.replay()?;
        this.lists = Lists::of_free(&this.space, |chunk, index| {
            !this.is_allocated(this.space.block(chunk, index))
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
        self.is_allocated(block)
    }

    fn held(&self) -> Vec<u64> {
        self.space.blocks().filter(|block| self.holds(*block)).collect()
    }

    fn reserve(&self, session: &mut Session<M>) -> Result<u64, AllocError> {
        let taken = self.lists.take(&self.space, self.space.thread_of(session));
        taken.ok_or_else(|| self.space.full())
    }

    fn cancel(&self, session: &mut Session<M>, block: u64) {
        self.lists.put(self.space.thread_of(session), block);
    }

    fn activate(&self, session: &mut Session<M>, block: u64, destination: &Atomic<u64, M>) {
        self.change(self.space.thread_of(session), ACTIVATE, block, destination);
    }

    fn free_from(&self, session: &mut Session<M>, destination: &Atomic<u64, M>) {
        let (thread, block) = (self.space.thread_of(session), self.space.named(destination));
        let is_early = M::mutant("pmdk.free_at_once");
        if is_early {
            self.lists.put(thread, block);
        }
        self.change(thread, FREE, block, destination);
        if !is_early {
            // After the lane is erased: else it would free the block from the thread that has it next (L1).
            self.lists.put(thread, block);
        }
    }

    fn check(&self, used: &BTreeSet<u64>) -> Vec<String> {
        let mut problems = self.lists.check(&self.space, used, false);
        let marked: BTreeSet<u64> =
            self.space.blocks().filter(|block| self.is_allocated(*block)).collect();
        if marked != *used {
            problems.push(format!("{marked:?} are allocated, {used:?} are in use"));
        }
        problems
    }

    fn free_all(&self, session: &mut Session<M>) {
        self.space.free(session);
    }
}
