//! An allocator after nvm_malloc: pages of 4 KiB, each with a header of one line that has its bitmap
//! and says what is being done to it.
//!
//! ```text
//!   page    | state 8 | bitmap 8 | destination 8 | block 8 | 0 32 | block | block | ..   4 KiB
//! ```
//!
//! What is free is known in DRAM, so that a reservation reads nothing of the pool. Activation writes
//! what it is going to do into the header (first persist), stores the destination (second), and ends
//! both in the header, bit and state (third).
//!
//! *Source*: Schwalb, Berning, Faust, Dreseler, Plattner, "nvm_malloc: Memory Allocation for NVRAM",
//! ADMS 2015. *Departures*: the bit is set with the state's end, and that end is persisted. As
//! published the state stays until the page is used again: two persists, after which recovery
//! repeats an activation whose destination has long been used for something else. A block of 1 KiB
//! shares its page with two others, as published; a page is an area of its own, so that the header
//! of four pages in one is left out.
//!
//! Invariants, beside those of the module:
//! - H1 a page's state is held by one thread at a time, by the page's lock;
//! - H2 a state is ended, durably, before the lock is opened.

use std::collections::BTreeSet;
use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Recovery, Session};
use everleaf_machine::{Atomic, Machine, Ordering, SpinLock};

use super::lists::Lists;
use super::space::Space;
use super::{Allocator, Lines, Promise, Shape};

/// Words of a header. The state is one of those below, and the number of the block; 0 is none.
const STATE: u64 = 0;
const BITMAP: u64 = 1;
const DESTINATION: u64 = 2;
const BLOCK: u64 = 3;

/// The destination is going to name the block.
const ACTIVATING: u64 = 1;
/// The destination is going to name nothing.
const FREEING: u64 = 2;

/// See the module.
pub struct NvmMallocLike<M: Machine> {
    space: Space<M>,
    lists: Lists<M>,
    /// Held while a page's state is not 0.
    pages: Box<[SpinLock<(), M>]>,
}

impl<M: Machine> NvmMallocLike<M> {
    fn over(space: Space<M>) -> Self {
        assert!(space.chunk_blocks() <= 64, "a page has as many blocks as its bitmap has bits");
        let pages = (0..space.shape().chunks).map(|_| SpinLock::new(())).collect();
        NvmMallocLike { lists: Lists::new(&space), space, pages }
    }

    /// A word of a page's header.
    fn header(&self, page: usize, index: u64) -> &Atomic<u64, M> {
        self.space.word(self.space.chunk_start(page) + 8 * index)
    }

    fn is_allocated(&self, page: usize, index: usize) -> bool {
        self.header(page, BITMAP).read_private() >> index & 1 != 0
    }

    /// Changes a block's bit and its destination, whatever the power does.
    fn change(&self, state: u64, block: u64, destination: &Atomic<u64, M>) {
        let (page, index) = self.space.place(block);
        let _held = (!M::mutant("nvm_malloc.no_lock")).then(|| self.pages[page].lock());
        let state_word = self.header(page, STATE);
        if M::mutant("nvm_malloc.state_first") {
            // Relaxed: as the destination and the block, which only the holder of the page and recovery read.
            state_word.store(state, Ordering::Relaxed);
        }
        // Relaxed: only the holder of the page, and recovery, read it.
        self.header(page, DESTINATION).store(self.space.offset_of(destination), Ordering::Relaxed);
        // Relaxed: only the holder of the page, and recovery, read it.
        self.header(page, BLOCK).store(block, Ordering::Relaxed);
        // Release: last, in the pool too: a header with a state has the rest, being one line. Pairs with
        // recovery's reads.
        state_word.store(state, Ordering::Release);
        if !M::mutant("nvm_malloc.no_state_flush") {
            // Persist: the state before the destination, or a crash would keep that alone (A1, A3).
            self.space.medium().persist(state_word.as_ptr(), 8);
        }
        self.finish(page, state, index, destination, block);
    }

