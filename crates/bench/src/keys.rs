//! The keys of a measurement, by number, and lists of them that are ready to use.

use crate::random::mix;

/// Bytes of the shortest key.
pub const KEY_SIZE_MIN: usize = 8;

/// Numbers from here on are those of keys that are never inserted.
pub(crate) const ABSENT_FROM: u64 = 1 << 48;

/// A list of keys in the form the index takes.
pub trait KeyList: Send + Sync {
    /// One key.
    type Key<'k>: Copy
    where
        Self: 'k;

    /// Appends the key of a word: keys are in the order of their words.
    fn push_word(&mut self, word: u64);

    /// Appends a key of another program, from a trace. Different texts have different keys.
    fn push_text(&mut self, text: &[u8]);

    /// Appends the key of number `number`. Different numbers have different keys, in an order that
    /// looks random.
    fn push(&mut self, number: u64) {
        self.push_word(mix(number));
    }

    /// The key at a position.
    fn key(&self, position: usize) -> Self::Key<'_>;
}

/// Integer keys.
#[derive(Clone, Debug, Default)]
pub struct IntegerKeys(pub Vec<u64>);

impl KeyList for IntegerKeys {
    type Key<'k> = u64;

    fn push_word(&mut self, word: u64) {
        self.0.push(word);
    }

    /// A decimal number is itself; other texts are hashed to 64 bits.
    fn push_text(&mut self, text: &[u8]) {
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        self.0.push(number.unwrap_or_else(|| hash(text)));
    }

    #[inline(always)]
    fn key(&self, position: usize) -> u64 {
        self.0[position]
    }
}

/// Sixty-four bits of a text, spread evenly.
pub(crate) fn hash(text: &[u8]) -> u64 {
    let words = text.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(mix(text.len() as u64), |state, word| mix(state ^ word))
}

/// Byte-string keys, one behind the other: of one size, or of any sizes if they are texts.
///
/// ```text
///   8..=15 bytes    the word, big-endian (8), then zeros
///   16 and more     "useruser..", then the word, as 16 hexadecimal digits
/// ```
#[derive(Clone, Debug)]
pub struct BytesKeys {
    size: usize,
    bytes: Vec<u8>,
    /// Where each text ends; empty if all keys have the one size.
    ends: Vec<usize>,
}

impl BytesKeys {
    /// An empty list, with room for `capacity` keys of `size` bytes; `size` at least
    /// [`KEY_SIZE_MIN`].
    pub fn new(size: usize, capacity: usize) -> Self {
        assert!(size >= KEY_SIZE_MIN, "keys of {size} bytes cannot all differ");
        BytesKeys { size, bytes: Vec::with_capacity(size * capacity), ends: Vec::new() }
    }
}

impl KeyList for BytesKeys {
    type Key<'k> = &'k [u8];

    fn push_word(&mut self, word: u64) {
        let end = self.bytes.len() + self.size;
        if self.size < 16 {
            self.bytes.extend_from_slice(&word.to_be_bytes());
            self.bytes.resize(end, 0);
        } else {
            let padding = self.size - 16;
            self.bytes.extend(b"user".iter().cycle().take(padding));
            let digit = |place: u32| b"0123456789abcdef"[(word >> (60 - 4 * place) & 15) as usize];
            self.bytes.extend((0..16).map(digit));
        }
        debug_assert_eq!(self.bytes.len(), end);
    }

    /// As it is. A list has either texts or words.
    fn push_text(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    #[inline(always)]
    fn key(&self, position: usize) -> &[u8] {
        if self.ends.is_empty() {
            return &self.bytes[position * self.size..][..self.size];
        }
        let start = position.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[position]]
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
    fn texts_of_any_size_are_found_again_and_numbers_stay_numbers() {
        let texts: [&[u8]; 4] = [b"a", b"", b"user:1000", b"42"];
        let mut keys = BytesKeys::new(8, 0);
        let mut integers = IntegerKeys::default();
        for text in texts {
            keys.push_text(text);
            integers.push_text(text);
        }
        assert!(texts.iter().enumerate().all(|(at, text)| keys.key(at) == *text));
        assert_eq!(integers.key(3), 42);
        assert_eq!(integers.key(2), hash(b"user:1000"));
        assert_ne!(hash(b"a\0"), hash(b"a"), "the length counts");
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
