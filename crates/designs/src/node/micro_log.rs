//! The micro-log: which change of structure is under way, in a line of the pool each.
//!
//! ```text
//!   root object   | tag, head, images ... | log 0            | log 1            | log 2            |
//!   log      | check sum 32 | kind 32 | place | other | 0 ...
//! ```
//!
//! A change that takes more than one durable store to make writes first what recovery needs to finish
//! it or to take it back. A thread claims one of the logs for as long as that takes. The words of a
//! log lie on one line and the kind is stored last, so a log whose kind is durable is durable as a
//! whole; zero means that nothing is under way.

use everleaf_index::RootObject;
use everleaf_machine::{Machine, Ordering, SpinGuard, SpinLock};
use everleaf_pool::Medium;

/// Logs of a tree: so many structure changes can be under way at once.
pub const LOG_COUNT: usize = 3;

const WORDS_PER_LINE: usize = 8;

/// A structure change that is under way. Places are offsets of leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The leaf is being rewritten; the log's image holds it as it was. Recovery takes it back.
    Rewrite {
        /// The leaf.
        leaf: u64,
    },
    /// The upper entries of the leaf are complete in the new one. Recovery finishes.
    Split {
        /// The leaf that keeps the lower entries.
        leaf: u64,
        /// The leaf on its right.
        new: u64,
    },
    /// The empty leaf is being taken out of the list. Recovery finishes.
    Unlink {
        /// The leaf.
        leaf: u64,
        /// Its left neighbour.
        left: u64,
    },
}

impl Record {
    fn parts(self) -> (u32, u64, u64) {
        match self {
            Record::Rewrite { leaf } => (1, leaf, 0),
            Record::Split { leaf, new } => (2, leaf, new),
            Record::Unlink { leaf, left } => (3, leaf, left),
        }
    }

    fn encode(self) -> [u64; 3] {
        let (kind, leaf, other) = self.parts();
        [u64::from(check_sum(kind, leaf, other)) << 32 | u64::from(kind), leaf, other]
    }

    fn decode([word, leaf, other]: [u64; 3]) -> Option<Self> {
        let record = match word as u32 {
            1 => Record::Rewrite { leaf },
            2 => Record::Split { leaf, new: other },
            3 => Record::Unlink { leaf, left: other },
            _ => return None,
        };
        (record.encode()[0] == word).then_some(record)
    }
}

fn check_sum(kind: u32, leaf: u64, other: u64) -> u32 {
    let sum = crc32c::crc32c(&kind.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(sum, &leaf.to_le_bytes()), &other.to_le_bytes())
}

/// The logs of one tree.
pub struct MicroLogs<M: Machine> {
    root_object: RootObject<M>,
    medium: Medium<M>,
    claims: [SpinLock<(), M>; LOG_COUNT],
}

/// A claimed log.
pub struct Log<'l, M: Machine> {
    logs: &'l MicroLogs<M>,
    index: usize,
    _claim: SpinGuard<'l, (), M>,
}

impl<M: Machine> MicroLogs<M> {
    /// The logs in a root object.
    pub fn new(root_object: RootObject<M>, medium: Medium<M>) -> Self {
        MicroLogs { root_object, medium, claims: std::array::from_fn(|_| SpinLock::new(())) }
    }

    /// Claims a log, if possible the one of `hint`; waits when its holder is at work.
    pub fn claim(&self, hint: usize) -> Log<'_, M> {
        let index = hint % LOG_COUNT;
        for near in 0..LOG_COUNT {
            let index = (index + near) % LOG_COUNT;
            if let Some(claim) = self.claims[index].try_lock() {
                return Log { logs: self, index, _claim: claim };
            }
        }
        Log { logs: self, index, _claim: self.claims[index].lock() }
    }

    /// What was under way when the pool was last used, with the number of the log.
    ///
    /// # Errors
    /// A log that cannot have been written by us.
    pub fn pending(&self) -> Result<Vec<(usize, Record)>, String> {
        let mut found = vec![];
        for index in 0..LOG_COUNT {
            let words = [0, 1, 2].map(|word| self.word(index, word).read_private());
            if words[0] != 0 {
                let record = Record::decode(words)
                    .ok_or_else(|| format!("micro-log {index} holds {words:#x?}: not a record"))?;
                found.push((index, record));
            }
        }
        Ok(found)
    }

    /// Clears a log after recovery has dealt with it.
    pub fn clear(&self, index: usize) {
        let word = self.word(index, 0);
        // Relaxed: whatever the record was about is durable before, and nobody else reads the log.
        word.store(0, Ordering::Relaxed);
        if !M::mutant("micro_log.no_clear_flush") {
            // Persist: the end of the record before its leaf changes again, or recovery would repeat
            // an old change on it.
            self.medium.persist(word.as_ptr(), 8);
        }
    }

    fn word(&self, index: usize, word: usize) -> &everleaf_machine::Atomic<u64, M> {
        self.root_object.word((index + 1) * WORDS_PER_LINE + word)
    }
}

impl<M: Machine> Log<'_, M> {
    /// The number of the log.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Writes the record, durably.
    pub fn write(&self, record: Record) {
        let [kind, leaf, other] = record.encode();
        if M::mutant("micro_log.kind_first") {
            // Relaxed: a planted bug.
            self.logs.word(self.index, 0).store(kind, Ordering::Relaxed);
        }
        // Relaxed: published by the kind.
        self.logs.word(self.index, 1).store(leaf, Ordering::Relaxed);
        // Relaxed: published by the kind.
        self.logs.word(self.index, 2).store(other, Ordering::Relaxed);
        // Release: the kind last, also on the medium; recovery's view.
        self.logs.word(self.index, 0).store(kind, Ordering::Release);
        if !M::mutant("micro_log.no_record_flush") {
            // Persist: the record before the first store of the change, or recovery would not know of
            // it.
            self.logs.medium.persist(self.logs.word(self.index, 0).as_ptr(), 8);
        }
    }

    /// Ends the record, durably: the change is complete and durable.
    pub fn end(self) {
        self.logs.clear(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_encoding_and_no_flipped_bit_does() {
        let records = [
            Record::Rewrite { leaf: 4096 },
            Record::Split { leaf: 64, new: 1344 },
            Record::Unlink { leaf: 1 << 40, left: 7 },
        ];
        for record in records {
            let words = record.encode();
            assert_eq!(Record::decode(words), Some(record));
            for bit in 0..128 {
                let mut flipped = words;
                flipped[bit / 64] ^= 1 << (bit % 64);
                assert_eq!(Record::decode(flipped), None, "bit {bit}");
            }
        }
    }
}
