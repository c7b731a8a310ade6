//! An adaptive radix tree in DRAM, from 64-bit keys to values, with optimistic lock coupling: the top index of trees
//! whose leaves are looked up by a fence.
//!
//! ```text
//!   sparse     | lock 8 | header 8 | count 4 | kind 1 | pad 3 | digits 8  | 4 children x 8   |     64 bytes
//!              | the same                                     | digits 16 | 16 children x 8  |    168
//!   indexed    | the same             | which digits, 32 | place of each digit, 256 x 1 | 48 x 8 | 696
//!   direct     | the same             | which digits, 32 | 256 children x 8               |    2104
//!
//!   header     | bits of all keys below, from the top | 1 | 0 .. 0 |    child   | node, or value | 1 |    0: none
//! ```
//!
//! A node branches on one byte of the key, its *digit*, and is of the smallest of four kinds that has room. A chain of
//! nodes with one child each is left out: a node's header has *all* bits of the keys below it that are above its
//! digit. So a header never changes, whatever is put above the node or taken away there, and no node has to be
//! looked at together with the one above it: what the header says holds wherever the node hangs, and whether it still
//! hangs anywhere its lock says.
//!
//! A value stands where its key can be told from all others. The tree does not keep the whole key, but asks for that of
//! a value: of a leaf it is the low fence, which is beside what the search will read next.
//!
//! Readers take no lock: they read the versions of nodes, and validate those that the answer depends on together, when
//! all has been read. A writer locks the node it changes at the version under which it read it. A node that is full, or
//! has few children left, is replaced by one of another kind: then the node above is locked too, and the old one is
//! dead. What readers may still be in is reclaimed by epochs: callers of all operations are pinned.
//!
//! *Source*: V. Leis, A. Kemper, T. Neumann, "The Adaptive Radix Tree: ARTful Indexing for Main-Memory Databases", ICDE
//! 2013; V. Leis, F. Scheibner, A. Kemper, T. Neumann, "The ART of practical synchronization", DaMoN 2016.
//! *Departures*: there a header has the bits since the node above, up to eight bytes of them, and is cut, under two
//! locks, when a node is put between. The root is a word with a lock, not a node of 256 children: a small tree is one
//! node. Nodes of the two large kinds have a bit for each digit, so that the next smaller one is found at once, and
//! the first two kinds compare all their digits by arithmetic on words. Readers need not validate a node before they
//! go below it: a node that is not dead is in the tree, and its header says for which keys.
//!
//! Invariants (checked by `check` and on the simulated machine):
//! - A1 a node whose lock is not dead is in the tree, or not known to anybody but its maker; one that left it is dead
//!   before the change that took it out ends, and is reclaimed when nobody can hold it;
//! - A2 header and kind of a node never change; all keys below it have the bits of its header;
//! - A3 a node has at least two children, and no more than its kind has room for; but when memory is refused, it may
//!   keep a larger kind than it needs;
//! - A4 contents change only under the node's lock, and every change leaves a new version;
//! - A5 a place of a node that has no child is empty: it does not lead to a child that has left.

mod node;
mod read;
mod shape;
mod write;

use std::marker::PhantomData;

use everleaf_alloc::{AllocError, Session};
use everleaf_index::Geometry;
use everleaf_machine::{AtomicPointer, Machine, Ordering};

use super::radix::Header;
use super::version_lock::VersionLock;
use node::{Child, Head, Node, Slot};
use shape::{GENERATION, Shape};

/// A tree of values: any even numbers, but each of one key, which the caller's `key_of` gives. With nodes of few
/// children in small geometries, on machine `M`.
pub struct Art<G, M: Machine> {
    /// Guards the root.
    lock: VersionLock<M>,
    root: Slot<M>,
    geometry: PhantomData<G>,
}

// SAFETY: nodes are owned by the tree; what changes in them is atomic, and those that leave it are reclaimed by epochs.
unsafe impl<G: Geometry, M: Machine> Send for Art<G, M> {}
// SAFETY: as for `Send`.
unsafe impl<G: Geometry, M: Machine> Sync for Art<G, M> {}

impl<G: Geometry, M: Machine> Art<G, M> {
    const SHAPE: Shape = Shape::of::<G>();

    /// A tree of these keys, ascending, and their values.
    ///
    /// # Errors
    /// No memory for the nodes.
    pub fn load(session: &mut Session<M>, pairs: &[(u64, u64)]) -> Result<Self, AllocError> {
        let mut built = vec![];
        let made = Self::build(session, pairs, &mut built);
        if made.is_err() {
            for node in built {
                // SAFETY: built above, reachable from nowhere.
                unsafe { Self::release(session, node) };
            }
        }
        let root = AtomicPointer::new(made?.word());
        Ok(Art { lock: VersionLock::new(GENERATION), root, geometry: PhantomData })
    }

