//! Requests of one kind that follow each other, to be done together.

use super::{GROUP_SIZE, Kind};

/// Consecutive requests of one kind, and where each of them ends.
pub(super) struct Group<'b> {
    pub(super) kind: Kind,
    pub(super) keys: [&'b [u8]; GROUP_SIZE],
    pub(super) values: [&'b [u8]; GROUP_SIZE],
    pub(super) ends: [usize; GROUP_SIZE],
    pub(super) len: usize,
}

impl<'b> Group<'b> {
    pub(super) fn new() -> Self {
        Group {
            kind: Kind::Get,
            keys: [b""; GROUP_SIZE],
            values: [b""; GROUP_SIZE],
            ends: [0; GROUP_SIZE],
            len: 0,
        }
    }

    /// True if a request of this kind may follow the others.
    pub(super) fn takes(&self, kind: Kind) -> bool {
        self.len == 0 || (self.kind == kind && self.len < GROUP_SIZE)
    }

    pub(super) fn push(&mut self, kind: Kind, key: &'b [u8], value: &'b [u8], end: usize) {
        self.kind = kind;
        self.keys[self.len] = key;
        self.values[self.len] = value;
        self.ends[self.len] = end;
        self.len += 1;
    }
}
