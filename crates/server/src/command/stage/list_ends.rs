//! Ends of lists that a stage changes: the run at an end is in memory, and its entry is written once.
//!
//! A pipeline of `LPUSH` or `LPOP` changes one end of one list. What it pushes becomes one run, and what it takes comes from one
//! (`types/runs.rs`): to write each change would be to write the run again and again. So an end is *open* from the first
//! push or pop on, until something else looks at members, or the stage is written. Where a command of a transaction begins, there
//! is a copy of what is open, to go back to.
//!
//! Entries are read ahead: the second read of an end reads a few more than the one that it needs, those after it many more. That what
//! the store has still is so is a condition of the step, as for everything that was read of a collection.
//!
//! Invariants:
//! - L1 a list has at most one open end, and what it has in memory is not written: of its elements the stage has what it had
//!   before, which is the entry `origin`, and those that were read ahead are behind that one;
//! - L2 whoever changes or reads members of a list by other ways has its end written before.

use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};

use super::{Stage, Staged};
use crate::command::walk::Bounds;
use crate::failure::Result;
use crate::types::Ready;
use crate::types::runs::{self, EntryKey, Place, Side};

/// Entries with so many elements are read with the first, second and each further read, and so many bytes of them, but for the
/// first entry.
const COUNTS: [usize; 3] = [1, 8, 32];
const SIZE: usize = 64 << 10;
/// Open ends; with one more the oldest is written.
const END_COUNT_MAX: usize = 8;
/// Elements, and bytes of them, that there is room for from the start.
const FIRST_LEN: usize = 32;
const FIRST_SIZE: usize = 256;
/// Bytes that an element takes besides itself while it is in memory.
const ELEMENT_OVERHEAD: usize = 16;

/// So many are read with the read of this number, from 0 on.
pub(super) fn count_of(read: usize) -> usize {
    COUNTS[read.min(COUNTS.len() - 1)]
}

/// An entry that was read ahead.
struct Entry {
    place: Place,
    value: Vec<u8>,
}

/// The end of a list that is open.
pub(super) struct ListEnd {
    /// The number of the list.
    id: u64,
    side: Side,
    /// The index of the first element in memory.
    first: u64,
    /// The elements in memory, which are neighbours: where they begin in the bytes, and their sizes.
    spans: VecDeque<(usize, usize)>,
    bytes: Vec<u8>,
    /// Bytes that they take in a run.
    run_size: usize,
    /// The entry that they come from, if one.
    origin: Option<Place>,
    is_changed: bool,
    /// How many were taken since they are in memory.
    taken: usize,
    /// What was counted of them on the stage.
    counted: usize,
    /// The next entries, in the order in which they are taken.
    ahead: VecDeque<Entry>,
    reads: usize,
}

impl ListEnd {
    fn new(id: u64, side: Side) -> Self {
        ListEnd {
            id,
            side,
            first: 0,
            spans: VecDeque::new(),
            bytes: Vec::new(),
            run_size: 0,
            origin: None,
            is_changed: false,
            taken: 0,
            counted: 0,
            ahead: VecDeque::new(),
            reads: 0,
        }
    }

