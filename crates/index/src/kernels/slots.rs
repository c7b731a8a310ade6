//! The slot-array kernel: the sorted order of a leaf's entries, kept beside them.
//!
//! Entries lie where they were appended; the array names them in key order, so that a leaf is
//! searched by bisection and scanned without sorting, and a write moves bytes of the array instead
//! of entries. Operations work on a copy in registers or on the stack; how the result reaches the
//! pool whole is the business of each tree:
//!
//! | form | entries | reaches the pool by | used by |
//! |---|---|---|---|
//! | [`Slots`], two lines in turn ([`SlotPair`](super::slot_pair::SlotPair)) | 62 | the sequence byte of the line | RNTree |
//! | [`Slots`], one line ([`SlotLine`](super::slot_pair::SlotLine)) | 63 | a valid bit elsewhere | wB+Tree |
//! | [`Slots`] as a word of bytes | 7 | one store | wB+Tree-SO |

use std::hint::select_unpredictable;

use everleaf_machine::LINE_SIZE;

/// Entries that an array can name: a line without the byte for their number.
pub const SLOT_COUNT_MAX: usize = 63;

/// Words of a line.
pub const LINE_WORDS: usize = LINE_SIZE / 8;

/// Entries of the word form with a byte each.
pub const BYTE_WORD_COUNT: usize = 7;

/// The entries of a leaf in key order: numbers of slots, each at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The last is never used: an index that is cut to a line needs no other check.
    bytes: [u8; LINE_SIZE],
    count: u8,
}

impl Default for Slots {
    fn default() -> Self {
        Slots { bytes: [0; LINE_SIZE], count: 0 }
    }
}

impl Slots {
    /// The first `count` slots, in this order.
    pub fn identity(count: usize) -> Self {
        let mut slots = Slots { count: count as u8, ..Slots::default() };
        for (index, byte) in slots.bytes[..count].iter_mut().enumerate() {
            *byte = index as u8;
        }
        slots
    }

