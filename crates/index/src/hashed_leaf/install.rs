//! Bringing the inner nodes up to date, lazily and off everybody's path; and reclaiming leaves.
//!
//! As in `nbtree/install.rs`, whose rules N1 to N3 hold. A block is retired here, not at the switch:
//! as long as an inner node leads to it, its number must not mean another leaf (HL7).

use everleaf_alloc::Session;
use everleaf_machine::{Machine, Ordering};

use super::HashedLeafTree;
use super::layout::{LeafId, LeafShape, Successor};
use crate::kind::Kind;
use crate::nbtree::inner::Child;
use crate::nbtree::shared::Shared;

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// Replaces the leaf that the inner nodes give for `key` by its current successors, if it has
    /// been replaced and the locks are free. Best effort: a failure leaves a hop, and the block of the replaced leaf in
    /// use; it is noted, as a merge that was missed is, so that who finds the pool full comes here (`thin.rs`).
    #[cold]
    #[inline(never)]
    pub(super) fn try_install(&self, session: &mut Session<M>, key: K::Key<'_>) {
        let (path, child) = self.inner.descend_path(key, false);
        let leaf = self.leaf_behind(child);
        if !self.is_replaced(leaf) {
            return;
        }
        let depth = path.len() - 1;
        let (parent, index) = path.step(depth);
        if !parent.try_lock() {
            M::mark("hashed.install.busy");
            return self.missed.note();
        }
        if parent.child(index) != child {
            // By somebody who did the same; or the leaf itself is there now, and nothing stands in for it.
            parent.unlock();
            return self.missed.note();
        }
        let mut current = vec![];
        let mut dead = vec![];
        self.frontier(leaf, parent.fence::<K>(index), &mut current, &mut dead);
        let done = if let [(_, only)] = current[..] {
            parent.set_child(index, only);
            parent.unlock();
            true
        } else {
            // Without memory for the copies the chain of successors goes on to serve.
            self.inner.expand(session, &path, depth, &current).unwrap_or(false)
        };
        if done {
            for leaf in dead {
                self.retire_leaf(session, leaf, true);
            }
        } else {
            self.missed.note();
        }
    }

    /// The current leaves behind a replaced one, in order, and all that were replaced on the way.
    fn frontier(&self, leaf: LeafId, low: u64, current: &mut Vec<Child>, dead: &mut Vec<LeafId>) {
        if !self.is_replaced(leaf) {
            return current.push((low, leaf.as_child()));
        }
        dead.push(leaf);
        let successor = self.successor_of(leaf);
        // A merge puts its leaf into the parent under the lock we hold, so none is met here.
        debug_assert!(successor.merging.is_none(), "a merge was left in a parent");
        self.frontier(successor.left, low, current, dead);
        if let Some(right) = successor.right {
            self.frontier(right, successor.split, current, dead);
        }
    }

    /// The successor of a replaced leaf.
    pub(super) fn successor_of(&self, leaf: LeafId) -> Shared<Successor<M>> {
        // Acquire: the successor is complete; pairs with its installation in `split.rs`.
        let successor = self.cold(leaf).successor.load(Ordering::Acquire);
        // SAFETY: a replaced leaf has a successor, retired no earlier than the leaf.
        unsafe { Shared::new(successor) }
    }

    /// Gives up a replaced leaf that inner nodes no longer lead to, with its successor, if
    /// asked (a merge's two leaves share one).
    pub(super) fn retire_leaf(&self, session: &mut Session<M>, leaf: LeafId, with_successor: bool) {
        if with_successor {
            // Relaxed: the leaf is replaced, so its successor is final.
            let successor = self.cold(leaf).successor.load(Ordering::Relaxed);
            // SAFETY: allocated with this size; the leaf's retirer is the only one (N3).
            unsafe { session.retire_node(successor.cast(), size_of::<Successor<M>>()) };
        }
        self.close_order(leaf, session.stripe());
        session.retire_block_of(G::BLOCK_CLASS, leaf.block::<G>());
    }
}
