//! Insert, update, upsert, remove, compare-and-exchange: one entry of a future object.

use everleaf_alloc::Session;
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_index::{IndexError, OrderedIndex};
use everleaf_machine::{Machine, Ordering};

use super::F3Tree;
use super::front::{Front, FrontGuard};
use super::layout::Stamp;
use super::pending::{Keys, Pending, Shard};
use super::variant::Variant;

/// What became of a write that found its key's shard locked.
enum Step {
    /// It is done, durably, or had no effect.
    Done(Outcome),
    /// It needs an entry, and the front has none that is free.
    NoEntry,
}

impl<V: Variant, M: Machine> F3Tree<V, M> {
    /// Performs a write.
    pub(super) fn write(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, IndexError> {
        let mut front = self.lock_front(session);
        if let Step::Done(outcome) = self.try_write(session, &mut front, change, 1)? {
            return Ok(outcome);
        }
        front = self.make_room(session, front)?;
        if let Step::Done(outcome) = self.try_write(session, &mut front, change, usize::MAX)? {
            return Ok(outcome);
        }
        drop(front);
        self.write_directly(session, change)
    }

    /// Performs a write if the front has room for it, looking at `reach` entries.
    fn try_write(
        &self,
        session: &mut Session<M>,
        front: &mut Front,
        change: &Change,
        reach: usize,
    ) -> Result<Step, IndexError> {
        let mut shard = self.table.shard(change.key).lock();
        let keys = shard.keys();
        let pending = keys.get(&change.key).copied();
        let (outcome, effect) = self.decide(session, pending.as_ref(), change)?;
        if effect == Effect::None {
            return Ok(Step::Done(outcome));
        }
        let entry = match &pending {
            Some(pending) => pending.entry,
            None => match self.free_entry(front, reach) {
                Some(entry) => entry,
                None => return Ok(Step::NoEntry),
            },
        };
        self.store(keys, entry, change, effect, pending.is_some());
        Ok(Step::Done(outcome))
    }

    /// Writes the entry and shows it. The key's shard is locked.
    fn store(&self, keys: &mut Keys, entry: u64, change: &Change, effect: Effect, again: bool) {
        let is_removal = effect == Effect::Delete;
        if M::mutant("f3.forgets_tombstones") && is_removal && again {
            // A planted bug: what the global tree may have is not removed.
            keys.remove(&change.key);
            return;
        }
        // AcqRel: sequence numbers are given under the lock of the key's shard; the
        // evaluation that reads a larger one finds this write when it gets that lock. Pairs with the
        // acquire load of `now` in `evaluate.rs`.
        let sequence = self.clock.fetch_add(1, Ordering::AcqRel);
        let stamp = Stamp::new(sequence, is_removal);
        let pending = Pending { stamp, value: change.value, entry };
        if M::mutant("f3.forgets_order") && again {
            // A planted bug: the entry keeps the number under which it may be drained already.
            self.objects.change(entry, change.value, keys[&change.key].stamp);
        } else if again && is_removal && !M::mutant("f3.removal_stores_value") {
            // The value stays: under the old stamp, which a crash may leave, it is still the key's.
            self.objects.restamp(entry, stamp);
        } else if again {
            self.objects.change(entry, change.value, stamp);
        } else {
            self.objects.fill(entry, change.key, change.value, stamp);
        }
        // Readers see it only now, when it is durable (F1).
        keys.insert(change.key, pending);
    }

    /// Outcome and effect of a write. The key's shard is locked.
    fn decide(
        &self,
        session: &mut Session<M>,
        pending: Option<&Pending>,
        change: &Change,
    ) -> Result<(Outcome, Effect), IndexError> {
        if V::BLIND && !change.intent.compares() {
            let removes = change.intent.removes();
            let effect = if removes { Effect::Delete } else { Effect::Put };
            return Ok((Outcome { changed: true, old: None }, effect));
        }
        let old = match pending {
            Some(pending) => pending.current(),
            None => self.global.get(session, change.key)?,
        };
        Ok(change.decide(old))
    }

    /// Adds an object, or evaluates. Afterwards the front may have a free entry.
    fn make_room<'f>(
        &'f self,
        session: &mut Session<M>,
        mut front: FrontGuard<'f, M>,
    ) -> Result<FrontGuard<'f, M>, IndexError> {
        let index = session.stripe() % V::FRONTS;
        match self.add_object(session, index, &mut front) {
            Ok(true) => return Ok(front),
            Ok(false) => {}
            Err(error) if error.lacks_space() => {}
            Err(error) => return Err(error.into()),
        }
        drop(front);
        self.evaluate_all(session)?;
        Ok(self.lock_front(session))
    }

    /// Performs a write on the global tree: when no entry is free, because what is pending has no
    /// space there. Nothing is evaluated meanwhile, and what was is durably free, so no entry of the key
    /// counts but one that is in the table.
    fn write_directly(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, IndexError> {
        // One thread at a time: `direct` is odd during its write only.
        let _turn = self.direct_turn.lock();
        // In the order of the shards. A thread that evaluates waits for none while it has one.
        let _claims: Vec<_> = self.table.shards().iter().map(Shard::claim).collect();
        let shard = self.table.shard(change.key);
        // Persist: the word that frees what is applied before this write: or recovery would apply an old entry of the
        // key over it.
        if !M::mutant("f3.direct_undrained") {
            self.drain_claimed(session, shard)?;
        }
        let mut shard = shard.lock();
        let keys = shard.keys();
        let pending = keys.get(&change.key).copied();
        let (outcome, effect) = self.decide(session, pending.as_ref(), change)?;
        if effect == Effect::None {
            return Ok(outcome);
        }
        if let Some(pending) = pending {
            self.store(keys, pending.entry, change, effect, true);
            return Ok(outcome);
        }
        M::mark("f3.direct");
        // Relaxed: the fence orders it. Release: a thread that sees what the global tree gets now
        // sees the odd number, too, and reads under the lock; pairs with the fence in `search.rs`.
        self.direct.fetch_add(1, Ordering::Relaxed);
        M::fence(Ordering::Release);
        let value = (effect == Effect::Put).then_some(change.value);
        let applied = self.apply(session, change.key, value);
        // Release: what was applied is durable before the number is even; pairs with the acquire in
        // `direct_writes`.
        self.direct.fetch_add(1, Ordering::Release);
        applied.map(|()| outcome)
    }
}
