//! Turns: who changes a collection that many change at once waits for its turn, instead of doing its work again.
//!
//! A command of a collection is done on a stage and written if nobody changed the collection meanwhile. Where two
//! threads go on changing one collection, each makes the other's work void, again and again. So a conflict makes
//! the collection *hot* for a while: its commands then lock, by a hash of its key, before they begin. It is a help
//! only: what makes a command one step is the condition of its batch, with a turn or without.
//!
//! A thread holds one turn at most, and takes it before the lock of the waiters and all locks of the store.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, by the hash of a key.
const LOCK_COUNT: usize = 256;
/// So many commands lock after a conflict.
const HOT_COUNT: u32 = 256;

/// The turns of the collections of a store. Thread-safe.
#[derive(Debug)]
pub struct Turns {
    locks: Box<[Turn]>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Turn {
    /// So many commands still lock.
    heat: AtomicU32,
    lock: Mutex<()>,
}

impl Turns {
    pub fn new() -> Self {
        let locks = (0..LOCK_COUNT).map(|_| Turn::default()).collect();
        Turns { locks, hasher: RandomState::new() }
    }

    /// Waits for the turn of a key, if its collection is hot.
    pub fn wait(&self, key: &[u8]) -> Option<MutexGuard<'_, ()>> {
        let turn = self.of(key);
        // Relaxed throughout: a hint; any value is correct.
        let heat = turn.heat.load(Ordering::Relaxed);
        if heat == 0 {
            return None;
        }
        // Relaxed: as above.
        turn.heat.store(heat - 1, Ordering::Relaxed);
        Some(turn.lock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes a conflict, and waits for the turn of a key.
    pub fn wait_after_conflict(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        let turn = self.of(key);
        // Relaxed: see `wait`.
        turn.heat.store(HOT_COUNT, Ordering::Relaxed);
        turn.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, key: &[u8]) -> &Turn {
        &self.locks[self.hasher.hash_one(key) as usize % LOCK_COUNT]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_makes_the_next_commands_lock() {
        let turns = Turns::new();
        assert!(turns.wait(b"k").is_none());
        drop(turns.wait_after_conflict(b"k"));
        for _ in 0..HOT_COUNT {
            assert!(turns.wait(b"k").is_some());
        }
        assert!(turns.wait(b"k").is_none());
    }
}
