//! FAIR: merging a node into its left neighbour, and taking an empty root away.
//!
//! ```text
//!   P: .. r ..       P: ..          P: ..             P: ..
//!   L: 1 -> R: 5  => L: 1 -> R: 5 => L: 1 5 -> R: 5 => L: 1 5 -> next   R leaves the tree
//! ```
//!
//! All under the locks of P, L and R, taken in this order. After a crash in the middle R has no
//! separator: it is like a node that was just split off, and the copies of its records in L are cut
//! by the thread that locks L next.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Machine, Ordering};

use super::FastFair;
use super::variant::Variant;
use crate::node::fast_node::{Node, UNCUT, capacity, next_nonce};

/// Records of a node that is to be merged with a neighbour: at most a quarter of what fits.
pub(super) const fn merge_max<V: Variant>() -> usize {
    capacity::<V>().div_ceil(4)
}

/// Records of the largest node, rounded up.
const fn slots_max() -> usize {
    4096 / 16
}

impl<V: Variant, M: Machine> FastFair<V, M> {
    /// Merges a node of this level, which had few records and this low fence, with a neighbour of
    /// the same parent, if that is still possible. The session is pinned; no lock is held.
    pub(super) fn merge(
        &self,
        session: &mut Session<M>,
        node: Node<V, M>,
        low: u64,
        level: u64,
    ) -> Result<(), AllocError> {
        let Some(parent) = self.lock_node(low, level + 1, &mut None)? else { return Ok(()) };
        let count = parent.count();
        let offset = self.nodes.offset(node);
        let place = (0..count).find(|slot| parent.value(*slot).read_private() == offset);
        let is_leftmost = parent.leftmost().read_private() == offset;
        let slot = place.or_else(|| (is_leftmost && count > 0).then_some(0));
        let Some(slot) = slot else {
            self.nodes.unlock(parent);
            return Ok(());
        };
        let merged = self.merge_at(session, parent, slot, level);
        let left = parent.count();
        let parent_low = self.nodes.low(parent);
        self.nodes.unlock(parent);
        if merged? {
            M::mark("fast_fair.merged");
            if left == 0 {
                self.shrink(session)?;
            }
            if left <= merge_max::<V>() {
                self.merge(session, parent, parent_low, level + 1)?;
            }
        }
        Ok(())
    }

    /// Merges the child of a locked parent's record into its left neighbour, if it fits.
    fn merge_at(
        &self,
        session: &mut Session<M>,
        parent: Node<V, M>,
        slot: usize,
        level: u64,
    ) -> Result<bool, AllocError> {
        let left = self.nodes.at(parent.left_of(slot).read_private())?;
        let right = self.nodes.at(parent.value(slot).read_private())?;
        self.nodes.lock(left)?;
        if let Err(error) = self.nodes.lock(right) {
            self.nodes.unlock(left);
            return Err(error);
        }
        // Relaxed: nobody stores to the words but the holders of the locks.
        let sibling = left.sibling().load(Ordering::Relaxed);
        let neighbours = sibling & !UNCUT == self.nodes.offset(right);
        // An inner node brings its leftmost child, too.
        let size = left.count() + right.count() + usize::from(level > 0);
        let merges = neighbours && size <= capacity::<V>();
        if merges {
            // F6: durable when it returns.
            self.nodes.remove(parent, slot);
            self.move_records(left, right, level);
            let mut next = right.sibling().read_private();
            if M::mutant("fast_fair.merge_keeps_sibling") {
                next = sibling;
            }
            // Release: the records are in the left node; pairs with the loads in `read.rs`.
            left.sibling().store(next, Ordering::Release);
            // Persist: the unlinking before the node may be reused (F3).
            self.nodes.persist_header(left);
            right.delete();
        }
        self.nodes.unlock(right);
        self.nodes.unlock(left);
        if merges {
            self.retire(session, right);
        }
        Ok(merges)
    }

    /// Appends all records of `right` to `left`; both are locked.
    fn move_records(&self, left: Node<V, M>, right: Node<V, M>, level: u64) {
        let (base, count) = (left.count(), right.count());
        if level > 0 {
            let first = (self.nodes.low(right), right.leftmost().read_private());
            let rest = (0..count).map(|slot| right.entry(slot));
            return self.nodes.append(left, std::iter::once(first).chain(rest));
        }
        // Words stay what they are unless the left node has the same.
        let mut words = [0; slots_max()];
        for (slot, word) in words[..count].iter_mut().enumerate() {
            *word = right.entry(slot).1;
        }
        for slot in 0..count {
            while (0..base).any(|other| left.entry(other).1 == words[slot])
                || (0..count).any(|other| other != slot && words[other] == words[slot])
            {
                words[slot] = next_nonce(words[slot]);
            }
        }
        self.nodes.append(left, (0..count).map(|slot| (right.entry(slot).0, words[slot])));
    }

    /// Replaces a root without records by its only child.
    fn shrink(&self, session: &mut Session<M>) -> Result<(), AllocError> {
        let root = self.root()?;
        self.nodes.lock(root)?;
        let old = self.nodes.offset(root);
        // Relaxed: nobody stores to the word but the holder of the lock.
        let alone = root.sibling().load(Ordering::Relaxed) == 0;
        let empty = root.level() > 0 && root.count() == 0 && alone && !root.is_deleted();
        let child = root.leftmost().read_private();
        // Acquire: as in `root`. While its lock is held the root stays, if it is the root.
        let shrunk = empty && self.root_word().load(Ordering::Acquire) == old;
        if shrunk {
            // Release: pairs with the load in `root`.
            self.root_word().store(child, Ordering::Release);
            // Persist: the new root before the old one may be reused (F3).
            session.medium().persist(self.root_word().as_ptr(), 8);
            root.delete();
        }
        self.nodes.unlock(root);
        if shrunk {
            M::mark("fast_fair.shrunk");
            self.retire(session, root);
        }
        Ok(())
    }
}
