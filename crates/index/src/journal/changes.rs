//! The changes of a batch: made ready, made, and rolled back.

use everleaf_alloc::layout::BLOCK_CLASS_COUNT;
use everleaf_alloc::{AllocError, Session};
use everleaf_machine::Machine;

use super::{BatchOp, NotMade};
use crate::api::error::IndexError;
use crate::bytes::change::What;
use crate::bytes::staged_write::{StagedChange, StagedExpiry, StagedWrite, free_payload};
use crate::geometry::Geometry;

/// Leaf blocks that are put by before a batch begins, at most.
const RESERVE_MAX: usize = 256;
/// Changes that are made under one pin: what a batch replaces can be used again by the same batch, so
/// that it needs no more space than its changes one by one.
const PIN_LENGTH: usize = 256;

/// So many of them: few on a simulated machine, so that batches have several pins.
const fn pin_length<M: Machine>() -> usize {
    if M::SIMULATED { 2 } else { PIN_LENGTH }
}

/// The changes of a batch, those that need space first.
pub(crate) struct Changes<'a, G: Geometry, M: Machine> {
    all: Vec<StagedWrite<'a, G, M>>,
    /// How many of them are puts.
    puts: usize,
    /// Expiries that are changed in place when all of these are made.
    expiries: Vec<StagedExpiry<'a, G, M>>,
    /// What those that were made replaced.
    olds: Vec<Option<u64>>,
}

impl<'a, G: Geometry, M: Machine> Changes<'a, G, M> {
    pub(crate) fn with_capacity(count: usize) -> Self {
        Changes {
            all: Vec::with_capacity(count),
            puts: 0,
            expiries: vec![],
            olds: Vec::with_capacity(count),
        }
    }

