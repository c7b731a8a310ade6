//! Cursors of `SCAN`: where each scan in progress stands.
//!
//! Clients treat a cursor as a number, but a position in an ordered map is a key of any length. So
//! the server keeps a table `cursor -> last key returned`, common to all connections because
//! client libraries may send the next `SCAN` of one iteration over another connection.
//!
//! A scan in progress keeps two entries at most: its newest cursor and the one before (so that a
//! request can be repeated after a lost reply); using a cursor forgets its predecessor. Scans that
//! nobody continues are forgotten, oldest first, when the table exceeds its count or its bytes.
//! Cursors start at a random number, so that one from before a restart is recognised as unknown.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most cursors kept.
const CURSOR_COUNT_MAX: usize = 1 << 16;
/// The most bytes of keys kept.
const KEY_SIZE_TOTAL_MAX: usize = 64 << 20;
/// Cursors start below this number and so stay exact even in clients that use floating point.
const FIRST_CURSOR_MAX: u64 = 1 << 40;

/// The table. Thread-safe; blocks only for the time of a lookup.
#[derive(Debug)]
pub struct ScanTable {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: u64,
    key_size_total: usize,
    entries: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    last_key: Box<[u8]>,
    /// The cursor this one was reached from; 0 = the start.
    previous: u64,
}

impl ScanTable {
    pub fn new() -> Self {
        let random = RandomState::new().build_hasher().finish();
        let next = random % FIRST_CURSOR_MAX + 1;
        ScanTable { state: Mutex::new(State { next, key_size_total: 0, entries: BTreeMap::new() }) }
    }

    /// The key after which the scan `cursor` goes on; `None` if the cursor is not known (any more).
    pub fn position(&self, cursor: u64) -> Option<Vec<u8>> {
        let mut state = self.lock();
        let entry = state.entries.get(&cursor)?;
        let (previous, key) = (entry.previous, entry.last_key.to_vec());
        state.forget(previous);
        Some(key)
    }

    /// A new cursor, which goes on after `last_key` and was reached from the cursor `previous`.
    pub fn advance(&self, previous: u64, last_key: &[u8]) -> u64 {
        let mut state = self.lock();
        let cursor = state.next;
        state.next += 1;
        state.key_size_total += last_key.len();
        state.entries.insert(cursor, Entry { last_key: last_key.into(), previous });
        while state.entries.len() > CURSOR_COUNT_MAX || state.key_size_total > KEY_SIZE_TOTAL_MAX {
            let Some((&oldest, _)) = state.entries.first_key_value() else { break };
            state.forget(oldest);
        }
        cursor
    }

    /// A panic elsewhere cannot have left the table half changed: nothing in it panics.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget(&mut self, cursor: u64) {
        if let Some(entry) = self.entries.remove(&cursor) {
            self.key_size_total -= entry.last_key.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_can_be_used_again_until_its_successor_is_used() {
        let table = ScanTable::new();
        let first = table.advance(0, b"a");
        assert_eq!(table.position(first).unwrap(), b"a");
        assert_eq!(table.position(first).unwrap(), b"a");
        let second = table.advance(first, b"b");
        assert_eq!(table.position(first).unwrap(), b"a");
        assert_eq!(table.position(second).unwrap(), b"b");
        assert_eq!(table.position(first), None);
    }

    #[test]
    fn abandoned_scans_are_forgotten_oldest_first() {
        let table = ScanTable::new();
        let first = table.advance(0, b"first");
        let second = table.advance(0, b"second");
        for _ in 0..CURSOR_COUNT_MAX - 1 {
            table.advance(0, b"later");
        }
        assert_eq!(table.position(first), None);
        assert_eq!(table.position(second).unwrap(), b"second");
    }

    #[test]
    fn long_keys_cannot_fill_the_memory() {
        let table = ScanTable::new();
        let key = vec![0u8; 1 << 20];
        for _ in 0..200 {
            table.advance(0, &key);
        }
        assert!(table.lock().key_size_total <= KEY_SIZE_TOTAL_MAX);
        assert_eq!(table.lock().entries.len(), KEY_SIZE_TOTAL_MAX >> 20);
    }

    #[test]
    fn one_long_scan_keeps_two_cursors() {
        let table = ScanTable::new();
        let mut cursor = 0;
        for step in 0..1_000u32 {
            if cursor != 0 {
                table.position(cursor).unwrap();
            }
            cursor = table.advance(cursor, &step.to_be_bytes());
        }
        assert!(table.lock().entries.len() <= 2);
    }
}
