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
        for (number, condition) in self.conditions.iter().enumerate() {
            let holds = match condition {
                Condition::OfKey { what, must } => self.holds(what, must, (own, now), session)?,
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
        (own, now): (u64, &Now),
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
                let marks = if own > 0 && self.changes_key(what) { own } else { 0 };
                return Ok(!watch.is_broken_but_for(marks, |expiry_ms| now.is_over(expiry_ms)));
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

    /// Whether one of the changes is of the key of a condition.
    fn changes_key(&self, what: &Entry) -> bool {
        let mut changes = self.changes.iter().filter(|change| change.hash == what.hash);
        changes.any(|change| change.map == what.map && self.key(change) == self.key(what))
    }
}
