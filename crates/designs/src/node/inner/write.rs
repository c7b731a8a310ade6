//! Changes of the inner tree: a separator added or removed, a node split, a root grown.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::Geometry;
use everleaf_machine::{Machine, Ordering};

use super::InnerTree;
use super::node::{Below, Child, GENERATION, Node, child_count};
use crate::node::version_lock::{Retry, Version};

/// All levels over `leaves`; the root.
pub(super) fn build_levels<G: Geometry, M: Machine>(
    session: &mut Session<M>,
    is_wide: bool,
    leaves: &[(u64, u64)],
) -> Result<*mut Node<M>, AllocError> {
    let mut below: Vec<Child<M>> =
        leaves.iter().map(|(low, leaf)| (*low, Below::Leaf(*leaf))).collect();
    let mut built: Vec<*mut Node<M>> = vec![];
    let mut level = 1;
    loop {
        let count = below.len().div_ceil(full::<G>());
        let mut above: Vec<Child<M>> = Vec::with_capacity(count);
        let mut rest = &below[..];
        for part in (1..=count).rev() {
            let (these, others) = rest.split_at(rest.len().div_ceil(part));
            rest = others;
            match Node::build(session, level, is_wide, these) {
                Ok(node) => {
                    built.push(node);
                    above.push((these[0].0, Below::Node(node)));
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
        if let [(_, Below::Node(root))] = above[..] {
            return Ok(root);
        }
        below = above;
        level += 1;
    }
}

/// Children of a node that is built to last: room is left for a few more.
fn full<G: Geometry>() -> usize {
    (child_count::<G>() * 7 / 8).max(2)
}

/// A node on the way down, and the version under which it was read.
type Step<'t, M> = (&'t Node<M>, Version);

impl<G: Geometry, M: Machine> InnerTree<G, M> {
    /// Makes `leaf` the leaf for the keys from `low` on, up to the next fence. The caller holds the
    /// lock of the leaf that had them, and of the new one until it may be read.
    ///
    /// # Errors
    /// No memory for a node; then no leaf was added.
    pub fn insert_separator(
        &self,
        session: &mut Session<M>,
        low: u64,
        leaf: u64,
    ) -> Result<(), AllocError> {
        let mut attempt = 0;
        while let Err(retry) = self.try_insert(session, low, leaf)? {
            M::mark("inner.insert_again");
            retry.pause::<M>(&mut attempt);
        }
        Ok(())
    }

    /// One descent. To be repeated if somebody was in the way, or if a full node was split.
    fn try_insert(
        &self,
        session: &mut Session<M>,
        low: u64,
        leaf: u64,
    ) -> Result<Result<(), Retry>, AllocError> {
        let mut parent: Option<Step<'_, M>> = None;
        let mut node = self.root();
        let Some(mut version) = node.lock.stable(GENERATION) else { return Ok(Err(Retry::Wait)) };
        if !self.is_root(node) {
            return Ok(Err(Retry::Now));
        }
        loop {
            if node.count() >= child_count::<G>() {
                self.split(session, parent, (node, version))?;
                return Ok(Err(Retry::Now));
            }
            let index = node.find(low);
            if node.level == 1 {
                if !node.lock.upgrade(version) {
                    return Ok(Err(Retry::Now));
                }
                node.insert(index + 1, (low, Below::Leaf(leaf)));
                node.lock.unlock();
                return Ok(Ok(()));
            }
            let child = node.child(index);
            if child.is_null() {
                return Ok(Err(Retry::Now));
            }
            let next = self.node(child);
            let Some(next_version) = next.lock.stable(GENERATION) else {
                return Ok(Err(Retry::Wait));
            };
            if !node.lock.validate(GENERATION, version) {
                return Ok(Err(Retry::Now));
            }
            parent = Some((node, version));
            (node, version) = (next, next_version);
        }
    }

    /// Splits a full node; its parent has room.
    fn split(
        &self,
        session: &mut Session<M>,
        parent: Option<Step<'_, M>>,
        (node, version): Step<'_, M>,
    ) -> Result<(), AllocError> {
        if let Some((parent, version)) = parent
            && !parent.lock.upgrade(version)
        {
            return Ok(());
        }
        let open_parent = |changed: bool| match parent {
            Some((parent, _)) if changed => parent.lock.unlock(),
            Some((parent, _)) => parent.lock.unlock_unchanged(),
            None => {}
        };
        if !node.lock.upgrade(version) {
            open_parent(false);
            return Ok(());
        }
        if parent.is_none() && !self.is_root(node) {
            node.lock.unlock_unchanged();
            return Ok(());
        }
        let done = self.split_locked(session, parent.map(|(parent, _)| parent), node);
        if done.is_ok() {
            node.lock.unlock();
        } else {
            node.lock.unlock_unchanged();
        }
        open_parent(done.is_ok());
        done
    }

    /// The same with node and parent locked.
    fn split_locked(
        &self,
        session: &mut Session<M>,
        parent: Option<&Node<M>>,
        node: &Node<M>,
    ) -> Result<(), AllocError> {
        M::mark("inner.split");
        let entries = node.entries();
        let half = entries.len() / 2;
        let low = entries[half].0;
        let right = Node::build(session, node.level, self.is_wide, &entries[half..])?;
        match parent {
            Some(parent) => parent.insert(parent.find(low) + 1, (low, Below::Node(right))),
            None => {
                // Relaxed: only the holder of the root's lock, the caller, changes it (T4).
                let left = self.root.load(Ordering::Relaxed);
                let both = [(0, Below::Node(left)), (low, Below::Node(right))];
                match Node::build(session, node.level + 1, self.is_wide, &both) {
                    // Release: the nodes are complete; pairs with the acquire in `root` (T4).
                    Ok(root) => self.root.store(root, Ordering::Release),
                    Err(error) => {
                        // SAFETY: built above, reachable from nowhere.
                        unsafe { session.free_node(right.cast(), size_of::<Node<M>>()) };
                        return Err(error);
                    }
                }
            }
        }
        node.truncate(half);
        Ok(())
    }

    /// Takes `leaf`, whose low fence is `low`, out of the tree: its keys fall to `left`, which must
    /// be its left neighbour below the same node. False if that is not so; then nothing is changed.
    /// The caller holds the locks of both leaves.
    pub fn remove_separator(&self, low: u64, leaf: u64, left: u64) -> bool {
        loop {
            let found = self.find_le(low);
            let node = self.node(found.token.node);
            if !node.lock.upgrade(found.token.version) {
                continue;
            }
            let index = node.find(low);
            let fits = index > 0 && node.leaf(index) == leaf && node.leaf(index - 1) == left;
            if !fits {
                node.lock.unlock_unchanged();
                return false;
            }
            node.remove(index);
            node.lock.unlock();
            return true;
        }
    }

    /// As [`Self::replace_leaf`], unless the keys from `low` on lead to another leaf than `old`: in a tree that
    /// may not know all leaves. False then, and nothing is changed.
    pub fn exchange_leaf(&self, low: u64, old: u64, new: u64) -> bool {
        loop {
            let found = self.find_le(low);
            let node = self.node(found.token.node);
            if !node.lock.upgrade(found.token.version) {
                continue;
            }
            let index = node.find(low);
            let is_it = node.leaf(index) == old;
            if is_it {
                node.replace(index, (low, Below::Leaf(new)));
            }
            node.lock.unlock();
            return is_it;
        }
    }

    /// Lets the keys above `low`, up to `last`, that lead to `old` by another place than `low` lead to
    /// `new`: first places of nodes that [`Self::yield_place`] has given away. The caller holds the locks
    /// of both leaves.
    pub fn give_places(&self, low: u64, last: u64, old: u64, new: u64) {
        let mut key = last;
        loop {
            let (found, fence) = self.find_fence(key);
            if fence <= low {
                return;
            }
            let node = self.node(found.token.node);
            if !node.lock.upgrade(found.token.version) {
                continue;
            }
            debug_assert_eq!(found.leaf, old, "nobody else enters leaves here");
            M::mark("inner.gave_place");
            let index = node.find(key);
            node.replace(index, (fence, Below::Leaf(new)));
            node.lock.unlock();
            key = fence - 1;
        }
    }

    /// Takes `old`, a leaf with the low fence `low`, out of the tree: its keys fall to `new`, the leaf on
    /// its left. If it is the first child of a node, its place is given to `new`, and the answer is true:
    /// then `new` has two places. The caller holds the locks of both leaves.
    pub fn yield_place(&self, low: u64, old: u64, new: u64) -> bool {
        loop {
            let found = self.find_le(low);
            let node = self.node(found.token.node);
            if !node.lock.upgrade(found.token.version) {
                continue;
            }
            debug_assert_eq!(found.leaf, old, "nobody else changes this place");
            let index = node.find(low);
            if index == 0 {
                node.replace(0, (low, Below::Leaf(new)));
            } else {
                node.remove(index);
            }
            node.lock.unlock();
            return index == 0;
        }
    }

    /// Whether the place of `key` may be the last one of its node, so that the next one is the first of
    /// another.
    pub fn may_end_node(&self, key: u64) -> bool {
        let found = self.find_le(key);
        let node = self.node(found.token.node);
        let is_last = node.find(key) + 1 >= node.count();
        is_last || !self.revalidate(found.token)
    }

    /// Puts `new` in the place of `old`, a leaf with the low fence `low`. The caller holds the lock
    /// of the old one.
    pub fn replace_leaf(&self, low: u64, old: u64, new: u64) {
        let mut attempt = 0;
        loop {
            let found = self.find_le(low);
            debug_assert_eq!(found.leaf, old);
            let node = self.node(found.token.node);
            if !node.lock.upgrade(found.token.version) {
                M::spin(attempt);
                attempt += 1;
                continue;
            }
            let index = node.find(low);
            node.replace(index, (low, Below::Leaf(new)));
            node.lock.unlock();
            return;
        }
    }
}
