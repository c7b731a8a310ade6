//! FAIR: splitting a node, and telling the level above.
//!
//! ```text
//!   L: 1 2 3 4   ->  L: 1 2 3 4  =>  L: 1 2 3 4 --UNCUT--> N: 3 4  =>  L: 1 2 --> N: 3 4
//!                    N: 3 4 (durable)      (durable)                      (durable)
//! ```
//!
//! A crash between the last two leaves 3 and 4 twice; the thread that locks L next cuts it. A crash before
//! the separator of N is in the parent leaves N reachable from L only: a thread that comes that way puts
//! the separator in.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Machine, Ordering};

use super::FastFair;
use super::variant::Variant;
use crate::node::fast_node::{Header, LEAF_LEFT, Node, UNCUT, capacity};

impl<V: Variant, M: Machine> FastFair<V, M> {
    /// Puts a record into a full node, which is locked: splits it, unlocks both halves, and puts the
    /// new node's separator in. Without space for the new node nothing is changed.
    pub(super) fn split_and_insert(
        &self,
        session: &mut Session<M>,
        node: Node<V, M>,
        key: u64,
        word: impl FnOnce(Node<V, M>, usize) -> u64,
    ) -> Result<(), AllocError> {
        let level = node.level();
        let (right, low) = match self.split(session, node) {
            Ok(done) => done,
            Err(error) => {
                self.nodes.unlock(node);
                return Err(error);
            }
        };
        let target = if key < low { node } else { right };
        self.nodes.insert(target, key, word(target, target.count()));
        self.nodes.unlock(right);
        self.nodes.unlock(node);
        // The record is in and durable: without space for the parents it stays so, and writers that reach
        // the new node from the left will try again.
        let _ = self.add_separator(session, level + 1, low, right);
        Ok(())
    }

    /// Moves the upper half of a locked node to a new one on its right, which is locked too. Returns
    /// it with its low fence.
    pub(super) fn split(
        &self,
        session: &mut Session<M>,
        node: Node<V, M>,
    ) -> Result<(Node<V, M>, u64), AllocError> {
        if V::LOGGING {
            self.log(session, node)?;
        }
        let (count, level) = (node.count(), node.level());
        let middle = count / 2;
        let (low, middle_word) = node.entry(middle);
        // Relaxed: nobody stores to the word but the holder of the lock.
        let sibling = node.sibling().load(Ordering::Relaxed);
        // An inner node's middle key goes up, and its child becomes the leftmost one.
        let (leftmost, first) =
            if level == 0 { (LEAF_LEFT, middle) } else { (middle_word, middle + 1) };
        let flushed =
            if level == 0 && V::BUFFERED { node.flushed_word().read_private() } else { 0 };
        let header = Header { level, low, leftmost, sibling, flushed, held: true };
        let moved = (first..count).map(|slot| node.entry(slot));
        let right = self.build(session, &header, moved)?;
        if level == 0 && V::BUFFERED {
            // Records of the old leaf may be of keys that are the new one's now (B1).
            let sequence = self.buffers.sequence(self.number(node));
            self.buffers.set_sequence(self.number(right), sequence);
            self.leaves.add(session.stripe(), 1);
        }
        let offset = self.nodes.offset(right);
        let mark = if M::mutant("fast_fair.no_uncut") { 0 } else { UNCUT };
        // Release: the new node is complete; pairs with the loads of siblings in `read.rs`.
        node.sibling().store(offset | mark, Ordering::Release);
        if !M::mutant("fast_fair.cut_before_link") {
            // Persist: the way to the moved records before they go here, or a crash would lose them.
            self.nodes.persist_header(node);
        }
        let keep =
            if M::mutant("fast_fair.middle_key_stays") && level > 0 { first } else { middle };
        self.nodes.cut(node, keep);
        // Release: the node has been cut; pairs with the loads of siblings in `read.rs`.
        node.sibling().store(offset, Ordering::Release);
        // Persist: that it is cut, so that nobody has to look again after a crash.
        self.nodes.persist_header(node);
        M::mark("fast_fair.split");
        if level == 0 {
            self.cache_leaf(session, low, right);
        }
        Ok((right, low))
    }