    /// Whether an element can be put at an index.
    #[inline]
    fn takes(&self, index: u64, element: &[u8]) -> bool {
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
    fn put(&mut self, index: u64, element: &[u8]) {
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

    /// Whether the element of an index is the one at the end.
    #[inline]
    fn ends_with(&self, index: u64) -> bool {
        let last = match self.side {
            Side::Left => self.first,
            Side::Right => self.first.wrapping_add(self.spans.len() as u64).wrapping_sub(1),
        };
        !self.spans.is_empty() && last == index
    }

    /// Takes the element at the end.
    #[inline]
    fn take(&mut self) -> Option<&[u8]> {
        let (at, size) = match self.side {
            Side::Left => self.spans.pop_front(),
            Side::Right => self.spans.pop_back(),
        }?;
        self.first = self.first.wrapping_add(u64::from(self.side == Side::Left));
        self.is_changed = true;
        self.taken += 1;
        let element = &self.bytes[at..][..size];
        self.run_size -= runs::size_in_run(element);
        Some(element)
    }

    /// Takes the next entry that was read ahead, if the element of this index, which is the one at the end, is in it.
    fn load(&mut self, index: u64) -> bool {
        let Some(Entry { place, .. }) = self.ahead.front() else { return false };
        let offset = index.wrapping_sub(place.index);
        if offset >= runs::LEN_MAX as u64 || self.side == Side::Left && offset > 0 {
            return false;
        }
        let Some(Entry { place, value }) = self.ahead.pop_front() else { return false };
        self.spans.clear();
        self.spans.extend(runs::spans(&value, place.is_run));
        if self.side == Side::Right {
            // Of a damaged list it may reach out of the bounds.
            self.spans.truncate(offset as usize + 1);
        }
        self.run_size =
            self.spans.iter().map(|span| runs::size_in_run(&value[span.0..][..span.1])).sum();
        self.bytes = value;
        (self.first, self.origin, self.is_changed) = (place.index, Some(place), false);
        self.taken = 0;
        self.ends_with(index)
    }

    /// Where the entries begin from the one with an element on, in the order in which they are taken. The list begins at `start`.
    fn bounds(&self, start: u64, index: u64) -> Bounds {
        let begin = if self.side == Side::Left { index } else { start };
        let start = Bound::Included(EntryKey::before(self.id, begin).to_vec());
        match self.side {
            Side::Left => Bounds { start, ..Bounds::of_prefix(&self.id.to_be_bytes()) },
            Side::Right => {
                Bounds { start, end: Bound::Included(EntryKey::behind(self.id, index).to_vec()) }
            }
        }
    }

    /// A copy without what was read ahead, which is found again.
    fn copy(&self) -> ListEnd {
        let mut copy = ListEnd::new(self.id, self.side);
        copy.spans.reserve(self.spans.len());
        copy.bytes.reserve(self.run_size);
        for (at, size) in &self.spans {
            copy.spans.push_back((copy.bytes.len(), *size));
            copy.bytes.extend_from_slice(&self.bytes[*at..][..*size]);
        }
        (copy.first, copy.run_size, copy.origin) = (self.first, self.run_size, self.origin);
        (copy.is_changed, copy.taken) = (self.is_changed, self.taken);
        (copy.counted, copy.reads) = (self.counted, self.reads);
        copy
    }

    /// Whether it has what is to be written.
    pub(super) fn is_changed(&self) -> bool {
        self.is_changed
    }
}

impl Stage {
    /// The end of a list, open.
    fn open_end(&mut self, id: u64, side: Side) -> &mut ListEnd {
        let index = match self.ends.iter().position(|end| end.id == id) {
            Some(index) if self.ends[index].side == side => index,
            found => {
                if found.is_some() || self.ends.len() == END_COUNT_MAX {
                    let mut end = self.ends.remove(found.unwrap_or(0));
                    self.write_end(&mut end);
                }
                self.ends.push(ListEnd::new(id, side));
                self.ends.len() - 1
            }
        };
        &mut self.ends[index]
    }

    /// Puts an element beside the one at an end of a list.
    pub fn push_element(&mut self, id: u64, side: Side, index: u64, element: &[u8]) -> Result<()> {
        self.change_count += 1;
        let is_long = runs::size_in_run(element) > runs::SIZE_MAX;
        if is_long || !self.open_end(id, side).takes(index, element) {
            self.write_run(id);
        }
        if is_long {
            // It is an entry by itself, and is copied once.
            let place = Place { index, is_run: false };
            self.set_member(&EntryKey::of(id, place), Some(element));
            return self.check();
        }
        let end = self.open_end(id, side);
        end.put(index, element);
        let size = element.len() + ELEMENT_OVERHEAD;
        end.counted += size;
        self.size += size;
        self.check()
    }

    /// Writes the elements that the open end of a list has in memory. What was read ahead stays.
    fn write_run(&mut self, id: u64) {
        let Some(index) = self.ends.iter().position(|end| end.id == id) else { return };
        let mut end = self.ends.swap_remove(index);
        self.write_end(&mut end);
        self.ends.push(end);
    }

    fn write_end(&mut self, end: &mut ListEnd) {
        let ListEnd { id, first, .. } = *end;
        if end.is_changed {
            if let Some(origin) = end.origin {
                self.set_member(&EntryKey::of(id, origin), None);
            }
            let elements = end.spans.iter().map(|span| &end.bytes[span.0..][..span.1]);
            let is_rest = end.origin.is_some_and(|origin| origin.is_run);
            let write = |place, entry: &[u8]| {
                self.set_member(&EntryKey::of(id, place), Some(entry));
                Ok::<(), std::convert::Infallible>(())
            };
            // So few are likely to be followed by others, each in a step of its own.
            let Ok(()) = match is_rest && (1..runs::LEN_MIN).contains(&end.taken) {
                true => runs::pack_beside(end.side, first, elements, write),
                false => runs::pack(first, elements, write),
            };
        }
        self.size -= std::mem::take(&mut end.counted);
        end.spans.clear();
        end.bytes.clear();
        (end.run_size, end.origin, end.is_changed, end.taken) = (0, None, false, 0);
    }

    /// Writes all open ends, and closes them.
    #[inline]
    pub fn write_ends(&mut self) {
        if !self.ends.is_empty() {
            let mut ends = std::mem::take(&mut self.ends);
            ends.iter_mut().for_each(|end| self.write_end(end));
        }
    }

    /// The open ends as they are, without what was read ahead.
    pub(super) fn copy_ends(&self) -> Vec<ListEnd> {
        self.ends.iter().map(ListEnd::copy).collect()
    }
}

impl Staged<'_> {
    /// Takes the element at an end of a list, which has this index, and shows it. `None` if it is missing. The list begins at
    /// `start`.
    pub fn take_element<R>(
        &mut self,
        ready: &Ready,
        id: u64,
        side: Side,
        start: u64,
        index: u64,
        see: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        if !self.stage.open_end(id, side).ends_with(index) {
            self.stage.write_run(id);
            if !self.stage.open_end(id, side).load(index) {
                self.read_ahead(ready, id, side, start, index)?;
                if !self.stage.open_end(id, side).load(index) {
                    return Ok(None);
                }
            }
        }
        self.stage.change_count += 1;
        Ok(self.stage.open_end(id, side).take().map(see))
    }

    /// Reads the next entries at an end of a list, of which nothing is in memory.
    fn read_ahead(
        &mut self,
        ready: &Ready,
        id: u64,
        side: Side,
        start: u64,
        index: u64,
    ) -> Result<()> {
        let end = self.stage.open_end(id, side);
        let count = count_of(end.reads);
        end.reads += 1;
        let bounds = end.bounds(start, index);
        if count == 1 {
            // An element by itself is found by a lookup, which costs less than a scan.
            let place = Place { index, is_run: false };
            let value = self.see_member(ready, &EntryKey::of(id, place), <[u8]>::to_vec)?;
            if let Some(value) = value {
                self.stage.open_end(id, side).ahead = VecDeque::from([Entry { place, value }]);
                return Ok(());
            }
        }
        let (mut entries, mut len, mut size) = (VecDeque::new(), 0, 0);
        self.walk_written(ready, &bounds, side == Side::Right, &mut |key, value| {
            let Some(place) = Place::of_key(key) else { return ControlFlow::Break(()) };
            // The one that was asked for may be of any size; what is read ahead stays.
            size += value.len();
            if size > SIZE && !entries.is_empty() {
                return ControlFlow::Break(());
            }
            entries.push_back(Entry { place, value: value.to_vec() });
            len += runs::spans(value, place.is_run).count();
            match len >= count || size > SIZE {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        self.stage.open_end(id, side).ahead = entries;
        Ok(())
    }
}
