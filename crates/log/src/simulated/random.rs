//! Random numbers that a seed repeats on every machine (SplitMix64).

use everleaf_machine::random;

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        random::next(&mut self.0)
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.bits() % end as u64) as usize }
    }

    /// True once in `count` times; never if that is 0.
    pub fn one_in(&mut self, count: u32) -> bool {
        count != 0 && self.bits().is_multiple_of(u64::from(count))
    }
}
