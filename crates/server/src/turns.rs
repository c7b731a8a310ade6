//! Turns: a thread that changes a collection that many change at once waits for its turn, instead of doing its work
//! again.
//!
//! A command of a collection is done on a stage and written if nobody changed the collection meanwhile. Where two
//! threads go on changing one collection, each makes the other's work void, again and again. So a conflict makes
//! the collection *hot* for a while: its commands then lock, by a hash of its key, before they begin. It is a help
//! only: what makes a command one step is the condition of its batch, with a turn or without.
//!
//! A thread takes its turns, of one key or of several, at once, in the order of the locks, and before the lock of the
//! waiters and all locks of the store.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

use everleaf::ranked::{Rank, RankedGuard, RankedMutex};

/// Locks, by the hash of a key.
const LOCK_COUNT: usize = 256;
/// So many commands lock after a conflict.
const HOT_COUNT: u32 = 256;
/// So many look for their locks after a conflict: enough for the commands of many keys.
const LOOK_COUNT: u32 = 64 * HOT_COUNT;

/// The turns of the collections of a store. Thread-safe.
#[derive(Debug)]
pub struct Turns {
    locks: Box<[Turn]>,
    hasher: RandomState,
    /// So many commands or steps look for their locks: none where there was no conflict.
    looks: AtomicU32,
}

#[derive(Debug)]
struct Turn {
    /// So many commands still lock.
    heat: AtomicU32,
    lock: RankedMutex<()>,
}

impl Turn {
    fn new() -> Self {
        Turn { heat: AtomicU32::new(0), lock: RankedMutex::new(Rank::Turn, ()) }
    }
}

impl Turns {
    pub fn new() -> Self {
        let locks = (0..LOCK_COUNT).map(|_| Turn::new()).collect();
        Turns { locks, hasher: RandomState::new(), looks: AtomicU32::new(0) }
    }

    /// Waits for the turn of a key, if its collection is hot.
    pub fn wait(&self, key: &[u8]) -> Option<RankedGuard<'_, ()>> {
        if !self.must_look() {
            return None;
        }
        let turn = self.of(key);
        // Relaxed throughout: a hint; any value is correct.
        let heat = turn.heat.load(Ordering::Relaxed);
        if heat == 0 {
            return None;
        }
        // Relaxed: a hint.
        turn.heat.store(heat - 1, Ordering::Relaxed);
        Some(turn.lock.lock())
    }

    /// Notes a conflict, and waits for the turn of a key.
    pub fn wait_after_conflict(&self, key: &[u8]) -> RankedGuard<'_, ()> {
        self.heat(key);
        self.of(key).lock.lock()
    }

    /// Waits for the turns of those of several keys whose collections are hot.
    pub fn wait_all<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Vec<RankedGuard<'_, ()>> {
        if !self.must_look() {
            return Vec::new();
        }
        let mut indexes = self.indexes(keys);
        indexes.retain(|index| {
            let turn = &self.locks[*index];
            // Relaxed: see `wait`.
            let heat = turn.heat.load(Ordering::Relaxed);
            // Relaxed: a hint.
            turn.heat.store(heat.saturating_sub(1), Ordering::Relaxed);
            heat > 0
        });
        self.lock_all(&indexes)
    }

    /// Notes a conflict. A thread that waits for all of several keys then waits for this one, too.
    pub fn heat(&self, key: &[u8]) {
        // Relaxed: see `wait`.
        self.of(key).heat.store(HOT_COUNT, Ordering::Relaxed);
        // Relaxed: see `wait`.
        self.looks.store(LOOK_COUNT, Ordering::Relaxed);
    }

    /// Whether there was a conflict not long ago. What it says is a hint, too.
    #[inline]
    fn must_look(&self) -> bool {
        // Relaxed: a hint; any value is correct.
        let looks = self.looks.load(Ordering::Relaxed);
        if looks > 0 {
            // Relaxed: a hint.
            self.looks.store(looks - 1, Ordering::Relaxed);
        }
        looks > 0
    }

    /// The locks of keys, each once, ascending: a thread that takes them in this order waits in no circle.
    fn indexes<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Vec<usize> {
        let (mut indexes, mut last) = (Vec::new(), None);
        for key in keys {
            // Mostly they are the same.
            if last != Some(key) {
                indexes.push(self.index_of(key));
                last = Some(key);
            }
        }
        indexes.sort_unstable();
        indexes.dedup();
        indexes
    }

    fn lock_all(&self, indexes: &[usize]) -> Vec<RankedGuard<'_, ()>> {
        RankedMutex::lock_all(indexes.iter().map(|index| &self.locks[*index].lock))
    }

    /// Whether the next command of a key would lock.
    #[cfg(test)]
    pub fn is_hot(&self, key: &[u8]) -> bool {
        // Relaxed: see `wait`.
        self.of(key).heat.load(Ordering::Relaxed) > 0
    }

    fn of(&self, key: &[u8]) -> &Turn {
        &self.locks[self.index_of(key)]
    }

    fn index_of(&self, key: &[u8]) -> usize {
        self.hasher.hash_one(key) as usize % LOCK_COUNT
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

    #[test]
    fn turns_of_several_keys_are_taken_once_each_in_one_order() {
        let turns = Turns::new();
        let keys: Vec<Vec<u8>> =
            (0..600u32).map(|key| (key % 300).to_le_bytes().to_vec()).collect();
        let forward = || keys.iter().map(Vec::as_slice);
        assert!(turns.wait_all(forward()).is_empty());
        drop(turns.wait_after_conflict(&keys[7]));
        assert_eq!(turns.wait_all(forward()).len(), 1, "only what is hot");
        forward().for_each(|key| turns.heat(key));
        let count = turns.wait_all(forward()).len();
        assert!(count <= LOCK_COUNT && count > LOCK_COUNT / 4, "{count}");
        std::thread::scope(|scope| {
            for is_reversed in [false, true] {
                let (turns, keys) = (&turns, &keys);
                scope.spawn(move || {
                    for _ in 0..100 {
                        let keys = keys.iter().map(Vec::as_slice);
                        let taken = match is_reversed {
                            true => turns.wait_all(keys.rev()),
                            false => turns.wait_all(keys),
                        };
                        assert!(taken.len() <= count);
                    }
                });
            }
        });
    }
}