    /// Does what a header's state says, which may have been done before, durably, and ends it.
    fn finish(
        &self,
        page: usize,
        state: u64,
        index: usize,
        destination: &Atomic<u64, M>,
        block: u64,
    ) {
        let is_activating = state == ACTIVATING;
        self.space.link(destination, if is_activating { block } else { 0 });
        if !M::mutant("nvm_malloc.no_link_flush") {
            // Persist: the destination before the state ends, or nobody would repeat it (A1, A3).
            self.space.medium().persist(destination.as_ptr(), 8);
        }
        let (state_word, bitmap) = (self.header(page, STATE), self.header(page, BITMAP));
        if M::mutant("nvm_malloc.end_first") {
            // Relaxed: as the bitmap, which only the holder of the page, recovery and checks read.
            state_word.store(0, Ordering::Relaxed);
        }
        if is_activating {
            // Relaxed: only the holder of the page, recovery and checks read it.
            bitmap.fetch_or(1 << index, Ordering::Relaxed);
        } else {
            // Relaxed: only the holder of the page, recovery and checks read it.
            bitmap.fetch_and(!(1 << index), Ordering::Relaxed);
        }
        // Release: last, behind the bit: without a state the bit is as it should be, being on its line.
        state_word.store(0, Ordering::Release);
        if !M::mutant("nvm_malloc.no_end_flush") {
            // Persist: bit and end before anybody can know of either (H2).
            self.space.medium().persist(state_word.as_ptr(), 8);
        }
    }

    /// Does what the headers say that a crash has left.
    ///
    /// # Errors
    /// A header says what nobody wrote.
    fn replay(&self) -> Result<(), AllocError> {
        for page in 0..self.space.shape().chunks {
            let state = self.header(page, STATE).read_private();
            if state == 0 || M::mutant("nvm_malloc.no_replay") {
                continue;
            }
            M::mark("nvm_malloc.replayed");
            let destination = self.header(page, DESTINATION).read_private();
            let block = self.header(page, BLOCK).read_private();
            let at = self.space.chunk_start(page);
            self.space.check_record(at, block, destination)?;
            let (its_page, index) = self.space.place(block);
            if its_page != page || ![ACTIVATING, FREEING].contains(&state) {
                let what = format!("a page of an allocator has state {state} for block {block}");
                return Err(AllocError::Corrupt { offset: at, what });
            }
            self.finish(page, state, index, self.space.word(destination), block);
        }
        Ok(())
    }
}

impl<M: Machine> Allocator<M> for NvmMallocLike<M> {
    const NAME: &'static str = "nvm-malloc-like";
    const PROMISE: Promise = Promise::Exact;
    const CHUNK_BYTES: usize = 4 << 10;
    const LINES: Lines = Lines { of_thread: 0, of_chunk: 1 };

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
        this.lists = Lists::of_free(&this.space, |page, index| !this.is_allocated(page, index));
        Ok(this)
    }

    fn mark(&self, recovery: &Recovery<M>, _used: &BTreeSet<u64>) -> Result<(), AllocError> {
        self.space.mark(recovery)
    }

    fn is_block(&self, _recovery: &Recovery<M>, block: u64) -> bool {
        self.space.is_block(block)
    }

    fn holds(&self, block: u64) -> bool {
        let (page, index) = self.space.place(block);
        self.is_allocated(page, index)
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

    fn activate(&self, _session: &mut Session<M>, block: u64, destination: &Atomic<u64, M>) {
        self.change(ACTIVATING, block, destination);
    }

    fn free_from(&self, session: &mut Session<M>, destination: &Atomic<u64, M>) {
        let (thread, block) = (self.space.thread_of(session), self.space.named(destination));
        let is_early = M::mutant("nvm_malloc.free_at_once");
        if is_early {
            self.lists.put(thread, block);
        }
        self.change(FREEING, block, destination);
        if !is_early {
            // After the state is ended: until then a crash frees it, whichever thread has it.
            self.lists.put(thread, block);
        }
    }

    fn check(&self, used: &BTreeSet<u64>) -> Vec<String> {
        let mut problems = self.lists.check(&self.space, used, false);
        let is_marked = |block: &u64| {
            let (page, index) = self.space.place(*block);
            self.is_allocated(page, index)
        };
        let marked: BTreeSet<u64> = self.space.blocks().filter(is_marked).collect();
        if marked != *used {
            problems.push(format!("{marked:?} are allocated, {used:?} are in use"));
        }
        problems
    }

    fn free_all(&self, session: &mut Session<M>) {
        self.space.free(session);
    }
}
