//! Writes: one leaf locked from beginning to end.

use everleaf_alloc::Session;
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_index::{Geometry, IndexError};
use everleaf_machine::Machine;

use super::state::LOCK_GENERATION;
use super::variant::Variant;
use super::{Place, Tree};

impl<V: Variant, G: Geometry, M: Machine> Tree<V, G, M> {
    /// One write.
    ///
    /// *Linearizes at* the opening of the lock. *Durable* before.
    #[inline(always)]
    pub(super) fn write(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, IndexError> {
        loop {
            let place = self.lock_leaf(change.key);
            if let Some(outcome) = self.apply(place, change) {
                if !outcome.changed {
                    place.middle.lock.unlock_unchanged();
                } else if !change.intent.removes() || !self.shrink(session, place) {
                    place.middle.lock.unlock();
                }
                return Ok(outcome);
            }
            let room = self.split(session, place);
            place.middle.lock.unlock();
            room?;
        }
    }

    /// The leaf for a key, locked.
    #[inline(always)]
    pub(super) fn lock_leaf(&self, key: u64) -> Place<'_, M> {
        let mut attempt = 0;
        let mut place = self.seek(key);
        loop {
            let lock = &place.middle.lock;
            if !lock.try_lock(LOCK_GENERATION) {
                M::mark("sptree.write_again");
                if lock.is_dead(LOCK_GENERATION) {
                    place = self.seek(key);
                } else {
                    M::spin(attempt);
                    attempt += 1;
                }
                continue;
            }
            match self.check_range(place, key) {
                Ok(()) => return place,
                Err(elsewhere) => {
                    lock.unlock_unchanged();
                    place = self.move_right(elsewhere).unwrap_or_else(|| self.seek(key));
                }
            }
        }
    }

    /// Does a write on a locked leaf; nothing if there is no room.
    #[inline(always)]
    fn apply(&self, place: Place<'_, M>, change: &Change) -> Option<Outcome> {
        let found = self.find_locked(place, change.key);
        let old = found.map(|slot| place.leaf.value(slot));
        let (outcome, effect) = change.decide(old);
        match (effect, found) {
            (Effect::Put, _) if !self.put(place, change, found) => return None,
            (Effect::Delete, Some(slot)) => {
                place.leaf.commit(place.leaf.bitmap() & !(1 << slot));
                if !M::mutant("sptree.no_remove_flush") {
                    // Persist: the removal before the lock is opened (S2).
                    place.leaf.persist_heading(self.medium);
                }
            }
            _ => {}
        }
        Some(outcome)
    }

    /// The slot of a key in a locked leaf, if it is there.
    #[inline(always)]
    fn find_locked(&self, place: Place<'_, M>, key: u64) -> Option<usize> {
        if V::FILTER {
            match place.middle.filter() {
                Some(filter) if !filter.may_have(key) => return None,
                Some(_) => {}
                None => self.build_filter(place),
            }
        }
        place.leaf.find(key)
    }

    /// Insert or update: three lines, two drains. False if there is no free slot.
    #[inline(always)]
    fn put(&self, place: Place<'_, M>, change: &Change, replaced: Option<usize>) -> bool {
        let leaf = place.leaf;
        let bitmap = leaf.bitmap();
        let slot = (!bitmap).trailing_zeros() as usize;
        if slot >= Self::CAPACITY {
            return false;
        }
        leaf.fill(self.medium, slot, (change.key, change.value));
        // Persist: entry and tag before the bitmap names them (S1).
        self.medium.drain();
        if V::FILTER
            && replaced.is_none()
            && !M::mutant("sptree.no_filter_add")
            && let Some(filter) = place.middle.filter()
        {
            filter.add(change.key);
        }
        let gone = replaced.map_or(0, |old| 1 << old);
        leaf.commit((bitmap | 1 << slot) & !gone);
        if !M::mutant("sptree.no_bitmap_flush") {
            // Persist: the bitmap before the lock is opened (S2).
            leaf.persist_heading(self.medium);
        }
        true
    }
}
