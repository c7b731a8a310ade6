//! Finding the leaf, or the node of a level, that a key belongs to; and its word.

use everleaf_alloc::AllocError;
use everleaf_machine::Machine;

use super::FastFair;
use super::variant::Variant;
use crate::node::fast_node::{NONCE_BITS, Node, Seen};

/// A node that was reached from its left sibling: its separator may be missing.
pub(super) struct Stray<V, M: Machine> {
    pub node: Node<V, M>,
    pub level: u64,
}

impl<V: Variant, M: Machine> FastFair<V, M> {
    /// The node of this level that `key` belongs to now, but for nodes that were split off
    /// meanwhile; `None` if the root is not that high. Pinned.
    #[inline(always)]
    pub(super) fn find(
        &self,
        key: u64,
        level: u64,
        mut stray: Option<&mut Option<Stray<V, M>>>,
    ) -> Result<Option<Node<V, M>>, AllocError> {
        if level == 0
            && let Some(leaf) = self.cached(key)
        {
            leaf.prefetch();
            return Ok(Some(leaf));
        }
        'restart: loop {
            let mut node = self.root()?;
            let mut at = node.level();
            if at < level {
                return Ok(None);
            }
            while at > level {
                match self.seek(node, key, V::NODE_LOCKS)? {
                    Seen::Word(child) => {
                        node = self.nodes.at(child)?;
                        node.prefetch();
                        at -= 1;
                    }
                    Seen::Right(next) => {
                        if let Some(stray) = &mut stray {
                            **stray = Some(Stray { node: next, level: at });
                        }
                        node = next;
                    }
                    Seen::Gone | Seen::Absent => {
                        M::mark("fast_fair.search.restarted");
                        continue 'restart;
                    }
                }
            }
            return Ok(Some(node));
        }
    }

    /// The word of `key`. Pinned.
    ///
    /// *Linearizes* at the load of the word, or of the end of the records.
    #[inline]
    pub(super) fn get_word(&self, key: u64) -> Result<Option<u64>, AllocError> {
        'restart: loop {
            let Some(mut leaf) = self.find(key, 0, None)? else {
                unreachable!("there is always a level 0")
            };
            loop {
                match self.seek_leaf(leaf, key)? {
                    Seen::Word(word) => return Ok(Some(word)),
                    Seen::Absent => return Ok(None),
                    Seen::Right(next) => leaf = next,
                    Seen::Gone => continue 'restart,
                }
            }
        }
    }

    /// What a leaf and its buffer say of a key.
    #[inline(always)]
    fn seek_leaf(&self, leaf: Node<V, M>, key: u64) -> Result<Seen<V, M>, AllocError> {
        if !V::BUFFERED {
            return self.seek(leaf, key, V::LEAF_LOCKS);
        }
        let locks = self.locks_readers();
        if locks {
            self.lock_to_read(leaf)?;
        }
        let mut seen = self.nodes.seek(leaf, key);
        if let Ok(Seen::Word(_) | Seen::Absent) = seen
            && let Some((_, value)) = self.buffer(leaf).find(key)
        {
            seen = Ok(value.map_or(Seen::Absent, |value| Seen::Word(value << NONCE_BITS)));
        }
        if locks {
            self.nodes.unlock_shared(leaf);
        }
        seen
    }

    /// What a node says of a key, perhaps with writers kept out meanwhile.
    #[inline(always)]
    fn seek(&self, node: Node<V, M>, key: u64, locks: bool) -> Result<Seen<V, M>, AllocError> {
        // Nobody writes to a pool that is open for reading only.
        if !(locks && self.nodes.can_lock()) {
            return self.nodes.seek(node, key);
        }
        self.lock_to_read(node)?;
        let seen = self.nodes.seek(node, key);
        self.nodes.unlock_shared(node);
        seen
    }

    /// Whether readers lock their leaf. Nobody writes to a pool that is open for reading only.
    #[inline(always)]
    pub(super) fn locks_readers(&self) -> bool {
        V::LEAF_LOCKS && self.nodes.can_lock()
    }

    /// Keeps writers out of a node.
    pub(super) fn lock_to_read(&self, leaf: Node<V, M>) -> Result<(), AllocError> {
        while !self.nodes.lock_shared(leaf) {
            // Nobody has written here since the pool was opened: mend the node first.
            self.nodes.lock(leaf)?;
            self.nodes.unlock(leaf);
        }
        Ok(())
    }
}
