//! When operations are due in an open loop: drawn beforehand, whatever the index does.
//!
//! In a closed loop a thread begins an operation when the one before has ended, so that a pause of
//! the index also pauses the questions, and hardly anyone is seen to wait ("coordinated omission").
//! In an open loop operations arrive by a schedule, and the latency of each counts from the moment
//! when it was due.

use crate::random::Random;

/// The schedule of an open loop.
///
/// Bursts arrive as in a Poisson process: independently of each other, at random moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// Operations a second, all threads together: above 0. A batch or a scan is one operation.
    pub per_second: f64,
    /// Operations that arrive at one moment: 1 for single ones.
    pub burst: u32,
}

impl Arrivals {
    /// Whether the figures are in range: 0.001 to 10^9 operations a second, bursts of 1 to 10^6.
    pub fn is_valid(&self) -> bool {
        (1e-3..=1e9).contains(&self.per_second) && (1..=1_000_000).contains(&self.burst)
    }

    /// When each of `count` operations of one of `threads` threads is due, in nanoseconds from the
    /// start; ascending.
    pub(crate) fn draw(&self, count: usize, threads: usize, random: &mut Random) -> Vec<u64> {
        let mean_ns = 1e9 * f64::from(self.burst) * threads as f64 / self.per_second;
        let (mut at, mut due) = (0.0, Vec::with_capacity(count));
        while due.len() < count {
            // The gaps of a Poisson process are distributed exponentially.
            at -= (1.0 - random.fraction()).ln() * mean_ns;
            let burst = (self.burst as usize).min(count - due.len());
            due.extend(std::iter::repeat_n(at as u64, burst));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_keep_the_rate_of_all_threads_together() {
        for burst in [1, 50] {
            let arrivals = Arrivals { per_second: 1e6, burst };
            let due = arrivals.draw(100_000, 2, &mut Random::new(5));
            assert!(due.is_sorted() && due.len() == 100_000);
            let seconds = due[due.len() - 1] as f64 / 1e9;
            // A hundred thousand at half a million a second.
            assert!((0.19..0.21).contains(&seconds), "{seconds}");
        }
    }

    #[test]
    fn a_burst_arrives_at_one_moment_and_single_ones_do_not() {
        let distinct = |burst| {
            let mut due = Arrivals { per_second: 1e5, burst }.draw(1000, 1, &mut Random::new(1));
            due.dedup();
            due.len()
        };
        assert_eq!(distinct(100), 10);
        assert!(distinct(1) > 990);
    }
}
