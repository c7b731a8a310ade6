//! The NBTree of the paper on each of the allocators that the paper measures it with.

use std::sync::Arc;

use everleaf_bench::BenchError;
use everleaf_designs::{NbTreePublished, allocators};
use everleaf_index::{Design, Heap, IndexError, OrderedIndex, Pool, Production, Session};
use everleaf_machine::Machine;
use everleaf_machine::simulated::counting::{Counting, CountingConfig};

use super::{Counted, DesignPool, pool_bytes};

/// The paper's own allocator, a part of its tree.
pub const CALLOC: &str = "calloc";

/// The names of the allocators, the paper's own first.
pub fn names() -> Vec<&'static str> {
    std::iter::once(CALLOC).chain(allocators::names()).collect()
}

/// Leaves that an allocator must have for a tree of `keys` keys that is never closed: the naive one does
/// not use a leaf again that was replaced.
pub fn leaf_count(keys: u64) -> usize {
    64 + keys as usize / 5
}

/// A new tree whose leaves come from an allocator, in a pool of its own. For one thread: several lose
/// writes.
pub struct OnAllocator<M: Machine> {
    tree: NbTreePublished<Production, M>,
    heap: Arc<Heap<M>>,
}

impl<M: Machine> OnAllocator<M> {
    /// An empty tree with so many leaves at most, where the allocator has a space of its own.
    ///
    /// # Errors
    /// There is no such allocator; no space.
    pub fn create(pool: Pool<M>, allocator: &str, leaves: usize) -> Result<Self, IndexError> {
        let heap = Heap::create(pool)?;
        let mut session = heap.session()?;
        let tree = if allocator == CALLOC {
            NbTreePublished::create(&mut session)?
        } else if allocators::number_of(allocator).is_some() {
            NbTreePublished::create_on(&mut session, allocator, leaves)?
        } else {
            return Err(IndexError::Unsupported("allocator of that name"));
        };
        drop(session);
        Ok(OnAllocator { tree, heap })
    }

    /// The tree.
    pub fn tree(&self) -> &NbTreePublished<Production, M> {
        &self.tree
    }

    /// A session for it.
    ///
    /// # Errors
    /// None is free.
    pub fn session(&self) -> Result<Session<M>, IndexError> {
        Ok(self.heap.session()?)
    }
}

impl DesignPool for OnAllocator<super::M> {
    fn tree(&self) -> &dyn OrderedIndex<super::M> {
        &self.tree
    }

    fn heap(&self) -> &Arc<Heap<super::M>> {
        &self.heap
    }
}

/// An empty tree on the allocator of that name, on a counting machine, with room for `keys` keys.
///
/// # Errors
/// There is no such allocator; no space.
pub fn counted(allocator: &str, config: CountingConfig, keys: u64) -> Result<Counted, BenchError> {
    let leaves = leaf_count(keys);
    let bytes = (pool_bytes(keys) + leaves * 1600).next_multiple_of(2 << 20);
    let counting = Counting::new(config, bytes);
    let pool = Pool::new_simulated(counting.owned_memory())?;
    Counted::assemble(counting, Box::new(OnAllocator::create(pool, allocator, leaves)?))
}
