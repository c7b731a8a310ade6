//! An allocator after NVAlloc: slabs of 64 KiB whose bitmap lies across several lines, and a log for
//! each thread whose entries do, so that what is flushed was not flushed just before.
//!
//! ```text
//!   log     | entry | entry |, in 4 lines; the next entry is on the next line
//!   entry   | kind 8 | destination 8 | block 8 | 0 8 |
//!   slab    | bits 64 |, in 6 lines: block i has bit i / 6 of line i % 6 | block | block | ..   64 KiB
//! ```
//!
//! Activation writes an entry, stores the destination, sets the bit; freeing writes an entry, clears
//! the bit, clears the destination; each with a persist of its own on a line of its own. Nothing is
//! erased: *a destination that names a block whose bit is not set* is met only in the middle of one of
//! the two, and the entry tells which. So an entry that was done long ago says nothing.
//!
//! *Source*: Dang, He, Hong, Li, Li, Chen, "NVAlloc: Rethinking Heap Metadata Management in Persistent
//! Memory Allocators", ASPLOS 2022. *Departures*: its order of destination and bit is not told, this one
//! needs no third store to the log; slabs do not change their class (there is one), and what is larger
//! than a slab, which it has another log for, does not occur.
//!
//! Invariants, beside those of the module:
//! - W1 a set bit is durable only after a destination has named the block, durably, or names it still;
//! - W2 an entry is durable before what it speaks of, and stays until that is;
//! - W3 a block is in a free list only when its destination is cleared, durably.

use std::collections::BTreeSet;
use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Recovery, Session};
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering, SpinLock};

use super::lists::Lists;
use super::space::Space;
use super::{Allocator, Lines, Promise, Shape};

/// Lines of a slab's bitmap.
const STRIPES: usize = 6;
/// Lines of a thread's log, and its entries.
const LOG_LINES: usize = 4;
const LOG_ENTRIES: usize = 2 * LOG_LINES;

/// Words of an entry. The kind is one of those below; 0 is none.
const KIND: u64 = 0;
const DESTINATION: u64 = 1;
const BLOCK: u64 = 2;

/// The destination names the block, then its bit is set.
const ACTIVATE: u64 = 1;
/// The block's bit is cleared, then the destination.
const FREE: u64 = 2;

/// See the module.
pub struct NvAllocLike<M: Machine> {
    space: Space<M>,
    lists: Lists<M>,
    /// The number of each log's next entry. Held while that is used: more threads than logs share some.
    logs: Box<[SpinLock<usize, M>]>,
}

impl<M: Machine> NvAllocLike<M> {
    fn over(space: Space<M>) -> Self {
        let bits = STRIPES * LINE_SIZE * 8;
        assert!(space.chunk_blocks() <= bits, "a slab has as many blocks as its lines have bits");
        let logs = (0..space.shape().threads).map(|_| SpinLock::new(0)).collect();
        NvAllocLike { lists: Lists::new(&space), space, logs }
    }

    /// The word that has a block's bit, and the bit.
    fn bit_of(&self, block: u64) -> (&Atomic<u64, M>, u64) {
        let (slab, index) = self.space.place(block);
        let (line, bit) = (index % STRIPES, index / STRIPES);
        let offset = (line * LINE_SIZE + bit / 64 * 8) as u64;
        (self.space.word(self.space.chunk_start(slab) + offset), 1 << (bit % 64))
    }

    fn is_allocated(&self, block: u64) -> bool {
        let (word, bit) = self.bit_of(block);
        word.read_private() & bit != 0
    }

    /// A word of an entry of a thread's log: entries that follow each other are on different lines.
    fn entry(&self, thread: usize, number: usize, index: u64) -> &Atomic<u64, M> {
        let (line, half) = (number % LOG_LINES, number / LOG_LINES);
        let offset = line * LINE_SIZE + half * (LINE_SIZE / 2);
        self.space.word(self.space.thread_start(thread) + offset as u64 + 8 * index)
    }

