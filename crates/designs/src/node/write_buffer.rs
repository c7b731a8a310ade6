//! The write buffer of a leaf (or a part of that of a segment), in DRAM: up to 14 entries that are not in
//! the leaf yet.
//!
//! ```text
//!   | length 16, tombs 16 | 14 tags 16 | 0 8 | 14 entries of key and value 224 |    256 bytes
//! ```
//!
//! An entry is a pair, or a tomb: the key is absent, whatever the leaf has. Written under the lock of
//! the leaf, read by threads that validate it.

use everleaf_machine::{Atomic, Machine, Ordering};

use super::entry::Entry;
use super::place_table::Cell;

/// Entries of a buffer.
pub const BUFFER_LENGTH: usize = 14;

/// One byte of a key's hash.
#[inline(always)]
pub fn tag(key: u64) -> u8 {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

const BYTES: u64 = 0x0101_0101_0101_0101;
const TOMB_SHIFT: u32 = 16;

/// An entry: a key, and its value, or none if it is a tomb.
pub type Buffered = (u64, Option<u64>);

/// See the module.
#[repr(C, align(64))]
pub struct Buffer<M: Machine> {
    state: Atomic<u64, M>,
    tags: [Atomic<u64, M>; 2],
    unused: Atomic<u64, M>,
    entries: [Entry<M>; BUFFER_LENGTH],
}

const _: () = assert!(size_of::<Buffer<everleaf_machine::Hardware>>() == 256);

impl<M: Machine> Cell for Buffer<M> {
    fn clear(&self) {
        for word in [&self.state, &self.tags[0], &self.tags[1], &self.unused] {
            word.write_private(0);
        }
    }
}

impl<M: Machine> Buffer<M> {
    #[inline(always)]
    fn state(&self) -> u64 {
        // Relaxed: validated with the lock.
        self.state.load(Ordering::Relaxed)
    }

    /// Entries there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        length(self.state())
    }

    /// The place of a key, and its value or none for a tomb.
    #[inline(always)]
    pub fn find(&self, key: u64) -> Option<(usize, Option<u64>)> {
        let state = self.state();
        if length(state) == 0 {
            return None;
        }
        for (index, word) in self.tags.iter().enumerate() {
            // Relaxed: validated with the lock.
            let differs = word.load(Ordering::Relaxed) ^ (BYTES * u64::from(tag(key)));
            // The highest bit of each byte that is zero, and perhaps of some above it.
            let mut equal = differs.wrapping_sub(BYTES) & !differs & (BYTES << 7);
            while equal != 0 {
                let slot = index * 8 + equal.trailing_zeros() as usize / 8;
                if slot < length(state) && self.entries[slot].key() == key {
                    return Some((slot, self.value(state, slot)));
                }
                equal &= equal - 1;
            }
        }
        None
    }

    #[inline(always)]
    fn value(&self, state: u64, slot: usize) -> Option<u64> {
        let is_tomb = state >> TOMB_SHIFT >> slot & 1 == 1;
        (!is_tomb).then(|| self.entries[slot].value())
    }

    /// The entries, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Buffered> + '_ {
        let state = self.state();
        (0..length(state)).map(move |slot| (self.entries[slot].key(), self.value(state, slot)))
    }

    /// Replaces the entry at a place, or adds one: there is room. The caller holds the lock.
    #[inline(always)]
    pub fn put(&self, place: Option<usize>, (key, value): Buffered) {
        let mut state = self.state();
        let slot = place.unwrap_or_else(|| {
            let slot = length(state);
            let (word, shift) = (&self.tags[slot / 8], slot % 8 * 8);
            // Relaxed: readers validate.
            let tags = word.load(Ordering::Relaxed) & !(0xFF << shift);
            // Relaxed: readers validate.
            word.store(tags | u64::from(tag(key)) << shift, Ordering::Relaxed);
            state += 1;
            slot
        });
        self.entries[slot].set(key, value.unwrap_or(0));
        let tomb = 1 << slot << TOMB_SHIFT;
        let state = if value.is_some() { state & !tomb } else { state | tomb };
        // Relaxed: readers validate.
        self.state.store(state, Ordering::Relaxed);
    }

    /// Empties it. The caller holds the lock.
    pub fn empty(&self) {
        // Relaxed: readers validate.
        self.state.store(0, Ordering::Relaxed);
    }

    /// Keeps the entries of these keys. The caller holds the lock.
    pub fn keep(&self, is_kept: impl Fn(u64) -> bool) {
        let kept: Vec<Buffered> = self.iter().filter(|entry| is_kept(entry.0)).collect();
        self.empty();
        kept.into_iter().for_each(|entry| self.put(None, entry));
    }

    /// Asks for all lines.
    #[inline(always)]
    pub fn prefetch(&self) {
        for line in 0..4 {
            M::prefetch(self.state.as_ptr().wrapping_add(line * 64));
        }
    }
}

#[inline(always)]
fn length(state: u64) -> usize {
    (state as usize & 0xFF).min(BUFFER_LENGTH)
}

/// Lays the entries of a buffer over the pairs of its leaf, ascending.
pub fn overlay(pairs: &mut Vec<(u64, u64)>, entries: &[Buffered]) {
    pairs.retain(|pair| entries.iter().all(|entry| entry.0 != pair.0));
    pairs.extend(entries.iter().filter_map(|(key, value)| value.map(|value| (*key, value))));
    pairs.sort_unstable();
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_machine::Hardware;

    fn buffer() -> Box<Buffer<Hardware>> {
        let word = || Atomic::new(0);
        let entries = std::array::from_fn(|_| Entry::zero());
        Box::new(Buffer { state: word(), tags: [word(), word()], unused: word(), entries })
    }

    #[test]
    fn a_buffer_finds_what_was_put_last_and_nothing_else() {
        let buffer = buffer();
        let keys: Vec<u64> = (0..BUFFER_LENGTH as u64).map(|number| number * 7).collect();
        for key in &keys {
            assert_eq!(buffer.find(*key), None);
            buffer.put(None, (*key, Some(key + 1)));
        }
        for (place, key) in keys.iter().enumerate() {
            assert_eq!(buffer.find(*key), Some((place, Some(key + 1))));
            assert_eq!(buffer.find(key + 3), None);
        }
        buffer.put(Some(5), (35, None));
        assert_eq!(buffer.find(35), Some((5, None)));
        buffer.put(Some(5), (35, Some(9)));
        assert_eq!(buffer.find(35), Some((5, Some(9))));
        buffer.keep(|key| key < 40);
        assert_eq!((buffer.len(), buffer.find(42), buffer.find(35)), (6, None, Some((5, Some(9)))));
        buffer.empty();
        assert_eq!((buffer.len(), buffer.find(0)), (0, None));
    }

    #[test]
    fn a_tomb_hides_a_pair_and_a_value_replaces_it() {
        let mut pairs = vec![(1, 10), (2, 20), (3, 30)];
        overlay(&mut pairs, &[(2, None), (9, None), (3, Some(31)), (0, Some(5))]);
        assert_eq!(pairs, [(0, 5), (1, 10), (3, 31)]);
    }
}
