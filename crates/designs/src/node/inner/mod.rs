//! The inner tree in DRAM, shared by all trees whose leaves alone lie in the pool.
//!
//! ```text
//!   node         | lock 8 | count 4 | level 2 | wide 1 | pad 1 | keys 30 x 8 | children 31 x 8 | pad 8 |
//!   of level 1   | as in a node                               | keys 30 x 8 | low halves of 31 leaves
//!                                              x 4 | pad 4 | high halves 31 x 4 | pad 4 |
//! ```
//!
//! A B+-tree from low fences to leaves, with optimistic lock coupling: a descent takes no lock, it
//! reads each node's version before and validates it after; a writer locks the nodes it changes. The
//! leaf that a descent finds comes with a [`Token`]: as long as the token can be *revalidated*, no
//! leaf below the same node was split or removed, so the leaf is still the right one for the key.
//!
//! *Source*: V. Leis, F. Scheibner, A. Kemper, T. Neumann, "The ART of practical synchronization",
//! DaMoN 2016; full nodes are split on the way down, so that a split never climbs. What the papers do
//! with hardware transactions on the inner nodes is done here by validation. *Departures*: nodes are
//! never removed, only emptied down to one child, and are freed with the tree.
//!
//! Invariants:
//! - T1 a node's keys ascend; key `i` is the low fence of child `i`; the first child has none, for it is
//!   for all smaller keys;
//! - T2 a node, once reachable, stays a node of its level until the tree is freed, so that a pointer
//!   read under no lock can be followed;
//! - T3 contents change only under the node's lock, and every change leaves a new version;
//! - T4 the root pointer changes only under the lock of the root that it leaves.

mod node;
mod write;

use std::marker::PhantomData;

use everleaf_alloc::{AllocError, Session};
use everleaf_index::Geometry;
use everleaf_machine::{AtomicPointer, Machine, Ordering};

use super::version_lock::{Retry, Version};
use node::{GENERATION, Node, child_count};

/// The inner nodes of one tree. A leaf is its offset in the pool, a multiple of 64.
pub struct InnerTree<G, M: Machine> {
    root: AtomicPointer<Node<M>, M>,
    /// Whether the pool can be so large that offsets of leaves need their upper halves.
    is_wide: bool,
    geometry: PhantomData<G>,
}

/// Proof that a leaf was the right one for a key, as long as it can be revalidated.
pub struct Token<M: Machine> {
    node: *const Node<M>,
    version: Version,
}

impl<M: Machine> Clone for Token<M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Token<M> {}

/// What a descent found.
pub struct Found<M: Machine> {
    /// The leaf.
    pub leaf: u64,
    /// Validates that it is the right one.
    pub token: Token<M>,
}

impl<G: Geometry, M: Machine> InnerTree<G, M> {
    /// A tree over `leaves`: low fences, ascending, and leaves; at least one.
    ///
    /// # Errors
    /// No memory for the nodes.
    pub fn load(session: &mut Session<M>, leaves: &[(u64, u64)]) -> Result<Self, AllocError> {
        let end = session.heap().pool().max_size();
        Self::load_up_to(session, end, leaves)
    }

    /// As [`Self::load`] where leaves are any numbers below `end` that are multiples of 64.
    ///
    /// # Errors
    /// No memory for the nodes.
    pub fn load_up_to(
        session: &mut Session<M>,
        end: u64,
        leaves: &[(u64, u64)],
    ) -> Result<Self, AllocError> {
        let is_wide = node::is_wide(end);
        let root = write::build_levels::<G, M>(session, is_wide, leaves)?;
        Ok(InnerTree { root: AtomicPointer::new(root), is_wide, geometry: PhantomData })
    }

    /// A reference to a node of this tree.
    #[inline(always)]
    fn node(&self, node: *const Node<M>) -> &Node<M> {
        // SAFETY: callers pass nodes of this tree, which live until `free` (T2), that is as long as
        // `self` is used; all that changes in them is atomic.
        unsafe { &*node }
    }

    #[inline(always)]
    fn root(&self) -> &Node<M> {
        // Acquire: the node is complete; pairs with the release in `split_locked`.
        self.node(self.root.load(Ordering::Acquire))
    }

    /// Whether `node` is still the root.
    #[inline(always)]
    fn is_root(&self, node: &Node<M>) -> bool {
        // Acquire: as in `root`.
        std::ptr::eq(self.root.load(Ordering::Acquire), node)
    }

    /// The leaf whose range holds `key`: that of the greatest low fence `<= key`, or the first leaf.
    #[inline(always)]
    pub fn find_le(&self, key: u64) -> Found<M> {
        let mut attempt = 0;
        loop {
            match self.try_find::<false>(key) {
                Ok((found, _)) => return found,
                Err(retry) => retry.pause::<M>(&mut attempt),
            }
            M::mark("inner.find_again");
        }
    }

    /// The same with the low fence under which the leaf is entered.
    #[inline(always)]
    pub fn find_fence(&self, key: u64) -> (Found<M>, u64) {
        let mut attempt = 0;
        loop {
            match self.try_find::<true>(key) {
                Ok(found) => return found,
                Err(retry) => retry.pause::<M>(&mut attempt),
            }
            M::mark("inner.find_again");
        }
    }

