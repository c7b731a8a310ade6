//! Programs of operations, what safeguard they lack, and one operation at one step.

use super::leaf::{Key, Leaf, Shape, Value};
use super::place::{Answer, At};

/// What a thread is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Adds a pair if the key is absent.
    Insert(Key, Value),
    /// Changes the value if the key is present.
    Update(Key, Value),
    /// Removes the key.
    Remove(Key),
    /// Reads the value.
    Get(Key),
    /// Replaces the leaf by a copy without tombstones.
    Replace,
}

impl Operation {
    /// The key; 0 without one.
    pub fn key(self) -> Key {
        match self {
            Operation::Insert(key, _) | Operation::Update(key, _) => key,
            Operation::Remove(key) | Operation::Get(key) => key,
            Operation::Replace => 0,
        }
    }
}

/// A safeguard that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Insertion: the entry is made live before its fingerprint is there.
    LiveBeforeFingerprint,
    /// Insertion: a thread that helps a pending entry leaves the fingerprint to its owner.
    HelperSkipsFingerprint,
    /// Insertion: a chunk does not tell that keys went on to the next.
    NoOverflowBit,
    /// Insertion: it tells only when the key is there.
    OverflowBitAfterClaim,
    /// Lookup: the overflow bit is read before the fingerprints.
    OverflowBitReadFirst,
    /// Insertion: a position that is claimed but has no fingerprint yet is passed unread.
    PassesUnread,
    /// Insertion: the position of another key's tombstone is used again.
    ReusesTombstone,
    /// Removal: the tombstone's fingerprint is cleared.
    RemovalClearsFingerprint,
    /// Replacement: tombstones are not frozen.
    FreezeSkipsTombstones,
    /// Replacement: frozen empty positions keep a fingerprint of zero.
    FreezeLeavesZeroes,
    /// Replacement: a pending entry is frozen before its fingerprint is there.
    FreezeSkipsFingerprint,
    /// Get: a value is answered that may not be durable.
    ReadIsNotFlushed,
    /// Get: absence is answered from a tombstone that may not be durable.
    AbsenceIsNotFlushed,
    /// Writes: acknowledged before they are durable.
    WriteIsNotFlushed,
    /// Replacement: the new leaf is in use before it is durable that it replaces the old one.
    SwitchBeforeCommit,
    /// Replacement: the copy is not durable when it is committed.
    CopyIsNotFlushed,
    /// Get: a frozen entry is answered though its leaf may have been replaced.
    TrustsFrozen,
    /// Lookup: a leaf without a free position is believed though it may have been replaced.
    TrustsFullLeaf,
    /// Recovery: empty positions before a key in its probe order stay free.
    GapsStayFree,
}

/// A leaf, what threads do to it, and what safeguard is missing.
#[derive(Clone, Debug)]
pub struct Program {
    /// How large leaves are.
    pub shape: Shape,
    /// What is in the leaf before, durably, in the order in which it was inserted.
    pub before: Vec<(Key, Value)>,
    /// Of each thread.
    pub threads: Vec<Vec<Operation>>,
    /// What is missing.
    pub mutant: Option<Mutant>,
}

/// One operation at one step.
pub struct Step<'a> {
    pub program: &'a Program,
    pub shape: Shape,
    pub operation: Operation,
    pub key: Key,
    /// The probe order of the key.
    pub order: Vec<usize>,
}

impl Step<'_> {
    /// Whether a safeguard is missing.
    pub fn lacks(&self, mutant: Mutant) -> bool {
        self.program.mutant == Some(mutant)
    }

    /// The position at an index of the probe order.
    pub fn position(&self, index: u8) -> usize {
        self.order[usize::from(index)]
    }

    /// To end with this answer when the line of a position is durable.
    pub fn flush(&self, position: usize, answer: Answer) -> At {
        At::Flush((position / self.shape.line) as u8, answer)
    }

    /// Says in every chunk before that of an index that keys went on.
    pub fn mark_overflow(&self, leaf: &mut Leaf, index: u8) {
        for chunk in 0..usize::from(index) / self.shape.chunk {
            leaf.overflowed[self.order[chunk * self.shape.chunk] / self.shape.chunk] = true;
        }
    }
}

impl Step<'_> {
    /// Whether the flush before this answer is left out.
    pub fn skips_flush(&self, answer: Answer) -> bool {
        self.lacks(match answer {
            Answer::Value(None) => Mutant::AbsenceIsNotFlushed,
            Answer::Value(Some(_)) => Mutant::ReadIsNotFlushed,
            _ => Mutant::WriteIsNotFlushed,
        })
    }
}
