//! Bringing the inner nodes up to date, lazily and off everybody's path.
//!
//! A replaced leaf stays reachable through its `successor`; a thread that comes that way tries to put the
//! current leaves into the inner node instead. All locks are only tried: when one is taken, the
//! thread gives up and the next one that comes by tries again. A child pointer is replaced in
//! place when the range stays the same; otherwise the node is copied, and the copy takes its place
//! in its parent, upwards as far as needed.
//!
//! - N1 a node's fences never change, and `child[i]` only by one with the same range; so a reader
//!   that holds an old node still gets to the right leaf;
//! - N2 a node is changed or replaced only under its lock, and never after it is obsolete;
//! - N3 the thread that takes nodes or leaves out of the tree retires them, once.

use everleaf_alloc::Session;
use everleaf_machine::{Machine, Ordering};

use super::NbTree;
use super::inner::Child;
use super::layout::{Leaf, Order, Successor};
use super::shared::Shared;
use super::state::REPLACED;
use crate::geometry::Geometry;
use crate::kind::Kind;

impl<K: Kind<M>, G: Geometry, M: Machine> NbTree<K, G, M> {
    /// Replaces the leaf that the inner nodes give for `key` by its current successors, if it has
    /// been replaced and the locks are free. Best effort: a failure only leaves a hop.
    #[cold]
    #[inline(never)]
    pub(super) fn try_install(&self, session: &mut Session<M>, key: K::Key<'_>) {
        let (path, leaf) = self.descend_path(key, false);
        // Acquire: as in `resolve`.
        if leaf.meta.load(Ordering::Acquire) & REPLACED == 0 {
            return;
        }
        let depth = path.len() - 1;
        let (parent, index) = path.step(depth);
        if !parent.try_lock() {
            M::mark("nbtree.install.busy");
            return;
        }
        if parent.child(index) != leaf.as_ptr().cast() && !M::mutant("nbtree.install_unchecked") {
            parent.unlock();
            return;
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
        }
    }

    /// The current leaves behind a replaced one, in order, and all that were replaced on the way.
    fn frontier(
        &self,
        leaf: Shared<Leaf<M>>,
        low: u64,
        current: &mut Vec<Child>,
        dead: &mut Vec<Shared<Leaf<M>>>,
    ) {
        // Acquire: as in `resolve`.
        if leaf.meta.load(Ordering::Acquire) & REPLACED == 0 {
            return current.push((low, leaf.as_ptr().cast()));
        }
        dead.push(leaf);
        // Acquire: pairs with the installation of the successor.
        let successor = leaf.successor.load(Ordering::Acquire);
        // SAFETY: a replaced leaf has a successor, retired no earlier than the leaf.
        let successor = unsafe { Shared::new(successor) };
        // A merge puts its leaf into the parent under the lock we hold, so none is met here.
        debug_assert!(successor.merge_left.is_null(), "a merge was left in a parent");
        let (left, right) = self.successor_leaves(successor);
        self.frontier(left, low, current, dead);
        if let Some(right) = right {
            self.frontier(right, successor.split, current, dead);
        }
    }

    /// Gives up a replaced leaf that inner nodes no longer lead to, with its order and, if asked,
    /// its successor (a merge's two leaves share one).
    pub(super) fn retire_leaf(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        with_successor: bool,
    ) {
        if with_successor {
            // Relaxed: the leaf is replaced, so its successor is final.
            let successor = leaf.successor.load(Ordering::Relaxed);
            // SAFETY: allocated with this size; the leaf's retirer is the only one (N3).
            unsafe { session.retire_node(successor.cast(), size_of::<Successor<M>>()) };
        }
        if !M::mutant("nbtree.keeps_order") {
            self.retire_order(session, leaf);
        }
        // SAFETY: allocated with this size; the leaf's retirer is the only one (N3).
        unsafe { session.retire_node(leaf.as_ptr().cast(), size_of::<Leaf<M>>()) };
    }

    /// Gives up a leaf's cached order and admits no other.
    pub(super) fn retire_order(&self, session: &mut Session<M>, leaf: Shared<Leaf<M>>) {
        // AcqRel: takes over the order; no scan installs one afterwards. Pairs with
        // `sorted_slots` and `offer_order`.
        let order = leaf.order.swap(super::scan::closed(), Ordering::AcqRel);
        if !order.is_null() && order != super::scan::closed() {
            // SAFETY: allocated with this size; the swap made us its only owner.
            unsafe { session.retire_node(order.cast(), size_of::<Order<M>>()) };
        }
    }
}
