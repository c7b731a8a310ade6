//! The word that names a directory: where it is, and on how many bits it branches.

/// The least bytes of a directory.
const SIZE_MIN: usize = 256;
/// Bits of a word that names a directory that are its offset.
const OFFSET_BITS: u32 = 48;
/// The depth of a directory that no pool has room for.
pub(super) const DEPTH_MAX: u32 = 40;

/// Where a directory is in the pool, and on how many bits it branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Directory {
    /// Where it is.
    pub offset: u64,
    /// How many bits of a hash choose an entry, 1..=`DEPTH_MAX`.
    pub depth: u32,
}

impl Directory {
    /// The directory that a word names.
    #[inline(always)]
    pub fn from_word(word: u64) -> Self {
        let offset = word & ((1 << OFFSET_BITS) - 1);
        Directory { offset, depth: (word >> OFFSET_BITS) as u32 }
    }

    /// The inverse of [`Self::from_word`].
    pub fn word(self) -> u64 {
        u64::from(self.depth) << OFFSET_BITS | self.offset
    }

    /// Bytes of a directory of `depth`.
    pub fn size(depth: u32) -> usize {
        (8_usize << depth).max(SIZE_MIN)
    }

    /// Number of entries.
    pub fn count(self) -> u64 {
        1 << self.depth
    }

    /// The entry of a hash.
    #[inline(always)]
    pub fn index(self, hash: u64) -> u64 {
        hash >> (64 - self.depth)
    }
}
