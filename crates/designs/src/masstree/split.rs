//! Splits: all locks first, then all memory, then all changes.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Machine, Ordering};

use super::Masstree;
use super::layout::{Border, Child, Header, Inner, KEY_COUNT};

/// The nodes above a border node that its split changes, locked, from below; all but the last are full.
struct Path<'t, M: Machine> {
    nodes: Vec<&'t Inner<M>>,
    /// Whether the last one is full, too, or there is none: then the tree grows.
    grows: bool,
}

impl<M: Machine> Path<'_, M> {
    /// Opens all of them; `changed` ones with a new version.
    fn unlock(&self, changed: bool) {
        for node in &self.nodes {
            if changed {
                node.header.version.unlock();
            } else {
                node.header.version.unlock_unchanged();
            }
        }
    }
}

/// New nodes, locked, that nobody can reach.
struct Parts<M: Machine> {
    right: *mut Border<M>,
    /// One for each full node of the path, and a root if the tree grows.
    inner: Vec<*mut Inner<M>>,
}

impl<const WIDTH: usize, M: Machine> Masstree<WIDTH, M> {
    /// Keys that an inner node has room for.
    const KEYS: usize = if WIDTH < KEY_COUNT { WIDTH } else { KEY_COUNT };

    /// Adds a pair at a rank of a full node, whose lock the caller gives up, in two nodes.
    ///
    /// # Errors
    /// No memory; then nothing was changed.
    pub(super) fn split(
        &self,
        session: &mut Session<M>,
        node: &Border<M>,
        rank: usize,
        pair: (u64, u64),
    ) -> Result<(), AllocError> {
        let mut pairs = node.pairs();
        pairs.insert(rank, pair);
        // Keys that come in order fill nodes.
        let is_last = rank == WIDTH && node.next().is_null();
        let left = if is_last { WIDTH } else { pairs.len().div_ceil(2) };
        let path = self.lock_path(&node.header);
        let parts = match self.make_parts(session, &path, &pairs[left..]) {
            Ok(parts) => parts,
            Err(error) => {
                path.unlock(false);
                node.header.version.unlock_unchanged();
                return Err(error);
            }
        };
        self.announce(node, &path);
        self.halve(node, (rank, pair), left, &parts);
        self.ascend(node, &path, &parts, pairs[left].0);
        self.border(parts.right.cast()).header.version.unlock();
        for made in &parts.inner {
            self.inner(made.cast()).header.version.unlock();
        }
        path.unlock(true);
        node.header.version.unlock();
        self.splits.add(session.stripe(), 1);
        Ok(())
    }

    /// Locks the nodes above up to the first that is not full.
    fn lock_path(&self, bottom: &Header<M>) -> Path<'_, M> {
        let mut path = Path { nodes: vec![], grows: true };
        let mut below = bottom;
        while let Some(parent) = self.lock_parent(below) {
            path.nodes.push(parent);
            if parent.count() < Self::KEYS {
                path.grows = false;
                break;
            }
            below = &parent.header;
        }
        path
    }

    fn make_parts(
        &self,
        session: &mut Session<M>,
        path: &Path<'_, M>,
        pairs: &[(u64, u64)],
    ) -> Result<Parts<M>, AllocError> {
        let right = Border::make(session, (pairs[0].0, false), pairs)?;
        let mut parts = Parts { right, inner: vec![] };
        let count = path.nodes.len() + usize::from(path.grows) - usize::from(!path.grows);
        for number in 0..count {
            match Inner::make(session, path.grows && number + 1 == count) {
                Ok(made) => parts.inner.push(made),
                Err(error) => {
                    // SAFETY: made above, with this size; nobody else has seen it.
                    unsafe { session.free_node(right.cast(), size_of::<Border<M>>()) };
                    for made in parts.inner {
                        // SAFETY: likewise.
                        unsafe { session.free_node(made.cast(), size_of::<Inner<M>>()) };
                    }
                    return Err(error);
                }
            }
        }
        Ok(parts)
    }

    /// Marks everything that will change (T3).
    fn announce(&self, node: &Border<M>, path: &Path<'_, M>) {
        if M::mutant("masstree.unmarked_split") {
            return;
        }
        node.header.version.begin_split();
        let full = path.nodes.len() - usize::from(!path.grows);
        for (index, inner) in path.nodes.iter().enumerate() {
            if index < full {
                inner.header.version.begin_split();
            } else {
                inner.header.version.begin_insert();
            }
        }
    }

    /// Leaves the lower half in the border node, with the new pair if it belongs there.
    fn halve(&self, node: &Border<M>, at: (usize, (u64, u64)), left: usize, parts: &Parts<M>) {
        let (rank, (key, value)) = at;
        let stays_left = rank < left;
        let kept = if stays_left { left - 1 } else { left };
        let mut permutation = node.permutation().truncated(kept);
        if stays_left {
            let slot = permutation.insert(rank);
            node.fill(slot, key, value);
        }
        self.border(parts.right.cast()).set_next(node.next());
        node.set_next(parts.right);
        node.publish(permutation);
    }

    /// Enters the new border node above, and every new inner node above that.
    fn ascend(&self, node: &Border<M>, path: &Path<'_, M>, parts: &Parts<M>, low: u64) {
        let mut left: &Header<M> = &node.header;
        let mut new: Child<M> = (low, parts.right.cast());
        let mut made = parts.inner.iter().copied();
        for inner in &path.nodes {
            let mut children = inner.children();
            let index = inner.find(new.0) + 1;
            children.insert(index, new);
            if children.len() <= Self::KEYS + 1 {
                self.header(new.1).set_parent(std::ptr::from_ref(*inner).cast_mut());
                inner.set_children(&children);
                return;
            }
            let right = made.next().expect("one was made for each full node");
            let half = children.len() / 2;
            self.header(new.1).set_parent(std::ptr::from_ref(*inner).cast_mut());
            for child in &children[half..] {
                self.header(child.1).set_parent(right);
            }
            self.inner(right.cast()).set_children(&children[half..]);
            inner.set_children(&children[..half]);
            (left, new) = (&inner.header, (children[half].0, right.cast()));
        }
        let root = made.next().expect("one was made for a tree that grows");
        self.grow(left, new, root);
    }

    /// Puts a new root above the old one and its new neighbour.
    fn grow(&self, old: &Header<M>, new: Child<M>, root: *mut Inner<M>) {
        let left = std::ptr::from_ref(old).cast_mut();
        self.inner(root.cast()).set_children(&[(0, left), new]);
        old.set_parent(root);
        self.header(new.1).set_parent(root);
        old.version.end_root();
        // Release: the root is complete; pairs with the acquire in `root`.
        self.root.store(root.cast(), Ordering::Release);
    }
}
