//! Many keys in either design of nodes.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::Machine;

use crate::geometry::Geometry;
use crate::kind::Kind;
use crate::nbtree::{Approached, Extent, Run};
use crate::pool_trees::nodes::Nodes;

impl<K: Kind<M>, G: Geometry, M: Machine> Nodes<K, G, M> {
    /// See [`NbTree::get_many_payloads`](crate::nbtree::NbTree::get_many_payloads).
    ///
    /// # Errors
    /// As [`Self::get_payload`].
    pub fn get_many_payloads(
        &self,
        session: &mut Session<M>,
        keys: &[K::Key<'_>],
        run: &mut Run<M>,
        extent: Extent,
        payloads: &mut [Option<u64>],
    ) -> Result<(), AllocError> {
        match self {
            Nodes::NbTree(tree) => {
                tree.get_many_payloads(session, keys, run, extent, payloads);
                Ok(())
            }
            Nodes::HashedLeaf(tree) => tree.get_many_payloads(session, keys, extent, payloads),
        }
    }

    /// Begins a search for a group of keys, at least one, as [`Self::get_many_payloads`]: it goes on under the same pin
    /// by [`Self::match_group`] and [`Self::take_group`]. Hashed leaves are looked at in the second of these steps
    /// only.
    #[inline(always)]
    pub fn approach_group(&self, keys: &[K::Key<'_>], run: &mut Run<M>) -> Option<Approached<M>> {
        match self {
            Nodes::NbTree(tree) => Some(tree.approach_group(keys, run)),
            Nodes::HashedLeaf(_) => None,
        }
    }

    /// The second step.
    ///
    /// # Errors
    /// As [`Self::get_many_payloads`].
    #[inline(always)]
    pub fn match_group(
        &self,
        session: &mut Session<M>,
        keys: &[K::Key<'_>],
        near: &mut Option<Approached<M>>,
        extent: Extent,
        payloads: &mut [Option<u64>],
    ) -> Result<(), AllocError> {
        match (self, near) {
            (Nodes::NbTree(tree), Some(near)) => {
                tree.match_group(session, keys, near);
                Ok(())
            }
            (nodes, _) => {
                nodes.get_many_payloads(session, keys, &mut Run::none(), extent, payloads)
            }
        }
    }

    /// The last step.
    #[inline(always)]
    pub fn take_group(
        &self,
        keys: &[K::Key<'_>],
        near: &Option<Approached<M>>,
        extent: Extent,
        payloads: &mut [Option<u64>],
    ) {
        if let (Nodes::NbTree(tree), Some(near)) = (self, near) {
            tree.take_group(keys, near, extent, payloads);
        }
    }
}
