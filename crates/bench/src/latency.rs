//! How long single operations take.
//!
//! Reading the clock twice takes about as long as a quick operation, and it keeps the processor
//! from overlapping the operation with its neighbours. So only one operation in many is timed, and
//! throughput is hardly touched: with one in 64 by about a nanosecond per operation.

use hdrhistogram::Histogram;

/// The longest latency that is told apart: one minute, in nanoseconds.
const HIGHEST_NS: u64 = 60_000_000_000;
/// Significant decimal digits kept.
const DIGIT_COUNT: u8 = 3;

/// Percentiles of latencies, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Latency {
    /// Operations that were timed.
    pub samples: u64,
    /// The median.
    pub p50_ns: u64,
    /// 90 % take at most this.
    pub p90_ns: u64,
    /// 99 % take at most this.
    pub p99_ns: u64,
    /// 99.9 % take at most this.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// The latencies of one workload.
pub(crate) struct Latencies {
    histogram: Histogram<u64>,
}

impl Latencies {
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, HIGHEST_NS, DIGIT_COUNT)
            .expect("the bounds and the digits are constants in range");
        Latencies { histogram }
    }

    /// Adds samples, in nanoseconds.
    pub fn add(&mut self, samples: &[u64]) {
        for &sample in samples {
            self.histogram.saturating_record(sample.max(1));
        }
    }

    pub fn percentiles(&self) -> Latency {
        let at = |quantile| self.histogram.value_at_quantile(quantile);
        Latency {
            samples: self.histogram.len(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.histogram.max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_samples() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.percentiles(), Latency::default());
        latencies.add(&(1..=1000).collect::<Vec<_>>());
        latencies.add(&[0, HIGHEST_NS * 2]);
        let found = latencies.percentiles();
        assert_eq!((found.samples, found.p50_ns), (1002, 500));
        assert!((989..=992).contains(&found.p99_ns), "{found:?}");
        assert!(found.max_ns >= HIGHEST_NS);
    }
}
