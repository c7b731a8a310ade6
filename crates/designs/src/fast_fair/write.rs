//! Insert, update, upsert, remove, compare-and-exchange: one locked leaf.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_machine::{Machine, Ordering};

use super::FastFair;
use super::merge::merge_max;
use super::search::Stray;
use super::variant::Variant;
use crate::node::fast_node::{NONCE_BITS, Node, capacity};

impl<V: Variant, M: Machine> FastFair<V, M> {
    /// Performs a write. The session is pinned.
    #[inline]
    pub(super) fn write(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, AllocError> {
        if V::BUFFERED {
            return self.write_buffered(session, change);
        }
        let mut stray = None;
        let leaf = self.lock_leaf(change.key, &mut stray)?;
        let result = self.write_locked(session, leaf, change);
        self.help(session, stray);
        result
    }

    /// Locks the leaf that `key` belongs to.
    #[inline(always)]
    pub(super) fn lock_leaf(
        &self,
        key: u64,
        stray: &mut Option<Stray<V, M>>,
    ) -> Result<Node<V, M>, AllocError> {
        let leaf = self.lock_node(key, 0, stray)?;
        let Some(leaf) = leaf else { unreachable!("there is always a level 0") };
        Ok(leaf)
    }

    /// Puts in the separator of a node that was reached from its left sibling.
    #[inline(always)]
    pub(super) fn help(&self, session: &mut Session<M>, stray: Option<Stray<V, M>>) {
        if let Some(Stray { node, level }) = stray {
            // Helping comes after our own write, whose outcome does not depend on it: without space
            // for a parent the separator stays missing, and the next writer tries again.
            let _ = self.add_separator(session, level + 1, self.nodes.low(node), node);
        }
    }

    /// Locks the node of this level that `key` belongs to; `None` if the root is not that high.
    pub(super) fn lock_node(
        &self,
        key: u64,
        level: u64,
        stray: &mut Option<Stray<V, M>>,
    ) -> Result<Option<Node<V, M>>, AllocError> {
        'restart: loop {
            let Some(mut node) = self.find(key, level, Some(stray))? else { return Ok(None) };
            loop {
                self.nodes.lock(node)?;
                if node.is_deleted() {
                    self.nodes.unlock(node);
                    continue 'restart;
                }
                let Some(next) = self.right_of_locked(node, key)? else { return Ok(Some(node)) };
                self.nodes.unlock(node);
                *stray = Some(Stray { node: next, level });
                node = next;
            }
        }
    }

    /// The right sibling of a locked node, if the key belongs to it or beyond.
    #[inline(always)]
    fn right_of_locked(
        &self,
        node: Node<V, M>,
        key: u64,
    ) -> Result<Option<Node<V, M>>, AllocError> {
        let count = node.count();
        // The holder of the lock finds no node `UNCUT`: a key below the last one is in place.
        if count > 0 && key < node.key(count - 1).read_private() {
            return Ok(None);
        }
        // Acquire: the sibling is complete; pairs with the store in `split.rs`.
        let next = self.nodes.follow(node.sibling().load(Ordering::Acquire))?;
        Ok(next.filter(|next| self.nodes.is_right(*next, key)))
    }

    /// Performs a write in its leaf, which is locked, and unlocks it.
    #[inline(always)]
    pub(super) fn write_locked(
        &self,
        session: &mut Session<M>,
        leaf: Node<V, M>,
        change: &Change,
    ) -> Result<Outcome, AllocError> {
        let count = leaf.count();
        let slot = leaf.position(change.key, count);
        let found = slot < count && leaf.key(slot).read_private() == change.key;
        let old = found.then(|| leaf.value(slot).read_private() >> NONCE_BITS);
        let (outcome, effect) = change.decide(old);
        match effect {
            Effect::None => self.nodes.unlock(leaf),
            Effect::Put if found => {
                let word = leaf.fresh_word(change.value, change.key, count);
                self.nodes.replace(leaf, slot, word);
                self.nodes.unlock(leaf);
            }
            Effect::Put if count < capacity::<V>() => {
                let word = leaf.fresh_word(change.value, change.key, count);
                self.nodes.insert(leaf, change.key, word);
                self.nodes.unlock(leaf);
            }
            Effect::Put => self.split_and_insert(session, leaf, change.key, |node, count| {
                node.fresh_word(change.value, change.key, count)
            })?,
            Effect::Delete => {
                self.nodes.remove(leaf, slot);
                let low = self.nodes.low(leaf);
                self.nodes.unlock(leaf);
                if V::MERGES && V::LOW_FENCE && count - 1 <= merge_max::<V>() {
                    self.merge(session, leaf, low, 0)?;
                }
            }
        }
        debug_assert!(!change.intent.removes() || effect != Effect::Put);
        Ok(outcome)
    }
}
