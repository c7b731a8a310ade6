//! Batches that only remove, and tell how many of their keys were there.

use std::borrow::Cow;

use everleaf_index::{Record, Verify};

use super::conditions::Now;
use super::{Entry, LastChanges, WriteBatch};
use crate::shared::Shared;
use crate::{Error, Result};

/// What a batch of removals found.
#[derive(Default)]
struct Sorted {
    /// The keys that are there.
    present: Vec<Entry>,
    /// Those that have expired.
    expired: Vec<Entry>,
}

impl Shared {
    /// Writes a batch of removals without conditions. Returns how many keys were there.
    pub(crate) fn remove_present(&self, batch: &WriteBatch) -> Result<usize> {
        self.admit_batch(batch)?;
        let last = batch.last_changes();
        let sorted = match self.try_removal(batch, &last) {
            Err(error) if error.lacks_space() => {
                self.reclaim();
                self.try_removal(batch, &last)
            }
            result => result,
        }?;
        // Nobody sees a difference, so each goes by itself; what is put there meanwhile stays. The batch is committed:
        // an error here must not be its answer, or a caller would take it for refused. The sweep does the rest.
        for change in &sorted.expired {
            let _ = batch.map(change).remove_expired(batch.key(change));
        }
        Ok(sorted.present.len())
    }

    fn try_removal(&self, batch: &WriteBatch, last: &LastChanges<'_>) -> Result<Sorted> {
        let mut session = self.session()?;
        let journal = self.journal_for(last, &mut session)?;
        let mut in_order = self.batch_in_order(session, batch.stripes(&self.order, true))?;
        // Of what is absent nothing is logged, and no thread that watches it is told.
        let (now, mut sorted) = (Now::new(false), Sorted::default());
        for change in last.0.iter() {
            let has_expired = |record: Record<'_>| now.is_over(record.expiry_ms);
            let (tree, key) = (batch.map(change).tree(), batch.key(change));
            match tree.get_stored(&mut in_order.session, key, Verify::Key, has_expired) {
                Ok(None) => {}
                Ok(Some(true)) => sorted.expired.push(*change),
                Ok(Some(false)) => sorted.present.push(*change),
                Err(error) => match Error::from(error) {
                    // What is damaged can be removed.
                    Error::Corrupt(_) => sorted.present.push(*change),
                    error => return Err(error),
                },
            }
        }
        let present = LastChanges(Cow::Borrowed(&sorted.present));
        let journal = journal.filter(|_| present.may_need_journal());
        // Rollbacks are no condition of it.
        let (_, lsn) = self.write_behind(batch, &present, journal, &mut 0, &mut in_order)?;
        in_order.end(lsn)?;
        Ok(sorted)
    }
}
