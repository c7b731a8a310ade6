//! Evaluation: what is pending goes to the global tree, and its entries become free.
//!
//! Several threads evaluate at once, each a shard of the table of pending keys at a time, of which it has
//! the *claim*. A pass reads the clock, then takes from each shard what is pending with a smaller number, and
//! applies it, key by key, or in the node-based form (`variant::Variant::RUN_MIN`) as whole leaves where
//! many keys follow each other. Then it raises the shard's *horizon* to the number that it read. One word,
//! `drained`, frees the entries of all shards below the smallest of their horizons.
//!
//! ```text
//!   shard      0        1        2        3
//!   claim      A        -        B        -       A and B evaluate
//!   horizon    7        12       7        9       drained = 7: entries 7.. count, also those that
//!                                                 shards 1 and 3 have in the global tree
//! ```
//!
//! Why that is right:
//! - *Order of a key.* A key has one shard, and between taking its newest entry and the end of its write to
//!   the global tree the thread has the shard's claim. So writes of a key go there one after the other, each
//!   newer than the one before: a value that was written meanwhile waits in the table for the next claim.
//! - *Nothing is passed over.* A thread that took a number below the clock's had the shard's lock when it
//!   did, so that a thread that gets that lock later finds its key in the table. The clock is read before the
//!   lock is taken, maybe long before; what came since has a number of at least that, and stays.
//! - *Horizons grow.* A horizon is looked at again under the claim, and a smaller one is not stored.
//! - *What is free is durable.* A horizon is stored when all that it says is durable in the global tree, by
//!   release, and read by acquire, so that the word that frees is stored behind the writes of all evaluators.
//!   (Keys without space stay: under a new number above the horizon, or, where nothing leaves the table, under
//!   their own, and then the horizon stays as well. With a horizon at their numbers, others with larger ones that
//!   leave the table would have entries that count.)
//! - *Recovery.* Entries that are applied and not free yet are of two kinds. The newest of its key is
//!   applied again, which changes nothing. One whose key was written since has a newer one, which has a larger
//!   number and counts, too, because one number frees all: numbers of different shards are never compared
//!   with different words. That word only grows, since the smallest horizon is looked for under `advance`.
//!   A write that goes to the global tree directly has no entry: it stops evaluation (it takes all claims),
//!   and first frees what is applied, or an old entry would come back over it.
//! - *Readers and scans* look at the table before the global tree, and a key leaves the table when the tree has
//!   it, durably. Which thread brought it there is nothing to them.
//! - *Bounded memory.* A thread that needs room waits for the claims of the shards that others evaluate, and
//!   evaluates the rest itself: when it is done, all entries that were filled when it began are free.
//! - *No circle.* A thread that waits for a claim has none, but for one that writes directly, which takes them
//!   in the order of the shards; and it holds no lock of a front or a shard.
//!
//! In the global tree several evaluators are writers like any others.

use everleaf_alloc::Session;
use everleaf_index::{IndexError, OrderedIndex};
use everleaf_machine::{Machine, Ordering};

use super::F3Tree;
use super::layout::{DRAINED_WORD, Stamp, sealed};
use super::pending::{Pending, Shard};
use super::variant::Variant;
use crate::fast_fair::Linked;

/// Keys that are looked at to make one leaf of them.
const RUN_MAX: usize = 64;

/// How far apart in the row of shards the passes of sessions begin whose numbers follow each other.
const STRIDE: usize = 13;

