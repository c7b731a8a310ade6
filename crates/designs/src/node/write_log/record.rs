//! A record of the log: what it says, and the check sum that tells whether it is one of its chunk.

const LINK_BITS: u32 = 48;
const LOW_BITS: u32 = 31;

/// More writes than any leaf will ever have; half of what a record can tell.
pub const SEQUENCE_BOUND: u64 = 1 << 46;

/// What no other chunk has, in this opening of the pool or another.
pub(super) type Mark = [u64; 2];

/// A buffered write, as the log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: u64,
    /// Its value; none if it was removed.
    pub value: Option<u64>,
    /// The number of the write among those of its leaf.
    pub sequence: u64,
    /// The place of the record before it in the same buffer; 0 if it was the first.
    pub link: u64,
}

impl Record {
    pub(super) fn encode(self, mark: Mark) -> [u64; 4] {
        let link = self.link | self.sequence >> LOW_BITS << LINK_BITS;
        let low = (self.sequence & ((1 << LOW_BITS) - 1)) << 1 | u64::from(self.value.is_some());
        let value = self.value.unwrap_or(0);
        [self.key, value, link, meta(mark, [self.key, value, link], low)]
    }

    pub(super) fn decode_unchecked([key, value, link, meta]: [u64; 4]) -> Self {
        let low = meta & u64::from(u32::MAX);
        Record {
            key,
            value: (low & 1 == 1).then_some(value),
            sequence: link >> LINK_BITS << LOW_BITS | low >> 1,
            link: link & ((1 << LINK_BITS) - 1),
        }
    }

    pub(super) fn decode(words: [u64; 4], mark: Mark) -> Option<Self> {
        let record = Self::decode_unchecked(words);
        let [key, value, link, found] = words;
        let is_whole = meta(mark, [key, value, link], found & u64::from(u32::MAX)) == found;
        (is_whole && record.sequence != 0).then_some(record)
    }
}

/// The last word of a record: what it says itself, and the check sum.
fn meta(mark: Mark, [key, value, link]: [u64; 3], low: u64) -> u64 {
    let mut bytes = [0; 48];
    let words = [mark[0], mark[1], key, value, link, low];
    for (part, word) in bytes.chunks_exact_mut(8).zip(words) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    low | u64::from(crc32c::crc32c(&bytes)) << 32
}

/// The last word of a record when it is one of a removal; its others stay.
pub(super) fn removal_meta(mark: Mark, [key, value, link, found]: [u64; 4]) -> u64 {
    meta(mark, [key, value, link], found & u64::from(u32::MAX) & !1)
}

/// Sorts records, with the places that they have, by the numbers of their writes. Not part of what is generic, so that
/// it is compiled once.
pub fn sort_by_sequence(records: &mut [(u64, Record)]) {
    records.sort_unstable_by_key(|(_, record)| record.sequence);
}