    /// Everything that needs space: the records of all values, and some blocks. Whatever was prepared
    /// when it fails stays here.
    pub(super) fn prepare(
        &mut self,
        session: &mut Session<M>,
        operations: &[BatchOp<'a, G, M>],
    ) -> Result<(), IndexError> {
        self.prepare_without_blocks(session, operations)?;
        let has_expiries = operations.iter().any(|operation| operation.change.what == What::Expire);
        if self.puts <= 1 && !has_expiries {
            // The put comes first (J8).
            return Ok(());
        }
        for (class, puts) in self.puts_by_class(session)?.into_iter().enumerate() {
            if let Some(puts) = puts {
                session.reserve_blocks_of(class, (2 * puts + 2).min(RESERVE_MAX >> class))?;
            }
        }
        Ok(())
    }

    /// The records of all values. Behind the puts come the expiries that have to be written again, and removals last:
    /// they need no space, so nothing that was removed ever has to be rolled back.
    pub(crate) fn prepare_without_blocks(
        &mut self,
        session: &mut Session<M>,
        operations: &[BatchOp<'a, G, M>],
    ) -> Result<(), IndexError> {
        let (mut expiries, mut removals) = (0, 0);
        for operation in operations {
            match operation.change.what {
                What::Expire => expiries += 1,
                What::Remove => removals += 1,
                _ => self.all.push(operation.prepare(session)?),
            }
        }
        if expiries > 0 {
            self.prepare_expiries(session, operations)?;
        }
        self.puts = self.all.len();
        if removals > 0 && !M::mutant("journal.forgets_removals") {
            let is_removal = |operation: &&BatchOp<'a, G, M>| operation.change.what == What::Remove;
            for operation in operations.iter().filter(is_removal) {
                self.all.push(operation.prepare(session)?);
            }
        }
        Ok(())
    }

    #[cold]
    fn prepare_expiries(
        &mut self,
        session: &mut Session<M>,
        operations: &[BatchOp<'a, G, M>],
    ) -> Result<(), IndexError> {
        let is_expiry = |operation: &&BatchOp<'a, G, M>| operation.change.what == What::Expire;
        for BatchOp { tree, change, .. } in operations.iter().filter(is_expiry) {
            match tree.prepare_expiry(session, change.key, change.expiry_ms)? {
                Some(StagedChange::InPlace(expiry)) => {
                    if M::mutant("journal.expires_first") {
                        expiry.make(session)?;
                    }
                    self.expiries.push(expiry);
                }
                Some(StagedChange::Write(write)) => {
                    M::mark("journal.expiry_written_again");
                    self.all.push(write);
                }
                None => {}
            }
        }
        Ok(())
    }

    /// How many puts go to trees whose blocks are of each class; none where no change does.
    fn puts_by_class(
        &self,
        session: &mut Session<M>,
    ) -> Result<[Option<usize>; BLOCK_CLASS_COUNT], IndexError> {
        let (mut counts, mut last) = ([None; BLOCK_CLASS_COUNT], 0);
        for (index, change) in self.all.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| self.all[before].tree);
            let again = before.is_some_and(|before| std::ptr::eq(before, change.tree));
            let class = if again { last } else { change.tree.block_class(session)? };
            last = class;
            *counts[class].get_or_insert(0) += usize::from(index < self.puts);
        }
        Ok(counts)
    }

    /// Frees the records that are in no tree.
    pub(super) fn free_rest(&mut self, session: &mut Session<M>) {
        for StagedWrite { write, .. } in self.all.drain(self.olds.len()..) {
            if !write.intent.removes() {
                free_payload(session, write.payload);
            }
        }
    }

    /// Makes all changes, or none if there is no space for a put.
    pub(crate) fn make(&mut self, session: &mut Session<M>) -> Result<(), NotMade> {
        let mut refusals = 0;
        while self.olds.len() < self.all.len() {
            let rest = &self.all[self.olds.len()..];
            let near = rest.iter().take(pin_length::<M>());
            let mixes = M::mutant("journal.mixes_trees");
            let length =
                near.take_while(|next| mixes || std::ptr::eq(next.tree, rest[0].tree)).count();
            let (olds, before) = (&mut self.olds, self.all.len() - rest.len());
            let result = rest[0].tree.make(session, &rest[..length], |old| olds.push(old));
            if M::mutant("journal.retires_each_pin") {
                self.retire_olds(session, before);
            }
            let Err(error) = result else { continue };
            if self.olds.len() < self.puts {
                self.free_rest(session);
                let rolled_back = self.olds.len();
                self.roll_back(session)?;
                return Err(NotMade { error, rolled_back });
            }
            match error {
                // A tree that is gone has no keys.
                IndexError::Removed if !M::mutant("journal.stops_at_removed") => {
                    self.olds.push(None);
                }
                error => await_space::<M>(error, &mut refusals)?,
            }
        }
        for expiry in &self.expiries {
            match expiry.make(session) {
                // A tree that is gone has no keys.
                Err(IndexError::Removed) if !M::mutant("journal.expiry_needs_tree") => {}
                Ok(()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if !M::mutant("journal.retires_each_pin") {
            self.retire_olds(session, 0);
        }
        Ok(())
    }

    /// Retires what the changes from this one on have replaced.
    fn retire_olds(&self, session: &mut Session<M>, first: usize) {
        for (change, old) in self.all.iter().zip(&self.olds).skip(first) {
            if let Some(old) = *old {
                change.tree.retire_payload(session, old);
            }
        }
    }

    /// Puts back what the changes replaced, the last one first (J3).
    fn roll_back(&mut self, session: &mut Session<M>) -> Result<(), IndexError> {
        M::mark("journal.rolled_back");
        let mut refusals = 0;
        let kept = usize::from(M::mutant("journal.keeps_last_made"));
        for (change, old) in self.all.iter().zip(self.olds.drain(..)).rev().skip(kept) {
            while let Err(error) = change.tree.roll_back(session, change, old) {
                if matches!(error, IndexError::Removed) {
                    // It took its records along.
                    break;
                }
                await_space::<M>(error, &mut refusals)?;
            }
        }
        Ok(())
    }
}

/// Waits a little if a removal, or what needs no more space than one, was refused for lack of space, or
/// because the kernel refused to give some: that is so only while another thread, which has the space
/// for it, replaces the leaf. So too where memory was refused to replace a leaf that somebody froze: half a
/// batch would be worse than waiting.
fn await_space<M: Machine>(error: IndexError, refusals: &mut u32) -> Result<(), IndexError> {
    let no_memory = matches!(error, IndexError::Alloc(AllocError::OutOfMemory));
    let waits = no_memory && !M::mutant("journal.stops_without_memory");
    if !waits && !error.lacks_space() {
        return Err(error);
    }
    M::mark("journal.refused_without_space");
    M::spin(*refusals);
    *refusals = refusals.wrapping_add(1);
    Ok(())
}
