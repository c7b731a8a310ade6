//! Where threads are, and what they are told.

use super::leaf::{Entry, Value};

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Of an insertion, update or removal: whether it changed anything.
    Done(bool),
    /// Of a get.
    Value(Option<Value>),
    /// Of a replacement.
    Replaced,
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Its next operation has not begun.
    Idle,
    /// Before it learns which leaf is the current one.
    Descend,
    /// In an insertion.
    Insert(InsertAt),
    /// In a lookup, by a get, an update or a removal.
    Lookup(LookupAt),
    /// In a replacement, its own or one that it helps.
    Replace(ReplaceAt),
    /// Before the flush of a line, behind which the operation ends.
    Flush(u8, Answer),
}

/// Where an insertion is. The numbers are indices of the probe order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InsertAt {
    /// Before it loads a fingerprint.
    Fingerprint(u8),
    /// Before it loads the entry, since the fingerprint is the key's or zero.
    Entry(u8),
    /// The position is free, but behind the key's own chunk: before that is said.
    Overflow(u8),
    /// Before it exchanges `Empty` for `Pending`.
    Claim(u8),
    /// It has claimed: before the fingerprint is stored.
    OwnFingerprint(u8),
    /// Before it exchanges `Pending` for `Live`.
    OwnLive(u8),
    /// Only with [`Mutant::OverflowBitAfterClaim`].
    LateOverflow(u8),
    /// Somebody else has claimed for the same key: before the fingerprint is stored.
    HelpFingerprint(u8),
    /// Before that entry is made live.
    HelpLive(u8, Entry),
    /// Before it exchanges a tombstone of the key for `Live`.
    Revive(u8, Entry),
}

impl InsertAt {
    pub fn first() -> InsertAt {
        InsertAt::Fingerprint(0)
    }
}

/// What a lookup has seen of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Seen {
    /// The index in the probe order at which the chunk begins.
    pub first: u8,
    /// Whether a fingerprint was zero.
    pub zero: bool,
    /// Which fingerprints match, by index within the chunk.
    pub matches: u8,
    /// The overflow bit, if it was read first.
    pub overflowed: bool,
}

/// Where a lookup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupAt {
    /// Before it loads the fingerprint of this index within the chunk.
    Fingerprint(u8, Seen),
    /// Before it reads the entry of the first match.
    Match(Seen),
    /// It has seen no key and a zero: before it loads the overflow bit.
    Overflow(Seen),
    /// The answer holds if the leaf is not replaced: before it looks. The line has to be durable.
    Successor(Answer, Option<u8>),
    /// Before it exchanges the entry at a position.
    Exchange(u8, Entry),
    /// Only with [`Mutant::RemovalClearsFingerprint`].
    Clear(u8),
}

impl LookupAt {
    pub fn first() -> LookupAt {
        LookupAt::Fingerprint(0, Seen::default())
    }
}

/// Where a replacement is. The numbers are positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplaceAt {
    /// Before it reads an entry and exchanges it for a frozen one.
    Freeze(u8),
    /// The entry is pending: before its fingerprint is stored.
    Fingerprint(u8, Entry),
    /// Before the pending entry is exchanged for a frozen one.
    FreezePending(u8, Entry),
    /// The position is frozen empty: before its fingerprint says so.
    Unused(u8),
    /// All is frozen: before it is copied, and the copy made durable.
    Copy,
    /// Before the copy, by number, becomes the successor if there is none.
    Commit(u8),
    /// Before it is durable which leaf is the successor.
    PersistCommit,
    /// Before the inner node names the successor.
    Switch,
}

impl ReplaceAt {
    pub fn first() -> ReplaceAt {
        ReplaceAt::Freeze(0)
    }
}

/// What follows a step.
pub enum Next {
    /// The operation goes on.
    Go(At),
    /// It ends.
    End(Answer),
    /// The leaf would have to be split, which is not in the model.
    OutOfModel,
}
