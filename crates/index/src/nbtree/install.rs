//! Bringing the inner nodes up to date, lazily and off everybody's path.
//!
//! A replaced leaf stays reachable through its `successor`; whoever comes that way tries to put the
//! current leaves into the inner node instead. All locks are only tried: when one is taken, the
//! thread gives up and the next one that comes by tries again. A child pointer is replaced in
//! place when the range stays the same; otherwise the node is copied, and the copy takes its place
//! in its parent, upwards as far as needed.
//!
//! - N1 a node's fences never change, and `child[i]` only by one with the same range; so a reader
//!   that holds an old node still gets to the right leaf;
//! - N2 a node is changed or replaced only under its lock, and never after it is obsolete;
//! - N3 whoever takes nodes or leaves out of the tree retires them, once.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Machine, Ordering};

use super::NbTree;
use super::inner::{self, Child};
use super::layout::{Inner, Leaf, Order, Successor};
use super::search::Path;
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
        if parent.child(index) != leaf.as_ptr().cast() {
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
            self.expand(session, &path, depth, &current).unwrap_or(false)
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

    /// Replaces the child taken at `depth` by `list`, copying nodes upwards. The node at `depth` is
    /// locked by us; it is unlocked or obsolete afterwards. Returns whether it was done.
    fn expand(
        &self,
        session: &mut Session<M>,
        path: &Path<M>,
        depth: usize,
        list: &[Child],
    ) -> Result<bool, AllocError> {
        let (node, index) = path.step(depth);
        let mut children = node.children::<K>();
        let at_end = index + 1 == children.len();
        children.splice(index..index + 1, list.iter().copied());
        if !self.lock_parent(path, depth) {
            M::mark("nbtree.install.busy_parent");
            node.unlock();
            return Ok(false);
        }
        let parts = match self.build_nodes(session, node.level, &children, at_end) {
            Ok(parts) => parts,
            Err(error) => {
                self.unlock_parent(path, depth);
                node.unlock();
                return Err(error);
            }
        };
        let placed = match (depth, &parts[..]) {
            (0, parts) => self.place_root(session, node.level, parts),
            (_, [(_, only)]) => {
                let (parent, index) = path.step(depth - 1);
                parent.set_child(index, *only);
                parent.unlock();
                Ok(true)
            }
            (_, parts) => self.expand(session, path, depth - 1, parts),
        };
        if !matches!(placed, Ok(true)) {
            for (_, part) in parts {
                // SAFETY: built above and not placed anywhere.
                unsafe { session.free_node(part.cast(), inner::inner_size::<K, M>(node.level)) };
            }
            node.unlock();
            return placed;
        }
        node.make_obsolete();
        self.retire_inner(session, node);
        Ok(true)
    }

    /// Makes one node, or a new level over several, the root. The old root is locked by us.
    fn place_root(
        &self,
        session: &mut Session<M>,
        level: u16,
        parts: &[Child],
    ) -> Result<bool, AllocError> {
        let root = match parts {
            [(_, only)] => only.cast(),
            parts => {
                M::mark("nbtree.install.new_root");
                inner::build::<K, M>(session, level + 1, parts)?
            }
        };
        self.set_root(root);
        Ok(true)
    }

    /// Publishes a root. The caller holds the lock of the one it replaces.
    pub(super) fn set_root(&self, root: *mut Inner<M>) {
        // Release: the node is complete; pairs with the acquire in `root`.
        self.root.store(root, Ordering::Release);
    }

    /// Locks the parent of the node at `depth` and makes sure that the node is in its place.
    pub(super) fn lock_parent(&self, path: &Path<M>, depth: usize) -> bool {
        let (node, _) = path.step(depth);
        if depth == 0 {
            return self.root() == node;
        }
        let (parent, index) = path.step(depth - 1);
        if !parent.try_lock() {
            return false;
        }
        if parent.child(index) != node.as_ptr().cast() {
            parent.unlock();
            return false;
        }
        true
    }

    /// Undoes [`Self::lock_parent`].
    pub(super) fn unlock_parent(&self, path: &Path<M>, depth: usize) {
        if depth > 0 {
            path.step(depth - 1).0.unlock();
        }
    }

    /// As few nodes over `children` as hold them, filled evenly; when keys arrive in order
    /// (`at_end`), the first ones nearly full.
    fn build_nodes(
        &self,
        session: &mut Session<M>,
        level: u16,
        children: &[Child],
        at_end: bool,
    ) -> Result<Vec<Child>, AllocError> {
        let count = children.len().div_ceil(G::child_count(level));
        let mut parts: Vec<Child> = Vec::with_capacity(count);
        let mut rest = children;
        for part in (1..=count).rev() {
            let even = rest.len().div_ceil(part);
            let full = (G::child_count(level) * 7 / 8).max(even);
            let take = if at_end && part > 1 { full.min(rest.len() - (part - 1)) } else { even };
            let (these, others) = rest.split_at(take);
            rest = others;
            match inner::build::<K, M>(session, level, these) {
                Ok(node) => parts.push((these[0].0, node.cast())),
                Err(error) => {
                    for (_, part) in parts {
                        // SAFETY: built above and not placed anywhere.
                        unsafe { session.free_node(part.cast(), inner::inner_size::<K, M>(level)) };
                    }
                    return Err(error);
                }
            }
        }
        Ok(parts)
    }

    /// Gives up an inner node that was taken out of the tree.
    pub(super) fn retire_inner(&self, session: &mut Session<M>, node: Shared<Inner<M>>) {
        // SAFETY: allocated with this size, taken out of the tree by us alone (N3).
        unsafe {
            session.retire_node(node.as_ptr().cast(), inner::inner_size::<K, M>(node.level));
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
        self.retire_order(session, leaf);
        // SAFETY: as above.
        unsafe { session.retire_node(leaf.as_ptr().cast(), size_of::<Leaf<M>>()) };
    }

    /// Gives up a leaf's cached order and admits no other.
    pub(super) fn retire_order(&self, session: &mut Session<M>, leaf: Shared<Leaf<M>>) {
        // AcqRel: takes over the order; no scan installs one afterwards. Pairs with `scan.rs`.
        let order = leaf.order.swap(super::scan::closed(), Ordering::AcqRel);
        if !order.is_null() && order != super::scan::closed() {
            // SAFETY: allocated with this size; the swap made us its only owner.
            unsafe { session.retire_node(order.cast(), size_of::<Order<M>>()) };
        }
    }
}
