//! Times on persistent memory, from counts: so many waits for a medium of a given latency.
//!
//! The papers that emulate persistent memory do it in this way too: a stall for every miss that has
//! to wait, a delay for every line written back. What is counted is exact; what a miss takes is a
//! parameter of the model, not a measurement.

use everleaf_machine::simulated::counting::Tally;

/// What waiting takes, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latencies {
    /// A miss to DRAM.
    pub dram_ns: f64,
    /// A miss to persistent memory.
    pub pool_ns: f64,
    /// The write-back of a line.
    pub flush_ns: f64,
}

impl Latencies {
    /// Persistent memory modules behind caches that lose their contents.
    pub const MODULES: Latencies = Latencies { dram_ns: 90.0, pool_ns: 300.0, flush_ns: 100.0 };

    /// Nanoseconds of waiting, of one operation on average: all misses to DRAM, those to the pool
    /// that do not come with a neighbour, and all write-backs.
    pub fn waiting(&self, tally: &Tally) -> f64 {
        self.searching(tally) + self.flushing(tally)
    }

    /// The part that is misses.
    pub fn searching(&self, tally: &Tally) -> f64 {
        tally.per_operation(tally.dram_misses) * self.dram_ns
            + tally.per_operation(tally.pool_chains) * self.pool_ns
    }

    /// The part that is write-backs.
    pub fn flushing(&self, tally: &Tally) -> f64 {
        tally.per_operation(tally.flushes) * self.flush_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_the_sum_of_its_parts() {
        let tally = Tally {
            operations: 2,
            dram_misses: 4,
            pool_misses: 9,
            pool_chains: 2,
            flushes: 6,
            ..Tally::default()
        };
        let latencies = Latencies { dram_ns: 10.0, pool_ns: 100.0, flush_ns: 1000.0 };
        assert_eq!(latencies.searching(&tally), 120.0);
        assert_eq!(latencies.flushing(&tally), 3000.0);
        assert_eq!(latencies.waiting(&tally), 3120.0);
    }
}
