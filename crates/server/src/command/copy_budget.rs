//! How much a command may copy before it answers.
//!
//! A request of a few bytes can ask for any amount: one field a million times, all members of a large set. So what a
//! command copies is counted here before it is copied. For a reply it may be no more than the reply itself: beyond
//! that the command fails as the reply would have. What goes into the reply at once needs no count, because a
//! [`Reply`] takes nothing once it is over its limit; its loops end as soon as it is.

use std::ops::ControlFlow;

use crate::failure::{Failure, Result};
use crate::resp::Reply;

/// Bytes that an item takes besides itself, with memory of its own.
const ITEM_OVERHEAD: usize = 64;
/// Bytes of the shortest item of a reply.
const REPLY_ITEM_SIZE_MIN: u64 = 6;

/// What may still be copied.
#[derive(Debug)]
pub struct CopyBudget {
    left: usize,
    is_over: bool,
}

impl CopyBudget {
    /// So many bytes, with what items take besides themselves.
    pub fn new(size: usize) -> Self {
        CopyBudget { left: size, is_over: false }
    }

    /// As much as a reply may still have.
    pub fn of(reply: &Reply<'_>) -> Self {
        Self::new(reply.room())
    }

    /// Counts an item of so many bytes that is about to be copied. Breaks if it may not be.
    pub fn take(&mut self, size: usize) -> ControlFlow<()> {
        self.take_exactly(size.saturating_add(ITEM_OVERHEAD))
    }

    /// As [`Self::take`] of one that is packed with others ([`Texts`](crate::texts::Texts)), which takes no more than
    /// the reply takes for it: none is refused that the reply could have.
    pub fn take_packed(&mut self, size: usize) -> ControlFlow<()> {
        self.take_exactly(size.saturating_add(REPLY_ITEM_SIZE_MIN as usize))
    }

    /// As [`Self::take`] of so many bytes and no more.
    pub fn take_exactly(&mut self, size: usize) -> ControlFlow<()> {
        match self.left.checked_sub(size) {
            Some(left) => {
                self.left = left;
                ControlFlow::Continue(())
            }
            None => {
                self.is_over = true;
                ControlFlow::Break(())
            }
        }
    }

    /// As much as this with room for what so many items take besides themselves, if that is no more again: a command
    /// that draws so many can keep them apart from the reply.
    pub fn beside(&self, count: u64) -> Option<Self> {
        let overhead = usize::try_from(count).ok()?.checked_mul(ITEM_OVERHEAD)?;
        (overhead <= self.left).then(|| Self::new(self.left.saturating_add(overhead)))
    }

    /// As [`Self::take`], where an item can be refused at once.
    pub fn spend(&mut self, size: usize) -> Result<()> {
        let _ = self.take(size);
        self.check()
    }

    /// As [`Self::take_packed`], where an item can be refused at once.
    pub fn spend_packed(&mut self, size: usize) -> Result<()> {
        let _ = self.take_packed(size);
        self.check()
    }

    /// Bytes that may still be copied.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Whether an item was refused.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Fails if an item was refused.
    pub fn check(&self) -> Result<()> {
        if self.is_over { Err(Failure::ReplyTooLong) } else { Ok(()) }
    }

    /// Fails if a reply of this size cannot have so many items.
    pub fn check_count(&self, count: u64) -> Result<()> {
        let fits = count <= self.left as u64 / REPLY_ITEM_SIZE_MIN;
        if fits { Ok(()) } else { Err(Failure::ReplyTooLong) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_stays_over() {
        let mut budget = CopyBudget::new(2 * ITEM_OVERHEAD + 10);
        assert!(budget.take(10).is_continue() && budget.check().is_ok());
        assert!(budget.take(1).is_break() && budget.is_over());
        assert!(budget.take(0).is_continue() && budget.check().is_err());
        assert!(CopyBudget::new(usize::MAX).take(usize::MAX).is_continue());
        assert!(CopyBudget::new(12).check_count(2).is_ok());
        assert!(CopyBudget::new(12).check_count(3).is_err());
    }
}
