//! Ends of lists that a stage changes: the run at an end is in memory, and its entry is written once.
//!
//! A pipeline of `LPUSH` or `LPOP` changes one end of one list. What it pushes becomes one run, and what it takes comes
//! from one (`types/runs.rs`): to write each change would be to write the run again and again. So an end is *open* from
//! the first push or pop on, until something else looks at members, or the stage is written. Where a command of a
//! transaction begins, there is a copy of what is open, to go back to.
//!
//! Entries are read ahead: the second read of an end reads a few more than the one that it needs, those after it many
//! more. That what the store has still is so is a condition of the step, as for everything that was read of a
//! collection.
//!
//! A client that pushes one by one, and waits for each reply, makes a step of each: entries of one element, which take
//! more room and are slower to read than a run. So now and then what is pushed takes the elements beside it along that
//! lie one by one, and becomes a run with them.
//!
//! Invariants:
//! - L1 a list has at most one open end, and what it has in memory is not written: of its elements the stage has what
//!   it had before, which is the entry `origin`, and those that were read ahead are behind that one; of those that were
//!   joined to it the stage has the removal, until they are written as what they have become;
//! - L2 a command that changes or reads members of a list by other ways has its end written before.

use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};

use super::ahead::count_of;
use super::list_end::{Entry, ListEnd};
use super::{Stage, Staged};
use crate::failure::Result;
use crate::types::runs::{self, EntryKey, ListEntry, Side};
use crate::types::{Header, Ready};

/// With each read so many bytes of entries are read, but for the first entry.
const SIZE: usize = 64 << 10;
/// Open ends; with one more the oldest is written.
const END_COUNT_MAX: usize = 8;
/// Bytes that an element takes besides itself while it is in memory.
const ELEMENT_OVERHEAD: usize = 16;
/// So many elements that were pushed one by one become a run: every so many pushes those before are looked at.
const JOINED: u64 = 16;

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
                self.ends.push(ListEnd { is_kept: true, ..ListEnd::new(id, side) });
                self.ends.len() - 1
            }
        };
        if self.undo.is_some() {
            self.ends[index].keep(&mut self.ends_before);
        }
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
            let place = ListEntry { index, is_run: false };
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
        if self.undo.is_some() {
            end.keep(&mut self.ends_before);
        }
        let ListEnd { id, first, .. } = *end;
        if end.is_changed || end.is_taken && end.spans.is_empty() {
            if let Some(origin) = end.origin {
                self.set_member(&EntryKey::of(id, origin), None);
            }
            let elements = end.spans.iter().map(|span| &end.bytes[span.0..][..span.1]);
            let Ok(()) = runs::pack(first, elements, |place, entry| {
                self.set_member(&EntryKey::of(id, place), Some(entry));
                Ok::<(), std::convert::Infallible>(())
            });
        }
        self.size -= std::mem::take(&mut end.counted);
        end.spans.clear();
        end.bytes.clear();
        end.bytes.shrink_to(SIZE);
        (end.run_size, end.origin, end.is_changed, end.is_taken) = (0, None, false, false);
    }

    /// Notes that what the open end of a list has in memory is to be written as it is. Returns whether it ends with an
    /// index.
    pub fn rewrite_end(&mut self, id: u64, side: Side, index: u64) -> bool {
        let is_it = |end: &ListEnd| end.id == id && end.side == side && end.ends_with(index);
        let is_open = self.ends.iter().any(is_it);
        if is_open {
            self.open_end(id, side).is_changed = true;
        }
        is_open
    }

    /// Writes all open ends, and closes them.
    #[inline]
    pub fn write_ends(&mut self) {
        if !self.ends.is_empty() {
            let mut ends = std::mem::take(&mut self.ends);
            ends.iter_mut().for_each(|end| self.write_end(end));
        }
    }

    /// Begins anew to keep open ends as they are: each before it changes.
    pub(super) fn mark_ends(&mut self) {
        self.ends_before.clear();
        self.ends.iter_mut().for_each(|end| end.is_kept = false);
    }

    /// Makes the open ends what they were at the last mark.
    pub(super) fn roll_back_ends(&mut self) {
        self.ends.retain(|end| !end.is_kept);
        self.ends.append(&mut self.ends_before);
    }
}

