//! Building a tree from its leaves, for loads (`nbtree/bulk.rs`).

use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_machine::{Machine, Pair};

use super::layout::LeafShape;
use super::{HashedLeafTree, Slab};
use crate::kind::Kind;
use crate::nbtree::Loadable;
use crate::nbtree::inner::Child;

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// A tree with this id that has no leaves yet.
    pub(crate) fn without_leaves(heap: &Arc<Heap<M>>, id: u32, slab: Arc<Slab<G, M>>) -> Self {
        Self::assemble(heap.clone(), id, slab)
    }
}

impl<K: Kind<M>, G: LeafShape, M: Machine> Loadable<K, M> for HashedLeafTree<K, G, M> {
    #[inline(always)]
    fn leaf_capacity(&self) -> usize {
        G::CAPACITY
    }

    fn load_leaf(
        &self,
        session: &mut Session<M>,
        low: u64,
        high: u64,
        entries: &[Pair],
    ) -> Result<*mut (), AllocError> {
        Ok(self.build_first_leaf(session, low, high, entries)?.as_child())
    }

    fn set_leaves(
        &self,
        session: &mut Session<M>,
        children: Vec<Child>,
        keys: u64,
    ) -> Result<(), AllocError> {
        let count = children.len() as i64;
        self.inner.set_root(self.inner.build_levels(session, children)?);
        self.leaves.add(0, count);
        self.keys.add(0, keys as i64);
        Ok(())
    }

    fn free_loaded(&self, session: &mut Session<M>, children: &[Child]) {
        self.free_leaves(session, children);
    }
}
