//! Merging two neighbours that are together no more than half a data node.
//!
//! 1. A record of the log says that the merge begins; both nodes are locked.
//! 2. The right one's pairs are copied into free slots of the left one, durably.
//! 3. Line 0 of the left node: the bitmap, the fence, the link, with one flush.
//! 4. The link back of the node behind, the fence of the right node that says that it is merged away,
//!    and the record says that the merge is linked. The right one's lock is opened for ever.
//!
//! The search layer learns of it afterwards, and then the right node is given back (`follow.rs`).

use everleaf_alloc::Session;
use everleaf_machine::Machine;

use super::PacTree;
use super::layout::slots;
use super::state::{Change, Kind};
use super::variant::Variant;

impl<V: Variant, const BITS: u32, M: Machine> PacTree<V, BITS, M> {
    /// Merges a node, locked by the caller, that lost a key, with its right neighbour, if it has few and
    /// that fits. Whether it did.
    #[inline(always)]
    pub(super) fn shrink(&self, session: &Session<M>, offset: u64) -> bool {
        let node = self.node(offset);
        let count = node.count();
        // Now and then is enough: a look at a neighbour is a line read.
        let is_due = count.is_multiple_of((V::CAPACITY / 16).max(1));
        count * 4 <= V::CAPACITY && is_due && node.next() != 0 && self.merge_next(session, offset)
    }

    #[cold]
    fn merge_next(&self, session: &Session<M>, left: u64) -> bool {
        let right = self.node(left).next();
        let node = self.node(right);
        // Only tried: it is not worth a wait.
        if !node.lock.try_lock(self.generation) {
            return false;
        }
        let together = self.node(left).count() + node.count();
        let place = if together * 2 > V::CAPACITY { None } else { self.log.claim() };
        let Some(place) = place else {
            node.lock.unlock_unchanged();
            return false;
        };
        self.merge(place, Change { kind: Kind::Merge, left, right });
        self.nodes.add(session.stripe(), -1);
        true
    }

    /// Moves everything from the right node to the left one, both locked. Then the lock of the right one
    /// has been opened for ever.
    fn merge(&self, place: usize, change: Change) {
        M::mark("pactree.merge");
        let (into, from) = (self.node(change.left), self.node(change.right));
        self.log.begin(place, change);
        let mut bitmap = into.bitmap();
        for (slot, source) in slots(!bitmap).zip(slots(from.bitmap())) {
            into.fill(self.medium, slot, from.pair(source));
            bitmap |= 1 << slot;
        }
        // Persist: the copies before the bitmap names them (PT1).
        self.medium.drain();
        let next = from.next();
        if M::mutant("pactree.link_first") {
            into.set_next(next);
        }
        into.commit(bitmap);
        into.set_high(from.high());
        into.set_next(next);
        if !M::mutant("pactree.no_merge_flush") {
            // Persist: line 0 before the right node says that it is merged away (PT4).
            into.persist_heading(self.medium);
        }
        self.link_back(next, change.left);
        self.end_node(change.right);
        self.log.link(place);
        from.lock.unlock_dead();
    }

    /// Says that a node is merged away: it has an empty range; on its way to the medium.
    pub(super) fn end_node(&self, offset: u64) {
        let node = self.node(offset);
        node.set_high(node.low());
        // Persist: by the caller's drain, for processes that open the pool read-only.
        self.medium.flush(node.as_ptr(), 8);
    }
}
