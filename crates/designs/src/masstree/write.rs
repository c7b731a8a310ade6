//! Writes: one border node locked, nodes above it only where one splits or goes.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_machine::Machine;

use super::Masstree;
use super::layout::Border;

impl<const WIDTH: usize, M: Machine> Masstree<WIDTH, M> {
    /// One write. The caller is pinned.
    pub(super) fn write(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, AllocError> {
        let node = self.lock_border(change.key);
        let permutation = node.permutation();
        let (rank, is_there) = node.find(permutation, change.key);
        let old = is_there.then(|| node.value(permutation.slot(rank)));
        let (outcome, effect) = change.decide(old);
        match effect {
            Effect::None => node.header.version.unlock_unchanged(),
            Effect::Put if is_there => {
                node.set_value(permutation.slot(rank), change.value);
                node.header.version.unlock();
            }
            Effect::Put if permutation.count() < WIDTH => self.put(node, rank, change),
            Effect::Put => self.split(session, node, rank, (change.key, change.value))?,
            Effect::Delete => self.take_out(session, node, rank),
        }
        Ok(outcome)
    }

    /// Adds a pair at a rank of a node with room, whose lock the caller gives up.
    fn put(&self, node: &Border<M>, rank: usize, change: &Change) {
        let version = &node.header.version;
        let mut permutation = node.permutation();
        // A thread that has read a permutation that named the slot must not take the new pair for the
        // old (T2).
        if version.has_removed() && !M::mutant("masstree.silent_reuse") {
            version.begin_insert();
        }
        let slot = permutation.insert(rank);
        if M::mutant("masstree.early_publish") {
            node.publish(permutation);
        }
        node.fill(slot, change.key, change.value);
        node.publish(permutation);
        version.unlock();
    }

    /// Takes a pair out of a node, whose lock the caller gives up; and the node with the last pair.
    fn take_out(&self, session: &mut Session<M>, node: &Border<M>, rank: usize) {
        let mut permutation = node.permutation();
        permutation.remove(rank);
        node.publish(permutation);
        if permutation.count() == 0 {
            self.remove_empty(session, node);
        } else {
            node.header.version.unlock_after(true);
        }
    }
}
