//! Evaluation: what is pending goes to the global tree, and its entries become free.
//!
//! One evaluation at a time. It reads the clock, then takes from each shard what is pending, and
//! applies it, key by key, or in the node-based form (`variant::Variant::RUN_MIN`) as whole leaves where
//! many keys follow each other; then all entries with smaller numbers are durable in the global tree, or a newer entry
//! of their key counts. So one word, durable, frees them all.

use everleaf_alloc::Session;
use everleaf_index::{IndexError, OrderedIndex};
use everleaf_machine::{Machine, Ordering, SpinGuard};

use super::F3Tree;
use super::layout::{DRAINED_WORD, Stamp, sealed};
use super::pending::{Pending, Shard};
use super::variant::Variant;
use crate::fast_fair::Linked;

/// Keys that are looked at to make one leaf of them.
const RUN_MAX: usize = 64;

impl<V: Variant, M: Machine> F3Tree<V, M> {
    /// Evaluates all that is pending now: what an evaluator thread calls. Returns how many keys there
    /// were; 0 if another thread evaluates.
    ///
    /// *Durable*: what was pending was durable before. *Complexity*: a write of the global tree for
    /// each key.
    ///
    /// # Errors
    /// [`IndexError::ReadOnly`]; damage of the global tree. Without space for a key its entry stays pending, and that
    /// is no error.
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
        // that the thread that gets the lock after this load finds it; pairs with `store` in `write.rs`.
        let mut horizon = self.clock.load(Ordering::Acquire);
        let mut count = 0;
        let mut damage = None;
        // Runs are found in the order of all keys.
        let all = self.table.shards();
        let together = if V::RUN_MIN.is_some() { all.len() } else { 1 };
        for shards in all.chunks(together) {
            // Whether a shard is empty is told by its lock only: the thread that holds it may have a smaller
            // number, and nothing in the table yet.
            if M::mutant("f3.skips_empty") && shards.iter().all(Shard::is_empty) {
                continue;
            }
            count += self.evaluate_shards(session, shards, horizon, &mut damage);
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

    /// Applies what is pending in some shards with a smaller number than `horizon`. (With a larger one
    /// it would leave the table while its entry still counts.) What cannot be applied gets a new number.
    fn evaluate_shards(
        &self,
        session: &mut Session<M>,
        shards: &[Shard<M>],
        horizon: u64,
        damage: &mut Option<IndexError>,
    ) -> usize {
        let is_due = |pending: &Pending| pending.stamp.sequence() < horizon;
        let mut due: Vec<(u64, Pending)> = vec![];
        for shard in shards {
            let mut guard = shard.lock();
            let pending = (guard.keys().iter())
                .filter(|(_, pending)| is_due(pending) || M::mutant("f3.evaluates_all"));
            due.extend(pending.map(|(key, pending)| (*key, *pending)));
        }
        due.sort_unstable_by_key(|(key, _)| *key);
        let stuck = self.apply_all(session, &due, damage);
        for shard in shards {
            let mut guard = shard.lock();
            let keys = guard.keys();
            let is_here = |key: u64| std::ptr::eq(self.table.shard(key), shard);
            for (key, pending) in due.iter().filter(|(key, _)| is_here(*key)) {
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
        }
        due.len()
    }

    /// Brings keys, in ascending order, to the global tree: runs of them as leaves, the others one by
    /// one. Returns those for which there was no space, in ascending order.
    fn apply_all(
        &self,
        session: &mut Session<M>,
        due: &[(u64, Pending)],
        damage: &mut Option<IndexError>,
    ) -> Vec<u64> {
        let mut stuck = vec![];
        let (mut rest, mut run) = (due, vec![]);
        // Keys of the rest that are no run for certain.
        let mut singles = 0;
        while let Some((key, pending)) = rest.first() {
            if singles == 0 {
                match self.link_first(session, rest, &mut run) {
                    Linked::Records(count) => {
                        rest = &rest[count..];
                        continue;
                    }
                    Linked::Nothing(count) => singles = count,
                }
            }
            if let Err(error) = self.apply(session, *key, pending.current()) {
                // No search is known to come here.
                stuck.push(*key);
                if !error.lacks_space() {
                    *damage = Some(error);
                }
            }
            rest = &rest[1..];
            singles -= 1;
        }
        stuck
    }

    /// Makes the first of some keys a leaf of the global tree, as many as fit one; or says how many are
    /// to be applied one by one. `run` is room for them.
    fn link_first(
        &self,
        session: &mut Session<M>,
        due: &[(u64, Pending)],
        run: &mut Vec<(u64, u64)>,
    ) -> Linked {
        let Some(least) = V::RUN_MIN else { return Linked::Nothing(due.len()) };
        let values = due.iter().map_while(|(key, pending)| {
            if M::mutant("f3.run_takes_removals") {
                return Some((*key, pending.value));
            }
            pending.current().map(|value| (*key, value))
        });
        run.clear();
        // More than any leaf has are not looked at.
        run.extend(values.take(RUN_MAX));
        if run.len() < least {
            return Linked::Nothing(run.len().max(1));
        }
        // Without space for a leaf there may be some for single keys; damage shows itself again there.
        self.global.link_run(session, run, least).unwrap_or(Linked::Nothing(run.len()))
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
        let word = self.root_object.word(DRAINED_WORD);
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
