//! Shared words, and cache lines of them, generic over the machine.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use crate::fingerprint::match_words;
use crate::line_store::{LINE_SIZE, LineStore};
use crate::seam::{Integer, Machine, Pair, PairCell, Word};

/// A shared word of type `W` on machine `M`; same size and layout as the word itself.
///
/// # Example
/// ```
/// use everleaf_machine::{Atomic, Hardware, Ordering};
/// let word: Atomic<u64, Hardware> = Atomic::new(1);
/// assert_eq!(word.fetch_add(2, Ordering::Relaxed), 1);
/// assert_eq!(word.load(Ordering::Relaxed), 3);
/// ```
#[repr(transparent)]
pub struct Atomic<W: Word, M: Machine> {
    cell: W::Cell,
    machine: PhantomData<M>,
}

impl<W: Word, M: Machine> Atomic<W, M> {
    /// A word that holds `value`.
    #[inline(always)]
    pub fn new(value: W) -> Self {
        Atomic { cell: value.into_cell(), machine: PhantomData }
    }

    /// Atomic load.
    #[inline(always)]
    #[track_caller]
    pub fn load(&self, order: Ordering) -> W {
        M::load(&self.cell, order)
    }

    /// Atomic store.
    #[inline(always)]
    #[track_caller]
    pub fn store(&self, value: W, order: Ordering) {
        M::store(&self.cell, value, order)
    }

    /// Atomic exchange; returns the previous value.
    #[inline(always)]
    #[track_caller]
    pub fn swap(&self, value: W, order: Ordering) -> W {
        M::swap(&self.cell, value, order)
    }

    /// Strong compare-and-exchange: the previous value, as `Ok` if it was `current`.
    #[inline(always)]
    #[track_caller]
    pub fn compare_exchange(
        &self,
        current: W,
        new: W,
        success: Ordering,
        failure: Ordering,
    ) -> Result<W, W> {
        M::compare_exchange(&self.cell, current, new, success, failure)
    }

    /// Reads a word that no other thread can write now (unpublished or immutable).
    #[inline(always)]
    #[track_caller]
    pub fn read_private(&self) -> W {
        M::read_private(&self.cell)
    }

    /// Writes a word that no other thread can reach yet.
    #[inline(always)]
    #[track_caller]
    pub fn write_private(&self, value: W) {
        M::write_private(&self.cell, value)
    }

    /// Stores past the machine: for a machine itself.
    #[cfg(feature = "simulated")]
    #[inline(always)]
    pub(crate) fn raw_store(&self, value: W) {
        // Relaxed: the machine orders it, or there is nobody to order it for.
        W::raw_store(&self.cell, value, Ordering::Relaxed);
    }

    /// The address of the word, for flushing and prefetching.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        (&raw const self.cell).cast()
    }
}

impl<W: Integer, M: Machine> Atomic<W, M> {
    /// Atomic wrapping add; returns the previous value.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_add(&self, value: W, order: Ordering) -> W {
        M::fetch_add(&self.cell, value, order)
    }

    /// Atomic wrapping subtract; returns the previous value.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_sub(&self, value: W, order: Ordering) -> W {
        M::fetch_add(&self.cell, value.wrapping_negate(), order)
    }

    /// Atomic or; returns the previous value.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_or(&self, value: W, order: Ordering) -> W {
        M::fetch_or(&self.cell, value, order)
    }

    /// Atomic and; returns the previous value.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_and(&self, value: W, order: Ordering) -> W {
        M::fetch_and(&self.cell, value, order)
    }
}

/// The product is built without, and its words go like the plain ones that they are.
#[cfg(feature = "simulated")]
impl<W: Word, M: Machine> Drop for Atomic<W, M> {
    #[inline(always)]
    fn drop(&mut self) {
        M::drop_words(self.as_ptr(), size_of::<W>());
    }
}

/// A shared pointer to `T` on machine `M`.
#[repr(transparent)]
pub struct AtomicPointer<T, M: Machine> {
    word: Atomic<*mut (), M>,
    target: PhantomData<*mut T>,
}

// SAFETY: the pointer itself is only a word; following it is the caller's unsafe business.
unsafe impl<T, M: Machine> Send for AtomicPointer<T, M> {}
// SAFETY: as for `Send`; all access to the word is atomic.
unsafe impl<T, M: Machine> Sync for AtomicPointer<T, M> {}

impl<T, M: Machine> AtomicPointer<T, M> {
    /// A pointer word that holds `pointer`.
    #[inline(always)]
    pub fn new(pointer: *mut T) -> Self {
        AtomicPointer { word: Atomic::new(pointer.cast()), target: PhantomData }
    }

    /// Atomic load.
    #[inline(always)]
    #[track_caller]
    pub fn load(&self, order: Ordering) -> *mut T {
        self.word.load(order).cast()
    }

    /// Atomic store.
    #[inline(always)]
    #[track_caller]
    pub fn store(&self, pointer: *mut T, order: Ordering) {
        self.word.store(pointer.cast(), order)
    }

    /// Atomic exchange; returns the previous pointer.
    #[inline(always)]
    #[track_caller]
    pub fn swap(&self, pointer: *mut T, order: Ordering) -> *mut T {
        self.word.swap(pointer.cast(), order).cast()
    }

