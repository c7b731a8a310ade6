//! The link phase of Algorithm 2: the copies take the leaf's place in the list, durably, and in the
//! tree.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::Geometry;
use everleaf_machine::{Machine, Ordering};

use super::NbPublished;
use super::calloc::Logged;
use super::layout::Leaf;
use super::state::{LINK, SMO};
use super::variant::Variant;

impl<V: Variant, G: Geometry, M: Machine> NbPublished<V, G, M> {
    /// Links the copies, or helps to.
    ///
    /// *Durability point*: the exchange in the predecessor's block, once it is flushed.
    pub(super) fn link(
        &self,
        session: &mut Session<M>,
        leaf: &Leaf<M>,
        left: &Leaf<M>,
        logged: &mut Option<Logged>,
    ) -> Result<(), AllocError> {
        while !self.is_linked(leaf) {
            let predecessor = self.predecessor(session, leaf);
            let word = predecessor.map_or(self.head(), |leaf| &self.block(leaf).next);
            // AcqRel: the copies' blocks are complete; pairs with the load in `Block::next`.
            let before = word.compare_exchange(
                leaf.block(),
                left.block(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if !M::mutant("nbtree_published.no_link_flush") {
                // Persist: the link, ours or another thread's, before anybody writes to the copies
                // as to leaves, or a crash would take such a write back (NP5).
                self.medium.persist(word.as_ptr(), 8);
            }
            // If the predecessor is being replaced, its copies may have taken the link over before we
            // changed it.
            if let Some(predecessor) = predecessor.filter(|leaf| is_moving(leaf)) {
                M::mark("nbtree_published.help_predecessor");
                // Its replacement needs a log, and its lock may be that of a thread that waits for one.
                if !M::mutant("nbtree_blocks.keeps_log") {
                    self.space.give_up(session, logged);
                }
                self.replace_in_front(session, predecessor)?;
                continue;
            }
            if before.is_err_and(|now| now != left.block()) {
                M::mark("nbtree_published.predecessor_moved");
                continue;
            }
            // AcqRel: the copies are linked; pairs with the load in `is_linked`. The switch: from
            // now on every thread that comes goes to the copies.
            if leaf.flag.fetch_or(LINK, Ordering::AcqRel) & LINK == 0 {
                self.note_replaced(session, left);
            }
        }
        self.install(session, leaf.low());
        Ok(())
    }

    /// Replaces the leaf in front of another, behind those in front of it that are being replaced, too.
    ///
    /// The leftmost one first, so that its link waits for nobody: one after the other from the right, each
    /// would wait for the next on this thread's stack, and where a pool had been full there may be thousands.
    fn replace_in_front(
        &self,
        session: &mut Session<M>,
        nearest: &Leaf<M>,
    ) -> Result<(), AllocError> {
        let (mut waiting, mut leaf) = (vec![nearest], nearest);
        while let Some(before) = self.predecessor(session, leaf).filter(|leaf| is_moving(leaf)) {
            waiting.push(before);
            leaf = before;
        }
        for leaf in waiting.into_iter().rev() {
            // With locks: to the left only, so no thread waits for one that it keeps waiting.
            if let Some(_held) = self.hold_for_write(leaf) {
                self.replace(session, leaf)?;
            }
        }
        Ok(())
    }

    /// The leaf in front of `leaf`; `None` if it is the first.
    fn predecessor(&self, session: &mut Session<M>, leaf: &Leaf<M>) -> Option<&Leaf<M>> {
        Some(self.find_leaf(session, leaf.low().checked_sub(1)?))
    }

    fn note_replaced(&self, session: &Session<M>, left: &Leaf<M>) {
        self.splits.add(session.stripe(), 1);
        self.leaves.add(session.stripe(), i64::from(!left.right().is_null()));
    }
}

/// Whether a leaf is being replaced, or was to be when there was no room.
fn is_moving<M: Machine>(leaf: &Leaf<M>) -> bool {
    // Acquire: pairs with the add of the bit in `write.rs`.
    leaf.bitmap.load(Ordering::Acquire) & SMO != 0
}
