//! The elements of a list, by an index that goes on in both directions: entries of one element, and runs of many
//! (`runs.rs`).
//!
//! The index of the first element is in the header, so that an element is one lookup, and pushing to either
//! side one entry, which a stage has in memory until its end (`stage/list_ends.rs`). What is inserted or removed in the
//! middle moves the shorter side.

use std::ops::{Bound, ControlFlow};

use super::collection::Collection;
use super::header::Header;
use super::notes::trimmed_key;
pub use super::runs::Side;
use super::runs::{self, EntryKey, ListEntry};
use crate::command::copy_budget::CopyBudget;
use crate::command::walk::Bounds;
use crate::failure::{Failure, Result};
use crate::texts::Texts;

/// Bytes of elements that are moved at once.
const MOVED_SIZE_MAX: usize = 256 << 20;
/// Bytes that an element takes besides itself.
const ELEMENT_OVERHEAD: usize = 24;

/// So many elements are removed with their command. Of more only the bounds of the list are changed, and what is
/// outside of them is freed later (`collector.rs`).
const REMOVED_COUNT_MAX: u64 = 512;
/// What a list that is noted among the trimmed ones has there if elements were missing that its bounds promise: then
/// what is outside of them need not be what was trimmed, and nothing is freed until the list goes.
pub(super) const LACKING: &[u8] = b"lacking";

impl Collection<'_, '_> {
    /// The index of an element, counted from the left.
    fn index_of(&self, at: u64) -> u64 {
        self.header.extra.wrapping_add(at)
    }

    /// Shows the entry that an element is in, if it is in one: where that begins, and what it has.
    fn see_entry<R>(
        &mut self,
        at: u64,
        see: impl FnOnce(ListEntry, &[u8]) -> R,
    ) -> Result<Option<R>> {
        let index = self.index_of(at);
        // An element by itself is found by a lookup, which costs less than a scan.
        self.staged.stage.write_ends();
        let (mut see, mut seen) = (Some(see), None);
        let single = ListEntry { index, is_run: false };
        let key = EntryKey::of(self.header.id, single);
        self.staged.see_member(self.ready, &key, |value| {
            seen = see.take().map(|see| see(single, value));
        })?;
        if seen.is_some() {
            return Ok(seen);
        }
        let bounds = self.entries_between(runs::begin_of(&self.header), index);
        self.staged.walk_members(self.ready, &bounds, true, &mut |key, value| {
            if let Some(place) = ListEntry::of_key(key)
                && let Ok(offset) = usize::try_from(index.wrapping_sub(place.index))
                && runs::spans(value, place.is_run).nth(offset).is_some()
            {
                seen = see.take().map(|see| see(place, value));
            }
            ControlFlow::Break(())
        })?;
        Ok(seen)
    }

    /// Shows an element, counted from the left.
    pub fn element<R>(&mut self, at: u64, see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let index = self.index_of(at);
        let shown = self.see_entry(at, |place, value| {
            let offset = index.wrapping_sub(place.index) as usize;
            runs::elements(value, place.is_run).nth(offset).map(see)
        })?;
        Ok(shown.flatten())
    }

    fn write_entry(&mut self, place: ListEntry, value: Option<&[u8]>) -> Result<()> {
        self.staged.stage.write_member(&EntryKey::of(self.header.id, place), value)
    }

