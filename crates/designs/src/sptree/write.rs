//! Writes: one leaf locked from beginning to end.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_index::{Geometry, IndexError};
use everleaf_machine::Machine;

use super::state::LOCK_GENERATION;
use super::variant::Variant;
use super::{LeafAndMiddle, Tree};
use crate::node::write_log::Needed;

/// How often a write that finds no space makes some and tries again.
const ATTEMPTS: usize = 3;

/// What a write does to the log, beside a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LogChange {
    None,
    /// It has a chunk more.
    Grown,
    /// There was no space for one.
    NoSpace,
}

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
        if V::BUFFERED {
            return self.write_buffered(session, change);
        }
        loop {
            let place = self.lock_leaf(session, change.key)?;
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

    /// One write to a buffer.
    ///
    /// *Linearizes at* the opening of the lock. *Durable* before: the record is, or, if the buffer was
    /// full, the leaf.
    #[inline(always)]
    fn write_buffered(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, IndexError> {
        let mut attempts = 0;
        loop {
            let place = self.lock_leaf(session, change.key)?;
            let lock = &place.middle.lock;
            match self.apply_buffered(session, place, change) {
                Ok(Some((outcome, log))) => {
                    let is_flushed = self.buffer(place).len() == 0;
                    if !outcome.changed {
                        lock.unlock_unchanged();
                    } else if !is_flushed || !self.shrink(session, place) {
                        lock.unlock();
                    }
                    match log {
                        LogChange::None => {}
                        LogChange::Grown => {
                            self.trim_logs(session);
                            if V::CHECKPOINTED {
                                self.checkpoint(session);
                            }
                        }
                        LogChange::NoSpace => self.make_space_for_log(session),
                    }
                    return Ok(outcome);
                }
                Ok(None) => lock.unlock(),
                Err(error) => {
                    lock.unlock();
                    // The pool may be full of log. Others take what is freed, too, but not for ever.
                    let may_try = attempts < ATTEMPTS && error.lacks_space();
                    if !may_try || !self.make_space_for_leaf(session) {
                        return Err(error);
                    }
                    attempts += 1;
                }
            }
        }
    }

    /// Does a write on the buffer of a locked leaf; says what becomes of the log. Nothing if room had
    /// to be made first.
    #[inline(always)]
    fn apply_buffered(
        &self,
        session: &mut Session<M>,
        place: LeafAndMiddle<'_, M>,
        change: &Change,
    ) -> Result<Option<(Outcome, LogChange)>, IndexError> {
        let key = change.key;
        let buffer = self.buffer(place);
        let found = buffer.find(key);
        let old = match found {
            Some((_, value)) => value,
            None => self.find_locked(place, key).map(|slot| place.leaf.value(slot)),
        };
        let (outcome, effect) = change.decide(old);
        let value = match effect {
            Effect::None => return Ok(Some((outcome, LogChange::None))),
            Effect::Put => Some(change.value),
            Effect::Delete => None,
        };
        let is_long =
            V::LINKED && place.middle.sequence() - place.middle.flushed() >= Self::CHAIN_LENGTH;
        let has_room = found.is_some() || buffer.len() < Self::BUFFER_CAPACITY;
        let logged = has_room && !is_long;
        let record = logged.then(|| self.log(session, place, (key, value)));
        let log = match record {
            Some(Ok(true)) => LogChange::Grown,
            Some(Err(_)) => LogChange::NoSpace,
            None | Some(Ok(false)) => LogChange::None,
        };
        match record {
            Some(Ok(_)) => buffer.put(found.map(|(slot, _)| slot), (key, value)),
            // No room in the buffer, or none in the pool for the log. What is durable in the leaf needs
            // no record.
            None | Some(Err(_)) if self.write_back(place, Some((key, value))) => {}
            None | Some(Err(_)) => {
                let is_full = buffer.len() == 0 || !self.write_back(place, None);
                let room = if is_full { self.split(session, place) } else { Ok(()) };
                if room.is_err() && effect == Effect::Delete {
                    self.remove_in_place(place, key)?;
                    return Ok(Some((outcome, LogChange::NoSpace)));
                }
                return room.map(|()| None);
            }
        }
        if V::FILTER
            && old.is_none()
            && !M::mutant("sptree.no_filter_add")
            && let Some(filter) = place.middle.filter()
        {
            filter.add(key);
        }
        Ok(Some((outcome, log)))
    }

    /// Removes a key of a locked leaf without any room, durably: neither for a record of the log, nor in the leaf for
    /// what is buffered.
    ///
    /// # Errors
    /// The medium has lost a record of the leaf.
    #[cold]
    fn remove_in_place(&self, place: LeafAndMiddle<'_, M>, key: u64) -> Result<(), AllocError> {
        M::mark("sptree.removed_in_place");
        let (leaf, middle, buffer) = (place.leaf, place.middle, self.buffer(place));
        if let Some((slot, _)) = buffer.find(key) {
            // Its newest record becomes one of the removal, with the same number: those before it count no more.
            let (newest, flushed) = (middle.sequence(), middle.flushed());
            let needed = Needed { head: V::LINKED.then(|| middle.head()), newest, flushed };
            if V::LOGGED && !M::mutant("sptree.turns_nothing") {
                self.logs.turn_to_removal(key, needed)?;
            }
            buffer.put(Some(slot), (key, None));
        } else if let Some(slot) = leaf.find(key) {
            // What is not buffered has no record that the leaf needs still, which could bring the key back (S8).
            leaf.commit(leaf.bitmap() & !(1 << slot));
            if !M::mutant("sptree.no_in_place_flush") {
                // Persist: the removal before the lock is opened (S2).
                leaf.persist_heading(self.medium);
            }
        }
        Ok(())
    }

    /// The leaf for a key, locked.
    ///
    /// # Errors
    /// What the log has of the leaf is damaged, or the leaf, if it was not known yet. Then it is not locked.
    #[inline(always)]
    pub(super) fn lock_leaf(
        &self,
        session: &mut Session<M>,
        key: u64,
    ) -> Result<LeafAndMiddle<'_, M>, IndexError> {
        let mut attempt = 0;
        let mut place = self.seek(session, key)?;
        loop {
            let lock = &place.middle.lock;
            if !lock.try_lock(LOCK_GENERATION) {
                M::mark("sptree.write_again");
                if lock.is_dead(LOCK_GENERATION) {
                    place = self.seek(session, key)?;
                } else {
                    M::spin(attempt);
                    attempt += 1;
                }
                continue;
            }
            match self.check_range(place, key) {
                Ok(()) => {
                    if V::BUFFERED
                        && place.middle.needs_restore()
                        && !M::mutant("sptree.writes_before_restore")
                        && let Err(error) = self.restore(place)
                    {
                        lock.unlock();
                        return Err(error.into());
                    }
                    return Ok(place);
                }
                Err(elsewhere) => {
                    lock.unlock_unchanged();
                    place = self.seek_elsewhere(session, elsewhere, key)?;
                }
            }
        }
    }

    /// Does a write on a locked leaf; nothing if there is no room.
    #[inline(always)]
    fn apply(&self, place: LeafAndMiddle<'_, M>, change: &Change) -> Option<Outcome> {
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
    fn find_locked(&self, place: LeafAndMiddle<'_, M>, key: u64) -> Option<usize> {
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
    fn put(&self, place: LeafAndMiddle<'_, M>, change: &Change, replaced: Option<usize>) -> bool {
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