impl<V: Variant, M: Machine> F3Tree<V, M> {
    /// Evaluates what is pending now, but for the parts that other threads evaluate: what an evaluator thread
    /// calls, of which there may be several. Returns how many keys it brought to the global tree. In a pool that stays
    /// full it writes nothing in the end, and returns 0.
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
        let horizon = self.now();
        self.pass(session, horizon, false, false)
    }

    /// Evaluates all that is pending now, together with other threads. Afterwards the entries that were filled
    /// before are free, but for those that find no space.
    pub(super) fn evaluate_all(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        let horizon = self.now();
        self.pass(session, horizon, false, true)?;
        // Acquire: as in `free_entry`.
        if self.drained.load(Ordering::Acquire) < horizon {
            self.pass(session, horizon, true, true)?;
        }
        Ok(())
    }

    /// The clock.
    fn now(&self) -> u64 {
        // Acquire: a write with a smaller number had its shard's lock when it took the number, so
        // that the thread that gets the lock after this load finds it; pairs with `store` in `write.rs`.
        self.clock.load(Ordering::Acquire)
    }

    /// Evaluates what has a smaller number than `horizon` in each shard that no other thread evaluates, or waits
    /// for those too. `renews` says what becomes of keys without space, as in `evaluate_shard`.
    fn pass(
        &self,
        session: &mut Session<M>,
        horizon: u64,
        waits: bool,
        renews: bool,
    ) -> Result<usize, IndexError> {
        if M::mutant("f3.drains_first") {
            self.set_drained(session, self.now());
        }
        let shards = self.table.shards();
        let start = session.stripe() * STRIDE;
        let (mut count, mut damage) = (0, None);
        for turn in 0..shards.len() {
            let shard = &shards[(start + turn) % shards.len()];
            if shard.horizon() >= horizon {
                continue;
            }
            let mut claim = if waits { Some(shard.claim()) } else { shard.try_claim() };
            if claim.is_none() && !M::mutant("f3.no_claim") {
                continue;
            }
            // Another thread may have had the claim meanwhile.
            if shard.horizon() >= horizon {
                continue;
            }
            let due = self.due(shard, horizon);
            if M::mutant("f3.claim_ends_early") {
                drop(claim.take());
            }
            count += self.evaluate_shard(session, shard, &due, (horizon, renews), &mut damage);
        }
        self.advance_drained(session, horizon);
        damage.map_or(Ok(count), Err)
    }

    /// Sees to it that no entry of a shard's keys counts but those in the table. The caller has the claims of all
    /// shards.
    pub(super) fn drain_claimed(
        &self,
        session: &mut Session<M>,
        shard: &Shard<M>,
    ) -> Result<(), IndexError> {
        // Acquire: as in `free_entry`.
        if self.drained.load(Ordering::Acquire) >= shard.horizon() {
            return Ok(());
        }
        // No shard's is larger: the thread that stored it had the claim before.
        let horizon = self.now();
        let mut damage = None;
        for shard in self.table.shards() {
            let due = self.due(shard, horizon);
            self.evaluate_shard(session, shard, &due, (horizon, true), &mut damage);
        }
        self.advance_drained(session, horizon);
        damage.map_or(Ok(()), Err)
    }

    /// What is pending in a shard with a smaller number than `horizon`, by key. (With a larger one it would leave
    /// the table while its entry still counts.) The caller has the claim.
    fn due(&self, shard: &Shard<M>, horizon: u64) -> Vec<(u64, Pending)> {
        // Whether a shard is empty is told by its lock only: the thread that holds it may have a smaller
        // number, and nothing in the table yet.
        if M::mutant("f3.skips_empty") && shard.is_empty() {
            return vec![];
        }
        let is_due = |pending: &Pending| pending.stamp.sequence() < horizon;
        let mut guard = shard.lock();
        let pending = (guard.keys().iter())
            .filter(|(_, pending)| is_due(pending) || M::mutant("f3.evaluates_all"));
        pending.map(|(key, pending)| (*key, *pending)).collect()
    }

    /// Applies what is due in a shard, takes it out of the table, and raises the shard's horizon. What cannot be
    /// applied gets a new number; if that is all, only if `renews`, which a thread that needs entries says. Returns
    /// how many keys were applied. The caller has the claim.
    fn evaluate_shard(
        &self,
        session: &mut Session<M>,
        shard: &Shard<M>,
        due: &[(u64, Pending)],
        (mut horizon, renews): (u64, bool),
        damage: &mut Option<IndexError>,
    ) -> usize {
        if M::mutant("f3.horizon_first") {
            shard.set_horizon(horizon);
        }
        let stuck = self.apply_all(session, due, damage);
        let lowers = !renews && M::mutant("f3.lowers_horizon");
        if !renews && !due.is_empty() && stuck.len() == due.len() && !lowers {
            // Nothing leaves the table, so numbers and horizon may stay, and nothing is written.
            return 0;
        }
        if !due.is_empty() {
            let mut guard = shard.lock();
            let keys = guard.keys();
            for (key, pending) in due {
                let Some(now) = keys.get_mut(key) else { continue };
                if now.stamp != pending.stamp {
                    // A newer write of the key is pending.
                } else if stuck.binary_search(key).is_ok() {
                    if lowers {
                        horizon = horizon.min(now.stamp.sequence());
                        continue;
                    }
                    // AcqRel: a number like any other; as in `store` in `write.rs`.
                    let sequence = self.clock.fetch_add(1, Ordering::AcqRel);
                    now.stamp = Stamp::new(sequence, now.stamp.is_removal());
                    self.objects.restamp(now.entry, now.stamp);
                } else {
                    keys.remove(key);
                }
            }
        }
        if M::mutant("f3.late_horizon") {
            horizon = self.now();
        }
        shard.set_horizon(horizon);
        due.len() - stuck.len()
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

    /// Frees all entries below the smallest horizon of a shard. `own` is that of the caller's pass.
    fn advance_drained(&self, session: &Session<M>, own: u64) {
        if M::mutant("f3.drains_first") {
            return;
        }
        let early = M::mutant("f3.drained_goes_back").then(|| self.least_horizon());
        let _advance = self.advance.lock();
        // Under the lock: it is not smaller than what the thread that had the lock before stored.
        let mut horizon = early.unwrap_or_else(|| self.least_horizon());
        if M::mutant("f3.drains_own") {
            horizon = own;
        }
        // Relaxed: only the holder of the lock stores it.
        if horizon > self.drained.load(Ordering::Relaxed) || early.is_some() {
            self.set_drained(session, horizon);
        }
    }

    /// The smallest horizon of a shard.
    fn least_horizon(&self) -> u64 {
        self.table.shards().iter().map(Shard::horizon).min().expect("there are shards")
    }

    /// Frees all entries with numbers below `horizon`. The caller has the lock `advance`.
    fn set_drained(&self, session: &Session<M>, horizon: u64) {
        let word = self.root_object.word(DRAINED_WORD);
        // Release: the writes of the global tree before, which `horizon` in `pending.rs` acquired; recovery's
        // view.
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
