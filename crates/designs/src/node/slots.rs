//! The slot array: the sorted order of a leaf's entries, kept beside them.
//!
//! Entries lie where they were appended; the array names them in key order, so that a leaf is
//! searched by bisection and scanned without sorting, and a write moves bytes of the array instead
//! of entries. Operations work on a copy in registers or on the stack; how the result reaches the
//! pool whole is the business of each tree:
//!
//! | form | entries | reaches the pool by | used by |
//! |---|---|---|---|
//! | `Slots<2>`, two lines in turn ([`SlotPair`](super::slot_pair::SlotPair)) | 62 | the sequence byte of the line | RNTree |
//! | `Slots<1>`, one line ([`SlotLine`](super::slot_pair::SlotLine)) | 63 | a valid bit elsewhere | wB+Tree |
//! | `Slots<1>` as a word of bytes | 7 | one store | wB+Tree-SO |

use std::hint::select_unpredictable;

use everleaf_machine::{LINE_SIZE, Machine};

/// Entries that an array can name: a line without the byte for their number.
pub const SLOT_COUNT_MAX: usize = 63;

/// Words of a line.
pub const LINE_WORDS: usize = LINE_SIZE / 8;

/// Steps of a bisection of so many.
pub const LINE_STEPS: u32 = 6;

/// Entries of the word form with a byte each.
pub const BYTE_WORD_COUNT: usize = 7;

/// Steps of a bisection of so many.
pub const BYTE_WORD_STEPS: u32 = 3;

/// The entries of a leaf in key order: numbers of slots, each at most once; as they lie in a line,
/// behind `HEADER` bytes, 1 to 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots<const HEADER: usize> {
    /// The header is 0 here.
    bytes: [u8; LINE_SIZE],
    count: u8,
}

impl<const HEADER: usize> Default for Slots<HEADER> {
    fn default() -> Self {
        Slots { bytes: [0; LINE_SIZE], count: 0 }
    }
}

impl<const HEADER: usize> Slots<HEADER> {
    /// The first `count` slots, in this order.
    pub fn identity(count: usize) -> Self {
        let mut slots = Slots { count: count as u8, ..Slots::default() };
        for (index, byte) in slots.bytes[HEADER..][..count].iter_mut().enumerate() {
            *byte = index as u8;
        }
        slots
    }

    /// The array that lies in a line; a number of entries that cannot be is cut. The header is not
    /// looked at.
    #[inline(always)]
    pub fn from_line(mut words: [u64; LINE_WORDS], count: u8) -> Self {
        words[0] &= u64::MAX << (8 * HEADER);
        let mut bytes = [0; LINE_SIZE];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        Slots { bytes, count: count.min((LINE_SIZE - HEADER) as u8) }
    }

    /// The line with the array, whose header is 0.
    #[inline(always)]
    pub fn to_line(self) -> [u64; LINE_WORDS] {
        let words = self.bytes.as_chunks::<8>().0;
        std::array::from_fn(|index| u64::from_le_bytes(words[index]))
    }

    /// How many entries there are.
    #[inline(always)]
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The slots in key order.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[HEADER..][..usize::from(self.count)]
    }

    /// How many entries come before `key`; there are fewer than 2 to the `STEPS`. `key_of` gives the
    /// key in a slot; it is asked for any slot, also one that is not named.
    #[inline(always)]
    pub fn rank<M: Machine, const STEPS: u32>(
        &self,
        key: u64,
        mut key_of: impl FnMut(usize) -> u64,
    ) -> usize {
        debug_assert!(self.count() < 1 << STEPS);
        if M::SIMULATED {
            return self.rank_by_few_loads(key, key_of);
        }
        // Bisection without a branch, always to the end: which half is taken cannot be predicted, nor
        // after how many steps the rest is empty. A branch predicted wrongly costs more than the steps,
        // and keeps the next search from beginning early.
        let mut first = 0;
        for step in (0..STEPS).rev() {
            let half = 1 << step;
            let probe = first + half - 1;
            // Masked, so that no bound is checked: inside for all that are named.
            let slot = usize::from(self.bytes[(HEADER + probe) % LINE_SIZE]);
            // What is behind the last entry does not come before any key.
            let below = (probe < self.count()) & (key_of(slot) < key);
            first = select_unpredictable(below, first + half, first);
        }
        first
    }

    /// The same on a simulated machine, where each load is a step of the schedule.
    fn rank_by_few_loads(&self, key: u64, mut key_of: impl FnMut(usize) -> u64) -> usize {
        let (mut first, mut rest) = (0, self.count());
        while rest > 0 {
            let half = rest / 2;
            let below = key_of(usize::from(self.as_slice()[first + half])) < key;
            (first, rest) = if below { (first + half + 1, rest - half - 1) } else { (first, half) };
        }
        first
    }

    /// The place and slot of `key`: `Err` with the place it would have if it is not there. As
    /// [`Self::rank`].
    #[inline(always)]
    pub fn find<M: Machine, const STEPS: u32>(
        &self,
        key: u64,
        mut key_of: impl FnMut(usize) -> u64,
    ) -> Result<(usize, usize), usize> {
        let place = self.rank::<M, STEPS>(key, &mut key_of);
        match self.as_slice().get(place) {
            Some(slot) if key_of(usize::from(*slot)) == key => Ok((place, usize::from(*slot))),
            _ => Err(place),
        }
    }

    /// Adds `slot` at `place`; those from there on move up.
    #[inline]
    pub fn insert(&mut self, place: usize, slot: usize) {
        let at = HEADER + place;
        let mut moved = [0; LINE_SIZE];
        moved[1..].copy_from_slice(&self.bytes[..LINE_SIZE - 1]);
        self.take_from(at, &moved);
        self.bytes[at] = slot as u8;
        self.count += 1;
    }

    /// Names `slot` at `place` instead of what is there.
    #[inline]
    pub fn replace(&mut self, place: usize, slot: usize) {
        self.bytes[HEADER + place] = slot as u8;
    }

    /// Drops the entry at `place`; those behind it move down.
    #[inline]
    pub fn remove(&mut self, place: usize) {
        let mut moved = [0; LINE_SIZE];
        moved[..LINE_SIZE - 1].copy_from_slice(&self.bytes[1..]);
        self.take_from(HEADER + place, &moved);
        self.count -= 1;
    }

    /// Takes over the bytes from `at` on: all are compared, in vectors, for a move of just those would
    /// be a call.
    #[inline(always)]
    fn take_from(&mut self, at: usize, moved: &[u8; LINE_SIZE]) {
        for (index, (byte, other)) in self.bytes.iter_mut().zip(moved).enumerate() {
            *byte = if index as u8 >= at as u8 { *other } else { *byte };
        }
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
}

