//! The inner nodes as a tree: root, ways down, and how nodes are replaced by copies.
//!
//! What the children of level 1 are is not known here: a tree brings its own leaves. All locks are only
//! tried, and nobody waits for one; N1 to N3 of `install.rs` hold.

use std::marker::PhantomData;

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{AtomicPointer, Machine, Ordering};

use super::inner::{self, Child};
use super::layout::Inner;
use super::shared::Shared;
use crate::geometry::Geometry;
use crate::kind::Kind;
use crate::pool_trees::pool_base::PoolBase;

/// Part of the children that a new inner node gets, in sixteenths.
const INNER_FILL: usize = 13;

/// Levels that a tree can have: 64 children a node, and 2^30 blocks, need 5; tiny geometries more.
pub(crate) const HEIGHT_MAX: usize = 40;

/// The way from the root to a leaf: each inner node and which child was taken.
#[derive(Clone)]
pub(crate) struct Path<M: Machine> {
    steps: [(*mut Inner<M>, usize); HEIGHT_MAX],
    length: usize,
}

impl<M: Machine> Path<M> {
    /// Inner nodes on the path; at least 1.
    pub fn len(&self) -> usize {
        self.length
    }

    /// The node at `depth` (0 is the root) and the child taken there.
    pub fn step(&self, depth: usize) -> (Shared<Inner<M>>, usize) {
        let (node, index) = self.steps[..self.length][depth];
        // SAFETY: read from the tree by the pinned operation that owns the path.
        (unsafe { Shared::new(node) }, index)
    }

    /// The way to another child of the same node of level 1.
    pub fn beside(&self, index: usize) -> Self {
        let mut path = self.clone();
        path.steps[self.length - 1].1 = index;
        path
    }

    /// The fences of the child that the path leads to; the upper one is 0 if there is none. Nodes on the path
    /// may have been replaced since: the range of a child never changes.
    pub fn bounds<K: Kind<M>>(&self) -> (u64, u64) {
        self.bounds_behind::<K>(self.length)
    }

    /// The last node on the path, and its fences, as by [`Self::bounds`]; both are 0 if it is the root.
    pub fn parent<K: Kind<M>>(&self) -> (Shared<Inner<M>>, (u64, u64)) {
        let (parent, _) = self.step(self.length - 1);
        (parent, self.bounds_behind::<K>(self.length - 1))
    }

    /// The fences of what so many steps lead to.
    fn bounds_behind<K: Kind<M>>(&self, steps: usize) -> (u64, u64) {
        let low = steps.checked_sub(1).map(|depth| {
            let (node, index) = self.step(depth);
            node.fence::<K>(index)
        });
        let high = (0..steps).rev().find_map(|depth| {
            let (node, index) = self.step(depth);
            (index + 1 < usize::from(node.count)).then(|| node.fence::<K>(index + 1))
        });
        (low.unwrap_or(0), high.unwrap_or(0))
    }
}

/// What became of an attempt to join two inner nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    Yes,
    /// None is thin, or has a neighbour that it fits.
    No,
    /// Somebody is at work there.
    Busy,
}

/// The inner nodes of one tree.
pub(crate) struct InnerTree<K, G: Geometry, M: Machine> {
    root: AtomicPointer<Inner<M>, M>,
    base: PoolBase<M>,
    kind: PhantomData<(K, G)>,
}

impl<K: Kind<M>, G: Geometry, M: Machine> InnerTree<K, G, M> {
    /// Without a root, which must be set before anything else is asked.
    pub fn new(base: PoolBase<M>) -> Self {
        InnerTree { root: AtomicPointer::new(std::ptr::null_mut()), base, kind: PhantomData }
    }

    /// The root; never null, always an inner node.
    #[inline(always)]
    pub fn root(&self) -> Shared<Inner<M>> {
        // Acquire: the node is complete; pairs with the release that made it the root.
        let root = self.root.load(Ordering::Acquire);
        // SAFETY: never null, and read by an operation whose session is pinned.
        unsafe { Shared::new(root) }
    }

    /// The path to the child of level 1 for `key`, or with `strict` for the greatest key below `key`,
    /// and that child.
    pub fn descend_path(&self, key: K::Key<'_>, strict: bool) -> (Path<M>, *mut ()) {
        self.descend_by(|node| node.find::<K>(node.level, self.base, key, strict))
    }