    /// What leads to all of these; the new nodes are noted.
    fn build(
        session: &mut Session<M>,
        pairs: &[(u64, u64)],
        built: &mut Vec<*mut Head<M>>,
    ) -> Result<Child<M>, AllocError> {
        let (first, last) = match pairs {
            [] => return Ok(Child::Empty),
            [(_, value)] => return Ok(Child::Value(*value)),
            [first, .., last] => (first.0, last.0),
        };
        debug_assert!(first < last, "keys ascend");
        let at = Self::SHAPE.first_difference(first, last);
        let digit = |pair: &(u64, u64)| Self::SHAPE.digit(pair.0, at);
        let mut children = vec![];
        for group in pairs.chunk_by(|one, next| digit(one) == digit(next)) {
            children.push((digit(&group[0]), Self::build(session, group, built)?));
        }
        let node = Node::<G, M>::build(session, Header::new(first, at), &children)?;
        built.push(node);
        Ok(Child::Node(node))
    }

    /// A node of this tree. The caller is pinned since before it was read from its place.
    #[inline(always)]
    fn node(&self, node: *mut Head<M>) -> Node<'_, G, M> {
        // SAFETY: places lead to nodes that `build` has made, and a node that left the tree meanwhile is not
        // reclaimed as long as the caller is pinned (A1).
        unsafe { Node::of(node) }
    }

    /// Gives the memory of a node back.
    ///
    /// # Safety
    /// A node of `build` that nobody else can reach.
    unsafe fn release(session: &mut Session<M>, node: *mut Head<M>) {
        // SAFETY: by the caller's promise.
        let size = unsafe { Node::<G, M>::of(node) }.size();
        // SAFETY: by the caller's promise, allocated with this size.
        unsafe { session.free_node(node.cast(), size) };
    }

    /// What the root leads to, while nobody changes the tree.
    fn top(&self) -> Child<M> {
        // Acquire: the node is complete; pairs with the release in `ChildSlot::put`.
        Child::of(self.root.load(Ordering::Acquire))
    }

    /// Nodes on the longest way to a value.
    pub fn height(&self) -> u64 {
        self.height_of(self.top())
    }

    fn height_of(&self, child: Child<M>) -> u64 {
        let Child::Node(node) = child else { return 0 };
        let below = self.node(node).entries().into_iter().map(|(_, child)| self.height_of(child));
        1 + below.max().unwrap_or(0)
    }

    /// Visits all values in the order of their keys. Nobody changes the tree meanwhile.
    pub fn for_each(&self, visit: &mut impl FnMut(u64)) {
        self.visit_below(self.top(), visit);
    }

    fn visit_below(&self, child: Child<M>, visit: &mut impl FnMut(u64)) {
        match child {
            Child::Empty => {}
            Child::Value(value) => visit(value),
            Child::Node(node) => {
                for (_, child) in self.node(node).entries() {
                    self.visit_below(child, visit);
                }
            }
        }
    }

    /// Reports what contradicts the invariants. Nobody changes the tree meanwhile.
    pub fn check(&self, key_of: impl Fn(u64) -> u64, problems: &mut Vec<String>) {
        if self.lock.stable(GENERATION).is_none() {
            problems.push("the root is left locked".into());
        }
        self.check_below(self.top(), None, &key_of, problems);
    }

    /// Checks what hangs below a node with this header at this digit, or is the root.
    fn check_below(
        &self,
        child: Child<M>,
        above: Option<(Header, usize)>,
        key_of: &impl Fn(u64) -> u64,
        problems: &mut Vec<String>,
    ) {
        let fits = |key: u64| {
            above.is_none_or(|(header, digit)| {
                header.covers(key) && Self::SHAPE.digit(key, header.at()) == digit
            })
        };
        match child {
            Child::Empty if above.is_some() => problems.push("a digit has no child (A5)".into()),
            Child::Empty => {}
            Child::Value(value) => {
                if !fits(key_of(value)) {
                    problems.push(format!("the value {value} is in a place of other keys (A2)"));
                }
            }
            Child::Node(node) => {
                let node = self.node(node);
                let header = node.header();
                if above.is_some_and(|(above, _)| above.at() >= header.at()) || !fits(header.0) {
                    problems.push(format!("the node {header:?} is in a place of other keys (A2)"));
                    return;
                }
                node.check(problems);
                for (digit, child) in node.entries() {
                    self.check_below(child, Some((header, digit)), key_of, problems);
                }
            }
        }
    }

    /// Frees all nodes. Nobody uses the tree any more.
    pub fn free(&self, session: &mut Session<M>) {
        self.free_below(session, Child::of(self.root.read_private()));
    }

    fn free_below(&self, session: &mut Session<M>, child: Child<M>) {
        let Child::Node(node) = child else { return };
        for (_, child) in self.node(node).entries() {
            self.free_below(session, child);
        }
        // SAFETY: by the caller's promise nobody can reach it.
        unsafe { Self::release(session, node) };
    }
}

#[cfg(test)]
mod tests;