    /// Strong compare-and-exchange: the previous pointer, as `Ok` if it was `current`.
    #[inline(always)]
    #[track_caller]
    pub fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        match self.word.compare_exchange(current.cast(), new.cast(), success, failure) {
            Ok(seen) => Ok(seen.cast()),
            Err(seen) => Err(seen.cast()),
        }
    }

    /// Reads a pointer that no other thread can write now.
    #[inline(always)]
    #[track_caller]
    pub fn read_private(&self) -> *mut T {
        self.word.read_private().cast()
    }

    /// Writes a pointer that no other thread can reach yet.
    #[inline(always)]
    #[track_caller]
    pub fn write_private(&self, pointer: *mut T) {
        self.word.write_private(pointer.cast())
    }
}

/// A shared [`Pair`]: 16 bytes, read and compare-exchanged as one.
///
/// # Example
/// ```
/// use everleaf_machine::{AtomicPair, Hardware, Pair};
/// let pair: AtomicPair<Hardware> = AtomicPair::new(Pair { first: 1, second: 2 });
/// let seen = pair.load();
/// assert!(pair.compare_exchange(seen, Pair { second: 3, ..seen }).is_ok());
/// assert_eq!(pair.load(), Pair { first: 1, second: 3 });
/// ```
#[repr(transparent)]
pub struct AtomicPair<M: Machine> {
    cell: PairCell,
    machine: PhantomData<M>,
}

impl<M: Machine> AtomicPair<M> {
    /// A pair that holds `value`.
    #[inline(always)]
    pub fn new(value: Pair) -> Self {
        let cell = PairCell { first: value.first.into_cell(), second: value.second.into_cell() };
        AtomicPair { cell, machine: PhantomData }
    }

    /// Both halves at one instant. Acquire: pairs with the release half of `compare_exchange`.
    #[inline(always)]
    #[track_caller]
    pub fn load(&self) -> Pair {
        M::load_pair(&self.cell)
    }

    /// Compare-and-exchange of both halves at one instant, acquire and release.
    #[inline(always)]
    #[track_caller]
    pub fn compare_exchange(&self, current: Pair, new: Pair) -> Result<Pair, Pair> {
        M::compare_exchange_pair(&self.cell, current, new)
    }

    /// As [`Self::compare_exchange`], where `current` is of nobody's and a crash may keep either half
    /// of `new` without the other.
    #[inline(always)]
    #[track_caller]
    pub fn claim(&self, current: Pair, new: Pair) -> Result<Pair, Pair> {
        M::claim_pair(&self.cell, current, new)
    }

    /// Writes a pair that no other thread may act on yet; `second` becomes visible first.
    #[inline(always)]
    #[track_caller]
    pub fn store(&self, value: Pair) {
        M::store_pair(&self.cell, value)
    }

    /// Reads a pair that no other thread can write now.
    #[inline(always)]
    #[track_caller]
    pub fn read_private(&self) -> Pair {
        Pair {
            first: M::read_private(&self.cell.first),
            second: M::read_private(&self.cell.second),
        }
    }

    /// Writes a pair that no other thread can reach yet.
    #[inline(always)]
    #[track_caller]
    pub fn write_private(&self, value: Pair) {
        M::write_private(&self.cell.second, value.second);
        M::write_private(&self.cell.first, value.first);
    }

    /// The address of the pair, for flushing and prefetching.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        (&raw const self.cell).cast()
    }
}

#[cfg(feature = "simulated")]
impl<M: Machine> Drop for AtomicPair<M> {
    #[inline(always)]
    fn drop(&mut self) {
        M::drop_words(self.as_ptr(), size_of::<Pair>());
    }
}

/// Words of a line.
const WORDS: usize = LINE_SIZE / 8;

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

/// A cache line of fingerprints, one byte per slot. Byte 0 of the compare mask is byte 0 here.
///
/// # Example
/// ```
/// use everleaf_machine::{FingerprintLine, Hardware, Ordering};
/// let line: FingerprintLine<Hardware> = FingerprintLine::new();
/// line.store(5, 200, Ordering::Relaxed);
/// assert_eq!(line.matches(200), 1 << 5);
/// ```
#[repr(C, align(64))]
pub struct FingerprintLine<M: Machine> {
    bytes: [Atomic<u8, M>; LINE_SIZE],
}

impl<M: Machine> Default for FingerprintLine<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Machine> FingerprintLine<M> {
    /// A line of zeros.
    pub fn new() -> Self {
        FingerprintLine { bytes: std::array::from_fn(|_| Atomic::new(0)) }
    }

    /// Writes the fingerprint of one slot (0..64).
    #[inline(always)]
    #[track_caller]
    pub fn store(&self, slot: usize, fingerprint: u8, order: Ordering) {
        self.bytes[slot].store(fingerprint, order);
    }

    /// Writes the fingerprint of one slot while no other thread can reach the line.
    #[inline(always)]
    #[track_caller]
    pub fn write_private(&self, slot: usize, fingerprint: u8) {
        self.bytes[slot].write_private(fingerprint);
    }

    /// Reads the fingerprint of one slot while no other thread can write it.
    pub fn read_private(&self, slot: usize) -> u8 {
        self.bytes[slot].read_private()
    }

    /// The slots whose fingerprint equals `fingerprint`, as a bit mask.
    ///
    /// The bytes are not read at one instant; each is read once, during the call (relaxed: a leaf's
    /// committed bitmap, loaded with acquire before, says which bytes are meaningful).
    #[inline(always)]
    pub fn matches(&self, fingerprint: u8) -> u64 {
        M::match_bytes(self, fingerprint)
    }

    /// The address of the line.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr().cast()
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