    /// The path to the first child of level 1, and that child.
    pub fn descend_first(&self) -> (Path<M>, *mut ()) {
        self.descend_by(|_| 0)
    }

    /// The path to the last child of level 1, and that child.
    pub fn descend_last(&self) -> (Path<M>, *mut ()) {
        self.descend_by(|node| usize::from(node.count) - 1)
    }

    /// The path on which `choose` gives the child of each node.
    #[inline(always)]
    fn descend_by(&self, choose: impl Fn(Shared<Inner<M>>) -> usize) -> (Path<M>, *mut ()) {
        let mut path = Path { steps: [(std::ptr::null_mut(), 0); HEIGHT_MAX], length: 0 };
        let mut node = self.root();
        loop {
            let index = choose(node);
            path.steps[path.length] = (node.as_ptr(), index);
            path.length += 1;
            let child = node.child(index);
            if node.level == 1 {
                return (path, child);
            }
            // SAFETY: children above level 1 are inner nodes, read while pinned.
            node = unsafe { Shared::new(child.cast()) };
        }
    }

    /// Replaces the child taken at `depth` by `list`, copying nodes upwards. The node at `depth` is
    /// locked by us; it is unlocked or obsolete afterwards. Returns whether it was done.
    pub fn expand(
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
    pub fn set_root(&self, root: *mut Inner<M>) {
        // Release: the node is complete; pairs with the acquire in `root`.
        self.root.store(root, Ordering::Release);
    }

    /// Locks the parent of the node at `depth` and makes sure that the node is in its place.
    pub fn lock_parent(&self, path: &Path<M>, depth: usize) -> bool {
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
    pub fn unlock_parent(&self, path: &Path<M>, depth: usize) {
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
    pub fn retire_inner(&self, session: &mut Session<M>, node: Shared<Inner<M>>) {
        // SAFETY: allocated with this size, taken out of the tree by us alone (N3).
        unsafe {
            session.retire_node(node.as_ptr().cast(), inner::inner_size::<K, M>(node.level));
        }
    }

    /// Puts `node` in the place of the locked node at `depth`, whose parent is locked too.
    pub fn take_place(
        &self,
        session: &mut Session<M>,
        path: &Path<M>,
        depth: usize,
        node: *mut Inner<M>,
    ) {
        let (old, _) = path.step(depth);
        if depth == 0 {
            self.set_root(node);
        } else {
            let (parent, index) = path.step(depth - 1);
            parent.set_child(index, node.cast());
            parent.unlock();
        }
        old.make_obsolete();
        if !M::mutant("nbtree.take_place_keeps_old") {
            self.retire_inner(session, old);
        }
    }

    /// Joins the lowest thin inner node on the way to `key` with a neighbour.
    pub fn join_thin(
        &self,
        session: &mut Session<M>,
        key: K::Key<'_>,
    ) -> Result<Joined, AllocError> {
        let (path, _) = self.descend_path(key, false);
        for depth in (1..path.len()).rev() {
            let (node, _) = path.step(depth);
            let (parent, _) = path.step(depth - 1);
            let thin = usize::from(node.count) <= (G::child_count(node.level) / 4).max(1);
            if thin && parent.count > 1 {
                return self.join_at(session, &path, depth);
            }
        }
        Ok(Joined::No)
    }

    /// Joins the node at `depth` with a neighbour under the same parent.
    fn join_at(
        &self,
        session: &mut Session<M>,
        path: &Path<M>,
        depth: usize,
    ) -> Result<Joined, AllocError> {
        let (node, _) = path.step(depth);
        let (parent, index) = path.step(depth - 1);
        let sibling = |index: usize| -> Shared<Inner<M>> {
            // SAFETY: siblings of inner nodes are inner nodes, read while pinned.
            unsafe { Shared::new(parent.child(index).cast()) }
        };
        // With the thinner one of two, as leaves are merged.
        let last = index + 1 == usize::from(parent.count);
        let left_is_node =
            !last && (index == 0 || sibling(index + 1).count <= sibling(index - 1).count);
        let right = if left_is_node { index + 1 } else { index };
        let other = sibling(if left_is_node { right } else { right - 1 });
        if usize::from(node.count) + usize::from(other.count)
            > G::child_count(node.level).div_ceil(4) * 3
        {
            return Ok(Joined::No);
        }
        if !node.try_lock() {
            return Ok(Joined::Busy);
        }
        let joined = if !other.try_lock() {
            Ok(Joined::Busy)
        } else {
            let joined = self.join_locked(session, path, depth, right, node, other, left_is_node);
            if !matches!(joined, Ok(Joined::Yes)) {
                other.unlock();
            }
            joined
        };
        if !matches!(joined, Ok(Joined::Yes)) {
            node.unlock();
        }
        joined
    }

    #[expect(clippy::too_many_arguments, reason = "two nodes and their place")]
    fn join_locked(
        &self,
        session: &mut Session<M>,
        path: &Path<M>,
        depth: usize,
        right: usize,
        node: Shared<Inner<M>>,
        other: Shared<Inner<M>>,
        left_is_node: bool,
    ) -> Result<Joined, AllocError> {
        if !self.lock_parent(path, depth) {
            return Ok(Joined::Busy);
        }
        let (parent, _) = path.step(depth - 1);
        let place = if left_is_node { right } else { right - 1 };
        if parent.child(place) != other.as_ptr().cast() || !self.lock_parent(path, depth - 1) {
            parent.unlock();
            return Ok(Joined::Busy);
        }
        let (first, second) = if left_is_node { (node, other) } else { (other, node) };
        let mut children = first.children::<K>();
        children.extend(second.children::<K>());
        let mut siblings = parent.children::<K>();
        let built = inner::build::<K, M>(session, node.level, &children).and_then(|joined| {
            siblings.splice(right - 1..=right, [(children[0].0, joined.cast())]);
            let shrinks = depth == 1 && siblings.len() == 1;
            if shrinks {
                return Ok((joined, joined));
            }
            match inner::build::<K, M>(session, parent.level, &siblings) {
                Ok(copy) => Ok((joined, copy)),
                Err(error) => {
                    // SAFETY: never published.
                    unsafe {
                        session.free_node(joined.cast(), inner::inner_size::<K, M>(node.level))
                    };
                    Err(error)
                }
            }
        });
        let (_, copy) = match built {
            Ok(pair) => pair,
            Err(error) => {
                self.unlock_parent(path, depth - 1);
                parent.unlock();
                return Err(error);
            }
        };
        M::mark("nbtree.merge.joined_inner");
        self.take_place(session, path, depth - 1, copy);
        for old in [node, other] {
            old.make_obsolete();
            if old == other && M::mutant("nbtree.join_keeps_one") {
                continue;
            }
            self.retire_inner(session, old);
        }
        Ok(Joined::Yes)
    }

    /// Inner nodes over children of level 1, level by level; the root.
    ///
    /// # Errors
    /// No memory; then none of the nodes is left.
    pub fn build_levels(
        &self,
        session: &mut Session<M>,
        children: Vec<Child>,
    ) -> Result<*mut Inner<M>, AllocError> {
        let mut built = vec![];
        self.build_levels_into(session, children, &mut built).inspect_err(|_| {
            for (node, level) in built {
                // SAFETY: built just now with this size, not placed anywhere.
                unsafe { session.free_node(node, inner::inner_size::<K, M>(level)) };
            }
        })
    }

    /// As [`Self::build_levels`], but what is built below the root goes to `built`, with its level.
    fn build_levels_into(
        &self,
        session: &mut Session<M>,
        mut children: Vec<Child>,
        built: &mut Vec<(*mut u8, u16)>,
    ) -> Result<*mut Inner<M>, AllocError> {
        let mut level = 1;
        loop {
            let fill = (G::child_count(level) * INNER_FILL / 16).max(2);
            if children.len() <= G::child_count(level) {
                return inner::build::<K, M>(session, level, &children);
            }
            // Even shares, so that no node is left with a single child.
            let count = children.len().div_ceil(fill);
            let mut parents = Vec::with_capacity(count);
            let mut rest = &children[..];
            for part in (1..=count).rev() {
                let (these, others) = rest.split_at(rest.len().div_ceil(part));
                rest = others;
                let node = inner::build::<K, M>(session, level, these)?;
                built.push((node.cast(), level));
                parents.push((these[0].0, node.cast()));
            }
            children = parents;
            level += 1;
        }
    }
}
