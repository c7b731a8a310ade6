//! Slot arrays in the pool: one line, or two in turn.
//!
//! ```text
//!   SlotLine   | count 1 | 63 slots of 1 byte                |
//!   SlotPair   | seq 1 | count 1 | 62 slots of 1 byte        |  line 0
//!              | seq 1 | count 1 | 62 slots of 1 byte        |  line 1
//! ```
//!
//! A [`SlotLine`] is changed in place: a crash can leave any mixture, so something else must say
//! whether it may be believed. A [`SlotPair`] is never torn: a change fills the *older* line and
//! stores its first word, which holds the sequence number, last.
//!
//! Invariants of a pair:
//! - SP1 the two sequence numbers differ by exactly 1 (modulo 256); the one ahead is current;
//! - SP2 stores to one line reach the medium in their order, so a line whose new sequence number is
//!   durable is durable as a whole, and a torn one still carries its old, smaller number;
//! - SP3 the current line is not written to while it is current, but by a store that the machine makes
//!   at once ([`SlotPair::overwrite_at_once`]).

use everleaf_machine::{AtomicLine, LINE_SIZE, LineStore, Machine, Ordering};

use super::slots::{LINE_WORDS, Slots};

/// Slots that a line of a pair has room for.
pub const PAIR_SLOT_COUNT_MAX: usize = LINE_SIZE - 2;

/// Bytes before the slots of a line of a pair.
const PAIR_HEADER: usize = 2;

/// The slots that a line of a pair holds.
pub type PairSlots = Slots<PAIR_HEADER>;

/// One line of a slot array, eight words.
#[repr(transparent)]
pub struct SlotLine<M: Machine> {
    line: AtomicLine<M>,
}

impl<M: Machine> SlotLine<M> {
    /// The words of the line, as far as byte `count_at` says that they mean something. Not at one
    /// instant: the caller validates.
    #[inline(always)]
    #[track_caller]
    fn words(&self, count_at: usize) -> [u64; LINE_WORDS] {
        // Relaxed, all of them: the caller validates what was read, by a version or by the counter.
        if !M::SIMULATED {
            return std::array::from_fn(|index| self.line.words[index].load(Ordering::Relaxed));
        }
        // Each load is a step of the schedule: no more than are needed.
        let mut words = [0; LINE_WORDS];
        // Relaxed: the caller validates what was read.
        words[0] = self.line.words[0].load(Ordering::Relaxed);
        let count = usize::from(words[0].to_le_bytes()[count_at]);
        let needed = words_of(count_at, count);
        for (copy, word) in words[..needed].iter_mut().zip(&self.line.words).skip(1) {
            // Relaxed: the caller validates what was read.
            *copy = word.load(Ordering::Relaxed);
        }
        words
    }

    /// Fills the line, the first word last.
    #[inline(always)]
    #[track_caller]
    fn write(&self, words: &[u64; LINE_WORDS], count_at: usize) {
        // All of them on hardware, where the end of a loop of changing length is predicted wrongly.
        let needed = if M::SIMULATED {
            words_of(count_at, usize::from(words[0].to_le_bytes()[count_at]))
        } else {
            LINE_WORDS
        };
        if M::mutant("slots.first_word_first") {
            // Release: a planted bug.
            self.line.words[0].store(words[0], Ordering::Release);
        }
        for (place, word) in self.line.words[..needed].iter().zip(words).skip(1) {
            // Relaxed: published by the first word.
            place.store(*word, Ordering::Relaxed);
        }
        // Release: the first word after all others, also on the medium (SP2).
        self.line.words[0].store(words[0], Ordering::Release);
    }

    /// The slots.
    #[inline(always)]
    #[track_caller]
    pub fn read(&self) -> Slots<1> {
        let words = self.words(0);
        Slots::from_line(words, words[0] as u8)
    }

    /// Changes the slots in place.
    #[inline(always)]
    #[track_caller]
    pub fn store(&self, slots: &Slots<1>) {
        let mut words = slots.to_line();
        words[0] |= slots.count() as u64;
        self.write(&words, 0);
    }

    /// The address of the line, for flushing.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.line.as_ptr()
    }
}

/// Words that hold `count` slots behind a header that ends with the count at byte `count_at`.
#[inline(always)]
fn words_of(count_at: usize, count: usize) -> usize {
    (count_at + 1 + count).div_ceil(8).clamp(1, LINE_WORDS)
}

/// See the module.
#[repr(C, align(64))]
pub struct SlotPair<M: Machine> {
    lines: [SlotLine<M>; 2],
}

impl<M: Machine> SlotPair<M> {
    /// A line, for flushing and prefetching.
    #[inline(always)]
    pub fn line(&self, index: usize) -> *const u8 {
        self.lines[index].as_ptr()
    }

    /// The slots of a line. To be validated by the caller unless it holds the lock.
    #[inline(always)]
    #[track_caller]
    pub fn read(&self, index: usize) -> PairSlots {
        let words = self.lines[index].words(1);
        Slots::from_line(words, (words[0] >> 8) as u8)
    }

