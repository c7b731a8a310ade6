//! Writes: one data node locked from beginning to end.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_machine::Machine;

use super::PacTree;
use super::layout::Node;
use super::variant::Variant;

impl<V: Variant, const BITS: u32, M: Machine> PacTree<V, BITS, M> {
    /// One write. The caller is pinned.
    ///
    /// *Linearizes at* the opening of the lock. *Durable* before.
    #[inline(always)]
    pub(super) fn write(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, AllocError> {
        loop {
            let offset = self.lock_node(change.key);
            let node = self.node(offset);
            if let Some(outcome) = self.apply(node, change) {
                let removed = outcome.changed && change.intent.removes();
                let merged = removed && self.shrink(session, offset);
                if outcome.changed {
                    node.lock.unlock();
                } else {
                    node.lock.unlock_unchanged();
                }
                if merged {
                    self.follow_some(session);
                }
                return Ok(outcome);
            }
            let room = self.split(session, offset);
            node.lock.unlock();
            room?;
            self.follow_some(session);
        }
    }

    /// The data node for a key, locked.
    #[inline(always)]
    fn lock_node(&self, key: u64) -> u64 {
        let mut attempt = 0;
        let mut offset = self.seek(key);
        loop {
            let node = self.node(offset);
            if let Err(elsewhere) = self.view(node, key) {
                self.go(elsewhere, key, &mut offset, &mut attempt);
                continue;
            }
            // Not at the version of the view: a lock that an earlier opening left is taken, too.
            if node.lock.try_lock(self.generation) {
                if self.check_range(node, key).is_none() {
                    return offset;
                }
                node.lock.unlock_unchanged();
            }
            M::mark("pactree.write_again");
        }
    }

    /// Does a write on a locked node; nothing if there is no room.
    #[inline(always)]
    fn apply(&self, node: &Node<M>, change: &Change) -> Option<Outcome> {
        let found = node.find(change.key);
        let old = found.map(|slot| node.value(slot));
        let (outcome, effect) = change.decide(old);
        match (effect, found) {
            (Effect::Put, Some(slot)) => node.set_value(self.medium, slot, change.value),
            (Effect::Put, None) if !self.put(node, change) => return None,
            (Effect::Delete, Some(slot)) => {
                node.commit(node.bitmap() & !(1 << slot));
                if !M::mutant("pactree.no_remove_flush") {
                    // Persist: the removal before the lock is opened (PT2).
                    node.persist_heading(self.medium);
                }
            }
            _ => {}
        }
        Some(outcome)
    }

    /// Insert: three lines, two drains. False if there is no free slot.
    #[inline(always)]
    fn put(&self, node: &Node<M>, change: &Change) -> bool {
        let bitmap = node.bitmap();
        let slot = (!bitmap).trailing_zeros() as usize;
        if slot >= V::CAPACITY {
            return false;
        }
        node.fill(self.medium, slot, (change.key, change.value));
        // Persist: entry and fingerprint before the bitmap names them (PT1).
        self.medium.drain();
        node.commit(bitmap | 1 << slot);
        if !M::mutant("pactree.no_bitmap_flush") {
            // Persist: the bitmap before the lock is opened (PT2).
            node.persist_heading(self.medium);
        }
        true
    }
}