impl Staged<'_> {
    /// Takes the element at an end of a list, and shows it; `None` if it is missing. Returns besides whether the entry
    /// at that end reaches out of the bounds then.
    pub fn take_element<R>(
        &mut self,
        ready: &Ready,
        list: &Header,
        side: Side,
        see: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<(R, bool)>> {
        let id = list.id;
        if !self.stage.open_end(id, side).ends_with(runs::end_of(list, side)) {
            self.stage.write_run(id);
            if !self.stage.open_end(id, side).load(list) {
                self.read_ahead(ready, list, side)?;
                if !self.stage.open_end(id, side).load(list) {
                    return Ok(None);
                }
            }
        }
        self.stage.change_count += 1;
        let end = self.stage.open_end(id, side);
        let (shown, reaches) = (end.take().map(see), end.reaches());
        if end.spans.is_empty() {
            // What is taken goes at once: it may be long, and is often put elsewhere.
            self.stage.write_run(id);
        }
        Ok(shown.map(|shown| (shown, reaches)))
    }

    /// Joins the elements that lie one by one beside those that the open end of a list has in memory to these, if they
    /// are a run together. It is looked for them once in so many pushes, by the index of what was pushed.
    #[inline]
    pub fn join_singles(
        &mut self,
        ready: &Ready,
        list: &Header,
        side: Side,
        index: u64,
    ) -> Result<()> {
        let due = if side == Side::Left { 0 } else { JOINED - 1 };
        if index % JOINED == due { self.join_beside(ready, list, side) } else { Ok(()) }
    }

    fn join_beside(&mut self, ready: &Ready, list: &Header, side: Side) -> Result<()> {
        // A long element is an entry at once, and the end has nothing then, or what is elsewhere.
        let last = runs::end_of(list, side);
        let is_it = |end: &&ListEnd| end.id == list.id && end.side == side && end.ends_with(last);
        let Some(end) = self.stage.ends.iter().find(is_it) else { return Ok(()) };
        let (len, mut size) = (end.spans.len() as u64, end.run_size);
        // Enough of them are a run without others; what was read, or would be rolled back, may be among the others.
        let is_fresh = end.origin.is_none() && end.ahead.is_empty() && self.stage.undo.is_none();
        let count = list.count.min(JOINED).saturating_sub(len);
        if !is_fresh || len >= runs::LEN_MIN as u64 || len + count < runs::LEN_MIN as u64 {
            return Ok(());
        }
        let (step, next) = match side {
            Side::Left => (1, end.first.wrapping_add(len)),
            Side::Right => (1_u64.wrapping_neg(), end.first.wrapping_sub(1)),
        };
        let place = |at: u64| {
            let index = next.wrapping_add(step.wrapping_mul(at));
            EntryKey::of(list.id, ListEntry { index, is_run: false })
        };
        // Lookups cost less than a scan, which puts whole leaves in order; and mostly a run is there, or all are.
        let mut found: Vec<Vec<u8>> = Vec::new();
        for at in 0..count {
            let copied = |element: &[u8]| runs::takes(1, size, element).then(|| element.to_vec());
            let Some(Some(element)) = self.see_member(ready, &place(at), copied)? else { break };
            size += runs::size_in_run(&element);
            found.push(element);
        }
        if len + (found.len() as u64) < runs::LEN_MIN as u64 {
            return Ok(());
        }
        for (element, at) in found.iter().zip(0..) {
            self.stage.set_member(&place(at), None);
            let end = self.stage.open_end(list.id, side);
            end.join(element);
            let size = element.len() + ELEMENT_OVERHEAD;
            end.counted += size;
            self.stage.size += size;
        }
        self.stage.check()
    }

    /// Reads the next entries at an end of a list, of which nothing is in memory.
    fn read_ahead(&mut self, ready: &Ready, list: &Header, side: Side) -> Result<()> {
        let (id, reaches) = (list.id, list.reaches[side as usize]);
        let end = self.stage.open_end(id, side);
        let mut count = count_of(end.reads);
        end.reads += 1;
        let mut bounds = end.bounds(list);
        let index = runs::end_of(list, side);
        if count == 1 && !reaches {
            // An element by itself is found by a lookup, which costs less than a scan.
            let place = ListEntry { index, is_run: false };
            let value = self.see_member(ready, &EntryKey::of(id, place), <[u8]>::to_vec)?;
            if let Some(value) = value {
                self.stage.open_end(id, side).ahead = VecDeque::from([Entry { place, value }]);
                return Ok(());
            }
        }
        let is_reverse = side == Side::Right || reaches;
        if side == Side::Left && reaches {
            // It is the last one that does not begin behind the element, and none of those before it is read.
            bounds.end = Bound::Included(EntryKey::behind(id, index).to_vec());
            count = 1;
        }
        let (mut entries, mut len, mut size) = (VecDeque::new(), 0, 0);
        self.walk_written(ready, &bounds, is_reverse, &mut |key, value| {
            let Some(place) = ListEntry::of_key(key) else { return ControlFlow::Break(()) };
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
