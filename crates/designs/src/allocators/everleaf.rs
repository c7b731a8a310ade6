//! Our own allocator behind the trait: Calloc without its records. A block is a record of the heap,
//! and allocated if it can be reached.
//!
//! Nothing is recorded, so the destination is all that an activation stores; recovery has to be told
//! what is named, which a tree knows that reads all its leaves anyway.
//!
//! *Source*: section III-C of NBTree's paper for the two layers, chunks and lists of threads; the
//! crate `everleaf_alloc` for what is left out and why.

use std::collections::BTreeSet;
use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Recovery, Session};
use everleaf_machine::{Atomic, Machine, Ordering};
use everleaf_pool::Medium;

use super::{Allocator, Lines, Promise, Shape};

/// See the module.
pub struct Everleaf<M: Machine> {
    medium: Medium<M>,
    block_bytes: usize,
}

impl<M: Machine> Allocator<M> for Everleaf<M> {
    const NAME: &'static str = "everleaf";
    const PROMISE: Promise = Promise::Marked;
    const CHUNK_BYTES: usize = 256 << 10;
    const LINES: Lines = Lines { of_thread: 0, of_chunk: 0 };

    fn create(session: &mut Session<M>, shape: Shape) -> Result<Self, AllocError> {
        Ok(Everleaf { medium: session.medium(), block_bytes: shape.block_bytes })
    }

    fn root(&self) -> u64 {
        0
    }

    fn open(
        heap: &Arc<Heap<M>>,
        _recovery: &Recovery<M>,
        _root: u64,
        shape: Shape,
    ) -> Result<Self, AllocError> {
        Ok(Everleaf { medium: heap.medium(), block_bytes: shape.block_bytes })
    }

    fn mark(&self, recovery: &Recovery<M>, used: &BTreeSet<u64>) -> Result<(), AllocError> {
        if M::mutant("everleaf.marks_nothing") {
            return Ok(());
        }
        let count = if M::mutant("everleaf.marks_the_first") { 1 } else { used.len() };
        let mut marked = used.iter().take(count);
        marked.try_for_each(|block| recovery.mark_record(*block, self.block_bytes))
    }

    fn is_block(&self, recovery: &Recovery<M>, block: u64) -> bool {
        recovery.record_room(block).is_some_and(|room| room >= self.block_bytes)
    }

    fn reserve(&self, session: &mut Session<M>) -> Result<u64, AllocError> {
        session.allocate_record(self.block_bytes)
    }

    fn cancel(&self, session: &mut Session<M>, block: u64) {
        if M::mutant("everleaf.keeps_cancelled") {
            return;
        }
        session.free_record(block, self.block_bytes);
    }

    fn activate(&self, _session: &mut Session<M>, block: u64, destination: &Atomic<u64, M>) {
        // Release: the block is filled; pairs with the acquire load of the thread that follows the word.
        destination.store(block, Ordering::Release);
        if !M::mutant("everleaf.no_link_flush") {
            // Persist: the destination before this returns.
            self.medium.persist(destination.as_ptr(), 8);
        }
    }

    fn free_from(&self, session: &mut Session<M>, destination: &Atomic<u64, M>) {
        // Relaxed: what it names was published to this thread before, by the caller's lock.
        let block = destination.swap(0, Ordering::Relaxed);
        if !M::mutant("everleaf.no_unlink_flush") {
            // Persist: the destination before the block has another life, or it would name that.
            self.medium.persist(destination.as_ptr(), 8);
        }
        if !M::mutant("everleaf.frees_nothing") {
            session.free_record(block, self.block_bytes);
        }
    }

    fn check(&self, _used: &BTreeSet<u64>) -> Vec<String> {
        // The heap's audit, which the code that has the heap runs, finds what is lost or free twice.
        vec![]
    }

    fn free_all(&self, _session: &mut Session<M>) {}
}