    /// The array that lies in a line behind `header` bytes, 1 to 7; a number of entries that cannot
    /// be is cut.
    ///
    /// Moved by words: bytes that were just stored, read again at another offset, wait for the cache.
    #[inline(always)]
    pub fn from_line(words: &[u64; LINE_WORDS], header: usize, count: u8) -> Self {
        let shift = 8 * header as u32;
        let mut bytes = [0; LINE_SIZE];
        for (index, place) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let above = words.get(index + 1).map_or(0, |word| word << (u64::BITS - shift));
            *place = (words[index] >> shift | above).to_le_bytes();
        }
        Slots { bytes, count: count.min((LINE_SIZE - header) as u8) }
    }

    /// A line with the array behind `header` bytes, 1 to 7, which are 0. What has no room there is
    /// left out.
    #[inline(always)]
    pub fn to_line(self, header: usize) -> [u64; LINE_WORDS] {
        let shift = 8 * header as u32;
        let words = self.bytes.as_chunks::<8>().0;
        let word = |index: usize| u64::from_le_bytes(words[index]);
        std::array::from_fn(|index| {
            let below = if index == 0 { 0 } else { word(index - 1) >> (u64::BITS - shift) };
            word(index) << shift | below
        })
    }

    /// How many entries there are.
    #[inline(always)]
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The slots in key order.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.count)]
    }

    /// How many entries come before `key`; `key_of` gives the key in a slot.
    #[inline(always)]
    pub fn rank(&self, key: u64, mut key_of: impl FnMut(usize) -> u64) -> usize {
        let (mut first, mut rest) = (0, self.count());
        // Bisection whose only branch is the loop: which half is taken cannot be foretold, and a
        // compiler that is not told so branches.
        while rest > 0 {
            let half = rest / 2;
            // Masked, so that no bound is checked: below the number of entries anyway.
            let probe = (first + half) % LINE_SIZE;
            let below = key_of(usize::from(self.bytes[probe])) < key;
            first = select_unpredictable(below, probe + 1, first);
            rest = select_unpredictable(below, rest - half - 1, half);
        }
        first
    }

    /// The place and slot of `key`: `Err` with the place it would have if it is not there.
    #[inline(always)]
    pub fn find(
        &self,
        key: u64,
        mut key_of: impl FnMut(usize) -> u64,
    ) -> Result<(usize, usize), usize> {
        let place = self.rank(key, &mut key_of);
        match self.as_slice().get(place) {
            Some(slot) if key_of(usize::from(*slot)) == key => Ok((place, usize::from(*slot))),
            _ => Err(place),
        }
    }

    /// Adds `slot` at `place`; those from there on move up.
    #[inline]
    pub fn insert(&mut self, place: usize, slot: usize) {
        let old = self.bytes;
        // The whole line, in vectors: a move of just the bytes behind would be a call.
        for index in 1..LINE_SIZE {
            self.bytes[index] = if index > place { old[index - 1] } else { old[index] };
        }
        self.bytes[place] = slot as u8;
        self.count += 1;
    }

    /// Names `slot` at `place` instead of what is there.
    #[inline]
    pub fn replace(&mut self, place: usize, slot: usize) {
        self.bytes[place] = slot as u8;
    }

    /// Drops the entry at `place`; those behind it move down.
    #[inline]
    pub fn remove(&mut self, place: usize) {
        let old = self.bytes;
        // The whole line, as in `insert`.
        for index in 0..LINE_SIZE - 1 {
            self.bytes[index] = if index >= place { old[index + 1] } else { old[index] };
        }
        self.count -= 1;
    }

    /// The slots as a set of bits.
    pub fn used(&self) -> u64 {
        self.as_slice().iter().fold(0, |bits, slot| bits | 1 << (slot & 63))
    }

    /// The lowest slot below `capacity` that is not named.
    pub fn free_slot(&self, capacity: usize) -> Option<usize> {
        let slot = (!self.used()).trailing_zeros() as usize;
        (slot < capacity).then_some(slot)
    }

    /// Whether every slot is below `limit` and named once.
    pub fn is_valid(&self, limit: usize) -> bool {
        let in_range = self.as_slice().iter().all(|slot| usize::from(*slot) < limit);
        in_range && self.used().count_ones() as usize == self.count()
    }

    /// The array as one word: a byte for the count, then a byte per slot.
    #[inline]
    pub fn to_byte_word(self) -> u64 {
        debug_assert!(self.count() <= BYTE_WORD_COUNT);
        let mut bytes = [0; 8];
        bytes[0] = self.count;
        bytes[1..].copy_from_slice(&self.bytes[..BYTE_WORD_COUNT]);
        u64::from_le_bytes(bytes)
    }

    /// The array of [`Self::to_byte_word`]; a count that cannot be is cut.
    #[inline]
    pub fn from_byte_word(word: u64) -> Self {
        let bytes = word.to_le_bytes();
        let mut slots = Slots { count: bytes[0].min(BYTE_WORD_COUNT as u8), ..Slots::default() };
        slots.bytes[..BYTE_WORD_COUNT].copy_from_slice(&bytes[1..]);
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserting_and_removing_keeps_the_order_of_the_keys() {
        let keys = [50, 10, 40, 20, 30, 60, 5];
        let mut slots = Slots::default();
        for (slot, key) in keys.iter().enumerate() {
            let place = slots.find(*key, |slot| keys[slot]).expect_err("not there yet");
            slots.insert(place, slot);
        }
        assert_eq!(slots.as_slice(), [6, 1, 3, 4, 2, 0, 5]);
        assert_eq!(slots.find(40, |slot| keys[slot]), Ok((4, 2)));
        assert_eq!(slots.find(45, |slot| keys[slot]), Err(5));
        assert_eq!(slots.find(99, |slot| keys[slot]), Err(7));
        slots.remove(4);
        assert_eq!(slots.as_slice(), [6, 1, 3, 4, 0, 5]);
        assert_eq!(slots.free_slot(7), Some(2));
        assert!(slots.is_valid(7) && !slots.is_valid(6));
        slots.replace(0, 1);
        assert!(!slots.is_valid(7), "a slot is named twice");
    }

    #[test]
    fn a_full_array_takes_all_its_places() {
        let mut slots = Slots::default();
        for slot in 0..SLOT_COUNT_MAX {
            slots.insert(0, slot);
        }
        assert_eq!(slots.free_slot(63), None);
        assert!(slots.is_valid(63));
        for _ in 0..SLOT_COUNT_MAX {
            slots.remove(0);
        }
        assert_eq!(slots, Slots::default());
    }

    #[test]
    fn words_hold_what_they_were_made_of() {
        let mut slots = Slots::identity(BYTE_WORD_COUNT);
        slots.remove(3);
        assert_eq!(Slots::from_byte_word(slots.to_byte_word()), slots);
    }
}
