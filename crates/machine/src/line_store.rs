//! A line of 64 bytes that can be stored at once, where the machine can.

use crate::Ordering;
use crate::atomic::Atomic;
use crate::fingerprint::match_words;
use crate::seam::{LINE_SIZE, Machine};

/// Words of a line.
const WORDS: usize = LINE_SIZE / 8;

/// How a whole line is stored at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStore {
    /// One aligned store of 64 bytes (AVX-512). It reaches the first-level cache as one on server
    /// cores of Intel, and in two halves on some others; the architecture promises nothing, so a
    /// crash may keep a part of it.
    Wide,
    /// A direct store (MOVDIR64B): whole by architecture. It goes past the caches, so that only a
    /// drain is needed to make it durable, and the next load of the line misses.
    Direct,
    /// Eight stores in a hardware transaction (RTM): nobody, and no crash, sees a part of them. The
    /// machine may give up.
    Transaction,
}

/// Eight words of one cache line.
///
/// # Example
/// ```
/// use everleaf_machine::{AtomicLine, Hardware, LineStore, Machine, Ordering};
/// let line: AtomicLine<Hardware> = AtomicLine::new();
/// let is_stored = line.store_at_once(&[1, 2, 3, 4, 5, 6, 7, 8], LineStore::Wide);
/// assert_eq!(is_stored, Hardware::has_line_store(LineStore::Wide));
/// assert_eq!(line.words[7].load(Ordering::Relaxed), if is_stored { 8 } else { 0 });
/// ```
#[repr(C, align(64))]
pub struct AtomicLine<M: Machine> {
    /// The words, by ascending address.
    pub words: [Atomic<u64, M>; WORDS],
}

const _: () = assert!(size_of::<AtomicLine<crate::Hardware>>() == LINE_SIZE);

impl<M: Machine> AtomicLine<M> {
    /// A line of zeros.
    pub fn new() -> Self {
        AtomicLine { words: std::array::from_fn(|_| Atomic::new(0)) }
    }

    /// Stores all words, after all stores of this thread before; false if nothing was stored, because
    /// the machine has no such store or has given up. No other thread may store to the line meanwhile;
    /// one that reads it word by word may see some words old and some new.
    #[inline(always)]
    #[track_caller]
    pub fn store_at_once(&self, words: &[u64; WORDS], how: LineStore) -> bool {
        M::store_line(self, words, how)
    }

    /// The bytes of the line that equal `byte`, as a bit mask (bit i = byte i). Each word is read once,
    /// relaxed.
    #[inline(always)]
    pub fn matches(&self, byte: u8) -> u64 {
        M::match_words(self, byte)
    }

    /// The same without an instruction that compares a line at once.
    #[inline(always)]
    pub(crate) fn matches_by_words(&self, byte: u8) -> u64 {
        // Relaxed: see `matches`.
        match_words(std::array::from_fn(|index| self.words[index].load(Ordering::Relaxed)), byte)
    }

    /// The address of the line, for flushing and prefetching.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.words.as_ptr().cast()
    }
}

impl<M: Machine> Default for AtomicLine<M> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hardware;

    #[test]
    fn a_store_that_the_machine_has_stores_all_and_another_nothing() {
        for how in [LineStore::Wide, LineStore::Direct, LineStore::Transaction] {
            let line: AtomicLine<Hardware> = AtomicLine::new();
            let words = [1, 2, 3, 4, 5, 6, 7, u64::MAX];
            // A transaction may be given up for no reason of ours; not for ever, on an idle line.
            let is_stored = (0..1000).any(|_| line.store_at_once(&words, how));
            // Relaxed: there is no other thread.
            let now: Vec<u64> =
                line.words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
            assert!(is_stored || !Hardware::has_line_store(how) || how == LineStore::Transaction);
            assert_eq!(now, if is_stored { words } else { [0; 8] }, "{how:?}");
        }
    }
}
