//! Caching: an inner tree in DRAM leads to the leaves, beside the inner nodes in the pool. It is a hint: a
//! search goes on from the leaf that it gives to the right (B3).

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::Machine;

use super::FastFair;
use super::variant::Variant;
use crate::node::fast_node::Node;
use crate::node::inner::InnerTree;

impl<V: Variant, M: Machine> FastFair<V, M> {
    /// Makes the tree in DRAM one over these leaves, in a variant with one.
    pub(super) fn load_cache(
        &mut self,
        session: &mut Session<M>,
        leaves: &[(u64, u64)],
    ) -> Result<(), AllocError> {
        if V::CACHED {
            self.cache = Some(InnerTree::load(session, leaves)?);
        }
        Ok(())
    }

    /// A leaf that `key` belongs to, or one on the left of that, if the tree in DRAM knows one.
    #[inline(always)]
    pub(super) fn cached(&self, key: u64) -> Option<Node<V, M>> {
        if !V::CACHED {
            return None;
        }
        self.cache.as_ref().map(|cache| self.nodes.node(cache.find_le(key).leaf))
    }

    /// Lets the tree in DRAM know a new leaf, whose lock the caller holds, and that of the leaf on its left. If
    /// there is no memory, it is found from the left.
    pub(super) fn cache_leaf(&self, session: &mut Session<M>, low: u64, leaf: Node<V, M>) {
        if let Some(cache) = &self.cache {
            let _ = cache.insert_separator(session, low, self.nodes.offset(leaf));
        }
    }

    /// Lets the tree in DRAM lead to the copy of a leaf. The caller holds the locks of both.
    pub(super) fn cache_copy(&self, low: u64, old: Node<V, M>, copy: Node<V, M>) {
        if let Some(cache) = &self.cache
            && !M::mutant("fast_fair.stale_cache")
        {
            cache.exchange_leaf(low, self.nodes.offset(old), self.nodes.offset(copy));
        }
    }

    /// Holds the tree in DRAM against the leaves: low fences and offsets.
    pub(super) fn check_cache(&self, leaves: &[(u64, u64)], problems: &mut Vec<String>) {
        let Some(cache) = &self.cache else { return };
        cache.check(problems);
        cache.for_each_leaf(&mut |low, leaf| {
            if !leaves.contains(&(low, leaf)) {
                problems
                    .push(format!("the tree in DRAM has {leaf} for the keys from {low} on (B3)"));
            }
        });
    }

    /// Gives the memory outside of the pool back. Nobody uses the tree any more.
    pub(super) fn free_volatile(&self, session: &mut Session<M>) {
        self.buffers.free(session);
        if let Some(cache) = &self.cache {
            cache.free(session);
        }
    }
}
