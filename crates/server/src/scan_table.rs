//! Cursors of `SCAN`: where each scan in progress stands.
//!
//! Clients treat a cursor as a number, but a position in an ordered map is a key of any length. So
//! the server keeps a table `cursor -> last key returned`, common to all connections because
//! client libraries may send the next `SCAN` of one iteration over another connection.
//!
//! A scan in progress keeps two entries at most: its newest cursor and the one before (so that a
//! request can be repeated after a lost reply); using a cursor forgets its predecessor. Scans that
//! nobody continues are forgotten when the table exceeds its count or its bytes: the oldest of the
//! client that has most of it, but never the one that was just given out. Those that were left by
//! clients that have gone count as one client's. So a client that leaves scans behind ends its own,
//! and what others left, and not those of others. And cursors are numbers that nobody can foresee:
//! none can be used by chance or on purpose by a client that was not told of it, and one from before
//! a restart is recognised as unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most cursors kept.
const CURSOR_COUNT_MAX: usize = 1 << 16;
/// The most bytes of keys kept.
const KEY_SIZE_TOTAL_MAX: usize = 64 << 20;
/// Bytes that a cursor takes besides its key.
const CURSOR_OVERHEAD: usize = 200;
/// Stands for all clients that have gone.
const GONE: u64 = 0;
/// Cursors have so many bits, and so stay exact even in clients that use floating point.
const CURSOR_BITS: u32 = 53;

/// The table. Thread-safe; blocks only for the time of a lookup.
#[derive(Debug)]
pub struct ScanTable {
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many cursors were given out.
    given_count: u64,
    key_size_total: usize,
    entries: BTreeMap<u64, Entry>,
    /// What each client has of the table, by its id.
    shares: BTreeMap<u64, Share>,
    /// The clients by the size of what they have.
    by_size: BTreeSet<(usize, u64)>,
}

#[derive(Debug)]
struct Entry {
    last_key: Box<[u8]>,
    /// The cursor this one was reached from; 0 = the start.
    previous: u64,
    /// The client that it was given to, and its number among all that were given out.
    client_id: u64,
    number: u64,
}

/// What a client has of the table.
#[derive(Debug, Default)]
struct Share {
    size: usize,
    /// Its cursors, by their numbers.
    cursors: BTreeMap<u64, u64>,
}

impl ScanTable {
    pub fn new() -> Self {
        ScanTable { hasher: RandomState::new(), state: Mutex::default() }
    }

    /// The key after which the scan `cursor` goes on; `None` if the cursor is not known (any more).
    pub fn position(&self, cursor: u64) -> Option<Vec<u8>> {
        let mut state = self.lock();
        let entry = state.entries.get(&cursor)?;
        let (previous, key) = (entry.previous, entry.last_key.to_vec());
        state.forget(previous);
        Some(key)
    }

    /// A new cursor for a client, which goes on after `last_key` and was reached from the cursor `previous`.
    pub fn advance(&self, client_id: u64, previous: u64, last_key: &[u8]) -> u64 {
        let mut state = self.lock();
        let cursor = loop {
            state.given_count += 1;
            let cursor = self.hasher.hash_one(state.given_count) >> (u64::BITS - CURSOR_BITS);
            if cursor != 0 && !state.entries.contains_key(&cursor) {
                break cursor;
            }
        };
        let number = state.given_count;
        let entry = Entry { last_key: last_key.into(), previous, client_id, number };
        state.insert(cursor, entry);
        while state.entries.len() > CURSOR_COUNT_MAX || state.key_size_total > KEY_SIZE_TOTAL_MAX {
            let Some(oldest) = state.oldest_of_largest(cursor) else { break };
            state.forget(oldest);
        }
        cursor
    }

    /// Says that a client has gone: what it left may be continued by another connection, or by nobody.
    pub fn leave(&self, client_id: u64) {
        self.lock().leave(client_id);
    }

