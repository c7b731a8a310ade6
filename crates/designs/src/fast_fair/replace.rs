//! Out-of-place writing: a leaf with a full buffer is replaced by a copy that has all of it, or by two.
//!
//! ```text
//!     P: .. r ..            P: .. r ..               P: .. r' ..
//!   L -> R -> X       =>  L -> R ==> R' -> X    =>  L -> R' -> X       R leaves the tree
//!                              (R is MOVED)
//! ```
//!
//! All under the lock of R, and those of L and P while their words change. Leaves are locked from right to left
//! here, and no other thread that holds one waits for another. What a crash leaves leads to R in L, in P, or in
//! both; recovery makes it lead to R' (B2).

use everleaf_alloc::{AllocError, Session};
use everleaf_index::IndexError;
use everleaf_machine::{Atomic, Machine, Ordering};

use super::FastFair;
use super::variant::Variant;
use crate::node::fast_node::{
    Header, LEAF_LEFT, MOVED, NONCE_BITS, Node, UNCUT, capacity, next_nonce,
};

impl<V: Variant, M: Machine> FastFair<V, M> {
    /// Replaces a locked leaf and its buffer by one or two leaves, and opens them. False, and nothing was done, if
    /// there is no space.
    ///
    /// # Errors
    /// Damage on the way to what leads to the leaf; then nothing was done, and the leaf is open.
    pub(super) fn replace(
        &self,
        session: &mut Session<M>,
        leaf: Node<V, M>,
    ) -> Result<bool, AllocError> {
        M::mark("fast_fair.replace");
        let mut pairs = vec![];
        pairs.extend((0..leaf.count()).map(|slot| leaf.entry(slot)));
        self.overlay(leaf, 0, 0, &mut pairs);
        let low = self.nodes.low(leaf);
        self.find_damage(low).inspect_err(|_| self.nodes.unlock(leaf))?;
        let sibling = leaf.sibling().read_private();
        let is_split = pairs.len() > capacity::<V>();
        let (lower, upper) = pairs.split_at(if is_split { pairs.len() / 2 } else { pairs.len() });
        let (mut right, mut next) = (None, sibling);
        if let Some((first, _)) = upper.first() {
            let Ok(made) = self.build_copy(session, leaf, (*first, sibling), upper) else {
                return Ok(false);
            };
            next = self.nodes.offset(made);
            right = Some((*first, made));
        }
        let Ok(copy) = self.build_copy(session, leaf, (low, next), lower) else {
            if let Some((_, made)) = right {
                session.free_record(self.nodes.offset(made), V::NODE_SIZE);
            }
            return Ok(false);
        };
        let placed = self.put_in_place(leaf, copy, low);
        if placed.is_err() {
            right.into_iter().for_each(|(_, right)| self.nodes.unlock(right));
            self.nodes.unlock(copy);
            self.nodes.unlock(leaf);
        }
        placed?;
        if let Some((low, right)) = right {
            self.cache_leaf(session, low, right);
            self.leaves.add(session.stripe(), 1);
            self.nodes.unlock(right);
        }
        self.nodes.unlock(copy);
        self.nodes.unlock(leaf);
        if M::mutant("fast_fair.free_moved_at_once") {
            session.free_record(self.nodes.offset(leaf), V::NODE_SIZE);
        } else {
            self.retire(session, leaf);
        }
        if let Some((low, right)) = right {
            // As in `split_and_insert`.
            let _ = self.add_separator(session, 1, low, right);
        }
        Ok(true)
    }

    /// A new leaf, locked and durable, with these words in the place of another's.
    fn build_copy(
        &self,
        session: &mut Session<M>,
        leaf: Node<V, M>,
        (low, sibling): (u64, u64),
        words: &[(u64, u64)],
    ) -> Result<Node<V, M>, AllocError> {
        let sequence = self.buffers.sequence(self.number(leaf));
        let flushed = if M::mutant("fast_fair.copy_not_flushed") { 0 } else { sequence };
        let header = Header { level: 0, low, leftmost: LEAF_LEFT, sibling, flushed, held: true };
        let mut entries: Vec<(u64, u64)> = vec![];
        for (key, word) in words {
            let mut word = word >> NONCE_BITS << NONCE_BITS | (1 + key % 255);
            while entries.iter().any(|entry| entry.1 == word) {
                word = next_nonce(word);
            }
            entries.push((*key, word));
        }
        let copy = self.build(session, &header, entries)?;
        self.buffers.set_sequence(self.number(copy), sequence);
        Ok(copy)
    }

    /// Goes the ways that [`Self::put_in_place`] will go, from which it cannot come back: what it meets is what
    /// was met here, or was made since.
    fn find_damage(&self, low: u64) -> Result<(), AllocError> {
        if low > 0 {
            let left = self.lock_leaf(low - 1, &mut None)?;
            self.nodes.unlock(left);
        }
        if let Some(parent) = self.lock_node(low, 1, &mut None)? {
            self.nodes.unlock(parent);
        }
        Ok(())
    }

