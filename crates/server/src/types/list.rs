//! The elements of a list: one entry each, by an index that goes on in both directions.
//!
//! The index of the first element is in the header, so that an element is one lookup, and pushing to either
//! side one entry. What is inserted or removed in the middle moves the shorter side.

use std::ops::{Bound, ControlFlow};

use super::collection::Collection;
use super::trimmed_key;
use crate::command::allowance::Allowance;
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

/// A side of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

impl Collection<'_, '_> {
    fn element_key(&self, at: u64) -> [u8; 16] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.header.id.to_be_bytes());
        key[8..].copy_from_slice(&self.header.extra.wrapping_add(at).to_be_bytes());
        key
    }

    /// Shows an element, counted from the left.
    pub fn element<R>(&mut self, at: u64, see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let key = self.element_key(at);
        self.staged.see_member(self.ready, &key, see)
    }

    /// Sets an element that is there.
    pub fn set_element(&mut self, at: u64, value: Option<&[u8]>) -> Result<()> {
        let key = self.element_key(at);
        self.staged.stage.write_member(&key, value)
    }

    /// Adds an element at a side.
    pub fn push(&mut self, side: Side, value: &[u8]) -> Result<()> {
        let at = match side {
            Side::Left => {
                self.header.extra = self.header.extra.wrapping_sub(1);
                0
            }
            Side::Right => self.header.count,
        };
        self.header.count += 1;
        self.set_element(at, Some(value))
    }

    /// Removes the element at a side.
    pub fn pop(&mut self, side: Side) -> Result<Option<Vec<u8>>> {
        let Some(last) = self.header.count.checked_sub(1) else { return Ok(None) };
        let at = if side == Side::Left { 0 } else { last };
        let key = self.element_key(at);
        let value = self.staged.next_element(self.ready, &key, side == Side::Right)?;
        match value {
            Some(_) => self.staged.stage.write_member(&key, None)?,
            None => self.write_lack()?,
        }
        self.header.extra = self.header.extra.wrapping_add(u64::from(side == Side::Left));
        self.header.count = last;
        Ok(value)
    }

    /// Notes that there is less than the header counts, so that nothing outside of the bounds is freed until the list goes.
    /// Whatever is noted now: a note of what was trimmed is removed by who frees that, while this step does not count yet,
    /// and would then be missing.
    fn write_lack(&mut self) -> Result<()> {
        self.staged.stage.write_member(&trimmed_key(self.header.id), Some(LACKING))
    }

    /// Removes so many elements at a side, if there are so many, in the order in which they go.
    pub fn pop_many(&mut self, side: Side, count: u64, allowance: &mut Allowance) -> Result<Texts> {
        let (total, mut popped) = (self.header.count, Texts::default());
        let count = count.min(total);
        if count <= REMOVED_COUNT_MAX {
            for _ in 0..count {
                let Some(element) = self.pop(side)? else { continue };
                allowance.spend_packed(element.len())?;
                popped.push(&element);
            }
            return Ok(popped);
        }
        let first = if side == Side::Left { 0 } else { total - count };
        self.walk_elements(first, first + count - 1, side == Side::Right, |_, value| {
            allowance.take_packed(value.len())?;
            popped.push(value);
            ControlFlow::Continue(())
        })?;
        allowance.check()?;
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
        let bounds = Bounds {
            start: Bound::Included(self.element_key(first).to_vec()),
            end: Bound::Included(self.element_key(last).to_vec()),
        };
        self.staged.walk_members(self.ready, &bounds, reverse, &mut |key, value| {
            let index = key.get(8..).and_then(|index| index.try_into().ok());
            visit(index.map_or(0, u64::from_be_bytes).wrapping_sub(start), value)
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

    fn write_from(&mut self, first: u64, values: &[Vec<u8>]) -> Result<()> {
        (first..).zip(values).try_for_each(|(at, value)| self.set_element(at, Some(value)))
    }

    /// Removes elements, told in ascending order.
    pub fn remove_elements(&mut self, removed: &[u64]) -> Result<()> {
        let (Some(&first), Some(&last)) = (removed.first(), removed.last()) else { return Ok(()) };
        let (count, gone) = (self.header.count, removed.len() as u64);
        if count - first <= last + 1 {
            let values = self.copies(first, count - first, removed)?;
            self.write_from(first, &values)?;
            (count - gone..count).try_for_each(|at| self.set_element(at, None))?;
        } else {
            let values = self.copies(0, last + 1, removed)?;
            self.write_from(gone, &values)?;
            (0..gone).try_for_each(|at| self.set_element(at, None))?;
            self.header.extra = self.header.extra.wrapping_add(gone);
        }
        self.header.count = count - gone;
        Ok(())
    }

    /// Adds an element before another, counted from the left.
    pub fn insert_element(&mut self, at: u64, value: &[u8]) -> Result<()> {
        let count = self.header.count;
        if count - at <= at {
            let values = self.copies(at, count - at, &[])?;
            self.write_from(at + 1, &values)?;
        } else {
            let values = self.copies(0, at, &[])?;
            self.header.extra = self.header.extra.wrapping_sub(1);
            self.write_from(0, &values)?;
        }
        self.header.count = count + 1;
        self.set_element(at, Some(value))
    }

    /// Keeps only the elements from one to, and with, another, which are there.
    pub fn keep_elements(&mut self, first: u64, last: u64) -> Result<()> {
        self.keep(first, last - first + 1)
    }

    fn keep(&mut self, first: u64, kept: u64) -> Result<()> {
        let count = self.header.count;
        if count - kept <= REMOVED_COUNT_MAX {
            (0..first).chain(first + kept..count).try_for_each(|at| self.set_element(at, None))?;
        } else {
            let key = trimmed_key(self.header.id);
            // Of a list that lacks elements nothing outside is freed: they may be there.
            let lacks = self.staged.see_member(self.ready, &key, |what| what == LACKING)?;
            if lacks != Some(true) {
                self.staged.stage.write_member(&key, Some(b""))?;
            }
        }
        self.header.extra = self.header.extra.wrapping_add(first);
        self.header.count = kept;
        Ok(())
    }

    /// Whether there are elements outside of the bounds that are still to be freed.
    pub(super) fn is_trimmed(&mut self) -> Result<bool> {
        let key = trimmed_key(self.header.id);
        Ok(self.staged.see_member(self.ready, &key, |_| ())?.is_some())
    }
}
