//! The permutation: which slots of a border node are in use, and in which order, in one word.
//!
//! ```text
//!   63    60          8 7     4 3     0
//!  | rank 14 | ..     | rank 0 | count |      nibbles; the first `count` ranks are in use
//! ```
//!
//! Ranks below the count name the used slots in the order of their keys, those from it on the free ones.
//! A change is made on a copy and published by one store, so readers see the slots before it or after it.

/// Slots of a border node: as many nibbles as fit beside the count.
pub(super) const SLOT_COUNT: usize = 15;

const NIBBLE: u32 = 4;
const MASK: u64 = (1 << NIBBLE) - 1;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permutation(u64);

impl Permutation {
    /// The first `count` slots, in this order; the others are free, in order too.
    pub const fn identity(count: usize) -> Self {
        let mut word = count as u64;
        let mut rank = 0;
        while rank < SLOT_COUNT {
            word |= (rank as u64) << shift(rank);
            rank += 1;
        }
        Permutation(word)
    }

    /// The permutation of a word that [`Self::word`] gave.
    #[inline(always)]
    pub const fn from_word(word: u64) -> Self {
        Permutation(word)
    }

    /// The word to be stored.
    #[inline(always)]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Slots in use.
    #[inline(always)]
    pub const fn count(self) -> usize {
        (self.0 & MASK) as usize
    }

    /// The slot at a rank: in use below the count, free from it on.
    #[inline(always)]
    pub const fn slot(self, rank: usize) -> usize {
        (self.0 >> shift(rank) & MASK) as usize
    }

    /// The used slots, in the order of their keys.
    pub fn slots(self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.count()).map(move |rank| self.slot(rank))
    }

    /// Takes the first free slot into use at `rank`. Gives the slot.
    pub fn insert(&mut self, rank: usize) -> usize {
        let count = self.count();
        debug_assert!(rank <= count && count < SLOT_COUNT);
        let slot = self.slot(count);
        // The ranks from `rank` to the one before `count` move up by one; the free slot's goes.
        let above = !MASK << shift(count);
        let below = (1 << shift(rank)) - 1;
        let moved = self.0 & !above & !(MASK << shift(count)) & !below;
        self.0 = (self.0 & above)
            | (moved << NIBBLE)
            | ((slot as u64) << shift(rank))
            | ((self.0 & below) + 1);
        slot
    }

    /// Takes the slot at `rank` out of use: it becomes the first free one.
    pub fn remove(&mut self, rank: usize) {
        let count = self.count();
        debug_assert!(rank < count);
        let slot = self.slot(rank) as u64;
        let last = count - 1;
        // The ranks behind `rank`, up to the last used one, move down by one.
        let above = !MASK << shift(last);
        let below = (1 << shift(rank)) - 1;
        let moved = self.0 & !above & !below & !(MASK << shift(rank));
        self.0 =
            (self.0 & above) | (moved >> NIBBLE) | (slot << shift(last)) | ((self.0 & below) - 1);
    }

    /// The first `count` used slots; the others become free.
    #[must_use]
    pub const fn truncated(self, count: usize) -> Self {
        Permutation(self.0 & !MASK | count as u64)
    }
}

const fn shift(rank: usize) -> u32 {
    NIBBLE * (rank as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Used slots, then free ones.
    fn ranks(permutation: Permutation) -> Vec<usize> {
        (0..SLOT_COUNT).map(|rank| permutation.slot(rank)).collect()
    }

    #[test]
    fn all_slots_are_named_once_whatever_comes_and_goes() {
        let (mut permutation, mut model) = (Permutation::identity(0), Vec::<usize>::new());
        let mut chance = 12_345_u64;
        for _ in 0..20_000 {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let number = (chance >> 33) as usize;
            let adds = model.is_empty() || model.len() < SLOT_COUNT && number.is_multiple_of(2);
            if adds {
                let rank = number / 2 % (model.len() + 1);
                model.insert(rank, permutation.insert(rank));
            } else {
                let rank = number / 2 % model.len();
                permutation.remove(rank);
                let slot = model.remove(rank);
                assert_eq!(permutation.slot(model.len()), slot, "the first free one");
            }
            assert_eq!(permutation.slots().collect::<Vec<_>>(), model);
            let mut all = ranks(permutation);
            all.sort_unstable();
            assert_eq!(all, (0..SLOT_COUNT).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_permutation_that_is_cut_keeps_its_order() {
        let mut permutation = Permutation::identity(3);
        assert_eq!(permutation.insert(1), 3);
        let cut = permutation.truncated(2);
        assert_eq!(cut.slots().collect::<Vec<_>>(), [0, 3]);
        assert_eq!(Permutation::from_word(cut.word()), cut);
        assert_eq!(ranks(cut), ranks(permutation));
    }
}
