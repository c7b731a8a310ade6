//! Filters of what the records of a full chunk are of, and chunks that opening has left unread.
//!
//! ```text
//!   chunk    | head | records | filter line | filter line | ...
//!   line     | 448 bits, 5 for each name | sum 4, "LOGF" |
//! ```
//!
//! A record is *of* the leaf that it was written for, which has a name that stays its own: its low fence. Where a log
//! has filters, the names of the newest chunk's records are gathered in DRAM. When the chunk is full, they are put
//! behind its records, before the next chunk is linked to it.
//!
//! *A crash* leaves any of the lines whole and others not. Each has a sum of its own, over its bits, its number and
//! the mark of the chunk, so a line that was not written, is torn, was lost, or is of another chunk that was in the
//! place before, is known as such: it may have all names. A line that is whole has all names of the chunk that belong
//! there, since it is written when nothing is added to the chunk any more. So nothing waits for a filter, and it needs
//! no drain of its own.

use everleaf_machine::LINE_SIZE;

use super::record::Mark;

/// The upper half of the sum of a line: which bytes it is of.
const FORMAT: u64 = u32::from_le_bytes(*b"LOGF") as u64;
/// Words of a line, but for that with its sum.
pub(super) const BIT_WORDS: usize = LINE_SIZE / 8 - 1;
/// Bits of a name.
const PROBES: usize = 5;

pub(super) type Bits = [u64; BIT_WORDS];

/// The line of a name, and its bits there.
pub(super) fn bits_of(name: u64, lines: usize) -> (usize, Bits) {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    // The first leaf's is 0, and all of its bits were one.
    let mixed = (name ^ FACTOR).wrapping_mul(FACTOR);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(FACTOR);
    let line = ((mixed >> 32) * lines as u64) >> 32;
    let mut rest = (mixed ^ mixed >> 29).wrapping_mul(FACTOR);
    let mut bits = [0; BIT_WORDS];
    for _ in 0..PROBES {
        // Nine bits for one of 448 places.
        let place = ((rest >> 55) as usize * (BIT_WORDS * 64)) >> 9;
        bits[place / 64] |= 1 << (place % 64);
        rest <<= 9;
    }
    (line as usize, bits)
}

/// The last word of a line.
pub(super) fn line_sum(mark: Mark, line: usize, bits: &Bits) -> u64 {
    let mut bytes = [0; 8 * (BIT_WORDS + 3)];
    let words = mark.into_iter().chain([line as u64]).chain(*bits);
    for (part, word) in bytes.chunks_exact_mut(8).zip(words) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    FORMAT << 32 | u64::from(crc32c::crc32c(&bytes))
}

/// Of what leaves the records of a log's newest chunk are.
pub(super) struct Fences {
    /// The chunk; 0 if there is none.
    pub(super) chunk: u64,
    /// No line where logs have no filters.
    pub(super) lines: Vec<Bits>,
}

impl Fences {
    pub(super) fn new(lines: usize) -> Self {
        Fences { chunk: 0, lines: vec![[0; BIT_WORDS]; lines] }
    }

    /// Begins with a chunk that has no records.
    pub(super) fn begin(&mut self, chunk: u64) {
        self.chunk = chunk;
        self.lines.fill([0; BIT_WORDS]);
    }

    /// Notes that the chunk has a record of this name.
    #[inline(always)]
    pub(super) fn add(&mut self, name: u64) {
        if self.lines.is_empty() {
            return;
        }
        let (line, bits) = bits_of(name, self.lines.len());
        self.lines[line].iter_mut().zip(bits).for_each(|(word, bits)| *word |= bits);
    }
}

/// A chunk whose records behind the tail opening has not read.
#[derive(Clone, Copy)]
pub(super) struct Unread {
    pub(super) chunk: u64,
    pub(super) mark: Mark,
    /// The number of the first record behind the tail.
    pub(super) start: usize,
    /// How many records the chunk has, if the one behind it says so.
    pub(super) wanted: Option<u64>,
    /// Whether somebody has found that it is damaged.
    pub(super) is_lost: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 1918 names in 64 lines few others are taken for one of them, and none of them is missed.
    #[test]
    fn a_filter_has_its_names_and_few_others() {
        let mut fences = Fences::new(64);
        fences.begin(64);
        let name = |number: u64| number << 40;
        (1..1919).for_each(|number| fences.add(name(number)));
        let has = |number: &u64| {
            let (line, bits) = bits_of(name(*number), 64);
            fences.lines[line].iter().zip(bits).all(|(word, bits)| word & bits == bits)
        };
        assert_eq!((1..1919).filter(has).count(), 1918);
        assert!(!has(&0), "the first leaf's");
        let bits = (0..5000).map(|number| bits_of(name(number), 64).1);
        let few = bits.filter(|bits| bits.iter().map(|word| word.count_ones()).sum::<u32>() < 4);
        assert!(few.count() < 20, "a name has five bits, or four by chance");
        let wrong = (10_000..110_000).filter(has).count();
        assert!((1..1000).contains(&wrong), "{wrong} of 100,000");
    }

    #[test]
    fn no_flipped_bit_of_a_line_is_missed() {
        let (mark, bits) = ([3 << 32 | 1, 9], [1, 2, 3, 4, 5, 6, 7]);
        let sum = line_sum(mark, 2, &bits);
        for bit in 0..BIT_WORDS * 64 {
            let mut flipped = bits;
            flipped[bit / 64] ^= 1 << (bit % 64);
            assert_ne!(line_sum(mark, 2, &flipped), sum, "bit {bit}");
        }
        assert_ne!(line_sum(mark, 3, &bits), sum);
        assert_ne!(line_sum([3 << 32 | 1, 8], 2, &bits), sum);
        assert_ne!(sum, 0);
    }
}
