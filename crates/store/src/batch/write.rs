//! Writing a batch: conditions, journal, log, and the marks of what was changed, while the stripes are held.

use std::io;
use std::sync::Arc;

use everleaf_index::{Hardware, Journal, NotMade, Session, SessionGuard, apply_one_after};
use everleaf_log::Lsn;

use super::conditions::Now;
use super::{LastChanges, WriteBatch, Written};
use crate::ordered_write::InOrder;
use crate::shared::{BATCH_MERGES, Shared};
use crate::{Error, Result};

impl LastChanges<'_> {
    /// Whether a batch of them may have to be written down before it is made. A full pool in which there was never one
    /// has no journal, and no room for it.
    pub(crate) fn may_need_journal(&self) -> bool {
        match &self.0[..] {
            [] => false,
            [change] => change.effect.keeps_value(),
            _ => true,
        }
    }
}

impl Shared {
    pub(super) fn write_batch(&self, batch: &WriteBatch) -> Result<Written> {
        self.admit_batch(batch)?;
        let last = batch.last_changes();
        let mut own_rollbacks = 0;
        match self.try_batch(batch, &last, &mut own_rollbacks) {
            Err(error) if error.lacks_space() => {
                let again = || self.try_batch(batch, &last, &mut own_rollbacks);
                self.with_room_behind(BATCH_MERGES, again)
            }
            result => result,
        }
    }

    /// Refuses a batch that cannot be written here.
    pub(crate) fn admit_batch(&self, batch: &WriteBatch) -> Result<()> {
        if self.trees.heap().pool().is_read_only() {
            return Err(Error::ReadOnly);
        }
        if batch.maps.iter().any(|map| !std::ptr::eq(Arc::as_ptr(map.shared()), self)) {
            return Err(Error::OtherStore(
                "the batch holds a key of another store: write a batch per store".to_string(),
            ));
        }
        batch.changed_keys().try_for_each(|(map, key)| map.check_own_write(key))
    }

    fn try_batch(
        &self,
        batch: &WriteBatch,
        last: &LastChanges<'_>,
        own_rollbacks: &mut u64,
    ) -> Result<Written> {
        let mut session = self.session()?;
        let journal = self.journal_for(last, &mut session)?;
        let locks_all = !self.mutant("store.batch_locks_changes_only");
        let mut in_order = self.batch_in_order(session, batch.stripes(&self.order, locks_all))?;
        let (written, lsn) =
            self.write_behind(batch, last, journal, own_rollbacks, &mut in_order)?;
        in_order.end(lsn.filter(|_| !self.mutant("store.batch_returns_early")))?;
        Ok(written)
    }

    /// The journal, where these changes may need one.
    pub(super) fn journal_for(
        &self,
        last: &LastChanges<'_>,
        session: &mut Session<Hardware>,
    ) -> Result<Option<&Journal>> {
        if last.may_need_journal() { self.journal(session).map(Some) } else { Ok(None) }
    }

    /// A session, and the journal, or why there is none: a full pool may have no room for it, and no need of it.
    #[allow(clippy::type_complexity, reason = "two results that end at different places")]
    pub(crate) fn enter_with_journal(
        &self,
    ) -> Result<(SessionGuard<'_, Hardware>, Result<&Journal>)> {
        let mut session = self.session()?;
        let journal = match self.journal(&mut session) {
            Err(error) if error.lacks_space() => {
                drop(session);
                // Why there is none is told below.
                let _ = self.with_room(|| self.journal(&mut *self.session()?).map(drop));
                session = self.session()?;
                self.journal(&mut session)
            }
            journal => journal,
        };
        Ok((session, journal))
    }

    /// Writes a batch whose stripes the caller has. Counts a rollback of it among its own.
    pub(crate) fn write_behind<H>(
        &self,
        batch: &WriteBatch,
        last: &LastChanges<'_>,
        journal: Option<&Journal>,
        own_rollbacks: &mut u64,
        in_order: &mut InOrder<'_, H>,
    ) -> Result<(Written, Option<Lsn>)> {
        in_order.check()?;
        let now = Now::new(self.mutant("store.batch_sees_expired"));
        if let Some(number) = batch.refused(self, *own_rollbacks, &now, &mut in_order.session)? {
            return Ok((Written::Refused(number), None));
        }
        let all = &last.0;
        let last = batch.in_effect(all, &now, &mut in_order.session)?;
        if last.is_empty() {
            return Ok((Written::All, None));
        }
        let unsaved = self.mutant("store.batch_saves_nothing");
        for change in batch.changes.iter().filter(|_| !unsaved) {
            let tree = batch.map(change).tree_arc();
            in_order.save(tree, batch.key(change), |_| change.hash)?;
        }
        let operations = batch.operations(&last);
        if self.trees.is_opening() {
            // A leaf that cannot be restored refuses the batch before anything of it is made or written down.
            for operation in &operations {
                operation.touch(&mut in_order.session)?;
            }
        }
        // Before the first change: a batch that cannot be logged is not made.
        let logged = match &self.log {
            Some(log) => {
                let maps = batch.log_numbers(&last);
                Some((log, log.records(maps, &operations)?))
            }
            None => None,
        };
        let (mut begun, mut place) = (false, None);
        let before = || {
            begun = true;
            place = logged.as_ref().map(|(log, _)| log.place());
        };
        let made = match journal {
            Some(journal) => journal.apply_after(&mut in_order.session, &operations, before),
            None => apply_one_after(&mut in_order.session, &operations, before),
        };
        // What found no room for its first change was seen by nobody.
        let nothing_seen = matches!(
            &made,
            Err(NotMade { error, rolled_back: 0 }) if error.leaves_nothing()
        );
        if begun && !nothing_seen {
            // Also if it was rolled back: others may have read what it wrote. Then all are marked, for what has an
            // effect may be others at the next try, which has to know its own marks.
            let unmarked = self.mutant("store.batch_marks_nothing");
            let marked = if made.is_err() { all.iter() } else { last.iter() };
            for change in marked.filter(|_| !unmarked) {
                let tree = batch.map(change).tree_arc();
                in_order.mark(tree, batch.key(change), |_| change.hash);
            }
            if made.is_err() {
                self.order.note_rollback();
                *own_rollbacks += 1;
            }
        }
        let is_cut_short = begun && made.as_ref().is_err_and(|it| !it.error.leaves_nothing());
        let noted = match logged {
            None => made.map(|()| None).map_err(|not_made| not_made.error.into()),
            Some((log, records)) => {
                log.note_batch(place, made, &records, &operations, &mut in_order.session)
            }
        };
        let lsn = noted.map_err(|error| if is_cut_short { cut_short(error) } else { error })?;
        Ok((Written::All, lsn))
    }
}

/// What is told of a batch that failed behind its first change, and not for want of space or memory. Damage promises
/// that nothing was changed ([`Store::write`](crate::Store::write)); it is met before the first change, and should it
/// be met later all the same, a part of the batch may be there.
fn cut_short(error: Error) -> Error {
    match error {
        Error::Corrupt(text) => {
            let what = "cannot finish a batch, of which a part may be there".to_string();
            Error::Io(what, io::Error::other(text))
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_in_the_middle_of_a_batch_is_not_told_as_damage() {
        let told = cut_short(Error::Corrupt("a leaf".to_string()));
        assert!(matches!(told, Error::Io(..)) && told.to_string().contains("a part may be there"));
        assert!(matches!(cut_short(Error::MapDropped), Error::MapDropped));
    }
}
