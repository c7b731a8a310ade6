//! The inner nodes in DRAM: sorted by shifting, read without locks by the shift-aware search.
//!
//! ```text
//!   Node, 576 bytes   | high 8 | sibling 8 | level 4 | count 4 | pad | keys 32 x 8 | children 32 x 8 |
//! ```
//!
//! Child `i` is the subtree of the keys from key `i` on, up to the next one; key 0 of a node stands
//! for "from here on". Unused keys are [`UNUSED`], and there is always one at the end.
//!
//! One writer at a time, under a lock that nobody waits for (`install.rs`). It adds a separator by
//! shifting the entries behind it to the right, from the last one on, each child before its key; so
//! at every instant every entry is there, one of them perhaps twice. A reader goes from left to right,
//! in the direction of the shift: it cannot be overtaken by an entry. Between the two loads that say
//! where its child is and the load of the child the entries may have been shifted; so it looks again
//! whether the key that ended its search is still where it was, and goes on from there if not. A node
//! that is split gives its upper half to a new sibling; `high` turns readers there.
//!
//! *Source*: section IV-C of the paper, with the B-link part of FAST & FAIR. Separators are never
//! removed, so entries only ever move to the right, and the paper's `switch_counter`, which tells
//! the direction, has nothing to tell.
//!
//! Invariants:
//! - N1 a node's keys ascend, but for one that is there twice while the writer shifts;
//! - N2 an entry moves to the right within its node, or to the sibling before `high` excludes it;
//! - N3 a node, once reachable, stays a node of its level until the tree is freed.

use std::marker::PhantomData;

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, AtomicPointer, LINE_SIZE, Machine, Ordering, SpinGuard, SpinLock};

use super::layout::Leaf;
use crate::geometry::Geometry;

/// Children that a node has room for.
pub const CHILD_COUNT_MAX: usize = 31;
/// The key of an unused place: no key of the tree is as large.
const UNUSED: u64 = u64::MAX;

#[repr(C, align(64))]
struct Node<M: Machine> {
    /// Keys from here on are the sibling's; 0 means none.
    high: Atomic<u64, M>,
    /// The right neighbour; null if there is none.
    sibling: AtomicPointer<Node<M>, M>,
    /// 1 above leaves. Never changes.
    level: u32,
    /// Children. Only the writer reads it.
    count: Atomic<u32, M>,
    keys: [Atomic<u64, M>; CHILD_COUNT_MAX + 1],
    children: [AtomicPointer<(), M>; CHILD_COUNT_MAX + 1],
}

const _: () = assert!(size_of::<Node<everleaf_machine::Hardware>>() == 9 * LINE_SIZE);

/// A low fence and what is below it: a node or a leaf.
type Child = (u64, *mut ());

/// The inner nodes of one tree.
pub struct InnerNodes<G, M: Machine> {
    root: AtomicPointer<Node<M>, M>,
    writer: SpinLock<(), M>,
    geometry: PhantomData<G>,
}

// SAFETY: nodes are owned by the tree and only changed through atomics.
unsafe impl<G: Geometry, M: Machine> Send for InnerNodes<G, M> {}
// SAFETY: as above.
unsafe impl<G: Geometry, M: Machine> Sync for InnerNodes<G, M> {}

/// Children that a node may have.
fn child_count<G: Geometry>() -> usize {
    G::CHILD_COUNT.min(CHILD_COUNT_MAX)
}

impl<M: Machine> Node<M> {
    fn build(
        session: &mut Session<M>,
        level: u32,
        (high, sibling): (u64, *mut Node<M>),
        children: &[Child],
    ) -> Result<*mut Self, AllocError> {
        let place: *mut Self = session.allocate_node(size_of::<Self>())?.cast();
        let child = |index: usize| children.get(index).copied();
        let node = Node {
            high: Atomic::new(high),
            sibling: AtomicPointer::new(sibling),
            level,
            count: Atomic::new(children.len() as u32),
            keys: std::array::from_fn(|index| Atomic::new(child(index).map_or(UNUSED, |it| it.0))),
            children: std::array::from_fn(|index| {
                AtomicPointer::new(child(index).map_or(std::ptr::null_mut(), |it| it.1))
            }),
        };
        // SAFETY: the memory is ours, large enough and aligned.
        unsafe { place.write(node) };
        Ok(place)
    }

