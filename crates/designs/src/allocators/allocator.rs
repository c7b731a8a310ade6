//! What an allocator is to a tree: reserve, activate, free.

use std::collections::BTreeSet;
use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Recovery, Session};
use everleaf_machine::{Atomic, Machine};

use super::space::{Lines, Shape};

/// What is true after a crash of the blocks that nothing names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// They are free, by what is recorded.
    Exact,
    /// They are free, because recovery is told which ones are named.
    Marked,
    /// They may be lost.
    Leaks,
}

/// An allocator of blocks of one size in a pool.
///
/// *Threads*: all calls may run at the same time, but for `open`, `keep`, `check` and `free_all`, which
/// nobody else may be beside. Nobody else changes a destination during a call that has it. The session that
/// reserved a block activates or cancels it.
///
/// *Destinations* hold 0 or a block, as long as the allocator has that space: never anything else.
pub trait Allocator<M: Machine>: Send + Sync + Sized {
    /// Its name in tables.
    const NAME: &'static str;
    /// What a crash leaves.
    const PROMISE: Promise;
    /// Bytes of a chunk, as published.
    const CHUNK_BYTES: usize;
    /// Lines that it has for each thread and each chunk.
    const LINES: Lines;

    /// A new allocator, durable when this returns; nothing is allocated.
    ///
    /// # Errors
    /// No space.
    fn create(session: &mut Session<M>, shape: Shape) -> Result<Self, AllocError>;

    /// What [`Self::open`] needs to find it again.
    fn root(&self) -> u64;

    /// The allocator of a pool that is being opened: ends what a crash cut off. Destinations may change.
    ///
    /// # Errors
    /// There is none at that place.
    fn open(
        heap: &Arc<Heap<M>>,
        recovery: &Recovery<M>,
        root: u64,
        shape: Shape,
    ) -> Result<Self, AllocError>;

    /// Learns, after [`Self::open`], which blocks are named, by destinations and otherwise. What is
    /// allocated exactly needs no telling.
    fn keep(&mut self, used: &BTreeSet<u64>) {
        let _ = used;
    }

    /// Marks what of the pool is in use, if exactly these blocks are named: for its recovery, after
    /// [`Self::keep`], and for its audit.
    ///
    /// # Errors
    /// It is not of this allocator, or marked already.
    fn mark(&self, recovery: &Recovery<M>, used: &BTreeSet<u64>) -> Result<(), AllocError>;

    /// Whether there can be a block at that offset: for readers of untrusted references.
    fn is_block(&self, recovery: &Recovery<M>, block: u64) -> bool;

    /// Whether a block that is named can be allocated by what is recorded: for recovery, which would
    /// hand one out that damage has made free.
    fn holds(&self, block: u64) -> bool {
        let _ = block;
        true
    }

    /// All blocks that are allocated by what is recorded, if that is exact; else none.
    fn held(&self) -> Vec<u64> {
        vec![]
    }

    /// A block that nobody else gets; a crash takes it back. Its contents are those of its last life.
    ///
    /// # Errors
    /// There is none.
    fn reserve(&self, session: &mut Session<M>) -> Result<u64, AllocError>;

    /// Gives a reserved block back.
    fn cancel(&self, session: &mut Session<M>, block: u64);

    /// Makes a reserved block an allocated one, which `destination` names. Its contents are durable
    /// before. *Durable when* this returns.
    fn activate(&self, session: &mut Session<M>, block: u64, destination: &Atomic<u64, M>);

    /// Frees the block that `destination` names, no other destination does, durably, and nobody holds any
    /// more. *Durable when* this returns.
    fn free_from(&self, session: &mut Session<M>, destination: &Atomic<u64, M>);

    /// What is wrong, in words, if exactly these blocks are allocated.
    fn check(&self, used: &BTreeSet<u64>) -> Vec<String>;

    /// Gives the space back. None of its blocks are used any more, and none is reserved afterwards.
    fn free_all(&self, session: &mut Session<M>);
}
