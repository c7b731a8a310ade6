//! What is in a descriptor, and in a word that leads to one.
//!
//! ```text
//!   descriptor   | life 61 | dirty 1 | state 2 | words 8 bytes | entry | entry | entry | (entry) |
//!   entry        | address 8 | old 8 | new 8 | unused |
//!
//!   word         0 0 0 | value 61
//!   marker       0 0 1 | number 47 | entry 2 | descriptor 12
//!   pointer      0 1 0 | life 49 | descriptor 12
//! ```
//!
//! The published program's entries have four words more, for its memory management, and descriptors of
//! 256 bytes: how many lines of one are flushed follows from that, so it can be chosen.

/// The largest value of a word.
pub(crate) const VALUE_MAX: u64 = MARKER - 1;
/// The most words that one operation exchanges.
pub(super) const WORD_COUNT_MAX: usize = 4;
/// The most descriptors there can be.
pub(super) const DESCRIPTOR_COUNT_MAX: usize = 1 << INDEX_BITS;

/// The word leads to a descriptor, which may become decided.
const POINTER: u64 = 1 << 62;
/// The word leads to a descriptor, and becomes a pointer only if that is undecided.
const MARKER: u64 = 1 << 61;
const INDEX_BITS: u32 = 12;
const NUMBER_SHIFT: u32 = INDEX_BITS + 2;

const DIRTY: u64 = 4;
const LIFE_SHIFT: u32 = 3;

/// One word of an operation: where it is (an offset in the pool), what it has to be, and what it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub address: u64,
    pub old: u64,
    pub new: u64,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its words are about to get pointers.
    Undecided = 0,
    /// All words get their new values.
    Succeeded = 1,
    /// All words keep their old values.
    Failed = 2,
}

/// The first word of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status(pub u64);

impl Status {
    pub fn new(life: u64, state: State) -> Self {
        Status(life << LIFE_SHIFT | state as u64)
    }

    /// Which operation it is: how many the descriptor had, with this one.
    #[inline(always)]
    pub fn life(self) -> u64 {
        self.0 >> LIFE_SHIFT
    }

    #[inline(always)]
    pub fn state(self) -> State {
        match self.0 & 3 {
            0 => State::Undecided,
            1 => State::Succeeded,
            _ => State::Failed,
        }
    }

    /// The decision may not be durable.
    pub fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    pub fn dirty(self) -> Self {
        Status(self.0 | DIRTY)
    }

    pub fn clean(self) -> Self {
        Status(self.0 & !DIRTY)
    }
}

/// What leads from a word to a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    Pointer { index: usize, life: u64 },
    Marker { index: usize, entry: usize },
}

/// A word's reference to a descriptor; none if the word is a value.
#[inline(always)]
pub(super) fn reference(word: u64) -> Option<Reference> {
    if word <= VALUE_MAX {
        return None;
    }
    let index = word as usize & (DESCRIPTOR_COUNT_MAX - 1);
    Some(if word & POINTER != 0 {
        Reference::Pointer { index, life: (word & VALUE_MAX) >> INDEX_BITS }
    } else {
        Reference::Marker { index, entry: (word >> INDEX_BITS) as usize & (WORD_COUNT_MAX - 1) }
    })
}

/// The pointer of a descriptor in one of its lives.
#[inline(always)]
pub(super) fn pointer(index: usize, life: u64) -> u64 {
    POINTER | (life << INDEX_BITS & VALUE_MAX) | index as u64
}

/// The marker of this number, for an entry of a descriptor.
#[inline(always)]
pub(super) fn marker(index: usize, entry: usize, number: u64) -> u64 {
    let place = (entry as u64) << INDEX_BITS | index as u64;
    MARKER | (number << NUMBER_SHIFT & VALUE_MAX) | place
}

/// Bytes of a descriptor whose entries have so many words, a multiple of a line.
pub(super) const fn descriptor_size(entry_words: usize) -> usize {
    used_size(entry_words, WORD_COUNT_MAX).next_multiple_of(64)
}

/// Bytes of it that an operation on so many words uses.
pub(super) const fn used_size(entry_words: usize, count: usize) -> usize {
    16 + 8 * entry_words * count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_leads_to_what_was_put_into_it() {
        for index in [0, 7, DESCRIPTOR_COUNT_MAX - 1] {
            for life in [0, 1, (1 << 49) - 1] {
                let expected = Some(Reference::Pointer { index, life });
                assert_eq!(reference(pointer(index, life)), expected);
            }
            for (entry, number) in [(0, 0), (3, 1), (2, (1 << 47) - 1)] {
                let expected = Some(Reference::Marker { index, entry });
                assert_eq!(reference(marker(index, entry, number)), expected);
            }
        }
        assert_eq!([0, 1, VALUE_MAX].map(reference), [None; 3]);
    }

    #[test]
    fn a_status_says_life_state_and_whether_it_is_durable() {
        for state in [State::Undecided, State::Succeeded, State::Failed] {
            let status = Status::new(9, state);
            assert_eq!((status.life(), status.state(), status.is_dirty()), (9, state, false));
            let dirty = status.dirty();
            assert_eq!((dirty.life(), dirty.state(), dirty.is_dirty()), (9, state, true));
            assert_eq!(dirty.clean(), status);
        }
    }

    #[test]
    fn published_descriptors_have_four_lines() {
        assert_eq!((descriptor_size(7), descriptor_size(3)), (256, 128));
        // Lines of operations on one to four words.
        let lines = |words| (1..=4).map(|count| used_size(words, count).div_ceil(64)).collect();
        let (published, compact): (Vec<usize>, Vec<usize>) = (lines(7), lines(3));
        assert_eq!((published, compact), (vec![2, 2, 3, 4], vec![1, 1, 2, 2]));
    }
}
