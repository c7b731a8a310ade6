//! Splitting a full data node.
//!
//! 1. The new node is filled with the upper half and made durable; it is locked. Up to here all can fail.
//! 2. A record of the log says that the split begins.
//! 3. Line 0 of the old node: the link, the fence, the bitmap, with one flush.
//! 4. The link back of the node behind, and the record says that the split is linked.
//!
//! The search layer learns of it afterwards (`follow.rs`).

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::Machine;

use super::PacTree;
use super::layout::{NODE_SIZE, Node, slots};
use super::state::{Change, Kind};
use super::variant::Variant;

impl<V: Variant, const BITS: u32, M: Machine> PacTree<V, BITS, M> {
    /// Moves the upper half of a node, locked by the caller, to a new one.
    ///
    /// # Errors
    /// No space; then nothing was changed.
    #[cold]
    pub(super) fn split(&self, session: &mut Session<M>, left: u64) -> Result<(), AllocError> {
        M::mark("pactree.split");
        let place = self.claim_place(session)?;
        let right = match session.allocate_record(NODE_SIZE) {
            Ok(right) => right,
            Err(error) => {
                self.log.unclaim(place);
                return Err(error);
            }
        };
        let (old, new) = (self.node(left), self.node(right));
        let pairs = self.sorted_pairs(old);
        let upper = &pairs[pairs.len() / 2..];
        let (low, next) = (upper[0].0, old.next());
        new.build(self.medium, self.generation, (low, old.high()), (left, next), upper);
        self.log.begin(place, Change { kind: Kind::Split, left, right });
        let stays = old.slots_below(low);
        if M::mutant("pactree.bitmap_first") {
            old.commit(stays);
        }
        old.set_next(right);
        old.set_high(low);
        old.commit(stays);
        if !M::mutant("pactree.no_split_flush") {
            // Persist: line 0 before anybody writes to the new node (PT2, PT4).
            old.persist_heading(self.medium);
        }
        self.link_back(next, right);
        self.log.link(place);
        new.lock.unlock();
        self.splits.add(session.stripe(), 1);
        self.nodes.add(session.stripe(), 1);
        Ok(())
    }

    /// Makes `prev`, locked by the caller, the left neighbour of the node at `offset`, if there is one; on
    /// its way to the medium.
    pub(super) fn link_back(&self, offset: u64, prev: u64) {
        if offset != 0 && !M::mutant("pactree.no_link_back") {
            self.node(offset).set_prev(self.medium, prev);
        }
    }

    /// All pairs of a node, ascending. The caller holds the lock, or nobody is active.
    pub(super) fn sorted_pairs(&self, node: &Node<M>) -> Vec<(u64, u64)> {
        let mut pairs: Vec<_> = slots(node.bitmap()).map(|slot| node.pair(slot)).collect();
        pairs.sort_unstable();
        pairs
    }
}