    /// Makes all that leads to a locked leaf lead to its copy, durably.
    fn put_in_place(&self, leaf: Node<V, M>, copy: Node<V, M>, low: u64) -> Result<(), AllocError> {
        let (old, new) = (self.nodes.offset(leaf), self.nodes.offset(copy));
        if !M::mutant("fast_fair.not_moved") {
            // Release: the copy; pairs with recovery's load.
            leaf.sibling().store(new | MOVED, Ordering::Release);
            // Persist: from here on a crash leaves the copy in use (B2).
            self.nodes.persist_header(leaf);
        }
        // Nobody adds a separator that leads to it any more (F6).
        leaf.delete();
        if low > 0 {
            let left = self.lock_leaf(low - 1, &mut None)?;
            debug_assert_eq!(left.sibling().read_private(), old, "nothing is between the two");
            self.relink(left.sibling(), new, "fast_fair.no_left_flush");
            self.nodes.unlock(left);
        }
        // No search is known to come here twice.
        while !self.relink_parent(leaf, copy, low)? {}
        self.cache_copy(low, leaf, copy);
        Ok(())
    }

    /// Makes the parent of a locked leaf, or the root's word, lead to its copy; false if there is a parent by now.
    fn relink_parent(
        &self,
        leaf: Node<V, M>,
        copy: Node<V, M>,
        low: u64,
    ) -> Result<bool, AllocError> {
        let (old, new) = (self.nodes.offset(leaf), self.nodes.offset(copy));
        if let Some(parent) = self.lock_node(low, 1, &mut None)? {
            let words = (0..parent.count()).map(|slot| parent.value(slot));
            let mut words = words.chain([parent.leftmost()]);
            // There is none yet if nobody has put its separator in.
            if let Some(word) = words.find(|word| word.read_private() == old) {
                self.relink(word, new, "fast_fair.no_parent_flush");
            }
            self.nodes.unlock(parent);
            return Ok(true);
        }
        let root = self.root()?;
        if root == leaf {
            // Nobody grows the tree while its root is locked.
            self.relink(self.root_word(), new, "fast_fair.no_parent_flush");
            return Ok(true);
        }
        if root.level() > 0 {
            return Ok(false);
        }
        // A thread that is growing the tree has its root locked, and may have seen the leaf before it was deleted;
        // one that comes later sees that it is.
        self.nodes.lock(root)?;
        // Acquire: as in `root`.
        let is_root = self.root_word().load(Ordering::Acquire) == self.nodes.offset(root);
        self.nodes.unlock(root);
        Ok(is_root)
    }

    /// Makes a word lead to a copy, durably.
    fn relink(&self, word: &Atomic<u64, M>, copy: u64, unflushed: &'static str) {
        // Release: the copy; pairs with the loads of children, siblings and the root.
        word.store(copy, Ordering::Release);
        if !M::mutant(unflushed) {
            // Persist: before the old leaf is used again (B2).
            self.nodes.medium.persist(word.as_ptr(), 8);
        }
    }

    /// Makes all that leads to a leaf that was being replaced lead to its copy (B2). Nobody else is active.
    ///
    /// # Errors
    /// Damage; or there is something to do in a pool that is open read-only.
    pub(super) fn unlink_moved(&self) -> Result<(), IndexError> {
        if M::mutant("fast_fair.keeps_moved") {
            return Ok(());
        }
        self.unlink(self.root_word())?;
        let mut node = self.root()?;
        while node.level() > 1 {
            node = self.nodes.at(node.leftmost().read_private())?;
        }
        let mut first = node;
        if node.level() == 1 {
            let mut next = Some(node);
            while let Some(parent) = next {
                self.mend_node(parent)?;
                self.unlink(parent.leftmost())?;
                for slot in 0..self.entries_of(parent) {
                    self.unlink(parent.value(slot))?;
                }
                next = self.nodes.follow(parent.sibling().read_private())?;
            }
            first = self.nodes.at(node.leftmost().read_private())?;
        }
        let mut next = Some(first);
        while let Some(leaf) = next {
            self.mend_node(leaf)?;
            if leaf.sibling().read_private() & !UNCUT != 0 {
                self.unlink(leaf.sibling())?;
            }
            next = self.nodes.follow(leaf.sibling().read_private())?;
        }
        Ok(())
    }

    /// Mends a node, so that its words are its own.
    fn mend_node(&self, node: Node<V, M>) -> Result<(), AllocError> {
        if self.nodes.can_lock() {
            self.nodes.lock(node)?;
            self.nodes.unlock(node);
        }
        Ok(())
    }

    /// Words of a node that may count.
    fn entries_of(&self, node: Node<V, M>) -> usize {
        let all = (0..crate::node::fast_node::slots::<V>()).map(|slot| node.entry(slot).1);
        all.take_while(|word| *word != 0).count()
    }

    /// Makes a word that leads to a leaf that was being replaced lead to its copy.
    fn unlink(&self, word: &Atomic<u64, M>) -> Result<(), IndexError> {
        let found = word.read_private();
        let child = self.nodes.at(found & !UNCUT)?;
        let link = child.sibling().read_private();
        if child.level() > 0 || link & MOVED == 0 {
            return Ok(());
        }
        if !self.nodes.can_lock() {
            return Err(IndexError::ReadOnly);
        }
        M::mark("fast_fair.unlinked_moved");
        // Relaxed: nobody else is active.
        word.store(link & !MOVED | found & UNCUT, Ordering::Relaxed);
        // Persist: before the old leaf, which is free now, is used again (B2).
        self.nodes.medium.persist(word.as_ptr(), 8);
        Ok(())
    }
}
