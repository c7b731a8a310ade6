//! The open end of a list: what a stage has of it in memory (`list_ends.rs`).

use std::collections::VecDeque;
use std::ops::Bound;

use crate::command::walk::Bounds;
use crate::types::Header;
use crate::types::runs::{self, EntryKey, ListEntry, Side};

/// Elements, and bytes of them, that there is room for from the start.
const FIRST_LEN: usize = 32;
const FIRST_SIZE: usize = 256;

/// An entry that was read ahead.
pub struct Entry {
    pub place: ListEntry,
    pub value: Vec<u8>,
}

/// The end of a list that is open.
pub struct ListEnd {
    /// The number of the list.
    pub id: u64,
    pub side: Side,
    /// The index of the first element in memory.
    pub first: u64,
    /// The elements in memory, which are neighbours: where they begin in the bytes, and their sizes.
    pub spans: VecDeque<(usize, usize)>,
    pub bytes: Vec<u8>,
    /// Bytes that they take in a run.
    pub run_size: usize,
    /// The entry that they come from, if one.
    pub origin: Option<ListEntry>,
    /// Whether they are to be written, and not only to be taken from where they are.
    pub is_changed: bool,
    /// Whether some were taken.
    pub is_taken: bool,
    /// Whether what it was at the last mark is kept, or it was not open then.
    pub is_kept: bool,
    /// What was counted of them on the stage.
    pub counted: usize,
    /// The next entries, in the order in which they are taken.
    pub ahead: VecDeque<Entry>,
    pub reads: usize,
}

impl ListEnd {
    /// An end with nothing in memory.
    pub fn new(id: u64, side: Side) -> Self {
        ListEnd {
            id,
            side,
            first: 0,
            spans: VecDeque::new(),
            bytes: Vec::new(),
            run_size: 0,
            origin: None,
            is_changed: false,
            is_taken: false,
            is_kept: false,
            counted: 0,
            ahead: VecDeque::new(),
            reads: 0,
        }
    }

    /// Whether an element can be put at an index.
    #[inline]
    pub fn takes(&self, index: u64, element: &[u8]) -> bool {
        let next = match self.side {
            Side::Left => self.first.wrapping_sub(1),
            Side::Right => self.first.wrapping_add(self.spans.len() as u64),
        };
        // What comes from an entry that has become empty goes first.
        let is_next = match self.spans.is_empty() {
            true => self.origin.is_none(),
            false => index == next,
        };
        is_next && (self.spans.is_empty() || runs::takes(self.spans.len(), self.run_size, element))
    }

    /// Puts an element at an index that [`Self::takes`] it.
    #[inline]
    pub fn put(&mut self, index: u64, element: &[u8]) {
        if self.spans.is_empty() {
            self.spans.reserve(FIRST_LEN);
            self.bytes.reserve(element.len().max(FIRST_SIZE));
        }
        let span = (self.bytes.len(), element.len());
        self.bytes.extend_from_slice(element);
        if self.spans.is_empty() || self.side == Side::Left {
            self.first = index;
        }
        match self.side {
            Side::Left => self.spans.push_front(span),
            Side::Right => self.spans.push_back(span),
        }
        self.run_size += runs::size_in_run(element);
        self.is_changed = true;
    }

    /// Puts an element at the other end of those in memory, where its neighbour is.
    pub fn join(&mut self, element: &[u8]) {
        let span = (self.bytes.len(), element.len());
        self.bytes.extend_from_slice(element);
        match self.side {
            Side::Left => self.spans.push_back(span),
            Side::Right => {
                self.spans.push_front(span);
                self.first = self.first.wrapping_sub(1);
            }
        }
        self.run_size += runs::size_in_run(element);
        self.is_changed = true;
    }

    /// Whether the element of an index is the one at the end.
    #[inline]
    pub fn ends_with(&self, index: u64) -> bool {
        let last = match self.side {
            Side::Left => self.first,
            Side::Right => self.first.wrapping_add(self.spans.len() as u64).wrapping_sub(1),
        };
        !self.spans.is_empty() && last == index
    }

    /// Takes the element at the end.
    #[inline]
    pub fn take(&mut self) -> Option<&[u8]> {
        let (at, size) = match self.side {
            Side::Left => self.spans.pop_front(),
            Side::Right => self.spans.pop_back(),
        }?;
        self.first = self.first.wrapping_add(u64::from(self.side == Side::Left));
        self.is_taken = true;
        let element = &self.bytes[at..][..size];
        self.run_size -= runs::size_in_run(element);
        Some(element)
    }

    /// Takes the next entry that was read ahead, if the element at the end of the list is in it.
    pub fn load(&mut self, list: &Header) -> bool {
        let index = runs::end_of(list, self.side);
        let Some(Entry { place, .. }) = self.ahead.front() else { return false };
        let offset = index.wrapping_sub(place.index);
        let is_within = self.side == Side::Right || list.reaches[self.side as usize];
        if offset >= runs::LEN_MAX as u64 || offset > 0 && !is_within {
            return false;
        }
        let Some(Entry { place, value }) = self.ahead.pop_front() else { return false };
        self.spans.clear();
        self.spans.extend(runs::spans(&value, place.is_run));
        // The others are gone.
        let inside = runs::inside(list, place, self.spans.len());
        self.spans.truncate(inside.end);
        self.spans.drain(..inside.start);
        self.run_size =
            self.spans.iter().map(|span| runs::size_in_run(&value[span.0..][..span.1])).sum();
        self.bytes = value;
        self.first = place.index.wrapping_add(inside.start as u64);
        (self.origin, self.is_changed, self.is_taken) = (Some(place), false, false);
        self.ends_with(index)
    }

    /// Where the entries are from the one at the end of the list on, and no further than the list: what is outside of
    /// it, until it is freed, is no element, and others are put in its place.
    pub fn bounds(&self, list: &Header) -> Bounds {
        let behind = EntryKey::behind(self.id, runs::end_of(list, Side::Right));
        Bounds {
            start: Bound::Included(EntryKey::before(self.id, runs::begin_of(list)).to_vec()),
            end: Bound::Included(behind.to_vec()),
        }
    }

    /// Whether what is left of the entry at the end is where it was, and so reaches out of the bounds.
    pub fn reaches(&self) -> bool {
        self.origin.is_some_and(|origin| origin.is_run)
            && !self.is_changed
            && !self.spans.is_empty()
    }

    /// A copy without what was read ahead, which is found again.
    pub fn copy(&self) -> ListEnd {
        let mut copy = ListEnd::new(self.id, self.side);
        copy.spans.reserve(self.spans.len());
        copy.bytes.reserve(self.run_size);
        for (at, size) in &self.spans {
            copy.spans.push_back((copy.bytes.len(), *size));
            copy.bytes.extend_from_slice(&self.bytes[*at..][..*size]);
        }
        (copy.first, copy.run_size, copy.origin) = (self.first, self.run_size, self.origin);
        (copy.is_changed, copy.is_taken) = (self.is_changed, self.is_taken);
        (copy.counted, copy.reads) = (self.counted, self.reads);
        copy
    }

    /// Keeps what it is among those of the last mark, if this is the first change since then.
    pub fn keep(&mut self, kept: &mut Vec<ListEnd>) {
        if !std::mem::replace(&mut self.is_kept, true) {
            kept.push(self.copy());
        }
    }

    /// Whether it has what is to be written.
    pub fn is_changed(&self) -> bool {
        self.is_changed || self.is_taken
    }
}
