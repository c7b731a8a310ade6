//! The one SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): numbers that
//! look random, and that a seed repeats on every machine for ever. Tests, benchmarks and recorded results depend on
//! them.

/// What the state of a generator grows by with each number: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A bijection of the 64-bit words that looks random: every bit that goes in reaches every bit that comes out.
#[inline]
pub const fn finish(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// The first number of the generator that begins with this state.
#[inline]
pub const fn mix(state: u64) -> u64 {
    finish(state.wrapping_add(STEP))
}

/// The next number of the generator with this state.
///
/// # Example
/// ```
/// use everleaf_machine::random::next;
/// let (mut a, mut b) = (7, 7);
/// assert_eq!(next(&mut a), next(&mut b));
/// ```
#[inline]
pub const fn next(state: &mut u64) -> u64 {
    let word = mix(*state);
    *state = state.wrapping_add(STEP);
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64_and_have_no_twins() {
        // The first outputs of the published generator for seed 0 and 1234567.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(next(&mut 1_234_567), 6_457_827_717_110_365_317);
        let mut state = 0;
        let mut numbers: Vec<u64> = (0..100_000).map(|_| next(&mut state)).collect();
        assert_eq!(numbers[1], mix(STEP));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 100_000);
    }
}
