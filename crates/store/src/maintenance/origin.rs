//! Which pool a copy is of: half of a copy's number is chance, and the other half follows from that and from the
//! number of the pool that was copied. Older versions gave copies numbers of chance alone, so of theirs nobody can
//! tell.

use std::hash::{BuildHasher, RandomState};
use std::time::SystemTime;

use everleaf_index::random::mix;

/// The bits that every number of a pool has set: it is a UUID of version 4.
const VERSION: u64 = 0x40 << 8;
const VERSION_MASK: u64 = 0xF0 << 8;
const VARIANT: u64 = 0x80 << 56;
const VARIANT_MASK: u64 = 0xC0 << 56;

fn halves(number: [u8; 16]) -> (u64, u64) {
    let number = u128::from_be_bytes(number);
    ((number >> 64) as u64, number as u64)
}

fn number(chance: u64, source: [u8; 16]) -> [u8; 16] {
    let first = chance & !VERSION_MASK | VERSION;
    let (high, low) = halves(source);
    let second = mix(mix(mix(first) ^ high) ^ low) & !VARIANT_MASK | VARIANT;
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}

/// A number for a copy of the pool with the number `source`, which no other pool has.
pub fn new_number(source: [u8; 16]) -> [u8; 16] {
    number(RandomState::new().hash_one(SystemTime::now()), source)
}

/// Whether the pool with this number is a copy of that with the number `source`. Of 2^62 others one is taken for such a
/// copy.
pub fn is_copy_of(copy: [u8; 16], source: [u8; 16]) -> bool {
    number(halves(copy).0, source) == copy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_known_by_its_source_and_by_no_other() {
        let sources: Vec<[u8; 16]> = (0..100_u64).map(|n| number(mix(n), [7; 16])).collect();
        for source in &sources {
            let (one, other) = (new_number(*source), new_number(*source));
            assert_ne!(one, other);
            assert_eq!((one[6] >> 4, one[8] >> 6), (4, 2), "the form of a version 4 UUID");
            for found in &sources {
                assert_eq!(is_copy_of(one, *found), found == source);
            }
            assert!(!is_copy_of(*source, one) && !is_copy_of(*source, *source));
        }
    }
}
