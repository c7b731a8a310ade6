//! What a run of the bench found, as plain data: for tables, for JSON, for verdicts.

mod machine;

use serde::Serialize;

pub use crate::latency::Latency;
pub use machine::Machine;

/// A figure that was measured several times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of some measurements; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        };
        Some(Spread { median, min, max })
    }

    /// The distance from the smallest to the largest, in percent of the median.
    pub fn percent(&self) -> f64 {
        (self.max - self.min) / self.median * 100.0
    }
}

/// One round of one workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Round {
    /// Operations under the clock, all threads.
    pub operations: u64,
    /// What throughput counts: operations, or the keys that they returned.
    pub units: u64,
    /// Nanoseconds from the start of the first thread to the end of the last.
    pub elapsed_ns: u64,
    /// Nanoseconds of one dependent miss, measured just before.
    pub miss_before_ns: f64,
    /// Nanoseconds of one dependent miss, measured just after.
    pub miss_after_ns: f64,
    /// Units per second, all threads.
    pub per_second: f64,
    /// The share of that time that the threads were on a CPU, of what they could have been: 1 if
    /// nothing else runs. A thread that has finished before the others lowers it, too.
    pub busy_share: f64,
    /// Nanoseconds on a CPU that one unit cost.
    pub unit_ns: f64,
    /// The same, in dependent misses.
    pub misses: f64,
}

impl Round {
    /// Whether the machine changed its speed by more than 15 % while the round ran.
    pub fn is_noisy(&self) -> bool {
        let (before, after) = (self.miss_before_ns, self.miss_after_ns);
        (before - after).abs() > 0.15 * before.min(after)
    }

    /// Whether threads were kept from running for more than 10 % of the time.
    pub fn was_preempted(&self) -> bool {
        self.busy_share < 0.9
    }
}

/// What was found about one workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The workload's name.
    pub workload: &'static str,
    /// The distribution's name; empty where none applies.
    pub distribution: &'static str,
    /// The exponent of the distribution, if it has one.
    pub theta: Option<f64>,
    /// Threads at work.
    pub threads: usize,
    /// What is counted: `op` or `key`.
    pub unit: &'static str,
    /// Units per second, all threads.
    pub per_second: Spread,
    /// Time on a CPU that one unit cost, in dependent misses.
    pub misses: Spread,
    /// Time on a CPU that one unit cost, in nanoseconds.
    pub unit_ns: Spread,
    /// Latencies of single operations (of a batch or a scan as a whole), all rounds together.
    pub latency: Latency,
    /// Nanoseconds of one dependent miss before the rounds: their median.
    pub miss_before_ns: f64,
    /// Nanoseconds of one dependent miss after the rounds: their median.
    pub miss_after_ns: f64,
    /// Rounds in which the two differ by more than 15 %: their costs are to be distrusted.
    pub noisy_rounds: usize,
    /// Rounds in which threads were kept from running: their throughput is to be distrusted.
    pub preempted_rounds: usize,
    /// Throughput relative to the same workload on one thread in the same round; `None` for one
    /// thread, or if that was not measured.
    pub scaling: Option<Spread>,
    /// The rounds.
    pub rounds: Vec<Round>,
}

/// What the index took, after all keys were loaded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// Keys in the index.
    pub keys: u64,
    /// Bytes of the pool in use.
    pub pool_used_bytes: u64,
    /// Bytes of the pool.
    pub pool_size_bytes: u64,
    /// Bytes of the pool in use, per key.
    pub pool_bytes_per_key: f64,
    /// Bytes of DRAM in leaf metadata and inner nodes.
    pub dram_bytes: u64,
    /// The same, in percent of the bytes of the pool in use.
    pub dram_percent: f64,
    /// Leaves.
    pub leaves: u64,
    /// Levels, leaves included.
    pub height: u64,
}

/// What was measured how.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setup {
    /// `u64` or `bytes`.
    pub index: &'static str,
    /// Keys loaded.
    pub keys: u64,
    /// Bytes of a key.
    pub key_size_bytes: usize,
    /// Bytes of a value.
    pub value_size_bytes: usize,
    /// Where the pool was.
    pub medium: String,
    /// The persistence domain.
    pub domain: String,
    /// Rounds.
    pub rounds: usize,
    /// The seed of the operations.
    pub seed: u64,
    /// Keys of a batch.
    pub batch: usize,
    /// Pairs of a scan.
    pub scan_length: u32,
    /// Whether the updates of mixes are calls that would also add the key.
    pub upsert: bool,
    /// Operations that were due a second; `None` in a closed loop. Latencies count from then on.
    pub offered_per_second: Option<f64>,
    /// Operations that were due at one moment; `None` in a closed loop.
    pub burst: Option<u32>,
    /// One operation in this many was timed by itself.
    pub sample_every: usize,
    /// Bytes of the memory that was walked to time a dependent miss.
    pub miss_region_bytes: usize,
}

/// What a run of the bench found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// What was measured how.
    pub setup: Setup,
    /// What the index took.
    pub memory: Memory,
    /// The workloads, in the order in which they ran.
    pub rows: Vec<Row>,
}

impl Report {
    /// The row of a workload, by the names of workload and distribution.
    pub fn row(&self, workload: &str, distribution: &str, threads: usize) -> Option<&Row> {
        self.rows.iter().find(|row| {
            let is_distribution = row.distribution.is_empty() || row.distribution == distribution;
            row.workload == workload && is_distribution && row.threads == threads
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_median_and_the_ends() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        let even = Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((even.median, even.percent()), (2.5, 120.0));
    }

    #[test]
    fn a_round_is_noisy_from_15_percent_on_either_way() {
        let round = |before, after| Round {
            operations: 1,
            units: 1,
            elapsed_ns: 1,
            miss_before_ns: before,
            miss_after_ns: after,
            per_second: 1.0,
            busy_share: 0.95,
            unit_ns: 1.0,
            misses: 1.0,
        };
        assert!(!round(1.0, 1.0).was_preempted());
        assert!(Round { busy_share: 0.8, ..round(1.0, 1.0) }.was_preempted());
        assert!(!round(100.0, 114.0).is_noisy() && !round(114.0, 100.0).is_noisy());
        assert!(round(100.0, 116.0).is_noisy() && round(116.0, 100.0).is_noisy());
    }
}
