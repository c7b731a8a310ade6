//! Writes of pairs, under the lock of their segment.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_machine::Machine;

use super::Cceh;
use super::layout::{NO_KEY, Pair, Segment, hash_of};
use super::variant::Variant;

impl<V: Variant, M: Machine> Cceh<V, M> {
    /// One write. The caller is pinned.
    ///
    /// *Linearizes at* the opening of the segment's lock. *Durable* when it returns.
    pub(super) fn write(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, AllocError> {
        if V::BUFFERED {
            return self.write_buffered(session, change);
        }
        let hash = hash_of(change.key);
        loop {
            let segment = self.lock_segment(hash);
            if let Some(outcome) = self.write_locked(session, segment, change)? {
                return Ok(outcome);
            }
        }
    }

    /// One write to the pairs of a locked segment, and opens it. Nothing if it had to be split first.
    pub(super) fn write_locked(
        &self,
        session: &mut Session<M>,
        segment: Segment<'_, V, M>,
        change: &Change,
    ) -> Result<Option<Outcome>, AllocError> {
        let hash = hash_of(change.key);
        let found = segment.find(hash, change.key);
        let (outcome, effect) = change.decide(found.map(Pair::value));
        match (effect, found) {
            (Effect::None, _) => segment.head.lock.unlock_unchanged(),
            (Effect::Put, Some(pair)) => self.set(segment, pair, change.value),
            (Effect::Delete, found) => self.clear(segment, found),
            (Effect::Put, None) => match segment.vacancy(hash) {
                Some(pair) => self.fill(segment, pair, change),
                None => return self.split(session, segment).map(|()| None),
            },
        }
        Ok(Some(outcome))
    }

    /// The segment of a hash, locked.
    pub(super) fn lock_segment(&self, hash: u64) -> Segment<'_, V, M> {
        let mut attempt = 0;
        loop {
            let segment = self.segment_of(hash);
            segment.prefetch(hash);
            if segment.head.lock.try_lock(self.generation) {
                // Its depth changes under the lock only (C3).
                if segment.covers(hash) || M::mutant("cceh.no_recheck") {
                    return segment;
                }
                segment.head.lock.unlock_unchanged();
            } else {
                M::spin(attempt);
                attempt += 1;
            }
            M::mark("cceh.write_again");
        }
    }

    /// Puts a new pair into a place of a locked segment, and opens it.
    fn fill(&self, segment: Segment<'_, V, M>, pair: &Pair<M>, change: &Change) {
        if M::mutant("cceh.key_first") {
            pair.set_key(change.key);
            pair.set_value(change.value);
        } else {
            pair.set_value(change.value);
            pair.set_key(change.key);
        }
        if !M::mutant("cceh.no_pair_flush") {
            // Persist: the pair before the lock is opened, or a reader could see what a crash takes back
            // (C1).
            self.medium.persist(pair.as_ptr(), size_of::<Pair<M>>());
        }
        segment.head.lock.unlock();
    }

    /// Replaces the value of a pair of a locked segment, and opens it.
    fn set(&self, segment: Segment<'_, V, M>, pair: &Pair<M>, value: u64) {
        pair.set_value(value);
        if !M::mutant("cceh.no_value_flush") {
            // Persist: the value before the lock is opened (C1).
            self.medium.persist(pair.as_ptr(), size_of::<Pair<M>>());
        }
        segment.head.lock.unlock();
    }

    /// Takes a pair out of a locked segment, and opens it.
    fn clear(&self, segment: Segment<'_, V, M>, pair: Option<&Pair<M>>) {
        let pair = pair.expect("only what was found is deleted");
        pair.set_key(NO_KEY);
        if !M::mutant("cceh.no_removal_flush") {
            // Persist: the removal before the lock is opened (C1).
            self.medium.persist(pair.as_ptr(), size_of::<Pair<M>>());
        }
        segment.head.lock.unlock();
    }
}
