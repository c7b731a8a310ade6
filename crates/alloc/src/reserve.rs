//! Space that is promised before it is used, and what the simulated machine refuses of the rest.

use everleaf_machine::Machine;
use everleaf_pool::PoolError;

use crate::error::AllocError;
use crate::layout::BLOCK_CLASS_COUNT;
use crate::session::Session;

impl<M: Machine> Session<M> {
    /// Makes sure that the next `count` calls of [`Self::allocate_block`] succeed.
    ///
    /// # Errors
    /// The pool is full, or the disk is.
    pub fn reserve_blocks(&mut self, count: usize) -> Result<(), AllocError> {
        self.reserve_blocks_of(0, count)
    }

    /// Makes sure that the next `count` calls of [`Self::allocate_block_of`] this class succeed.
    ///
    /// # Errors
    /// The pool is full, or the disk is. Others can have what was found, then.
    pub fn reserve_blocks_of(&mut self, class: usize, count: usize) -> Result<(), AllocError> {
        // What was promised before stays promised.
        if M::SIMULATED && count > self.promised[class] {
            self.may_be_refused()?;
        }
        let before = self.blocks[class].len();
        while self.blocks[class].len() < count {
            if let Err(error) = self.refill_blocks(class) {
                // It may be enough for a merge, which makes room for more.
                let found = self.blocks[class].split_off(before);
                self.heap().clone().depot.lock().blocks[class].extend(found);
                return Err(error);
            }
        }
        self.promised[class] = self.promised[class].max(count);
        Ok(())
    }

    /// The operation for which blocks were reserved is over: what it has not used may go to any session that needs
    /// space.
    pub fn end_promises(&mut self) {
        self.promised = [0; BLOCK_CLASS_COUNT];
    }

    /// An error where the simulated machine refuses this request for space: as in a pool that is full.
    pub(crate) fn may_be_refused(&self) -> Result<(), AllocError> {
        if !M::refuses_space() {
            return Ok(());
        }
        let (needed, max) = (self.heap().pool().size(), self.heap().pool().max_size());
        Err(PoolError::PoolFull { path: "(memory)".into(), needed, max }.into())
    }

    /// Takes note of a call that was promised to succeed; an error where this one was not, and is refused.
    pub(crate) fn keep_promise(&mut self, class: usize) -> Result<(), AllocError> {
        let promised = &mut self.promised[class];
        if *promised == 0 {
            return self.may_be_refused();
        }
        *promised -= 1;
        // A caller that was promised one goes on to what must not fail: that another thread happens to have left one
        // is no promise kept.
        let is_kept = !M::SIMULATED || !self.blocks[class].is_empty();
        assert!(is_kept, "a block that was promised was given to others");
        Ok(())
    }
}