    #[inline(always)]
    fn try_find<const FENCE: bool>(&self, key: u64) -> Result<(Found<M>, u64), Retry> {
        let mut node = self.root();
        let mut version = node.lock.stable_or_wait(GENERATION)?;
        // A root that was split meanwhile leads to half of the tree only.
        if !self.is_root(node) {
            return Err(Retry::Now);
        }
        let mut low = 0;
        loop {
            let index = node.find(key);
            if FENCE && index > 0 {
                low = node.key(index);
            }
            if node.level == 1 {
                let leaf = node.leaf(index);
                if !M::mutant("inner.no_validation") && !node.lock.validate(GENERATION, version) {
                    return Err(Retry::Now);
                }
                let token = Token { node, version };
                return Ok((Found { leaf, token }, low));
            }
            let child = node.child(index);
            if child.is_null() {
                // A place that a torn read of the node led to.
                return Err(Retry::Now);
            }
            Node::prefetch(child, node.level - 1, self.is_wide);
            let next = self.node(child);
            let next_version = next.lock.stable_or_wait(GENERATION)?;
            // The child was split, and its part for the key is elsewhere, unless the parent is as it
            // was when the child's version was taken.
            if !M::mutant("inner.no_validation") && !node.lock.validate(GENERATION, version) {
                return Err(Retry::Now);
            }
            (node, version) = (next, next_version);
        }
    }

    /// Whether the leaf that came with the token is still the right one.
    #[inline(always)]
    #[track_caller]
    pub fn revalidate(&self, token: Token<M>) -> bool {
        self.node(token.node).lock.validate(GENERATION, token.version)
    }

    /// The leaf on the left of `leaf`, whose low fence is `low`, if both hang on one node.
    pub fn left_neighbour(&self, low: u64, leaf: u64) -> Option<u64> {
        let found = self.find_le(low);
        let node = self.node(found.token.node);
        let index = node.find(low);
        let is_it = node.leaf(index) == leaf;
        let left = index.checked_sub(1).map(|index| node.leaf(index));
        (is_it && self.revalidate(found.token)).then_some(left).flatten()
    }

    /// Levels of nodes.
    pub fn height(&self) -> u64 {
        u64::from(self.root().level)
    }

    /// Visits all leaves in order with their fences. Nobody changes the tree meanwhile.
    pub fn for_each_leaf(&self, visit: &mut impl FnMut(u64, u64)) {
        self.visit_leaves(self.root(), 0, visit);
    }

    fn visit_leaves(&self, node: &Node<M>, low: u64, visit: &mut impl FnMut(u64, u64)) {
        for index in 0..node.count() {
            let low = if index == 0 { low } else { node.key(index) };
            if node.level == 1 {
                visit(low, node.leaf(index));
            } else {
                self.visit_leaves(self.node(node.child(index)), low, visit);
            }
        }
    }

    /// Reports what contradicts the invariants. Nobody changes the tree meanwhile.
    pub fn check(&self, problems: &mut Vec<String>) {
        self.check_node(self.root(), (0, u64::MAX), problems);
    }

    fn check_node(&self, node: &Node<M>, (first, last): (u64, u64), problems: &mut Vec<String>) {
        let count = node.count();
        if count == 0 || count > child_count::<G>() {
            problems.push(format!("an inner node has {count} children"));
            return;
        }
        if node.lock.stable(GENERATION).is_none() {
            problems.push("an inner node is left locked".into());
        }
        let mut low = first;
        for index in 0..count {
            if index > 0 {
                let key = node.key(index);
                if key <= low {
                    problems.push(format!("fences {low} and {key} do not ascend"));
                }
                if key > last {
                    problems.push(format!("fence {key} is outside its node's range"));
                }
                low = key;
            }
            if node.level > 1 {
                let next = if index + 1 < count { node.key(index + 1) } else { 0 };
                let last = if index + 1 < count { next.saturating_sub(1) } else { last };
                self.check_node(self.node(node.child(index)), (low, last), problems);
            }
        }
    }

    /// Frees all nodes. Nobody uses the tree any more.
    pub fn free(&self, session: &mut Session<M>) {
        self.free_below(session, self.root.read_private());
    }

    fn free_below(&self, session: &mut Session<M>, node: *mut Node<M>) {
        let contents = self.node(node);
        if contents.level > 1 {
            for index in 0..contents.count() {
                self.free_below(session, contents.child(index));
            }
        }
        // SAFETY: allocated with this size; by the caller's promise nobody can reach it.
        unsafe { session.free_node(node.cast(), size_of::<Node<M>>()) };
    }
}

// SAFETY: nodes are owned by the tree and only changed through atomics.
unsafe impl<G: Geometry, M: Machine> Send for InnerTree<G, M> {}
// SAFETY: as for `Send`.
unsafe impl<G: Geometry, M: Machine> Sync for InnerTree<G, M> {}

#[cfg(test)]
mod tests;
