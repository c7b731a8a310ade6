//! Evaluation: what is pending goes to the global tree, and its entries become free.
//!
//! One evaluation at a time. It reads the clock, then takes from each shard what is pending, and
//! applies it; then all entries with smaller numbers are durable in the global tree, or a newer entry
//! of their key counts. So one word, durable, frees them all.

use everleaf_alloc::Session;
use everleaf_index::{IndexError, OrderedIndex};
use everleaf_machine::{Machine, Ordering, SpinGuard};

use super::F3Tree;
use super::layout::{DRAINED_WORD, Stamp, sealed};
use super::pending::{Pending, Shard};
use super::variant::Variant;

impl<V: Variant, M: Machine> F3Tree<V, M> {
    /// Evaluates all that is pending now: what an evaluator thread calls. Returns how many keys there
    /// were; 0 if another thread evaluates.
    ///
    /// *Durable*: what was pending was durable before. *Complexity*: a write of the global tree for
    /// each key.
    ///
    /// # Errors
    /// [`IndexError::ReadOnly`]; damage of the global tree. Without space for a key its entry stays pending, and that is no
    /// error.
    pub fn evaluate(&self, session: &mut Session<M>) -> Result<usize, IndexError> {
        if self.heap.pool().is_read_only() {
            return Err(IndexError::ReadOnly);
        }
        match self.round.try_lock() {
            Some(round) => self.evaluate_locked(session, &round),
            None => Ok(0),
        }
    }

    pub(super) fn evaluate_locked(
        &self,
        session: &mut Session<M>,
        _round: &SpinGuard<'_, (), M>,
    ) -> Result<usize, IndexError> {
        if M::mutant("f3.drains_first") {
            // Relaxed: a planted bug.
            self.set_drained(session, self.clock.load(Ordering::Relaxed));
        }
        // Acquire: a write with a smaller number had its shard's lock when it took the number, so
        // that whoever gets the lock after this load finds it; pairs with `store` in `write.rs`.
        let mut horizon = self.clock.load(Ordering::Acquire);
        let mut count = 0;
        let mut damage = None;
        for shard in self.table.shards() {
            // Whether a shard is empty is told by its lock only: who holds it may have a smaller
            // number, and nothing in the table yet.
            if M::mutant("f3.skips_empty") && shard.is_empty() {
                continue;
            }
            count += self.evaluate_shard(session, shard, horizon, &mut damage);
        }
        if M::mutant("f3.late_horizon") {
            // Relaxed: a planted bug.
            horizon = self.clock.load(Ordering::Relaxed);
        }
        if !M::mutant("f3.drains_first") {
            self.set_drained(session, horizon);
        }
        damage.map_or(Ok(count), Err)
    }

    /// Applies what is pending in a shard with a smaller number than `horizon`. (With a larger one it
    /// would leave the table while its entry still counts.) What cannot be applied gets a new number.
    fn evaluate_shard(
        &self,
        session: &mut Session<M>,
        shard: &Shard<M>,
        horizon: u64,
        damage: &mut Option<IndexError>,
    ) -> usize {
        let is_due = |pending: &Pending| pending.stamp.sequence() < horizon;
        let due: Vec<(u64, Pending)> = (shard.lock().keys().iter())
            .filter(|(_, pending)| is_due(pending) || M::mutant("f3.evaluates_all"))
            .map(|(key, pending)| (*key, *pending))
            .collect();
        let mut stuck = vec![];
        for (key, pending) in &due {
            if let Err(error) = self.apply(session, *key, pending.current()) {
                M::mark("f3.stuck");
                stuck.push(*key);
                if !error.lacks_space() {
                    *damage = Some(error);
                }
            }
        }
        let mut guard = shard.lock();
        let keys = guard.keys();
        for (key, pending) in &due {
            let Some(now) = keys.get_mut(key) else { continue };
            if now.stamp != pending.stamp {
                // A newer write of the key is pending.
            } else if stuck.binary_search(key).is_ok() {
                // AcqRel: a number like any other; as in `store` in `write.rs`.
                let sequence = self.clock.fetch_add(1, Ordering::AcqRel);
                now.stamp = Stamp::new(sequence, now.stamp.is_removal());
                self.objects.restamp(now.entry, now.stamp);
            } else {
                keys.remove(key);
            }
        }
        due.len()
    }

    /// Sets a key in the global tree, or removes it; durable afterwards.
    pub(super) fn apply(
        &self,
        session: &mut Session<M>,
        key: u64,
        value: Option<u64>,
    ) -> Result<(), IndexError> {
        match value {
            Some(value) => self.global.upsert(session, key, value).map(drop),
            None => self.global.remove(session, key).map(drop),
        }
    }

    /// Frees all entries with numbers below `horizon`.
    fn set_drained(&self, session: &Session<M>, horizon: u64) {
        let word = self.anchor.word(DRAINED_WORD);
        // Release: the writes of the global tree before; recovery's view.
        word.store(sealed(horizon), Ordering::Release);
        // Persist: the word before an entry that it frees is filled again (F2), or recovery would
        // take the entries of the same key that are still there for the newest.
        if !M::mutant("f3.no_drained_flush") {
            session.medium().persist(word.as_ptr(), 8);
        }
        // Release: pairs with the acquire in `free_entry`.
        self.drained.store(horizon, Ordering::Release);
    }
}
