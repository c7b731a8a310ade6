//! Which line of a leaf the search for a key begins in: by the key's hash, or by its place in the leaf's range.
//!
//! Hashing fits all keys. But a scan then reads nearly all lines of a leaf, and keys that come in order fill no
//! line before the next. So a leaf whose keys are spread evenly, as far as one can tell when it is built, is
//! *scaled*: its range is laid out over its lines, and keys that follow each other are on lines that do. Either
//! way the line follows from the key and from a word that is fixed as long as the leaf lives, and is
//! handed on with the leaf's number; a key that finds its line taken goes on as ever, and so nothing but speed
//! depends on which one was chosen.
//!
//! ```text
//!   Placement   0 ..24 lines << 16 / (width >> shift) | 24..30 shift        0: by hash
//! ```

use crate::geometry::LeafShape;
use crate::kind::Kind;
use everleaf_machine::{Machine, Pair};

const FACTOR_BITS: u32 = 24;
const SHIFT_BITS: u32 = 6;
/// Bits behind the point of the factor.
const FRACTION_BITS: u32 = 16;
/// Significant bits of a range's width that count.
const WIDTH_BITS: u32 = 11;

/// How keys become lines; immutable while a leaf lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement(u32);

impl Placement {
    /// By the hash of the key.
    pub const HASHED: Placement = Placement(0);
    /// Bits of [`Self::to_bits`].
    pub const BITS: u32 = FACTOR_BITS + SHIFT_BITS;

    /// Keys of a range of this width are laid out over all lines; those behind it begin again from the first.
    fn scaled(lines: usize, width: u64) -> Self {
        let width = width.max(1);
        let shift = (u64::BITS - width.leading_zeros()).saturating_sub(WIDTH_BITS);
        let factor = ((lines as u64) << FRACTION_BITS) / (width >> shift);
        Placement((factor as u32).clamp(1, (1 << FACTOR_BITS) - 1) | shift << FACTOR_BITS)
    }

    /// The word that is kept; see [`Self::from_bits`].
    #[inline(always)]
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// From such a word. Any word is a placement: a damaged one only costs time.
    #[inline(always)]
    pub fn from_bits(bits: u32) -> Self {
        Placement(bits & ((1 << Self::BITS) - 1))
    }

    /// Whether keys that follow each other are on lines that do.
    #[inline(always)]
    pub fn is_scaled(self) -> bool {
        self != Self::HASHED
    }

    /// The line where the search for a key with this hash and number begins.
    #[inline(always)]
    pub fn line(self, lines: usize, hash: u64, number: u64) -> usize {
        // Eight bits of the top are the fingerprint, the next ones the line.
        let hashed = (hash << 8 >> 48) as usize;
        let (shift, factor) = (self.0 >> FACTOR_BITS, u64::from(self.0) & ((1 << FACTOR_BITS) - 1));
        let scaled = ((number >> shift).wrapping_mul(factor) >> FRACTION_BITS) as usize;
        (if self.is_scaled() { scaled } else { hashed }) % lines
    }

