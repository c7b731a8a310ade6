//! Which keys a leaf certainly does not have: 512 bits, four for each key.
//!
//! A removed key keeps its bits until the filter is made anew, when the leaf is split or merged, or is
//! first touched after the pool was opened. With 48 keys, which is usual, about one absent key in a
//! hundred passes.

use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering};

const WORDS: usize = LINE_SIZE / 8;
const PROBES: u32 = 4;

/// See the module. Written under the lock of the leaf, read by threads that validate it.
#[repr(C, align(64))]
pub(super) struct Filter<M: Machine> {
    words: [Atomic<u64, M>; WORDS],
}

/// Word and bit of each probe.
#[inline(always)]
fn probes(key: u64) -> impl Iterator<Item = (usize, u64)> {
    let hash = key.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    // The upper bits of a product depend on all of the key.
    let hash = (hash ^ hash >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 28;
    (0..PROBES).map(move |probe| {
        let bits = hash >> (9 * probe);
        ((bits >> 6) as usize % WORDS, 1 << (bits % 64))
    })
}

impl<M: Machine> Filter<M> {
    /// Whether the key may be there.
    #[inline(always)]
    pub fn may_have(&self, key: u64) -> bool {
        // Relaxed: validated with the lock.
        probes(key).all(|(word, bit)| self.words[word].load(Ordering::Relaxed) & bit != 0)
    }

    /// Adds a key.
    #[inline(always)]
    pub fn add(&self, key: u64) {
        for (word, bit) in probes(key) {
            // Relaxed: the caller holds the lock.
            let seen = self.words[word].load(Ordering::Relaxed);
            if seen & bit == 0 {
                // Relaxed: the caller holds the lock.
                self.words[word].store(seen | bit, Ordering::Relaxed);
            }
        }
    }

    /// Makes the filter one of exactly these keys.
    pub fn rebuild(&self, keys: impl Iterator<Item = u64>) {
        let mut words = [0; WORDS];
        for (word, bit) in keys.flat_map(probes) {
            words[word] |= bit;
        }
        for (cell, word) in self.words.iter().zip(words) {
            // Relaxed: the caller holds the lock.
            cell.store(word, Ordering::Relaxed);
        }
    }

    /// Empties a filter that nobody else can reach.
    pub fn reset(&self) {
        self.words.iter().for_each(|word| word.write_private(0));
    }

    /// The first byte, for prefetching.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.words[0].as_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_machine::Hardware;

    fn filter() -> Filter<Hardware> {
        Filter { words: std::array::from_fn(|_| Atomic::new(0)) }
    }

    #[test]
    fn added_keys_pass_and_about_one_in_a_hundred_others() {
        for first in [0, 1 << 20, u64::MAX - 100] {
            let filter = filter();
            let keys = (0..48).map(|number| first.wrapping_add(number));
            filter.rebuild(keys.clone());
            assert!(keys.clone().all(|key| filter.may_have(key)));
            let others = (0..20_000).map(|number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let passed = others.filter(|key| filter.may_have(*key)).count();
            assert!((60..500).contains(&passed), "{passed} of 20000 from {first}");
        }
    }

    #[test]
    fn adding_one_by_one_is_building_at_once() {
        let (one, other) = (filter(), filter());
        let keys = [3, 5, u64::MAX, 1 << 40];
        keys.iter().for_each(|key| one.add(*key));
        other.rebuild(keys.into_iter());
        for (left, right) in one.words.iter().zip(&other.words) {
            assert_eq!(left.read_private(), right.read_private());
        }
    }
}
