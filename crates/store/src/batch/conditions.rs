//! What a batch asks before it writes: whether its conditions hold, and which of its changes do anything.

use std::borrow::Cow;
use std::cell::LazyCell;

use everleaf_index::{Hardware, Machine, Record, Session, Verify};

use super::{Condition, Effect, Entry, Must, WriteBatch};
use crate::Result;
use crate::shared::Shared;

/// The time at which a batch looks at all of its keys: that of its first look at one that expires.
pub(super) struct Now {
    clock_ms: LazyCell<u64>,
    /// The planted bug: nothing has expired.
    is_blind: bool,
}

impl Now {
    pub fn new(is_blind: bool) -> Self {
        Now { clock_ms: LazyCell::new(Hardware::wall_clock_ms), is_blind }
    }

    /// Whether a record that expires then has expired. 0: it never does.
    pub fn is_over(&self, expiry_ms: u64) -> bool {
        expiry_ms != 0 && !self.is_blind && expiry_ms <= *self.clock_ms
    }
}

impl WriteBatch {
    /// Those of the changes that do anything: no expiry is changed of a key that is not there. The caller has the
    /// stripes, and the conditions hold.
    pub(super) fn in_effect<'l>(
        &self,
        last: &'l [Entry],
        now: &Now,
        session: &mut Session<Hardware>,
    ) -> Result<Cow<'l, [Entry]>> {
        if !last.iter().any(|change| change.effect.keeps_value()) {
            return Ok(Cow::Borrowed(last));
        }
        let mut kept = Vec::with_capacity(last.len());
        for change in last {
            let is_kept = |record: Record<'_>| {
                matches!(change.effect, Effect::ExpireSeen) || !now.is_over(record.expiry_ms)
            };
            let does_change = !change.effect.keeps_value() || {
                let tree = self.map(change).tree();
                let found = tree.get_stored(session, self.key(change), Verify::Key, is_kept)?;
                found == Some(true)
            };
            kept.extend(does_change.then_some(*change));
        }
        Ok(Cow::Owned(kept))
    }

    /// The condition that does not hold, if there is one; those do that only `own` rollbacks of this batch have
    /// broken. The caller has the stripes.
    pub(super) fn refused(
        &self,
        shared: &Shared,
        own: u64,
        now: &Now,
        session: &mut Session<Hardware>,
    ) -> Result<Option<usize>> {
        // A client may watch and change very many keys, and all who write wait meanwhile.
        let changed = LazyCell::new(|| Changed::of(self));
        let marks = |what: &Entry| if own > 0 && changed.has(what) { own } else { 0 };
        for (number, condition) in self.conditions.iter().enumerate() {
            let holds = match condition {
                Condition::OfKey { what, must } => {
                    self.holds(what, must, (&marks, now), session)?
                }
                Condition::Rollbacks(count) => shared.rollback_count() == count + own,
            };
            if !holds {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    fn holds(
        &self,
        what: &Entry,
        must: &Must,
        (marks, now): (&dyn Fn(&Entry) -> u64, &Now),
        session: &mut Session<Hardware>,
    ) -> Result<bool> {
        let exact = match must {
            Must::Value => false,
            Must::ValueAndExpiry => true,
            Must::Expiry => {
                let is_same = |record: Record<'_>| record.expiry_ms == what.expiry_ms;
                let (tree, key) = (self.map(what).tree(), self.key(what));
                return Ok(tree.get_stored(session, key, Verify::Key, is_same)? == Some(true));
            }
            Must::Unwritten(watch) => {
                let is_over = |expiry_ms| now.is_over(expiry_ms);
                return Ok(!watch.is_broken_but_for(marks(what), is_over));
            }
        };
        let (map, key) = (self.map(what), self.key(what));
        let expected = self.value(what);
        let found = map.tree().get_stored(session, key, Verify::Sum, |record| {
            let is_same =
                || Some(record.value) == expected && (!exact || record.expiry_ms == what.expiry_ms);
            if now.is_over(record.expiry_ms) { expected.is_none() } else { is_same() }
        })?;
        Ok(found.unwrap_or(expected.is_none()))
    }
}

/// The keys that a batch changes, in the order of their hashes.
struct Changed<'b> {
    batch: &'b WriteBatch,
    changes: Vec<&'b Entry>,
    /// Changes that were looked at.
    #[cfg(test)]
    looks: std::cell::Cell<usize>,
}

impl<'b> Changed<'b> {
    fn of(batch: &'b WriteBatch) -> Self {
        let mut changes: Vec<&Entry> = batch.changes.iter().collect();
        changes.sort_unstable_by_key(|change| change.hash);
        Changed {
            batch,
            changes,
            #[cfg(test)]
            looks: std::cell::Cell::default(),
        }
    }

    /// Whether the key of a condition is among them.
    fn has(&self, what: &Entry) -> bool {
        let first = self.changes.partition_point(|change| change.hash < what.hash);
        let mut others = self.changes[first..].iter().take_while(|it| it.hash == what.hash);
        others.any(|change| {
            #[cfg(test)]
            self.looks.set(self.looks.get() + 1);
            change.map == what.map && self.batch.key(change) == self.batch.key(what)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    /// What was quadratic: once a batch was rolled back for lack of space, it went through all of its changes for each
    /// of its watches, with all stripes.
    #[test]
    fn a_watched_key_is_found_among_the_changes_by_its_hash() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Options::new().create(true).open(folder.path().join("p")).expect("it opens");
        let map = store.default_map();
        let mut batch = WriteBatch::new();
        for number in 0..2000_u32 {
            batch.expect(map, number.to_be_bytes(), None);
            if number % 2 == 0 {
                batch.put(map, number.to_be_bytes(), "v").remove(map, number.to_be_bytes());
            }
        }
        let changed = Changed::of(&batch);
        for (condition, number) in batch.conditions.iter().zip(0..) {
            let Condition::OfKey { what, .. } = condition else { panic!("it is of a key") };
            assert_eq!(changed.has(what), number % 2 == 0, "{number}");
        }
        assert!(changed.looks.get() < 1100, "{}", changed.looks.get());
    }
}
