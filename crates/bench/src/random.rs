//! Reproducible random numbers: the same seed gives the same stream on every machine, for ever.

use everleaf_machine::random;
pub use everleaf_machine::random::mix;

/// A stream of random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Random { state: mix(seed) }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_word(&mut self) -> u64 {
        random::next(&mut self.state)
    }

    /// A number in `0..bound`, each equally likely to within `bound / 2^64`; `bound` above 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_word()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `0.0..1.0`.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        (self.next_word() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_numbers_fill_their_range_evenly() {
        let mut random = Random::new(1);
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|_| counts[random.below(10) as usize] += 1);
        assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
        let mean = (0..100_000).map(|_| random.fraction()).sum::<f64>() / 1e5;
        assert!((0.49..0.51).contains(&mean), "{mean}");
    }
}