impl Slots<1> {
    /// The array as one word: a byte for the count, then a byte per slot.
    #[inline]
    pub fn to_byte_word(self) -> u64 {
        debug_assert!(self.count() <= BYTE_WORD_COUNT);
        self.to_line()[0] | u64::from(self.count)
    }

    /// The array of [`Self::to_byte_word`]; a count that cannot be is cut.
    #[inline]
    pub fn from_byte_word(word: u64) -> Self {
        let mut words = [0; LINE_WORDS];
        words[0] = word;
        Self::from_line(words, (word as u8).min(BYTE_WORD_COUNT as u8))
    }
}

#[cfg(test)]
mod tests {
    use everleaf_machine::Hardware;

    use super::*;

    fn find(
        slots: &Slots<2>,
        key: u64,
        key_of: impl Fn(usize) -> u64,
    ) -> Result<(usize, usize), usize> {
        slots.find::<Hardware, LINE_STEPS>(key, key_of)
    }

    #[test]
    fn both_bisections_find_every_place_of_every_number_of_entries() {
        // The slots in no order; key 10 * (place + 1) in each place.
        let slot_at = |place: usize| (place * 29 + 11) % 63;
        let mut keys = [0; LINE_SIZE];
        for count in 0..=SLOT_COUNT_MAX {
            let mut slots = Slots::<1>::default();
            for place in 0..count {
                slots.insert(place, slot_at(place));
                keys[slot_at(place)] = 10 * (place as u64 + 1);
            }
            for key in 0..=10 * (count as u64 + 1) {
                let expected = (key.div_ceil(10) as usize).saturating_sub(1).min(count);
                assert_eq!(slots.rank::<Hardware, LINE_STEPS>(key, |slot| keys[slot]), expected);
                assert_eq!(slots.rank_by_few_loads(key, |slot| keys[slot]), expected);
                if count <= BYTE_WORD_COUNT {
                    let rank = slots.rank::<Hardware, BYTE_WORD_STEPS>(key, |slot| keys[slot]);
                    assert_eq!(rank, expected);
                }
            }
        }
    }

    #[test]
    fn inserting_and_removing_keeps_the_order_of_the_keys() {
        let keys = [50, 10, 40, 20, 30, 60, 5];
        let mut slots = Slots::<2>::default();
        for (slot, key) in keys.iter().enumerate() {
            let place = find(&slots, *key, |slot| keys[slot]).expect_err("not there yet");
            slots.insert(place, slot);
        }
        assert_eq!(slots.as_slice(), [6, 1, 3, 4, 2, 0, 5]);
        assert_eq!(find(&slots, 40, |slot| keys[slot]), Ok((4, 2)));
        assert_eq!(find(&slots, 45, |slot| keys[slot]), Err(5));
        assert_eq!(find(&slots, 99, |slot| keys[slot]), Err(7));
        slots.remove(4);
        assert_eq!(slots.as_slice(), [6, 1, 3, 4, 0, 5]);
        assert_eq!(slots.free_slot(7), Some(2));
        assert!(slots.is_valid(7) && !slots.is_valid(6));
        slots.replace(0, 1);
        assert!(!slots.is_valid(7), "a slot is named twice");
    }

    #[test]
    fn a_full_array_takes_all_its_places() {
        let mut slots = Slots::<1>::default();
        for slot in 0..SLOT_COUNT_MAX {
            slots.insert(0, slot);
        }
        assert_eq!(slots.free_slot(63), None);
        assert!(slots.is_valid(63));
        for _ in 0..SLOT_COUNT_MAX {
            slots.remove(0);
        }
        assert_eq!(slots, Slots::default());
        assert_eq!(slots.to_line(), [0; LINE_WORDS]);
    }

    #[test]
    fn words_hold_what_they_were_made_of() {
        let mut slots = Slots::identity(BYTE_WORD_COUNT);
        slots.remove(3);
        assert_eq!(Slots::from_byte_word(slots.to_byte_word()), slots);
    }
}
