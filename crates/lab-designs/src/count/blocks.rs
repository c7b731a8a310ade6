//! The NBTree of the paper on each of the allocators that the paper measures it with.

use std::sync::Arc;

use everleaf_bench::BenchError;
use everleaf_designs::{NbTreePublished, allocators};
use everleaf_index::{Heap, IndexError, OrderedIndex, Pool, Production, Session};
use everleaf_machine::simulated::counting::{Counting, CountingConfig};
use everleaf_machine::{Hardware, Machine};

use super::{Counted, DesignPool, pool_bytes};

/// The paper's own allocator.
pub const CALLOC: &str = <allocators::Calloc<Hardware> as allocators::Allocator<Hardware>>::NAME;

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
    /// An empty tree with so many leaves at most.
    ///
    /// # Errors
    /// There is no such allocator; no space.
    pub fn create(pool: Pool<M>, allocator: &str, leaves: usize) -> Result<Self, IndexError> {
        let heap = Heap::create(pool)?;
        let mut session = heap.session()?;
        if allocators::number_of(allocator).is_none() {
            return Err(IndexError::Unsupported("allocator of that name"));
        }
        let tree = NbTreePublished::create_on(&mut session, allocator, leaves)?;
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
    let opened = counting.set_up(|| OnAllocator::create(pool, allocator, leaves))?;
    Counted::assemble(counting, Box::new(opened))
}