    fn count(&self) -> usize {
        self.count.read_private() as usize
    }

    /// Asks for the lines that a search reads first.
    #[inline(always)]
    fn prefetch(node: *const Self) {
        for line in 0..size_of::<Self>() / LINE_SIZE {
            M::prefetch(node.cast::<u8>().wrapping_add(line * LINE_SIZE));
        }
    }

    /// One step down, or to the sibling: the paper's shift-aware search.
    #[inline(always)]
    fn step(&self, key: u64) -> Step<M> {
        let mut index = 0;
        let child = loop {
            // Acquire: what the writer did before it put this key here is seen; pairs with the
            // releases in `insert`.
            let mut next = self.keys[index + 1].load(Ordering::Acquire);
            while next <= key {
                index += 1;
                // Acquire: as above.
                next = self.keys[index + 1].load(Ordering::Acquire);
            }
            // Acquire: the child is complete, and whoever shifted it here shifted its neighbour
            // before; pairs with the releases in `insert` and `replace`.
            let child = self.children[index].load(Ordering::Acquire);
            // Acquire: as above.
            let again = self.keys[index + 1].load(Ordering::Acquire);
            if again == next || M::mutant("nbtree_published.no_key_check") {
                break child;
            }
            M::mark("nbtree_published.shifted");
        };
        // Acquire: if the entries that were given away are missing, this says so; pairs with the
        // release in `split`.
        let high = self.high.load(Ordering::Acquire);
        if high != 0 && key >= high && !M::mutant("nbtree_published.no_high_key") {
            M::mark("nbtree_published.sibling");
            // Acquire: the sibling is complete; pairs with the release in `split`.
            return Step::Right(self.sibling.load(Ordering::Acquire));
        }
        Step::Down(child)
    }

    /// The place of the last child whose fence is at most `key`. Only the writer asks.
    fn place(&self, key: u64) -> usize {
        let mut index = 0;
        while self.keys[index + 1].read_private() <= key {
            index += 1;
        }
        index
    }

    /// Puts a child at a place. Child before key, or readers of the key would take the child that
    /// was there before.
    fn set(&self, index: usize, (key, child): Child) {
        // Release: the child is complete, and what was here before is one place further; pairs with
        // the loads in `step`.
        self.children[index].store(child, Ordering::Release);
        // Release: as above.
        self.keys[index].store(key, Ordering::Release);
    }

    fn entry(&self, index: usize) -> Child {
        (self.keys[index].read_private(), self.children[index].read_private())
    }

    /// Adds a child; there is room. Only the writer.
    fn insert(&self, child: Child) {
        let (place, count) = (self.place(child.0) + 1, self.count());
        for index in (place..count).rev() {
            self.set(index + 1, self.entry(index));
        }
        self.set(place, child);
        self.count.write_private(count as u32 + 1);
    }
}

enum Step<M: Machine> {
    Down(*mut ()),
    Right(*mut Node<M>),
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
        let beyond = (node.high.read_private(), node.sibling.read_private());
        let right = Node::build(session, node.level, beyond, &upper)?;
        let split = upper[0].0;
        let root = match parent {
            Some(_) => None,
            None => {
                let this: *const Node<M> = node;
                let both =
                    [(node.keys[0].read_private(), this.cast_mut().cast()), (split, right.cast())];
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
        // Release: the sibling is complete; pairs with the load in `step`.
        node.sibling.store(right, Ordering::Release);
        // Release: the sibling is there; pairs with the load in `step`. Before anything goes (N2).
        node.high.store(split, Ordering::Release);
        for index in half..count {
            // Release: `high` excludes the entry; pairs with the loads of keys in `step`.
            node.keys[index].store(UNUSED, Ordering::Release);
        }
        node.count.write_private(half as u32);
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
        // Release: the leaf is complete; pairs with the load in `step`.
        node.children[index].store(new.cast(), Ordering::Release);
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
        if node.high.read_private() != high {
            let found = node.high.read_private();
            problems.push(format!("an inner node ends at {found}, the next one begins at {high}"));
        }
        if node.keys[count].read_private() != UNUSED {
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
