//! Counters: kept per thread, added up when they are asked for.

use std::sync::atomic::{AtomicU64, Ordering};

/// What happened, as plain numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests answered.
    pub commands: u64,
    /// Lookups that found a value.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Error replies.
    pub errors: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

impl Tally {
    fn combine(self, other: Tally, with: fn(u64, u64) -> u64) -> Tally {
        Tally {
            commands: with(self.commands, other.commands),
            hits: with(self.hits, other.hits),
            misses: with(self.misses, other.misses),
            errors: with(self.errors, other.errors),
            bytes_in: with(self.bytes_in, other.bytes_in),
            bytes_out: with(self.bytes_out, other.bytes_out),
        }
    }

    /// The sum.
    pub fn plus(self, other: Tally) -> Tally {
        self.combine(other, u64::wrapping_add)
    }

    /// What was added since `earlier`.
    pub fn since(self, earlier: Tally) -> Tally {
        self.combine(earlier, u64::saturating_sub)
    }
}

/// The counters of one thread, on cache lines of their own. Only that thread adds; anybody may
/// read. Statistics, so every access is relaxed: a reader may be a batch behind.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    commands: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    errors: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

impl Counters {
    /// Adds what a batch did.
    pub fn add(&self, tally: &Tally) {
        let pairs = [
            (&self.commands, tally.commands),
            (&self.hits, tally.hits),
            (&self.misses, tally.misses),
            (&self.errors, tally.errors),
            (&self.bytes_in, tally.bytes_in),
            (&self.bytes_out, tally.bytes_out),
        ];
        for (counter, amount) in pairs {
            if amount > 0 {
                // Relaxed: see the type. Load and store suffice, for there is one writer.
                let before = counter.load(Ordering::Relaxed);
                // Relaxed: there is one writer.
                counter.store(before.wrapping_add(amount), Ordering::Relaxed);
            }
        }
    }

    /// What was added so far.
    pub fn read(&self) -> Tally {
        // Relaxed: see the type.
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally {
            commands: get(&self.commands),
            hits: get(&self.hits),
            misses: get(&self.misses),
            errors: get(&self.errors),
            bytes_in: get(&self.bytes_in),
            bytes_out: get(&self.bytes_out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_can_be_read_and_compared() {
        let counters = Counters::default();
        let batch =
            Tally { commands: 3, hits: 1, misses: 1, errors: 1, bytes_in: 60, bytes_out: 9 };
        counters.add(&batch);
        let earlier = counters.read();
        assert_eq!(earlier, batch);
        counters.add(&batch);
        assert_eq!(counters.read().since(earlier), batch);
        assert_eq!(batch.plus(Tally::default()), batch);
    }
}
