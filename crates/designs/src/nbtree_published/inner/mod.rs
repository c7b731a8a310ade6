//! The inner nodes in DRAM: sorted by shifting, read without locks by the shift-aware search.
//!
//! ```text
//!   Node, 576 bytes   | high 8 | sibling 8 | level 4 | count 4 | pad | keys 32 x 8 | children 32 x 8 |
//! ```
//!
//! Child `i` is the subtree of the keys from key `i` on, up to the next one; key 0 of a node stands
//! for "from here on". Unused keys are the largest number, and there is always one at the end.
//!
//! One writer at a time, under a lock that nobody waits for (`install.rs`). It adds a separator by
//! shifting the entries behind it to the right, from the last one on, each child before its key; so
//! at every instant every entry is there, one of them perhaps twice. A reader goes from left to
//! right, in the direction of the shift: it cannot be overtaken by an entry. Between the two loads
//! that say where its child is and the load of the child the entries may have been shifted; so it
//! looks again whether the key that ended its search is still where it was, and goes on from there
//! if not. A node that is split gives its upper half to a new sibling; `high` turns readers there.
//!
//! *Source*: section IV-C of the paper, with the B-link part of FAST & FAIR. Separators are never
//! removed, so entries only ever move to the right, and the paper's `switch_counter`, which tells
//! the direction, has nothing to tell.
//!
//! Invariants:
//! - N1 a node's keys ascend, but for one that is there twice while the writer shifts;
//! - N2 an entry moves to the right within its node, or to the sibling before `high` excludes it;
//! - N3 a node, once reachable, stays a node of its level until the tree is freed.

mod node;

use std::marker::PhantomData;

use everleaf_alloc::{AllocError, Session};
use everleaf_index::Geometry;
use everleaf_machine::{AtomicPointer, Machine, Ordering, SpinGuard, SpinLock};

use super::layout::Leaf;
use node::{CHILD_COUNT_MAX, Child, Node, Step};

/// The inner nodes of one tree.
pub struct InnerNodes<G, M: Machine> {
    root: AtomicPointer<Node<M>, M>,
    writer: SpinLock<(), M>,
    geometry: PhantomData<G>,
}

// SAFETY: nodes are owned by the tree and only changed through atomics.
unsafe impl<G: Geometry, M: Machine> Send for InnerNodes<G, M> {}
// SAFETY: as for `Send`.
unsafe impl<G: Geometry, M: Machine> Sync for InnerNodes<G, M> {}

/// Children that a node may have.
fn child_count<G: Geometry>() -> usize {
    G::CHILD_COUNT.min(CHILD_COUNT_MAX)
}

impl<G: Geometry, M: Machine> InnerNodes<G, M> {
    /// Nodes over `leaves`: low fences, ascending, and leaves; at least one.
    ///
    /// # Errors
    /// No memory for the nodes.
    pub fn load(
        session: &mut Session<M>,
        leaves: &[(u64, *mut Leaf<M>)],
    ) -> Result<Self, AllocError> {
        let mut below: Vec<Child> = leaves.iter().map(|(low, leaf)| (*low, leaf.cast())).collect();
        let mut built: Vec<*mut Node<M>> = vec![];
        let full = (child_count::<G>() * 7 / 8).max(2);
        for level in 1.. {
            let mut above: Vec<Child> = vec![];
            let mut right = (0, std::ptr::null_mut());
            // From the right, so that each node's sibling is there already.
            let parts = below.len().div_ceil(full);
            let mut rest = &below[..];
            for part in (1..=parts).rev() {
                let (others, these) = rest.split_at(rest.len() - rest.len().div_ceil(part));
                rest = others;
                match Node::build(session, level, right, these) {
                    Ok(node) => {
                        built.push(node);
                        above.push((these[0].0, node.cast()));
                        right = (these[0].0, node);
                    }
                    Err(error) => {
                        for node in built {
                            // SAFETY: built above, reachable from nowhere.
                            unsafe { session.free_node(node.cast(), size_of::<Node<M>>()) };
                        }
                        return Err(error);
                    }
                }
            }
            above.reverse();
            below = above;
            if below.len() == 1 {
                break;
            }
        }
        let root = AtomicPointer::new(below[0].1.cast());
        Ok(InnerNodes { root, writer: SpinLock::new(()), geometry: PhantomData })
    }

    #[inline(always)]
    fn node(&self, node: *const Node<M>) -> &Node<M> {
        // SAFETY: callers pass nodes of this tree, which live until `free` (N3), that is as long as
        // `self` is used; all that changes in them is atomic.
        unsafe { &*node }
    }

    #[inline(always)]
    fn root(&self) -> &Node<M> {
        // Acquire: the node is complete; pairs with the release in `insert`.
        self.node(self.root.load(Ordering::Acquire))
    }

    /// The leaf whose range holds `key`; it may have been replaced. The session is pinned.
    #[inline(always)]
    pub fn find(&self, key: u64) -> *mut Leaf<M> {
        let mut node = self.root();
        loop {
            match node.step(key) {
                Step::Right(sibling) => node = self.node(sibling),
                Step::Down(child) if node.level == 1 => return child.cast(),
                Step::Down(child) => {
                    Node::<M>::prefetch(child.cast());
                    node = self.node(child.cast());
                }
            }
        }
    }

