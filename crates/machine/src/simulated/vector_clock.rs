//! Vector clocks, and tables by address.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

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