    /// Whether a line names a slot. To be validated by the caller unless it holds the lock.
    #[inline(always)]
    pub fn names(&self, index: usize, slot: usize) -> bool {
        let named = self.lines[index].line.matches(slot as u8) >> PAIR_HEADER;
        (named.trailing_zeros() as usize) < self.count(index)
    }

    /// How many slots a line has, without reading them.
    pub fn count(&self, index: usize) -> usize {
        // Relaxed: as in `SlotLine::words`.
        let word = self.lines[index].line.words[0].load(Ordering::Relaxed);
        usize::from(word.to_le_bytes()[1]).min(PAIR_SLOT_COUNT_MAX)
    }

    #[inline(always)]
    fn sequence(&self, index: usize) -> u8 {
        // Acquire: the line's other words; pairs with the release in `SlotLine::write`.
        self.lines[index].line.words[0].load(Ordering::Acquire) as u8
    }

    /// The line that is ahead (SP1).
    #[inline]
    pub fn current(&self) -> usize {
        usize::from(self.sequence(1).wrapping_sub(self.sequence(0)) == 1)
    }

    /// Whether the two sequence numbers can be those of a pair (SP1).
    pub fn is_valid(&self) -> bool {
        let ahead = self.sequence(1).wrapping_sub(self.sequence(0));
        ahead == 1 || ahead == u8::MAX
    }

    /// Makes `slots` current: fills the line that is not. Returns its index. The caller holds the
    /// leaf's lock and makes the line durable before any reader is sent to it.
    #[inline(always)]
    #[track_caller]
    pub fn publish(&self, current: usize, slots: &PairSlots) -> usize {
        let next = current ^ 1;
        self.fill(next, self.sequence(current).wrapping_add(1), slots);
        next
    }

    /// The planted bug of changing the current line in place, word by word.
    pub fn overwrite(&self, current: usize, slots: &PairSlots) {
        self.fill(current, self.sequence(current), slots);
    }

    /// Changes the current line in place, at once; false if the machine cannot, and then nothing has
    /// changed. The caller holds the leaf's lock, and readers wait for it. A crash keeps all of it or
    /// nothing, as far as the machine promises that of such a store.
    #[inline(always)]
    #[track_caller]
    pub fn overwrite_at_once(&self, current: usize, slots: &PairSlots, how: LineStore) -> bool {
        let words = pair_words(self.sequence(current), slots);
        self.lines[current].line.store_at_once(&words, how)
    }

    /// A new pair whose line 0 holds `slots`, private to the caller.
    pub fn initialize(&self, slots: &PairSlots) {
        // A line of an earlier life may have any number: set this one first.
        self.fill(1, 0, &Slots::default());
        self.fill(0, 1, slots);
    }

    #[inline(always)]
    fn fill(&self, index: usize, sequence: u8, slots: &PairSlots) {
        self.lines[index].write(&pair_words(sequence, slots), 1);
    }
}

/// A line of a pair.
#[inline(always)]
fn pair_words(sequence: u8, slots: &PairSlots) -> [u64; LINE_WORDS] {
    let mut words = slots.to_line();
    words[0] |= u64::from(sequence) | (slots.count() as u64) << 8;
    words
}

const _: () = assert!(size_of::<SlotPair<everleaf_machine::Hardware>>() == 2 * LINE_SIZE);

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_machine::Hardware;

    fn line() -> SlotLine<Hardware> {
        SlotLine { line: AtomicLine::new() }
    }

    #[test]
    fn a_line_gives_back_what_was_stored() {
        for count in [0, 1, 7, 8, 62, 63] {
            let line = line();
            line.store(&Slots::identity(count));
            assert_eq!(line.read().as_slice(), Slots::<1>::identity(count).as_slice());
        }
    }

    #[test]
    fn the_lines_of_a_pair_take_turns_for_ever() {
        let pair = SlotPair { lines: [line(), line()] };
        pair.initialize(&Slots::default());
        let mut current = pair.current();
        for turn in 0..1000 {
            assert!(pair.is_valid() && pair.current() == current);
            let slots = Slots::identity(turn % 63);
            let next = pair.publish(current, &slots);
            assert_eq!(next, current ^ 1);
            assert_eq!(pair.read(next).as_slice(), slots.as_slice());
            for slot in 0..=u8::MAX {
                let is_named = slots.as_slice().contains(&slot);
                assert_eq!(pair.names(next, slot.into()), is_named, "{slot} of {turn}");
            }
            current = next;
        }
    }

    #[test]
    fn a_line_torn_before_its_sequence_number_is_not_current() {
        let pair = SlotPair { lines: [line(), line()] };
        pair.initialize(&Slots::identity(20));
        // All words but the first of the next version have arrived.
        let other = SlotPair { lines: [line(), line()] };
        other.initialize(&Slots::identity(20));
        other.publish(0, &Slots::identity(40));
        for index in 1..LINE_WORDS {
            let word = other.lines[1].line.words[index].load(Ordering::Relaxed);
            pair.lines[1].line.words[index].store(word, Ordering::Relaxed);
            assert_eq!(pair.current(), 0);
        }
        assert_eq!(pair.read(0).as_slice(), PairSlots::identity(20).as_slice());
    }
}
