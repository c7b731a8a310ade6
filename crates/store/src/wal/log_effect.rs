//! What a write did, for the log.

use everleaf_index::{Change, What};
use everleaf_log::Record;

/// What a write did to its key, for the log.
#[derive(Clone, Copy)]
pub enum LogEffect<'a> {
    /// No change: nothing to log.
    Unchanged,
    /// This change was made.
    Made(Change<'a>),
    /// The key has another record now: it has to be read again from the tree.
    Reread,
}

impl<'a> LogEffect<'a> {
    /// This change, if it was made.
    #[inline(always)]
    pub fn of(change: Change<'a>, is_made: bool) -> Self {
        if is_made { LogEffect::Made(change) } else { LogEffect::Unchanged }
    }

    /// A record to be read again, if it `changed`.
    pub fn if_changed(changed: bool) -> Self {
        if changed { LogEffect::Reread } else { LogEffect::Unchanged }
    }

    /// Whether nothing was changed.
    pub fn is_unchanged(&self) -> bool {
        matches!(self, LogEffect::Unchanged)
    }
}

/// A change that was made, as the log has it: the value that the key has now, its removal, or its expiry.
pub fn log_record<'a>(map: u32, change: &Change<'a>) -> Record<'a> {
    let Change { key, what, expiry_ms } = *change;
    let expiry = (expiry_ms != 0).then_some(expiry_ms);
    match what {
        What::Insert(value) | What::Update(value) | What::Upsert(value) => {
            Record { expiry, ..Record::put(map, key, value) }
        }
        What::Remove => Record::delete(map, key),
        What::Expire => Record::expire(map, key, expiry),
    }
}
