//! How wide nodes are, and bytes in words.

use everleaf_index::Geometry;

/// The kind whose digits have a table of places; kinds before it have their digits in order, the one behind it has a
/// place for each digit.
pub(super) const INDEXED: usize = 2;
/// Locks of nodes are in DRAM: they have one generation.
pub(super) const GENERATION: u32 = 0;
/// Bytes of a node before its words.
pub(super) const HEAD_SIZE: usize = 24;
/// Kinds.
const KINDS: usize = 4;
/// Words of digits that a node of the first two kinds has at most.
pub(super) const SPARSE_WORDS: usize = 2;

/// How wide nodes are.
pub(super) struct Shape {
    /// Bits of a key that a node branches on.
    bits: u32,
    /// Children that a node of each kind has room for.
    pub room: [usize; KINDS],
    /// Children that are left in a node of each kind when it becomes one of the kind before.
    pub few: [usize; KINDS],
}

impl Shape {
    /// As published.
    const USUAL: Shape = Shape { bits: 8, room: [4, 16, 48, 256], few: [0, 3, 12, 37] };
    /// For tests: every kind comes and goes after a handful of changes.
    const SMALL: Shape = Shape { bits: 4, room: [3, 5, 7, 16], few: [0, 2, 4, 6] };

    /// That of a geometry.
    pub const fn of<G: Geometry>() -> Shape {
        if G::CHILD_COUNT < 16 { Self::SMALL } else { Self::USUAL }
    }

    /// The bits before the first digit in which two keys differ.
    pub const fn first_difference(&self, one: u64, other: u64) -> u32 {
        (one ^ other).leading_zeros() / self.bits * self.bits
    }

    /// The digit of a key behind so many bits.
    #[inline(always)]
    pub const fn digit(&self, key: u64, at: u32) -> usize {
        (key << at >> (64 - self.bits)) as usize
    }

    /// The greatest digit.
    pub const fn last(&self) -> usize {
        (1 << self.bits) - 1
    }

    /// Words that say which digits there are.
    pub const fn bitmap_words(&self) -> usize {
        (self.last() + 1).div_ceil(64)
    }

    /// Words before the children.
    pub const fn words(&self, kind: usize) -> usize {
        match kind {
            0 | 1 => self.room[kind].div_ceil(8),
            INDEXED => self.bitmap_words() + (self.last() + 1).div_ceil(8),
            _ => self.bitmap_words(),
        }
    }

    /// Bytes of a node.
    pub const fn size(&self, kind: usize) -> usize {
        HEAD_SIZE + 8 * (self.words(kind) + self.room[kind])
    }

    /// The smallest kind with room for so many children.
    pub fn kind_of(&self, count: usize) -> usize {
        self.room.iter().position(|room| *room >= count).expect("digits are few enough")
    }
}

const _: () = {
    const SIZES: [usize; KINDS] = [64, 168, 696, 2104];
    let mut kind = 0;
    while kind < KINDS {
        assert!(Shape::USUAL.size(kind) == SIZES[kind]);
        assert!(kind >= INDEXED || Shape::USUAL.words(kind) <= SPARSE_WORDS);
        kind += 1;
    }
};

/// How many bytes of a word are at most `digit`.
#[inline(always)]
pub(super) fn count_at_most(word: u64, digit: usize) -> usize {
    const LANES: u64 = 0x0001_0001_0001_0001;
    // Every second byte in a lane of 16 bits: what is left of the ninth bit is whether it was not borrowed.
    let from = LANES * (0x100 | digit as u64);
    let passed =
        |bytes: u64| ((from - (bytes & (LANES * 0xFF))) & (LANES << 8)).count_ones() as usize;
    passed(word) + passed(word >> 8)
}

/// A byte of some words.
#[inline(always)]
pub(super) fn byte_of(words: &[u64], place: usize) -> u8 {
    (words[place / 8] >> (place % 8 * 8)) as u8
}

/// Eight bytes as a word.
pub(super) fn word_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight of them"))
}

/// Words as bytes.
pub(super) fn bytes_of(words: [u64; SPARSE_WORDS]) -> [u8; 8 * SPARSE_WORDS] {
    std::array::from_fn(|place| byte_of(&words, place))
}