    /// A panic elsewhere cannot have left the table half changed: nothing in it panics.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn insert(&mut self, cursor: u64, entry: Entry) {
        let size = entry.last_key.len() + CURSOR_OVERHEAD;
        self.key_size_total += entry.last_key.len();
        let share = self.shares.entry(entry.client_id).or_default();
        self.by_size.remove(&(share.size, entry.client_id));
        share.size += size;
        share.cursors.insert(entry.number, cursor);
        self.by_size.insert((share.size, entry.client_id));
        self.entries.insert(cursor, entry);
    }

    /// The oldest cursor of the client that has most of the table, but for this one.
    fn oldest_of_largest(&self, kept: u64) -> Option<u64> {
        self.by_size.iter().rev().find_map(|(_, client_id)| {
            let cursors = self.shares.get(client_id)?.cursors.values();
            cursors.copied().find(|cursor| *cursor != kept)
        })
    }

    fn leave(&mut self, client_id: u64) {
        let Some(share) = self.shares.remove(&client_id) else { return };
        self.by_size.remove(&(share.size, client_id));
        for cursor in share.cursors.values() {
            if let Some(entry) = self.entries.get_mut(cursor) {
                entry.client_id = GONE;
            }
        }
        let gone = self.shares.entry(GONE).or_default();
        self.by_size.remove(&(gone.size, GONE));
        gone.size += share.size;
        gone.cursors.extend(share.cursors);
        self.by_size.insert((gone.size, GONE));
    }

    fn forget(&mut self, cursor: u64) {
        let Some(entry) = self.entries.remove(&cursor) else { return };
        self.key_size_total -= entry.last_key.len();
        let Some(share) = self.shares.get_mut(&entry.client_id) else { return };
        self.by_size.remove(&(share.size, entry.client_id));
        share.size -= entry.last_key.len() + CURSOR_OVERHEAD;
        share.cursors.remove(&entry.number);
        match share.cursors.is_empty() {
            true => drop(self.shares.remove(&entry.client_id)),
            false => drop(self.by_size.insert((share.size, entry.client_id))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_can_be_used_again_until_its_successor_is_used() {
        let table = ScanTable::new();
        let first = table.advance(1, 0, b"a");
        assert_eq!(table.position(first).unwrap(), b"a");
        assert_eq!(table.position(first).unwrap(), b"a");
        let second = table.advance(1, first, b"b");
        assert_eq!(table.position(first).unwrap(), b"a");
        assert_eq!(table.position(second).unwrap(), b"b");
        assert_eq!(table.position(first), None);
    }

    #[test]
    fn abandoned_scans_are_forgotten_oldest_first() {
        let table = ScanTable::new();
        let first = table.advance(1, 0, b"first");
        let second = table.advance(1, 0, b"second");
        for _ in 0..CURSOR_COUNT_MAX - 1 {
            table.advance(1, 0, b"later");
        }
        assert_eq!(table.position(first), None);
        assert_eq!(table.position(second).unwrap(), b"second");
    }

    #[test]
    fn long_keys_cannot_fill_the_memory() {
        let table = ScanTable::new();
        let key = vec![0u8; 1 << 20];
        for _ in 0..200 {
            table.advance(1, 0, &key);
        }
        assert!(table.lock().key_size_total <= KEY_SIZE_TOTAL_MAX);
        assert_eq!(table.lock().entries.len(), KEY_SIZE_TOTAL_MAX >> 20);
    }

    /// What was lost: a client that left a thousand scans behind, after a first key of 64 KiB, ended all others.
    #[test]
    fn a_client_that_leaves_scans_behind_ends_its_own() {
        let table = ScanTable::new();
        let first = table.advance(1, 0, b"a");
        let second = table.advance(1, first, b"b");
        let other = table.advance(2, 0, b"c");
        let key = vec![0; 64 << 10];
        let leave = |client_id: u64, key: &[u8]| assert_ne!(table.advance(client_id, 0, key), 0);
        (0..3_000).for_each(|_| leave(3, &key));
        (0..2 * CURSOR_COUNT_MAX).for_each(|_| leave(4, b"k"));
        (5..2_000).for_each(|client_id| leave(client_id, &key));
        assert_eq!(table.position(first).unwrap(), b"a");
        assert_eq!(table.position(second).unwrap(), b"b");
        assert_eq!(table.position(other).unwrap(), b"c");
        let state = table.lock();
        let sizes = |share: &Share| share.size - share.cursors.len() * CURSOR_OVERHEAD;
        assert_eq!(state.shares.values().map(sizes).sum::<usize>(), state.key_size_total);
        assert!(state.by_size.iter().all(|(size, id)| state.shares[id].size == *size));
        assert_eq!(state.by_size.len(), state.shares.len());
    }

    /// What was wrong: scans of clients that had gone were never the largest share, and each new client lost its own.
    #[test]
    fn a_new_client_can_scan_however_many_have_gone() {
        let table = ScanTable::new();
        let mut first = None;
        for client_id in 1..CURSOR_COUNT_MAX as u64 + 1_000 {
            let cursor = table.advance(client_id, 0, b"key");
            assert!(table.position(cursor).is_some(), "{client_id}");
            let next = table.advance(client_id, cursor, b"later");
            assert!(table.position(next).is_some(), "{client_id}");
            first = first.or(Some(next));
            table.leave(client_id);
        }
        assert_eq!(first.and_then(|first| table.position(first)), None, "the oldest goes first");
        // Also while all of them are there, with as much each.
        let table = ScanTable::new();
        for client_id in 1..CURSOR_COUNT_MAX as u64 + 1_000 {
            let cursor = table.advance(client_id, 0, b"key");
            assert!(table.position(cursor).is_some(), "{client_id}");
        }
    }

    #[test]
    fn a_cursor_tells_nothing_of_the_next_one() {
        let (one, other) = (ScanTable::new(), ScanTable::new());
        let given = |table: &ScanTable| -> Vec<u64> {
            (0..1_000).map(|_| table.advance(1, 0, b"k")).collect()
        };
        let (one, other) = (given(&one), given(&other));
        assert!(one.iter().chain(&other).all(|cursor| (1..1 << CURSOR_BITS).contains(cursor)));
        assert!(one.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 1 << 20));
        let steps = |given: &[u64]| given[1].wrapping_sub(given[0]);
        assert_ne!(steps(&one), steps(&other));
    }

    #[test]
    fn one_long_scan_keeps_two_cursors() {
        let table = ScanTable::new();
        let mut cursor = 0;
        for step in 0..1_000u32 {
            if cursor != 0 {
                table.position(cursor).unwrap();
            }
            cursor = table.advance(1, cursor, &step.to_be_bytes());
        }
        assert!(table.lock().entries.len() <= 2);
    }
}