    /// Writes the next entry of a log, whose number is held, durably.
    fn write(
        &self,
        thread: usize,
        next: &mut usize,
        kind: u64,
        block: u64,
        destination: &Atomic<u64, M>,
    ) {
        let number = *next;
        *next = (number + 1) % LOG_ENTRIES;
        let kind_word = self.entry(thread, number, KIND);
        let others = [(DESTINATION, self.space.offset_of(destination)), (BLOCK, block)];
        // Relaxed: only the holder of the log, and recovery, read it. First: an entry without a kind
        // says nothing, whatever else of it a crash has kept.
        kind_word.store(0, Ordering::Relaxed);
        for (index, value) in others {
            // Release: behind the 0, in the pool too, being on one line. Pairs with recovery's reads.
            self.entry(thread, number, index).store(value, Ordering::Release);
        }
        // Release: last, behind the operands, being on their line: an entry with a kind has the rest.
        kind_word.store(kind, Ordering::Release);
        if !M::mutant("nvalloc.no_entry_flush") {
            // Persist: the entry before what it speaks of, or nobody would end that (W2).
            self.space.medium().persist(kind_word.as_ptr(), 8);
        }
    }

    /// Makes a destination name a block, or 0, durably.
    fn link(&self, destination: &Atomic<u64, M>, block: u64) {
        self.space.link(destination, block);
        if !M::mutant("nvalloc.no_link_flush") {
            // Persist: the destination before the bit is set (W1), or before the block is free (W3).
            self.space.medium().persist(destination.as_ptr(), 8);
        }
    }

    /// Sets or clears a block's bit, durably.
    fn set_bit(&self, block: u64, is_set: bool) {
        let (word, bit) = self.bit_of(block);
        if is_set {
            // Relaxed: the bits of a word are of different blocks; only recovery and checks read them.
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            // Relaxed: the bits of a word are of different blocks, as in `fetch_or`.
            word.fetch_and(!bit, Ordering::Relaxed);
        }
        if !M::mutant("nvalloc.no_bit_flush") {
            // Persist: the bit before an activation returns (A1), or before the destination is cleared,
            // or the block would be allocated without a name (A3).
            self.space.medium().persist(word.as_ptr(), 8);
        }
    }

    /// Ends what the entries speak of and a crash has cut off. One that was done long ago meets its
    /// block with its bit, or a destination that names another.
    ///
    /// # Errors
    /// An entry says what nobody wrote.
    fn replay(&self) -> Result<(), AllocError> {
        let threads = 0..self.space.shape().threads;
        let entries =
            threads.flat_map(|thread| (0..LOG_ENTRIES).map(move |number| (thread, number)));
        for (thread, number) in entries {
            let [kind, destination, block] = [KIND, DESTINATION, BLOCK]
                .map(|index| self.entry(thread, number, index).read_private());
            if kind == 0 || M::mutant("nvalloc.no_replay") {
                continue;
            }
            let at = self.space.thread_start(thread);
            self.space.check_record(at, block, destination)?;
            if ![ACTIVATE, FREE].contains(&kind) {
                let what = format!("an entry of an allocator's log has kind {kind}");
                return Err(AllocError::Corrupt { offset: at, what });
            }
            let destination = self.space.word(destination);
            let is_done = destination.read_private() != block || self.is_allocated(block);
            if is_done && !M::mutant("nvalloc.replays_all") {
                continue;
            }
            M::mark("nvalloc.replayed");
            if kind == ACTIVATE {
                self.link(destination, block);
                self.set_bit(block, true);
            } else {
                self.set_bit(block, false);
                self.link(destination, 0);
            }
        }
        Ok(())
    }
}

impl<M: Machine> Allocator<M> for NvAllocLike<M> {
    const NAME: &'static str = "nvalloc-like";
    const PROMISE: Promise = Promise::Exact;
    const CHUNK_BYTES: usize = 64 << 10;
    const LINES: Lines = Lines { of_thread: LOG_LINES, of_chunk: STRIPES };

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
        this.lists = Lists::of_free(&this.space, |slab, index| {
            !this.is_allocated(this.space.block(slab, index))
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
        let thread = self.space.thread_of(session);
        let mut next = self.logs[thread].lock();
        self.write(thread, &mut next, ACTIVATE, block, destination);
        if M::mutant("nvalloc.bit_first") {
            self.set_bit(block, true);
        }
        self.link(destination, block);
        self.set_bit(block, true);
    }

    fn free_from(&self, session: &mut Session<M>, destination: &Atomic<u64, M>) {
        let (thread, block) = (self.space.thread_of(session), self.space.named(destination));
        let is_early = M::mutant("nvalloc.free_at_once");
        if is_early {
            self.lists.put(thread, block);
        }
        let mut next = self.logs[thread].lock();
        self.write(thread, &mut next, FREE, block, destination);
        if M::mutant("nvalloc.link_first") {
            self.link(destination, 0);
        }
        self.set_bit(block, false);
        self.link(destination, 0);
        drop(next);
        if !is_early {
            // After the destination is cleared (W3).
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