    /// What suits the entries of a leaf that is built for keys from `low` to `high`.
    pub(super) fn choose<K: Kind<M>, S: LeafShape, M: Machine>(
        low: u64,
        high: u64,
        entries: &[Pair],
    ) -> Self {
        // A few keys do not tell how the next ones will be spread.
        if !K::HAS_NUMBERS || entries.len() < S::CAPACITY.div_ceil(16) {
            return Self::HASHED;
        }
        let lines = S::POSITIONS.div_ceil(S::LINE);
        let number = |entry: &Pair| K::entry_number(low, *entry);
        let crowded = |placement: Self| {
            let mut counts = [0u16; 64];
            for entry in entries {
                let line = placement.line(lines, K::entry_hash(low, *entry), number(entry));
                counts[line % counts.len()] += 1;
            }
            counts.iter().map(|count| usize::from(*count).saturating_sub(S::LINE)).sum::<usize>()
        };
        let few = entries.len() / 16;
        let whole = (high != 0).then(|| Self::scaled(lines, high.saturating_sub(low)));
        let of_whole = whole.map_or(usize::MAX, crowded);
        if let (Some(whole), true) = (whole, of_whole <= few) {
            return whole;
        }
        // What a full leaf would span if more such keys come behind these.
        let (min, max) = entries
            .iter()
            .map(number)
            .fold((u64::MAX, 0), |(min, max), number| (min.min(number), max.max(number)));
        let gap = (max - min) / (entries.len() as u64 - 1).max(1);
        let ahead = Self::scaled(lines, gap.saturating_mul(S::CAPACITY as u64));
        let of_ahead = crowded(ahead);
        let (crowd, best) = match whole {
            Some(whole) if of_whole <= of_ahead => (of_whole, whole),
            _ => (of_ahead, ahead),
        };
        if crowd <= crowded(Self::HASHED) + few { best } else { Self::HASHED }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Production;
    use crate::kind::U64Kind;
    use everleaf_machine::Hardware;
    use rand::{RngExt, SeedableRng};

    const LINES: usize = 64;

    fn chosen(low: u64, high: u64, keys: impl Iterator<Item = u64>) -> Placement {
        let entries: Vec<Pair> = keys.map(|key| Pair { first: key, second: 0 }).collect();
        Placement::choose::<U64Kind, Production, Hardware>(low, high, &entries)
    }

    #[test]
    fn a_range_of_any_width_is_laid_out_over_all_lines() {
        for width in [64, 100, 1000, 2047, 2048, 123_456_789, 1 << 40, (1 << 61) - 1] {
            for low in [0, 77, 1 << 60] {
                let placement = Placement::scaled(LINES, width);
                let at = |part: u64| {
                    let number = low + (u128::from(width) * u128::from(part) / 640) as u64;
                    placement.line(LINES, 0, number)
                };
                let lines: Vec<usize> = (0..640).map(at).collect();
                let first = lines[0];
                let mut counts = [0; LINES];
                for line in &lines {
                    counts[*line] += 1;
                }
                assert!(counts.iter().all(|count| (5..=25).contains(count)), "{width}: {counts:?}");
                // In order, but for where the lines begin again.
                let steps = lines.windows(2).map(|two| (two[1] + LINES - two[0]) % LINES);
                assert!(steps.clone().all(|step| step <= 1), "{width} {low} {first}");
            }
        }
    }

    #[test]
    fn keys_that_are_spread_evenly_are_scaled_and_others_hashed() {
        let mut rng = rand::rngs::StdRng::seed_from_u64(1);
        let random = |_| rng.random_range(0..1_000_000);
        assert!(chosen(0, 1_000_000, (1..120).map(random)).is_scaled());
        assert!(chosen(0, 0, (1000..1030).map(|number| number * 8)).is_scaled(), "keys in order");
        assert!(chosen(0, 1 << 61, 1000..1030).is_scaled(), "keys in order, far from the end");
        assert!(!chosen(0, 1 << 61, 1000..1008).is_scaled(), "too few to tell");
        let clusters = (0..128).map(|number| number / 64 * (1 << 40) + number % 64);
        assert!(!chosen(0, 1 << 61, clusters).is_scaled(), "two heaps");
        assert!(
            !chosen(5, 5 + (1 << 50), (0..100).map(|number| 1 << (number % 50) | number))
                .is_scaled()
        );
    }

    /// Keys that go on as they have begun fill line after line.
    #[test]
    fn keys_in_order_fill_one_line_after_the_other() {
        let placement = chosen(0, 0, (0..30).map(|number| number * 10));
        let lines: Vec<usize> =
            (0..250).map(|number| placement.line(LINES, 0, number * 10)).collect();
        assert!(lines.windows(2).all(|two| two[1] >= two[0] || two[1] == 0));
        assert!(lines.iter().all(|line| lines.iter().filter(|other| *other == line).count() <= 5));
    }

    #[test]
    fn any_word_gives_a_line() {
        for word in [0, 1, u32::MAX, 0x3f00_0000, 0x0100_0000, 0x8000_0001] {
            let placement = Placement::from_bits(word);
            assert_eq!(Placement::from_bits(placement.to_bits()), placement);
            for number in [0, 1, u64::MAX, 1 << 63] {
                assert!(placement.line(5, number, number) < 5);
            }
        }
    }
}
