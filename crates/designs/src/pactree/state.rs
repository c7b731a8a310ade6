//! The states of a structure change: what its record in the log says, and what others do about it.
//!
//! ```text
//!              record          list and fences          search layer
//!              durable         durable                  durable
//!    (none) -----------> BEGUN ---------------> LINKED -------------> (none)
//! ```
//!
//! | state | locks | a search | after a crash |
//! |---|---|---|---|
//! | `BEGUN` split | both nodes | waits at the old node | the old node has the link: finished; else forgotten |
//! | `BEGUN` merge | both nodes | waits at the left node | the left node skips the right one: finished; else taken back |
//! | `LINKED` split | none | comes to the old node, and goes right | the search layer learns of it |
//! | `LINKED` merge | none | comes to the right node, and goes left | the same |
//!
//! While a record is `BEGUN` nobody but its writer has changed one of the two nodes, so line 0 of one of
//! them says how far the change has come.

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The upper half of `left` goes to `right`, which is new.
    Split,
    /// What `right` has goes to `left`.
    Merge,
}

/// A structure change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub kind: Kind,
    /// Offsets of the data nodes.
    pub left: u64,
    pub right: u64,
}

/// The first word of a record: `sequence << 2 | linked << 1 | is it a merge`; 0 for none. Sequence numbers
/// begin with 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    pub sequence: u64,
    pub is_linked: bool,
    pub kind: Kind,
}

impl Stage {
    /// The word of a stage.
    pub fn word(self) -> u64 {
        self.sequence << 2 | u64::from(self.is_linked) << 1 | u64::from(self.kind == Kind::Merge)
    }

    /// The stage of a word, if there is one.
    pub fn of(word: u64) -> Option<Self> {
        let kind = if word & 1 == 0 { Kind::Split } else { Kind::Merge };
        let stage = Stage { sequence: word >> 2, is_linked: word & 2 != 0, kind };
        (word != 0).then_some(stage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_it_was_made_of() {
        for kind in [Kind::Split, Kind::Merge] {
            for is_linked in [false, true] {
                let stage = Stage { sequence: 7, is_linked, kind };
                assert_eq!(Stage::of(stage.word()), Some(stage));
            }
        }
        assert_eq!(Stage::of(0), None);
    }
}
