//! Marks that are made after a pool is open.
//!
//! An opening at once marks the blocks of the pool and what it has read, and *owes* the marks of the records that the
//! leaves refer to which it has not read. Until all of them are made, nothing tells whether a record without a mark is
//! in use, so none of these is given out: records come from chunks that were free, and from what is freed from now on.
//!
//! ```text
//!   begin        free runs and free blocks are given to the heap; chunks of records are left alone
//!   note_marked  the records of a leaf are marked: by one thread, which read them before any could change the leaf
//!   finish       when nothing is owed: records without a mark, and chunks without any, are given to the heap, once
//! ```
//!
//! Why nothing is given out twice: a record of such a chunk comes to a free list before `finish` only if a thread
//! freed it that had it from a leaf; the thread that restored that leaf marks it, before the leaf is noted and so
//! before `finish`, even if it is freed and used again first. So a record without a mark is in no list and in no
//! leaf. A chunk all of whose records are in free lists is given back, and may serve for something else: then each
//! has its mark or will get it, and `finish` finds none without. Large records likewise.
//!
//! Nothing here is durable but the headers of free runs, which a crash may keep or lose, as in `recover.rs`: the next
//! opening finds everything from the leaves.

use everleaf_machine::{Atomic, Machine, Ordering};

use crate::heap::Heap;
use crate::layout::ChunkKind;
use crate::recover::Recovery;

/// Chunks that are given under one lock: of records of 64 bytes 32 thousand, with ordinary chunks.
const TOGETHER: usize = 8;

/// Marks of which some are made after opening. Shared by all threads that make them.
///
/// It holds a bit a record, as long as it lives.
pub struct LateMarks<M: Machine> {
    recovery: Recovery<M>,
    /// Leaves, or whatever the caller counts, whose records are not marked yet.
    owed: Atomic<u64, M>,
    /// Whether what has no mark is being given to the heap ([`GIVING`]), or was ([`GIVEN`]).
    finished: Atomic<u32, M>,
}

/// Somebody gives to the heap what has no mark.
const GIVING: u32 = 1;
/// All of it was given.
const GIVEN: u32 = 2;

impl<M: Machine> LateMarks<M> {
    /// With the marks that were made so far. Nothing is owed yet.
    pub fn new(recovery: Recovery<M>) -> Self {
        LateMarks { recovery, owed: Atomic::new(0), finished: Atomic::new(0) }
    }

    /// Where marks are made.
    pub fn recovery(&self) -> &Recovery<M> {
        &self.recovery
    }

    /// Says that the records of so many leaves will be marked later. Before [`Self::begin`].
    pub fn owe(&self, leaves: u64) {
        // Relaxed: the heap is shared with nobody yet.
        self.owed.fetch_add(leaves, Ordering::Relaxed);
    }

    /// Leaves whose records are not marked yet. 0 says that all marks are there.
    pub fn owed(&self) -> u64 {
        // Acquire: the marks of all that were noted; pairs with the release in `note_marked`.
        self.owed.load(Ordering::Acquire)
    }

    /// Says that the records of so many leaves are marked, or that nobody refers to them any more and nobody has freed
    /// them: once for each leaf.
    pub fn note_marked(&self, leaves: u64) {
        // AcqRel: the marks come before, and the last of several threads hands on those of all; pairs with the acquire
        // in `owed`.
        let before = self.owed.fetch_sub(leaves, Ordering::AcqRel);
        debug_assert!(before >= leaves, "a leaf is noted twice");
    }

    /// Makes `heap` usable: free runs and blocks without a mark can be taken. Chunks of records are left alone until
    /// [`Self::finish`]. All blocks in use are marked.
    pub fn begin(&self, heap: &Heap<M>) {
        let all = M::mutant("late.begins_with_records");
        let chunks = &self.recovery.chunks;
        self.recovery.give(heap, true, chunks, |kind| kind == ChunkKind::Leaves || all);
    }

    /// Gives records without a mark to the heap, if nothing is owed and it was not done before. Returns whether
    /// everything is given, by whatever thread: not while another thread is giving. O(records).
    ///
    /// The caller makes sure that nobody audits the heap meanwhile. *Blocking*: a thread that needs a chunk, or more
    /// blocks or records than it has at hand, waits for some chunks at a time.
    pub fn finish(&self, heap: &Heap<M>) -> bool {
        if self.owed() != 0 && !M::mutant("late.finishes_early") {
            return false;
        }
        // Relaxed: one thread gives; the lists that it fills have locks of their own.
        let first = self.finished.compare_exchange(0, GIVING, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_ok() || M::mutant("late.finishes_twice") {
            M::mark("late.finish");
            for chunks in self.recovery.chunks.chunks(TOGETHER) {
                self.recovery.give(heap, false, chunks, |kind| kind != ChunkKind::Leaves);
            }
            // Relaxed: as in `is_finished`.
            self.finished.store(GIVEN, Ordering::Relaxed);
        }
        self.is_finished()
    }

    /// Whether everything was given.
    pub fn is_finished(&self) -> bool {
        // Relaxed: a thread that takes what was given takes a lock of the allocator.
        self.finished.load(Ordering::Relaxed) == GIVEN
    }
}
