//! What the key of a collection holds: its header.

use super::places::MIDDLE;

/// Size of a header.
pub const HEADER_SIZE: usize = 56;
/// Size of the mark that a header begins with.
pub const MARK_SIZE: usize = 16;

/// The kind of a list that was last changed when there were no runs: it may have elements outside of its bounds.
const LIST_WITHOUT_RUNS: u8 = 4;

/// What a collection is, and the byte for it in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Hash = 1,
    Set = 2,
    SortedSet = 3,
    List = 5,
}

impl Kind {
    /// The kind of a byte in a header.
    pub fn of(byte: u8) -> Option<Kind> {
        if byte == LIST_WITHOUT_RUNS {
            return Some(Kind::List);
        }
        [Kind::Hash, Kind::Set, Kind::SortedSet, Kind::List]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }

    /// Whether clients wait for collections of this kind.
    pub fn is_waited_for(self) -> bool {
        matches!(self, Kind::SortedSet | Kind::List)
    }

    /// The name that `TYPE` tells.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::List => "list",
        }
    }
}

/// What the key of a collection holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    /// The number of the collection, which no other ever has.
    pub id: u64,
    /// Members.
    pub count: u64,
    /// Goes up with each change, so that equal headers mean equal members, unless a batch was rolled back in between.
    pub changes: u64,
    /// Of a sorted set: the levels of its order. Of a list: the index of its first element.
    pub extra: u64,
    /// Of a list: whether there may be elements outside of its bounds, which are in the way of those that are pushed
    /// there.
    pub has_outside: bool,
    /// Of a list: whether its first entry may begin before its first element, and its last one may end behind its last.
    /// Such elements are gone.
    pub reaches: [bool; 2],
}

/// In the header of a list: the bit that says that it may have elements outside of its bounds, and those of what may
/// reach out.
const OUTSIDE: u8 = 1;
const REACHES: [u8; 2] = [2, 4];

impl Header {
    /// That of a collection with nothing in it.
    pub fn of_new(kind: Kind, id: u64) -> Self {
        let extra = if kind == Kind::List { MIDDLE } else { 0 };
        Header { kind, id, count: 0, changes: 0, extra, has_outside: false, reaches: [false; 2] }
    }

    /// The header in a value of its size, whatever the mark.
    pub fn read_from(value: &[u8; HEADER_SIZE]) -> Option<Self> {
        let word = |at: usize| {
            u64::from_le_bytes(value[at..at + 8].try_into().expect("eight bytes are eight bytes"))
        };
        let kind = Kind::of(value[MARK_SIZE])?;
        let bits = value[MARK_SIZE + 1];
        let has_outside = value[MARK_SIZE] == LIST_WITHOUT_RUNS || bits & OUTSIDE != 0;
        let reaches = REACHES.map(|bit| bits & bit != 0);
        let (id, count, changes, extra) = (word(24), word(32), word(40), word(48));
        Some(Header { kind, id, count, changes, extra, has_outside, reaches })
    }

    /// Writes all but the mark to a value that holds a header.
    pub fn write_to(&self, value: &mut [u8; HEADER_SIZE]) {
        value[MARK_SIZE] = self.kind as u8;
        value[MARK_SIZE + 1] = (u8::from(self.has_outside) * OUTSIDE)
            | (u8::from(self.reaches[0]) * REACHES[0])
            | (u8::from(self.reaches[1]) * REACHES[1]);
        value[24..32].copy_from_slice(&self.id.to_le_bytes());
        value[32..40].copy_from_slice(&self.count.to_le_bytes());
        value[40..48].copy_from_slice(&self.changes.to_le_bytes());
        value[48..].copy_from_slice(&self.extra.to_le_bytes());
    }
}
