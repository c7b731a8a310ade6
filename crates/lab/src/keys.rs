//! The keys of a measurement, by number, and lists of them that are ready to use.

use crate::random::mix;

/// Bytes of the shortest key.
pub const KEY_SIZE_MIN: usize = 8;

/// Numbers from here on are those of keys that are never inserted.
pub(crate) const ABSENT_FROM: u64 = 1 << 48;

/// A list of keys in the form the index takes.
pub(crate) trait KeyList: Send + Sync {
    /// One key.
    type Key<'k>: Copy
    where
        Self: 'k;

    /// Appends the key of number `number`. Different numbers have different keys.
    fn push(&mut self, number: u64);

    /// The key at a position.
    fn key(&self, position: usize) -> Self::Key<'_>;
}

/// Integer keys.
pub(crate) struct IntegerKeys(pub Vec<u64>);

impl KeyList for IntegerKeys {
    type Key<'k> = u64;

    fn push(&mut self, number: u64) {
        self.0.push(mix(number));
    }

    #[inline(always)]
    fn key(&self, position: usize) -> u64 {
        self.0[position]
    }
}

/// Byte-string keys of one size, one behind the other.
///
/// ```text
///   8..=15 bytes    the number mixed, big-endian (8), then zeros
///   16 and more     "useruser..", then the number mixed, as 16 hexadecimal digits
/// ```
pub(crate) struct BytesKeys {
    size: usize,
    bytes: Vec<u8>,
}

impl BytesKeys {
    /// An empty list, with room for `capacity` keys of `size` bytes; `size` at least
    /// [`KEY_SIZE_MIN`].
    pub fn new(size: usize, capacity: usize) -> Self {
        assert!(size >= KEY_SIZE_MIN, "keys of {size} bytes cannot all differ");
        BytesKeys { size, bytes: Vec::with_capacity(size * capacity) }
    }
}

impl KeyList for BytesKeys {
    type Key<'k> = &'k [u8];

    fn push(&mut self, number: u64) {
        let end = self.bytes.len() + self.size;
        let mixed = mix(number);
        if self.size < 16 {
            self.bytes.extend_from_slice(&mixed.to_be_bytes());
            self.bytes.resize(end, 0);
        } else {
            let padding = self.size - 16;
            self.bytes.extend(b"user".iter().cycle().take(padding));
            let digit = |place: u32| b"0123456789abcdef"[(mixed >> (60 - 4 * place) & 15) as usize];
            self.bytes.extend((0..16).map(digit));
        }
        debug_assert_eq!(self.bytes.len(), end);
    }

    #[inline(always)]
    fn key(&self, position: usize) -> &[u8] {
        &self.bytes[position * self.size..][..self.size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_keys_have_their_size_and_the_order_of_the_mixed_numbers() {
        for size in [8, 11, 15, 16, 20, 64] {
            let mut keys = BytesKeys::new(size, 100);
            (0..100).for_each(|number| keys.push(number));
            let mut by_key: Vec<usize> = (0..100).collect();
            by_key.sort_by_key(|&position| keys.key(position));
            let mut by_mix: Vec<usize> = (0..100).collect();
            by_mix.sort_by_key(|&position| mix(position as u64));
            assert_eq!(by_key, by_mix, "{size}");
            assert!((0..100).all(|position| keys.key(position).len() == size));
        }
    }

    #[test]
    fn a_long_key_reads_like_one_of_the_ycsb() {
        let mut keys = BytesKeys::new(20, 1);
        keys.push(0);
        assert_eq!(keys.key(0), b"usere220a8397b1dcdaf");
    }

    #[test]
    fn absent_keys_are_none_of_those_present() {
        let mut keys = IntegerKeys(vec![]);
        (0..1000).chain(ABSENT_FROM..ABSENT_FROM + 1000).for_each(|number| keys.push(number));
        keys.0.sort_unstable();
        keys.0.dedup();
        assert_eq!(keys.0.len(), 2000);
    }
}
