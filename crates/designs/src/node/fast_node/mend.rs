//! Lazy recovery: the first holder of a node's lock after the pool was opened reads the node and
//! undoes what a crash cut short.

use everleaf_alloc::AllocError;
use everleaf_machine::{Machine, Ordering};

use super::{COUNT_MASK, MENDING, Node, NodeShape, Nodes, UNCUT, UNREAD, slots};

impl<S: NodeShape, M: Machine> Nodes<S, M> {
    /// Makes a node that the caller has locked consistent, durably, and known as such.
    ///
    /// What can be wrong: one word twice (a shift was cut), records that the sibling has too (a split
    /// or a merge was cut), words behind the end (the store that ended them was durable, those that
    /// overwrote them were not), and the count.
    pub(super) fn mend(&self, node: Node<S, M>) -> Result<(), AllocError> {
        // Relaxed: nobody stores to the word but us.
        let sibling = node.sibling().load(Ordering::Relaxed);
        let bound = self.follow(sibling)?.map(|next| self.low(next));
        let end = self.end_of(node);
        let keep = match bound {
            Some(bound) if S::LOW_FENCE => node.position(bound, end),
            _ => end,
        };
        let twice = (0..keep)
            .find(|slot| node.value(*slot).read_private() == node.left_of(*slot).read_private());
        let behind = (keep..slots::<S>()).any(|slot| node.value(slot).read_private() != 0);
        let mut count = keep;
        if (twice.is_some() || behind || sibling & UNCUT != 0) && !M::mutant("fast_fair.no_mend") {
            M::mark("fast_fair.mended");
            let word = node.lock_word().read_private();
            // Release: readers wait from now on; pairs with the load in `read.rs`.
            node.lock_word().store(word | MENDING, Ordering::Release);
            node.turn(true, true);
            self.clear_from(node, keep);
            while let Some(slot) = (0..count)
                .find(|slot| node.value(*slot).read_private() == node.left_of(*slot).read_private())
            {
                self.close(node, slot, count);
                count -= 1;
            }
            if sibling & UNCUT != 0 {
                // Release: the node is cut; pairs with the loads in `read.rs`.
                node.sibling().store(sibling & !UNCUT, Ordering::Release);
            }
        }
        let state = node.state_word().read_private();
        // Release: the count of what is left; pairs with the loads in `read.rs`.
        node.state_word().store(state & !COUNT_MASK | count as u64, Ordering::Release);
        let word = node.lock_word().read_private();
        // Release: the node is consistent and its count right.
        node.lock_word().store(word & !(UNREAD | MENDING), Ordering::Release);
        Ok(())
    }

    /// Where the records end.
    fn end_of(&self, node: Node<S, M>) -> usize {
        (0..slots::<S>()).find(|slot| node.value(*slot).read_private() == 0).unwrap_or(slots::<S>())
    }

    /// Leaves nothing from a place on, durably.
    fn clear_from(&self, node: Node<S, M>, keep: usize) {
        if keep == slots::<S>() {
            return;
        }
        // Release: as all stores to records; pairs with the loads in `read.rs`.
        node.value(keep).store(0, Ordering::Release);
        // Persist: the end before what is behind it changes, or a crash could leave a record of the
        // sibling alone among ours.
        self.persist_slot(node, keep);
        for slot in keep + 1..slots::<S>() {
            // Release: pairs with the loads in `read.rs`.
            node.value(slot).store(0, Ordering::Release);
        }
        let start = node.value(keep).as_ptr();
        // Persist: nothing behind the end, before the node is believed (F2).
        self.medium.persist(start, node.start.addr() + S::NODE_SIZE - start.addr());
    }
}
