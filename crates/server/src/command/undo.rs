//! What a command on a stage replaces, so that it can be rolled back.
//!
//! A command of a transaction may fail with part of its work done: the third member of a `ZADD` is too long, or a
//! page of the pool is damaged. Its error stands between the answers of the others, whose work is written; of its
//! own nothing may be. Of each key and member what was there first is kept, however often it is written.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use everleaf::Expiry;

use super::staged_value::{NewExpiry, Value};
use crate::databases::MapNumber;
use crate::short_bytes::ShortBytes;

/// Bytes that an entry takes besides its key and value.
const ENTRY_OVERHEAD: usize = 100;

/// Where a command began.
pub struct Mark {
    pub size: usize,
    pub read_size: usize,
    pub made_count: usize,
    pub change_count: u64,
}

/// What was to be written before.
pub enum Before {
    /// Nothing, a removal, or a value.
    Written(Option<Option<Value>>),
    /// A value of this size, which was appended to.
    Size(usize),
    /// A value with this time, which was given another.
    Time(Expiry),
}

impl Before {
    fn size(&self) -> usize {
        match self {
            Before::Written(Some(Some((value, _)))) => value.len(),
            _ => 0,
        }
    }
}

/// What was replaced since a mark.
#[derive(Default)]
pub struct UndoLog {
    pub keys: BTreeMap<(MapNumber, Vec<u8>), Vec<Before>>,
    pub members: BTreeMap<ShortBytes, Option<Option<ShortBytes>>>,
    /// What was to become of expiries alone.
    pub expiries: BTreeMap<(MapNumber, Vec<u8>), Option<NewExpiry>>,
    size: usize,
}

impl UndoLog {
    /// Notes what a key had. What was written whole is all there is to know of what came before it.
    pub fn note_key(&mut self, place: MapNumber, key: &[u8], before: Before) {
        let known = self.keys.entry((place, key.to_vec())).or_insert_with(|| {
            self.size += ENTRY_OVERHEAD + key.len();
            Vec::new()
        });
        let is_whole = |before: &Before| matches!(before, Before::Written(_));
        let is_known = match &before {
            Before::Written(_) => known.iter().any(is_whole),
            // The first is the one to go back to.
            Before::Size(_) => known.iter().any(|known| !matches!(known, Before::Time(_))),
            Before::Time(_) => known.iter().any(|known| !matches!(known, Before::Size(_))),
        };
        if !is_known {
            self.size += before.size();
            known.push(before);
        }
    }

    /// Notes what was to become of the expiry of a key alone.
    pub fn note_expiry(&mut self, place: MapNumber, key: &[u8], before: Option<NewExpiry>) {
        if let Entry::Vacant(entry) = self.expiries.entry((place, key.to_vec())) {
            self.size += ENTRY_OVERHEAD + key.len();
            entry.insert(before);
        }
    }

    /// Notes what a member had.
    pub fn note_member(&mut self, key: ShortBytes, before: Option<Option<ShortBytes>>) {
        if let Entry::Vacant(entry) = self.members.entry(key) {
            let size = before.iter().flatten().map(|value| value.len()).sum::<usize>();
            self.size += ENTRY_OVERHEAD + entry.key().len() + size;
            entry.insert(before);
        }
    }

    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        self.size
    }
}
