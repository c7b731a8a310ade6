//! From a key to its node, and lookups.

use everleaf_index::Geometry;
use everleaf_machine::Machine;

use super::UTree;
use super::layout::{Node, node_of};
use crate::node::inner::Token;
use crate::node::version_lock::Retry;

/// The node for a key, as the tree knows it.
pub(super) struct Seat<'t, M: Machine> {
    /// Where it is.
    pub offset: u64,
    pub node: &'t Node<M>,
    /// Whether the node may be that of the key. If not, the key was absent when the seat was found.
    pub may_be_it: bool,
    /// Validates that no node for the key was entered behind it.
    pub token: Token<M>,
}

impl<G: Geometry, M: Machine> UTree<G, M> {
    /// The node at an offset: one that a link or the tree led to, or a new one.
    #[inline(always)]
    pub(super) fn node(&self, offset: u64) -> &Node<M> {
        let start = self.base.start().wrapping_add(offset as usize).cast();
        // SAFETY: offsets come from links that recovery has checked or the running tree has stored, and
        // from the allocator: a record of a node's size, 32-byte aligned, inside the pool, made of
        // atomic words. One that was reclaimed meanwhile is still memory of the pool.
        unsafe { &*start }
    }

    /// The node of `key`, or else of the next smaller one.
    #[inline(always)]
    pub(super) fn seek(&self, key: u64) -> Seat<'_, M> {
        let (found, fence) = self.inner.find_fence(key);
        let offset = node_of(found.leaf);
        Seat { offset, node: self.node(offset), may_be_it: fence == key, token: found.token }
    }

    /// The value of `key`.
    ///
    /// *Linearizes at* the load of the value, or, if the key is absent, at the descent.
    #[inline(always)]
    pub(super) fn read(&self, key: u64) -> Option<u64> {
        let mut attempt = 0;
        loop {
            let seat = self.seek(key);
            if !seat.may_be_it {
                return None;
            }
            match self.read_node(seat.node) {
                Ok((found, value, _)) => return (found == key).then_some(value),
                Err(retry) => {
                    M::mark("utree.read_again");
                    retry.pause::<M>(&mut attempt);
                }
            }
        }
    }

    /// Key, value and link of a node of the list, at one instant.
    #[inline(always)]
    pub(super) fn read_node(&self, node: &Node<M>) -> Result<(u64, u64, u64), Retry> {
        let version = node.lock.stable_or_wait(self.generation)?;
        let seen = (node.key(), node.value(), node.next());
        if node.lock.validate(self.generation, version) { Ok(seen) } else { Err(Retry::Now) }
    }
}
