//! Which tree the trees of a pool are made by.

use std::sync::Arc;

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::Machine;
use everleaf_pool::FEATURE_HASHED_LEAVES;

use super::{Named, Trees};
use crate::api::error::IndexError;
use crate::geometry::Geometry;
use crate::hashed_leaf::Slab;
use crate::pool_trees::nodes::NodesDesign;

impl<G: Geometry, M: Machine> Trees<G, M> {
    /// What trees are made by: with hashed leaves or without.
    pub(super) fn nodes_design(&self, is_hashed: bool) -> Result<NodesDesign<G, M>, AllocError> {
        if !is_hashed {
            return Ok(NodesDesign::NbTree);
        }
        let mut slab = self.slab.lock();
        if let Some(slab) = &*slab {
            return Ok(NodesDesign::HashedLeaf(slab.clone()));
        }
        let make = if self.late().is_some() { Slab::zeroed } else { Slab::new };
        let new = Arc::new(make(self.heap.pool().max_size())?);
        *slab = Some(new.clone());
        Ok(NodesDesign::HashedLeaf(new))
    }

    /// What new trees are made by.
    pub(super) fn new_design(&self) -> Result<NodesDesign<G, M>, AllocError> {
        self.nodes_design(self.makes_hashed_leaves())
    }

    /// Bytes of DRAM that the trees take besides the nodes that sessions allocate: what hashed leaves have there, and
    /// what leads to it. O(trees). The kernel gives memory by the page, of which some may hold nothing.
    pub fn table_bytes(&self, session: &mut Session<M>) -> u64 {
        let places = |tree: &Named<G, M>| match tree {
            Named::U64(tree) => tree.cell().with(session, |tree, _| tree.place_bytes()),
            Named::Bytes(tree) => tree.cell().with(session, |tree, _| tree.place_bytes()),
            Named::Other(tree, _) => Ok(tree.table_bytes()),
        };
        // One that was removed meanwhile has none.
        let named = self.named_trees();
        let places: u64 = named.iter().map(places).map(|bytes| bytes.unwrap_or(0)).sum();
        let directory = self.slab.lock().as_ref().map_or(0, |slab| slab.directory_size() as u64);
        places + directory
    }

    /// Whether new trees have hashed leaves ([`Self::make_hashed_leaves`]).
    pub fn makes_hashed_leaves(&self) -> bool {
        self.heap.pool().features() & FEATURE_HASHED_LEAVES != 0
    }

    /// From now on, and after the next opening, new trees have hashed leaves
    /// ([`HashedLeafTree`](crate::HashedLeafTree)). Those that are there stay as they are.
    ///
    /// # Errors
    /// The pool cannot be written.
    pub fn make_hashed_leaves(&self) -> Result<(), IndexError> {
        Ok(self.heap.pool().enable_features(FEATURE_HASHED_LEAVES)?)
    }
}
