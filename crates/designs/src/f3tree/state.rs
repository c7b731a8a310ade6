//! The states of an entry: which thread brings it there, and what others do about it.
//!
//! ```text
//!           filled, or          evaluation      newer entry
//!           changed in place    frees           of the key
//!    FREE ----------------> COUNTS ------> FREE
//!                              \-----------------> SUPERSEDED ------> FREE
//!                                                             evaluation frees
//! ```
//!
//! | state | where | a reader | a writer of the key | after a crash |
//! |---|---|---|---|---|
//! | `FREE` | its number is below `drained` | reads the global tree | fills a free entry of its front | free |
//! | `COUNTS` | the largest number of the key | finds it in the table, unless it is applied | changes it in place | in the table again |
//! | `SUPERSEDED` | applied, not yet freed, and the key written again | does not know it | does not know it | dropped for the newer one |
//!
//! An entry that counts leaves the table when it is applied, some time before it is freed: that waits for all
//! parts of the table to be evaluated so far. A crash in between applies it again, which changes nothing: a
//! thread that wrote the key meanwhile has an entry with a larger number, or has freed this one first.

use super::layout::Stamp;

/// The state of an entry while nobody is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryState {
    /// It may be filled.
    Free,
    /// It is the newest of its key, or superseded by another one that counts.
    Counts,
}

impl EntryState {
    /// The state of an entry with this stamp.
    pub fn of(stamp: Stamp, drained: u64) -> Self {
        if stamp.sequence() < drained { EntryState::Free } else { EntryState::Counts }
    }
}
