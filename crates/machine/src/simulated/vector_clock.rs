//! Vector clocks, and tables by address.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use super::THREADS_MAX;
use super::random::mix;

/// For each thread, how much of it is known to have happened before.
pub type Clock = [u32; THREADS_MAX];

/// Adds what another clock knows.
pub fn join(clock: &mut Clock, other: &Clock) {
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

/// Addresses are asked for at every access.
#[derive(Default)]
pub struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("only addresses are hashed")
    }
    fn write_usize(&mut self, value: usize) {
        self.0 = mix(value as u64);
    }
}

/// A table by address.
pub type ByAddress<T> = HashMap<usize, T, BuildHasherDefault<Mixed>>;

/// Takes a range of keys out of a table. Whole chunks are handed out while there is little in it.
pub fn forget_keys<T>(table: &mut ByAddress<T>, keys: Range<usize>) {
    if table.is_empty() {
        return;
    }
    // To go through a table is to look at all its places, several at once.
    if table.len() + table.capacity() / 8 < keys.len() {
        table.retain(|key, _| !keys.contains(key));
    } else {
        keys.for_each(|key| drop(table.remove(&key)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_forgotten_and_its_neighbours_stay() {
        // Short beside the table, so that its keys are taken one by one, and long.
        for (keys, count) in [(40..44, 100), (40..4000, 100), (0..0, 10), (5..6, 1)] {
            let mut table: ByAddress<usize> = (0..count).map(|key| (key, key)).collect();
            forget_keys(&mut table, keys.clone());
            for key in 0..count {
                let expected = (!keys.contains(&key)).then_some(&key);
                assert_eq!(table.get(&key), expected, "{key} of {count} without {keys:?}");
            }
        }
    }
}