    /// Makes an image of a node durable, and forgets it: what a log would cost.
    fn log(&self, session: &mut Session<M>, node: Node<V, M>) -> Result<(), AllocError> {
        let offset = session.allocate_record(V::NODE_SIZE)?;
        let image = self.nodes.node(offset);
        for slot in 0..node.count() {
            let (key, word) = node.entry(slot);
            image.key(slot).write_private(key);
            image.value(slot).write_private(word);
        }
        // Persist: the image before the node changes, as a log would need it.
        session.medium().persist(image.leftmost().as_ptr(), V::NODE_SIZE);
        session.free_record(offset, V::NODE_SIZE);
        Ok(())
    }

    /// Puts the separator of `child`, a node of the level below with this low fence, into its level,
    /// unless it is there or the child has left the tree. The session is pinned; no lock is held.
    pub(super) fn add_separator(
        &self,
        session: &mut Session<M>,
        level: u64,
        low: u64,
        child: Node<V, M>,
    ) -> Result<(), AllocError> {
        let offset = self.nodes.offset(child);
        loop {
            let Some(node) = self.lock_node(low, level, &mut None)? else {
                if self.grow(session, level, low, child)? {
                    return Ok(());
                }
                continue;
            };
            let count = node.count();
            let slot = node.position(low, count);
            let known = slot < count && node.key(slot).read_private() == low
                || V::LOW_FENCE && self.nodes.low(node) == low;
            // A child leaves the tree only under this lock (F6).
            if known || child.is_deleted() && !M::mutant("fast_fair.blind_separator") {
                self.nodes.unlock(node);
                return Ok(());
            }
            if count < capacity::<V>() {
                self.nodes.insert(node, low, offset);
                self.nodes.unlock(node);
                return Ok(());
            }
            return self.split_and_insert(session, node, low, |_, _| offset);
        }
    }

    /// Makes a root above the present one, with the separator of `child`; false if there is one.
    fn grow(
        &self,
        session: &mut Session<M>,
        level: u64,
        low: u64,
        child: Node<V, M>,
    ) -> Result<bool, AllocError> {
        let old = self.root()?;
        // While this lock is held the root stays, if it is the root: so no node of its level has a
        // parent, and none leaves the tree.
        self.nodes.lock(old)?;
        let offset = self.nodes.offset(old);
        // Acquire: as in `root`.
        let is_root = self.root_word().load(Ordering::Acquire) == offset;
        let grows = is_root && old.level() + 1 == level;
        // Even if the root is now far below: a child that has left the tree needs no separator.
        let known = child.is_deleted() && !M::mutant("fast_fair.blind_growth");
        let result =
            if grows && !known { self.grow_locked(session, old, low, child) } else { Ok(known) };
        self.nodes.unlock(old);
        result
    }

    fn grow_locked(
        &self,
        session: &mut Session<M>,
        old: Node<V, M>,
        low: u64,
        child: Node<V, M>,
    ) -> Result<bool, AllocError> {
        let leftmost = self.nodes.offset(old);
        let header = Header {
            level: old.level() + 1,
            low: 0,
            leftmost,
            sibling: 0,
            flushed: 0,
            held: false,
        };
        let root = self.build(session, &header, [(low, self.nodes.offset(child))])?;
        // Release: publishes the root; pairs with the load in `root`.
        self.root_word().store(self.nodes.offset(root), Ordering::Release);
        M::mark("fast_fair.grown");
        // Persist: so that the levels do not have to grow again after a crash; nothing depends on it.
        session.medium().persist(self.root_word().as_ptr(), 8);
        Ok(true)
    }
}
