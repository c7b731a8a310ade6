//! From a key to its border node, and lookups. Callers are pinned.

use everleaf_machine::{Machine, Ordering};

use super::Masstree;
use super::layout::{Border, Header, Inner, prefetch};
use super::state::Version;

/// A border node, and a version that it had.
pub(super) type VersionedBorder<'t, M> = (&'t Border<M>, Version);

impl<const WIDTH: usize, M: Machine> Masstree<WIDTH, M> {
    #[inline(always)]
    pub(super) fn header(&self, node: *mut Header<M>) -> &Header<M> {
        debug_assert!(!node.is_null());
        // SAFETY: a pointer that the root, a node of the tree, or an allocation led to. What changes in a
        // node is atomic, and the caller is pinned since before it was read: a node that left the tree
        // meanwhile is still there.
        unsafe { &*node }
    }

    /// The node with this header, which says that it is a border node.
    #[inline(always)]
    pub(super) fn border(&self, node: *mut Header<M>) -> &Border<M> {
        debug_assert!(self.header(node).version.is_border());
        // SAFETY: as in `header`; a node with this bit was made as a border node, and begins with its
        // header.
        unsafe { &*node.cast() }
    }

    /// The node with this header, which says that it is none.
    #[inline(always)]
    pub(super) fn inner(&self, node: *mut Header<M>) -> &Inner<M> {
        debug_assert!(!self.header(node).version.is_border());
        // SAFETY: as in `border`.
        unsafe { &*node.cast() }
    }

    #[inline(always)]
    pub(super) fn root(&self) -> *mut Header<M> {
        // Acquire: the node is complete; pairs with the release in `grow`.
        self.root.load(Ordering::Acquire)
    }

    /// The border node of `key` at some moment, and its version then: unless that changed, it still is.
    #[inline(always)]
    #[track_caller]
    pub(super) fn find_border(&self, key: u64) -> VersionedBorder<'_, M> {
        'root: loop {
            let mut node = self.root();
            let mut version = self.header(node).version.stable();
            if !version.is_root() {
                // It was split; the pointer was changed before that.
                continue;
            }
            while !self.header(node).version.is_border() {
                let inner = self.inner(node);
                let child = inner.child(inner.find(key));
                if !child.is_null() {
                    prefetch(child);
                    // Hand over hand: the child's version first, then that the parent still leads to it.
                    let below = self.header(child).version.stable();
                    if inner.header.version.validate(version) {
                        (node, version) = (child, below);
                        continue;
                    }
                }
                M::mark("masstree.inner_again");
                let now = inner.header.version.stable();
                if version.is_split_since(now) {
                    continue 'root;
                }
                version = now;
            }
            return (self.border(node), version);
        }
    }

    /// The value of `key`.
    ///
    /// *Linearizes at* the load of the value, or just before the key's removal if that came behind the load of
    /// the permutation; if the key is absent, at the load of the permutation.
    #[inline(always)]
    pub(super) fn read(&self, key: u64) -> Option<u64> {
        'root: loop {
            let (mut node, mut version) = self.find_border(key);
            while !version.is_deleted() {
                let permutation = node.permutation();
                let (rank, is_there) = node.find(permutation, key);
                let value = is_there.then(|| node.value(permutation.slot(rank)));
                if node.header.version.validate(version) {
                    return value;
                }
                M::mark("masstree.border_again");
                version = node.header.version.stable();
                if M::mutant("masstree.reader_stays") {
                    continue;
                }
                while let Some(next) = self.next_for(node, key) {
                    M::mark("masstree.reader_moves");
                    node = next;
                    version = node.header.version.stable();
                    if version.is_deleted() {
                        continue 'root;
                    }
                }
            }
        }
    }

    /// The node to the right, if `key` belongs there or beyond (T1).
    pub(super) fn next_for(&self, node: &Border<M>, key: u64) -> Option<&Border<M>> {
        let next = node.next();
        if next.is_null() {
            return None;
        }
        let next = self.border(next.cast());
        (key >= next.low).then_some(next)
    }

    /// The border node of `key`, locked.
    #[track_caller]
    pub(super) fn lock_border(&self, key: u64) -> &Border<M> {
        'root: loop {
            let (mut node, version) = self.find_border(key);
            let mut seen = Some(version);
            node.header.version.lock();
            loop {
                let held = node.header.version.held();
                if held.is_deleted() {
                    node.header.version.unlock_unchanged();
                    continue 'root;
                }
                if seen.is_some_and(|version| !version.is_split_since(held))
                    || M::mutant("masstree.writer_stays")
                {
                    return node;
                }
                let Some(next) = self.next_for(node, key) else { return node };
                M::mark("masstree.writer_moves");
                node.header.version.unlock_unchanged();
                (node, seen) = (next, None);
                node.header.version.lock();
            }
        }
    }

    /// The node above a node whose lock the caller holds, locked; none above the root.
    pub(super) fn lock_parent(&self, node: &Header<M>) -> Option<&Inner<M>> {
        loop {
            let parent = node.parent();
            if parent.is_null() {
                return None;
            }
            let inner = self.inner(parent.cast());
            inner.header.version.lock();
            // Relaxed: what a holder of that lock stored was seen when it was taken (T4).
            if node.parent.load(Ordering::Relaxed) == parent {
                return Some(inner);
            }
            M::mark("masstree.parent_again");
            inner.header.version.unlock_unchanged();
        }
    }
}
