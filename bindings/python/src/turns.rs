//! In which turn the rows of an array of keys are looked for: neighbours one after another, since those of one leaf
//! take one way down the tree, and find in the cache what they share.

use pyo3::PyResult;

use crate::room::room;

/// Rows that are put in order together: their numbers have as many bits.
pub const ROWS_MAX: usize = 1 << DIGIT_BITS;
/// Fewer rows are not put in order.
const ROWS_MIN: usize = 1024;
/// Of a map with more keys for each row, few rows are neighbours: a leaf has about forty keys.
const KEYS_FOR_ROW: u64 = 8;
/// Bytes of a key with its value. Of longer ones most of the time goes to where they lie.
pub const ROW_BYTES: usize = 32;

/// The bits by which rows are put in order, half of them at a time.
const DIGIT_BITS: u32 = 16;
const HALF_BITS: u32 = DIGIT_BITS / 2;
const DIGITS: usize = 1 << HALF_BITS;
/// Bytes of what a key is put in order by.
const WORD: usize = size_of::<u64>();

/// Rows in the order in which they are looked for. A turn has the row's number in its lower half, and above it what
/// it is put in order by.
pub struct Turns {
    turns: Vec<u32>,
    spare: Vec<u32>,
}

/// Whether so many rows of a map are worth an order.
pub fn are_near(
    rows: usize,
    row_bytes: usize,
    map_keys: impl FnOnce() -> PyResult<u64>,
) -> PyResult<bool> {
    if rows < ROWS_MIN || row_bytes > ROW_BYTES {
        return Ok(false);
    }
    Ok(map_keys()? <= rows.min(ROWS_MAX) as u64 * KEYS_FOR_ROW)
}

/// The number of a turn's row.
#[inline(always)]
pub fn row_of(turn: u32) -> usize {
    usize::from(turn as u16)
}

impl Turns {
    /// For so many rows, at most `ROWS_MAX`.
    pub fn new(rows: usize) -> PyResult<Self> {
        Ok(Turns { turns: room(rows)?, spare: room(rows)? })
    }

    /// The turns of these keys, each of `size` bytes: by sixteen bits of their first eight bytes, the highest in which
    /// they differ. Keys that are told apart by others stay as they are.
    pub fn sorted(&mut self, keys: &[u8], size: usize) -> &[u32] {
        match size {
            // Most keys of arrays are of one word, whose size is known here then.
            WORD => self.sorted_by(keys.as_chunks().0.iter().map(|key| u64::from_be_bytes(*key))),
            _ => self.sorted_by(keys.chunks_exact(size).map(head)),
        }
    }

    #[inline(always)]
    fn sorted_by(&mut self, heads: impl ExactSizeIterator<Item = u64> + Clone) -> &[u32] {
        let count = heads.len();
        let (turns, spare) = (&mut self.turns[..count], &mut self.spare[..count]);
        let (mut least, mut greatest) = (u64::MAX, 0);
        for head in heads.clone() {
            (least, greatest) = (head.min(least), head.max(greatest));
        }
        let width = greatest.saturating_sub(least);
        let shift = (u64::BITS - width.leading_zeros()).saturating_sub(DIGIT_BITS);
        let (mut lower, mut upper) = ([0; DIGITS], [0; DIGITS]);
        for (row, (turn, head)) in turns.iter_mut().zip(heads).enumerate() {
            let digits = ((head - least) >> shift) as u32;
            *turn = digits << DIGIT_BITS | row as u32;
            lower[digit(*turn, 0)] += 1;
            upper[digit(*turn, 1)] += 1;
        }
        sort_by(0, lower, turns, spare);
        sort_by(1, upper, spare, turns);
        turns
    }
}

/// The first eight bytes of a key, in its order.
#[inline(always)]
fn head(key: &[u8]) -> u64 {
    let word = key.first_chunk().copied().unwrap_or_else(|| {
        let mut word = [0; 8];
        word[..key.len()].copy_from_slice(key);
        word
    });
    u64::from_be_bytes(word)
}

/// The lower or the upper half of what a turn is put in order by.
#[inline(always)]
fn digit(turn: u32, half: u32) -> usize {
    (turn >> (DIGIT_BITS + half * HALF_BITS)) as usize % DIGITS
}

/// Puts turns in order by one half, of which there are so many of each; those that are the same stay in order.
fn sort_by(half: u32, counts: [u32; DIGITS], from: &[u32], to: &mut [u32]) {
    let (mut places, mut next) = (counts, 0);
    for place in &mut places {
        next += std::mem::replace(place, next);
    }
    for turn in from {
        let place = &mut places[digit(*turn, half)];
        to[*place as usize] = *turn;
        *place += 1;
    }
}
