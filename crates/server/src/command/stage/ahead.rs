//! What a stage has read ahead: the next of those that commands take one by one, `LPOP` or `SPOP`.
//!
//! A pipeline of such commands takes neighbours. So the second read of a step reads a few more than the one that it was asked for,
//! those after it many more, and the commands in between find theirs in memory. What the store has is kept as it was read: that it
//! still is so is a condition of the step, as for everything that was read of a collection. What the stage itself writes comes
//! first everywhere.

use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};

use super::Staged;
use crate::command::walk::Bounds;
use crate::failure::Result;
use crate::short_bytes::ShortBytes;
use crate::types::Ready;

/// So many are read with the first, second and each further read, and so many bytes of them, but for the first.
const COUNTS: [usize; 3] = [1, 8, 32];
const SIZE: usize = 64 << 10;
/// Ends of lists of which the next elements are known; of further ones each is read by itself.
const END_COUNT_MAX: usize = 8;

/// What was read ahead.
#[derive(Default)]
pub struct Ahead {
    ends: Vec<End>,
    drawn: Drawn,
}

/// The next elements at an end of a list, as the store has them.
struct End {
    /// The number of the list, as its keys begin.
    list: [u8; 8],
    /// Whether they go against the order of the keys.
    reverse: bool,
    /// By their keys, in the order in which they are taken.
    elements: VecDeque<(ShortBytes, Vec<u8>)>,
    reads: usize,
}

impl End {
    /// The next element, if it is the one of this key.
    fn next(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let is_it = self.elements.front().is_some_and(|(next, _)| **next == *key);
        if is_it { self.elements.pop_front().map(|(_, value)| value) } else { None }
    }
}

/// How many to read with the read of this number, from 0 on.
fn count_of(read: usize) -> usize {
    COUNTS[read.min(COUNTS.len() - 1)]
}

/// Members of a set that were drawn.
#[derive(Default)]
struct Drawn {
    /// The number of the set.
    id: u64,
    /// The next one last.
    members: Vec<Vec<u8>>,
    reads: usize,
}

impl Ahead {
    /// An end of a list; `None` if so many others are known.
    fn end(&mut self, key: &[u8; 16], reverse: bool) -> Option<&mut End> {
        let is_it = |end: &End| end.reverse == reverse && end.list[..] == key[..8];
        let index = match self.ends.iter().position(is_it) {
            Some(index) => index,
            None if self.ends.len() == END_COUNT_MAX => return None,
            None => {
                let (mut list, elements) = ([0; 8], VecDeque::new());
                list.copy_from_slice(&key[..8]);
                self.ends.push(End { list, reverse, elements, reads: 0 });
                self.ends.len() - 1
            }
        };
        Some(&mut self.ends[index])
    }

    /// Forgets what was drawn: it may have been on the stage only.
    pub fn forget_drawn(&mut self) {
        self.drawn = Drawn::default();
    }

    /// A member of a set that was drawn before.
    pub fn next_drawn(&mut self, id: u64) -> Option<Vec<u8>> {
        if self.drawn.id == id { self.drawn.members.pop() } else { None }
    }

    /// How many members of a set should be drawn now.
    pub fn count_to_draw(&mut self, id: u64) -> usize {
        if self.drawn.id != id {
            self.drawn = Drawn { id, ..Drawn::default() };
        }
        self.drawn.reads += 1;
        count_of(self.drawn.reads - 1)
    }

    /// Takes members that were drawn of the set that was asked for last.
    pub fn keep_drawn(&mut self, members: Vec<Vec<u8>>) {
        self.drawn.members = members;
    }
}

impl Staged<'_> {
    /// What an element at an end of a list has, whose next ones lie in the order of the keys or against it.
    pub fn next_element(
        &mut self,
        ready: &Ready,
        key: &[u8; 16],
        reverse: bool,
    ) -> Result<Option<Vec<u8>>> {
        if let Some(value) = self.stage.members.get(key) {
            return Ok(value.map(<[u8]>::to_vec));
        }
        let Some(end) = self.stage.ahead.end(key, reverse) else {
            return self.see_member(ready, key, <[u8]>::to_vec);
        };
        if let Some(value) = end.next(key) {
            return Ok(Some(value));
        }
        let count = count_of(end.reads);
        end.reads += 1;
        if count == 1 {
            return self.see_member(ready, key, <[u8]>::to_vec);
        }
        end.elements.clear();
        let list = Bounds::of_prefix(&key[..8]);
        let here = Bound::Included(key.to_vec());
        let bounds = match reverse {
            false => Bounds { start: here, end: list.end },
            true => Bounds { start: list.start, end: here },
        };
        let (elements, mut size) = (&mut end.elements, 0);
        self.source.scan_members(&ready.members, &bounds, reverse, &mut |key, value| {
            // The one that was asked for may be of any size; what is read ahead stays.
            size += value.len();
            if size > SIZE && !elements.is_empty() {
                return ControlFlow::Break(());
            }
            elements.push_back((ShortBytes::from(key), value.to_vec()));
            match elements.len() == count || size > SIZE {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        Ok(end.next(key))
    }

    /// Whether a member is removed on the stage.
    pub fn is_removed(&self, key: &[u8]) -> bool {
        self.stage.members.get(key) == Some(None)
    }
}
