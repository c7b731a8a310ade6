//! What a command on a stage replaces, so that it can be rolled back.
//!
//! A command of a transaction may fail with part of its work done: the third member of a `ZADD` is too long, or a
//! page of the pool is damaged. Its error stands between the answers of the others, whose work is written; of its
//! own nothing may be.

use everleaf::Expiry;

use super::staged_value::Value;
use crate::databases::Place;

/// Bytes that an entry takes besides its key and value.
const ENTRY_OVERHEAD: usize = 72;

/// Where a command began.
pub struct Mark {
    pub size: usize,
    pub read_size: usize,
    pub made_count: usize,
    pub change_count: u64,
}

/// What was to be written before: nothing, a removal, or a value.
pub type Before = Option<Option<Value>>;

/// What something that was written replaced.
pub enum Replaced {
    Key(Place, Vec<u8>, Before),
    Member(Vec<u8>, Before),
    /// A value that was appended to had this size.
    Size(Place, Vec<u8>, usize),
    /// A value that was given another time had this one.
    Time(Place, Vec<u8>, Expiry),
}

impl Replaced {
    fn size(&self) -> usize {
        let (key, before) = match self {
            Replaced::Key(_, key, before) | Replaced::Member(key, before) => (key, before.as_ref()),
            Replaced::Size(_, key, _) | Replaced::Time(_, key, _) => (key, None),
        };
        let value = before.and_then(Option::as_ref).map_or(0, |(value, _)| value.len());
        ENTRY_OVERHEAD + key.len() + value
    }
}

/// What was replaced since a mark.
#[derive(Default)]
pub struct UndoLog {
    replaced: Vec<Replaced>,
    size: usize,
}

impl UndoLog {
    pub fn push(&mut self, replaced: Replaced) {
        self.size += replaced.size();
        self.replaced.push(replaced);
    }

    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        self.size
    }

    pub fn into_latest_first(self) -> impl Iterator<Item = Replaced> {
        self.replaced.into_iter().rev()
    }
}