    /// Writes elements from one on, counted from the left, in place of none.
    fn write_from<'e>(
        &mut self,
        at: u64,
        elements: impl Iterator<Item = &'e [u8]> + Clone,
    ) -> Result<()> {
        let index = self.index_of(at);
        runs::pack(index, elements, |place, entry| self.write_entry(place, Some(entry)))
    }

    /// Sets an element that is there.
    pub fn set_element(&mut self, at: u64, value: &[u8]) -> Result<()> {
        self.trim_both_ends()?;
        // An element by itself may be long, and is not looked at.
        let found =
            self.see_entry(at, |place, entry| place.is_run.then(|| (place, entry.to_vec())))?;
        let single = ListEntry { index: self.index_of(at), is_run: false };
        let Some((place, entry)) = found.flatten() else {
            return self.write_entry(single, Some(value));
        };
        let mut elements: Vec<&[u8]> = runs::elements(&entry, true).collect();
        elements[single.index.wrapping_sub(place.index) as usize] = value;
        self.write_entry(place, None)?;
        let elements = elements.into_iter();
        runs::pack(place.index, elements, |place, entry| self.write_entry(place, Some(entry)))
    }

    /// Adds an element at a side.
    pub fn push(&mut self, side: Side, value: &[u8]) -> Result<()> {
        match self.header.has_outside {
            true => self.trim_both_ends()?,
            false => self.trim_end(side)?,
        }
        self.make_room(side)?;
        let at = if side == Side::Left { 0 } else { self.header.count - 1 };
        let (id, index) = (self.header.id, self.index_of(at));
        self.staged.stage.push_element(id, side, index, value)?;
        self.staged.join_singles(self.ready, &self.header, side, index)
    }

    /// Makes the entry at a side end with the bounds: where something is put beside it, nothing of it may be.
    #[inline]
    fn trim_end(&mut self, side: Side) -> Result<()> {
        match self.header.reaches[side as usize] {
            true => self.write_trimmed(side),
            false => Ok(()),
        }
    }

    fn trim_both_ends(&mut self) -> Result<()> {
        self.trim_end(Side::Left)?;
        self.trim_end(Side::Right)
    }

    fn write_trimmed(&mut self, side: Side) -> Result<()> {
        let Header { id, count, .. } = self.header;
        let at = if side == Side::Left { 0 } else { count - 1 };
        let index = self.index_of(at);
        if !self.staged.stage.rewrite_end(id, side, index) {
            let found =
                self.see_entry(at, |place, entry| place.is_run.then(|| (place, entry.to_vec())))?;
            if let Some((place, entry)) = found.flatten() {
                let all: Vec<&[u8]> = runs::elements(&entry, true).collect();
                let inside = runs::inside(&self.header, place, all.len());
                if inside.len() < all.len() {
                    self.write_entry(place, None)?;
                    let index = place.index.wrapping_add(inside.start as u64);
                    let elements = all[inside].iter().copied();
                    runs::pack(index, elements, |place, entry| {
                        self.write_entry(place, Some(entry))
                    })?;
                }
            }
        }
        self.header.reaches[side as usize] = false;
        Ok(())
    }

    /// Widens the bounds by one element at a side.
    fn make_room(&mut self, side: Side) -> Result<()> {
        let index = match side {
            Side::Left => {
                self.header.extra = self.header.extra.wrapping_sub(1);
                self.header.extra
            }
            Side::Right => self.index_of(self.header.count),
        };
        self.header.count += 1;
        if !self.header.has_outside {
            return Ok(());
        }
        if !self.is_trimmed()? {
            // A thread that has freed the last of them leaves the header as it is.
            self.header.has_outside = self.has_entries_outside(index)?;
            if !self.header.has_outside {
                return Ok(());
            }
            // The note was lost, and with it what it said: nothing is freed until the list goes.
            self.write_lack()?;
        }
        // The elements of the end that is open are inside of the bounds: it may stay so.
        let bounds = self.entries_between(index, index);
        self.remove_inside(&bounds)
    }

    /// Whether there is an entry outside of the bounds, or where they were widened to.
    fn has_entries_outside(&mut self, widened: u64) -> Result<bool> {
        let id = self.header.id;
        let (first, last) = (self.index_of(0), self.index_of(self.header.count - 1));
        let (mut before, mut behind) =
            (Bounds::of_prefix(&id.to_be_bytes()), Bounds::of_prefix(&id.to_be_bytes()));
        before.end = Bound::Excluded(EntryKey::before(id, first).to_vec());
        behind.start = Bound::Excluded(EntryKey::behind(id, last).to_vec());
        let mut is_found = false;
        for bounds in [before, self.entries_between(widened, widened), behind] {
            self.staged.walk_members(self.ready, &bounds, false, &mut |_, _| {
                is_found = true;
                ControlFlow::Break(())
            })?;
        }
        Ok(is_found)
    }

    /// Removes the entries that begin at one of so many indexes.
    fn remove_entries(&mut self, index: u64, count: u64) -> Result<()> {
        let Some(rest) = count.checked_sub(1) else { return Ok(()) };
        self.staged.stage.write_ends();
        let bounds = self.entries_between(index, index.wrapping_add(rest));
        self.remove_inside(&bounds)
    }

    /// Where the entries are that begin at one of some indexes.
    fn entries_between(&self, first: u64, last: u64) -> Bounds {
        Bounds {
            start: Bound::Included(EntryKey::before(self.header.id, first).to_vec()),
            end: Bound::Included(EntryKey::behind(self.header.id, last).to_vec()),
        }
    }

    fn remove_inside(&mut self, bounds: &Bounds) -> Result<()> {
        let mut places = Vec::new();
        self.staged.walk_written(self.ready, bounds, false, &mut |key, _| {
            places.extend(ListEntry::of_key(key));
            ControlFlow::Continue(())
        })?;
        places.into_iter().try_for_each(|place| self.write_entry(place, None))
    }

    /// Makes an entry begin with an element, counted from the left, if there is one before it.
    fn divide(&mut self, at: u64) -> Result<()> {
        if at == 0 || at >= self.header.count {
            return Ok(());
        }
        let index = self.index_of(at);
        let found = self.see_entry(at, |place, entry| {
            (place.index != index).then(|| (place, entry.to_vec()))
        })?;
        let Some((place, entry)) = found.flatten() else { return Ok(()) };
        self.write_entry(place, None)?;
        let elements: Vec<&[u8]> = runs::elements(&entry, place.is_run).collect();
        let (before, behind) = elements.split_at(index.wrapping_sub(place.index) as usize);
        for (index, elements) in [(place.index, before), (index, behind)] {
            runs::pack(index, elements.iter().copied(), |place, entry| {
                self.write_entry(place, Some(entry))
            })?;
        }
        Ok(())
    }

    /// Removes so many elements from one on, counted from the left; the bounds stay.
    fn clear_from(&mut self, at: u64, count: u64) -> Result<()> {
        self.divide(at)?;
        self.divide(at.saturating_add(count))?;
        self.remove_entries(self.index_of(at), count)
    }

    /// Removes the element at a side, and shows it.
    pub fn pop<R>(&mut self, side: Side, see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let Some(last) = self.header.count.checked_sub(1) else { return Ok(None) };
        let taken = self.staged.take_element(self.ready, &self.header, side, see)?;
        match &taken {
            Some((_, reaches)) => self.header.reaches[side as usize] = *reaches,
            None => self.write_lack()?,
        }
        self.header.extra = self.header.extra.wrapping_add(u64::from(side == Side::Left));
        self.header.count = last;
        if last == 0 {
            self.header.reaches = [false; 2];
        }
        Ok(taken.map(|(shown, _)| shown))
    }

    /// Notes that there is less than the header counts, so that nothing outside of the bounds is freed until the list
    /// goes. Whatever is noted now: a note of what was trimmed is removed by the thread that frees that, while this
    /// step does not count yet, and would then be missing.
    fn write_lack(&mut self) -> Result<()> {
        self.header.has_outside = true;
        self.staged.stage.write_member(&trimmed_key(self.header.id), Some(LACKING))
    }

    /// Removes so many elements at a side, if there are so many, in the order in which they go.
    pub fn pop_many(&mut self, side: Side, count: u64, budget: &mut CopyBudget) -> Result<Texts> {
        let (total, mut popped) = (self.header.count, Texts::default());
        let count = count.min(total);
        if count <= REMOVED_COUNT_MAX {
            for _ in 0..count {
                let size = self.pop(side, |element| {
                    popped.push(element);
                    element.len()
                })?;
                budget.spend_packed(size.unwrap_or(0))?;
            }
            return Ok(popped);
        }
        let first = if side == Side::Left { 0 } else { total - count };
        self.walk_elements(first, first + count - 1, side == Side::Right, |_, value| {
            budget.take_packed(value.len())?;
            popped.push(value);
            ControlFlow::Continue(())
        })?;
        budget.check()?;
        let kept_first = if side == Side::Left { count } else { 0 };
        self.keep(kept_first, total - count)?;
        if (popped.len() as u64) < count {
            self.write_lack()?;
        }
        Ok(popped)
    }

    /// Visits the elements from one to, and with, another, or against their order.
    pub fn walk_elements(
        &mut self,
        first: u64,
        last: u64,
        reverse: bool,
        mut visit: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        if first > last {
            return Ok(());
        }
        let start = self.header.extra;
        // Its entry may begin before it.
        let begin = self.begin_at(first)?.unwrap_or(self.index_of(first));
        let bounds = self.entries_between(begin, self.index_of(last));
        let mut places = Vec::new();
        self.staged.walk_members(self.ready, &bounds, reverse, &mut |key, value| {
            let Some(place) = ListEntry::of_key(key) else { return ControlFlow::Continue(()) };
            let before = place.index.wrapping_sub(start);
            let mut show = |offset: usize, (at, size): (usize, usize)| {
                let number = before.wrapping_add(offset as u64);
                match (first..=last).contains(&number) {
                    true => visit(number, &value[at..][..size]),
                    false => ControlFlow::Continue(()),
                }
            };
            let mut elements = runs::spans(value, place.is_run).enumerate();
            if !reverse {
                return elements.try_for_each(|(offset, span)| show(offset, span));
            }
            places.clear();
            places.extend(elements);
            places.iter().rev().try_for_each(|(offset, span)| show(*offset, *span))
        })
    }

    /// Copies of elements, without some.
    fn copies(&mut self, first: u64, count: u64, without: &[u64]) -> Result<Vec<Vec<u8>>> {
        let (mut values, mut size) = (Vec::new(), 0);
        if count == 0 {
            return Ok(values);
        }
        self.walk_elements(first, first + count - 1, false, |at, value| {
            if without.binary_search(&at).is_err() {
                size += value.len() + ELEMENT_OVERHEAD;
                values.push(value.to_vec());
            }
            if size > MOVED_SIZE_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if size > MOVED_SIZE_MAX {
            return Err(Failure::text("OOM so many elements cannot be moved at once"));
        }
        Ok(values)
    }

    /// Removes elements, told in ascending order.
    pub fn remove_elements(&mut self, removed: &[u64]) -> Result<()> {
        let (Some(&first), Some(&last)) = (removed.first(), removed.last()) else { return Ok(()) };
        self.trim_both_ends()?;
        let (count, gone) = (self.header.count, removed.len() as u64);
        if count - first <= last + 1 {
            let values = self.copies(first, count - first, removed)?;
            self.clear_from(first, count - first)?;
            self.write_from(first, values.iter().map(Vec::as_slice))?;
        } else {
            let values = self.copies(0, last + 1, removed)?;
            self.clear_from(0, last + 1)?;
            self.write_from(gone, values.iter().map(Vec::as_slice))?;
            self.header.extra = self.header.extra.wrapping_add(gone);
        }
        self.header.count = count - gone;
        Ok(())
    }

    /// Adds an element before another, counted from the left.
    pub fn insert_element(&mut self, at: u64, value: &[u8]) -> Result<()> {
        self.trim_both_ends()?;
        let count = self.header.count;
        if count - at <= at {
            let values = self.copies(at, count - at, &[])?;
            self.clear_from(at, count - at)?;
            self.make_room(Side::Right)?;
            self.write_from(at + 1, values.iter().map(Vec::as_slice))?;
        } else {
            let values = self.copies(0, at, &[])?;
            self.clear_from(0, at)?;
            self.make_room(Side::Left)?;
            self.write_from(0, values.iter().map(Vec::as_slice))?;
        }
        self.write_from(at, std::iter::once(value))
    }

    /// Keeps only the elements from one to, and with, another, which are there.
    pub fn keep_elements(&mut self, first: u64, last: u64) -> Result<()> {
        self.keep(first, last - first + 1)
    }

    /// Only the bounds are changed, and entries that are outside of them as a whole go: in a full pool, too.
    fn keep(&mut self, first: u64, kept: u64) -> Result<()> {
        let (count, begin) = (self.header.count, self.begin_at(0)?.unwrap_or(self.index_of(0)));
        let (mut kept_begin, mut reaches) = (self.index_of(first), self.header.reaches);
        if kept == 0 {
            reaches = [false; 2];
        } else {
            if first > 0 {
                kept_begin = self.begin_at(first)?.unwrap_or(kept_begin);
                reaches[0] = kept_begin != self.index_of(first);
            } else {
                kept_begin = begin;
            }
            if first + kept < count {
                let end = self.see_entry(first + kept - 1, |place, entry| {
                    let len = runs::spans(entry, place.is_run).count();
                    place.index.wrapping_add(len as u64)
                })?;
                reaches[1] = end.is_some_and(|end| end != self.index_of(first + kept));
            }
        }
        if count - kept <= REMOVED_COUNT_MAX {
            self.remove_entries(begin, kept_begin.wrapping_sub(begin))?;
            self.remove_entries(self.index_of(first + kept), count - kept - first)?;
        } else {
            self.header.has_outside = true;
            let key = trimmed_key(self.header.id);
            // Of a list that lacks elements nothing outside is freed: they may be there.
            let lacks = self.staged.see_member(self.ready, &key, |what| what == LACKING)?;
            if lacks != Some(true) {
                self.staged.stage.write_member(&key, Some(b""))?;
            }
        }
        self.header.extra = self.header.extra.wrapping_add(first);
        (self.header.count, self.header.reaches) = (kept, reaches);
        Ok(())
    }

    /// Where the entry begins that an element is in.
    fn begin_at(&mut self, at: u64) -> Result<Option<u64>> {
        if at == 0 && !self.header.reaches[Side::Left as usize] {
            return Ok(None);
        }
        self.see_entry(at, |place, _| place.index)
    }

    /// Whether there are elements outside of the bounds that are still to be freed.
    pub(super) fn is_trimmed(&mut self) -> Result<bool> {
        let key = trimmed_key(self.header.id);
        Ok(self.staged.see_member(self.ready, &key, |_| ())?.is_some())
    }
}
