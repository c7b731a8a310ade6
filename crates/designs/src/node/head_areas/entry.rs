//! The words of a checkpoint: what it says of a leaf, and of a log.

/// Words of an entry.
pub(super) const ENTRY_LENGTH: usize = 3;
/// Bits of a sequence in an entry's second word, and in its third one.
const SEQUENCE_BITS: [u32; 2] = [21, 22];
/// Records are that far apart, and leaves.
const PLACE_SHIFTS: [u32; 2] = [5, 6];
/// Words of a tail.
pub(super) const TAIL_LENGTH: usize = 2;

/// What a checkpoint says of a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its low fence.
    pub low: u64,
    /// Its place.
    pub leaf: u64,
    /// The place of the newest record of its buffer; 0 if there is none.
    pub head: u64,
    /// The number of that record, or 0.
    pub sequence: u64,
}

impl Entry {
    /// As the pool has it; nothing of a leaf that was written more often than an entry can tell, which is for weeks
    /// without a pause.
    pub fn words(self) -> Option<[u64; ENTRY_LENGTH]> {
        let [low_bits, high_bits] = SEQUENCE_BITS;
        let upper = self.sequence >> low_bits;
        let lower = self.sequence & ((1 << low_bits) - 1);
        let words = [
            self.low,
            self.head >> PLACE_SHIFTS[0] << low_bits | lower,
            self.leaf >> PLACE_SHIFTS[1] << high_bits | upper,
        ];
        (upper >> high_bits == 0).then_some(words)
    }

    /// The entry that the pool has so.
    pub fn of([low, head, leaf]: [u64; ENTRY_LENGTH]) -> Self {
        let [low_bits, high_bits] = SEQUENCE_BITS;
        let sequence = (leaf & ((1 << high_bits) - 1)) << low_bits | head & ((1 << low_bits) - 1);
        Entry {
            low,
            leaf: leaf >> high_bits << PLACE_SHIFTS[1],
            head: head >> low_bits << PLACE_SHIFTS[0],
            sequence,
        }
    }
}

/// Where a log ended: in the chunk of this mark, behind so many records. The marks of a log's chunks ascend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// The opening of the pool that has made the chunk.
    pub opening: u32,
    /// The chunk's number among those of the opening.
    pub number: u64,
    /// Records of the chunk.
    pub used: u32,
}

impl Tail {
    /// As the pool has it.
    pub fn words(self) -> [u64; 2] {
        [u64::from(self.opening) << 32 | u64::from(self.used), self.number]
    }

    /// The tail that the pool has so.
    pub fn of([ends, number]: [u64; 2]) -> Self {
        Tail { opening: (ends >> 32) as u32, number, used: ends as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_encoding_or_is_refused() {
        let far = (1 << 48) - 64;
        for sequence in [0, 1, (1 << 21) - 1, 1 << 21, (1 << 43) - 1] {
            for entry in [
                Entry { low: u64::MAX - 1, leaf: far, head: far + 32, sequence },
                Entry { low: 0, leaf: 64, head: 0, sequence },
            ] {
                assert_eq!(entry.words().map(Entry::of), Some(entry));
            }
        }
        assert_eq!(Entry { sequence: 1 << 43, ..Entry::default() }.words(), None);
    }

    #[test]
    fn a_tail_survives_encoding() {
        for tail in [
            Tail::default(),
            Tail { opening: 3, number: 1 << 40, used: 2046 },
            Tail { opening: u32::MAX, number: u64::MAX, used: u32::MAX },
        ] {
            assert_eq!(Tail::of(tail.words()), tail);
        }
    }
}