    /// Becomes the only writer. The caller may hold locks of leaves: a writer waits for none.
    pub fn lock(&self) -> SpinGuard<'_, (), M> {
        self.writer.lock()
    }

    /// Becomes the only writer, unless somebody else is.
    pub fn try_lock(&self) -> Option<SpinGuard<'_, (), M>> {
        self.writer.try_lock()
    }

    /// Makes `leaf` the leaf for the keys from `low` on, up to the next fence.
    ///
    /// # Errors
    /// No memory for a node; then no leaf was added.
    pub fn insert(
        &self,
        _writer: &SpinGuard<'_, (), M>,
        session: &mut Session<M>,
        low: u64,
        leaf: *mut Leaf<M>,
    ) -> Result<(), AllocError> {
        let mut parent: Option<&Node<M>> = None;
        let mut node = self.root();
        loop {
            if node.count() >= child_count::<G>() {
                let (split, right) = self.split(session, parent, node)?;
                if low >= split {
                    node = self.node(right);
                }
            }
            if node.level == 1 {
                node.insert((low, leaf.cast()));
                return Ok(());
            }
            parent = Some(node);
            node = self.node(node.entry(node.place(low)).1.cast());
        }
    }

    /// Gives the upper half of a full node to a new sibling; its parent has room.
    fn split(
        &self,
        session: &mut Session<M>,
        parent: Option<&Node<M>>,
        node: &Node<M>,
    ) -> Result<(u64, *mut Node<M>), AllocError> {
        M::mark("nbtree_published.inner_split");
        let count = node.count();
        let half = count / 2;
        let upper: Vec<Child> = (half..count).map(|index| node.entry(index)).collect();
        let right = Node::build(session, node.level, node.beyond(), &upper)?;
        let split = upper[0].0;
        let root = match parent {
            Some(_) => None,
            None => {
                let this: *const Node<M> = node;
                let both = [(node.entry(0).0, this.cast_mut().cast()), (split, right.cast())];
                match Node::build(session, node.level + 1, (0, std::ptr::null_mut()), &both) {
                    Ok(root) => Some(root),
                    Err(error) => {
                        // SAFETY: built above, reachable from nowhere.
                        unsafe { session.free_node(right.cast(), size_of::<Node<M>>()) };
                        return Err(error);
                    }
                }
            }
        };
        node.give_away(half, right);
        match (parent, root) {
            (Some(parent), _) => parent.insert((split, right.cast())),
            // Release: both children are complete; pairs with the acquire in `root`.
            (None, Some(root)) => self.root.store(root, Ordering::Release),
            (None, None) => unreachable!("a node without parent gets a new root above it"),
        }
        Ok((split, right))
    }

    /// Puts `new` in the place of `old`, the leaf with the low fence `low`.
    pub fn replace(
        &self,
        _writer: &SpinGuard<'_, (), M>,
        low: u64,
        old: *mut Leaf<M>,
        new: *mut Leaf<M>,
    ) {
        let mut node = self.root();
        while node.level > 1 {
            node = self.node(node.entry(node.place(low)).1.cast());
        }
        let index = node.place(low);
        debug_assert!(node.entry(index) == (low, old.cast()));
        node.replace(index, new.cast());
    }

    /// Levels of nodes.
    pub fn height(&self) -> u64 {
        u64::from(self.root().level)
    }

    /// Visits all leaves in order. Nobody changes the tree meanwhile.
    pub fn for_each_leaf(&self, visit: &mut impl FnMut(u64, *mut Leaf<M>)) {
        self.visit_leaves(self.root(), visit);
    }

    fn visit_leaves(&self, node: &Node<M>, visit: &mut impl FnMut(u64, *mut Leaf<M>)) {
        for (low, child) in (0..node.count()).map(|index| node.entry(index)) {
            if node.level == 1 {
                visit(low, child.cast());
            } else {
                self.visit_leaves(self.node(child.cast()), visit);
            }
        }
    }

    /// Reports what contradicts the invariants. Nobody changes the tree meanwhile.
    pub fn check(&self, problems: &mut Vec<String>) {
        self.check_node(self.root(), 0, problems);
    }

    fn check_node(&self, node: &Node<M>, high: u64, problems: &mut Vec<String>) {
        let count = node.count();
        if count == 0 || count > child_count::<G>() {
            return problems.push(format!("an inner node has {count} children"));
        }
        let found = node.beyond().0;
        if found != high {
            problems.push(format!("an inner node ends at {found}, the next one begins at {high}"));
        }
        if !node.ends_clean() {
            problems.push(format!("an inner node with {count} children has more keys (N1)"));
        }
        for index in 0..count {
            let key = node.entry(index).0;
            if index > 0 && key <= node.entry(index - 1).0 {
                problems.push(format!("separators do not ascend at {key} (N1)"));
            }
            if node.level > 1 {
                let next = if index + 1 < count { node.entry(index + 1).0 } else { high };
                self.check_node(self.node(node.entry(index).1.cast()), next, problems);
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
                self.free_below(session, contents.entry(index).1.cast());
            }
        }
        // SAFETY: allocated with this size; by the caller's promise nobody can reach it.
        unsafe { session.free_node(node.cast(), size_of::<Node<M>>()) };
    }
}
