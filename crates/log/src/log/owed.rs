//! Whether a snapshot is being written, or owed, and waiting for that.
//!
//! Whatever changes it takes the lock of the turn and tells [`Shared::done`], so that a thread that waits misses
//! nothing.

use std::sync::atomic::Ordering;

use super::Shared;
use crate::{Disk, Lsn, Result};

impl<D: Disk> Shared<D> {
    pub(super) fn owes_snapshot(&self) -> bool {
        // Acquire: what was synced before counts; pairs with the Release in `note_owed_written`.
        self.is_owing.load(Ordering::Acquire)
    }

    /// Waits while a snapshot is owed, unless `is_over`.
    pub(super) fn await_owed(&self, is_over: impl Fn() -> bool) -> Result<()> {
        self.await_that(|| !self.owes_snapshot() || is_over())
    }

    /// Waits while the snapshot that is owed, or was, is being written.
    pub(super) fn await_owed_writer(&self) -> Result<()> {
        // Acquire: pairs with the Release in `end_snapshot`.
        self.await_that(|| !self.is_owed_being_written.load(Ordering::Acquire))
    }

    /// Waits for something of which is told by `done`, under the lock of the turn.
    fn await_that(&self, is_so: impl Fn() -> bool) -> Result<()> {
        loop {
            let turn = self.turn();
            if let Some(error) = &turn.failed {
                return Err(error.clone());
            }
            if is_so() {
                return Ok(());
            }
            drop(turn);
            if self.disk.waits("log.awaits_snapshot") {
                continue;
            }
            let turn = self.turn();
            if turn.failed.is_none() && !is_so() {
                drop(turn.wait(&self.done));
            }
        }
    }

    /// The snapshot that was owed is there: what was synced counts from now on.
    pub(crate) fn note_owed_written(&self) -> Result<()> {
        if !self.owes_snapshot() {
            return Ok(());
        }
        let noted = self.writer().note_owed_written();
        noted.map_err(|error| self.fail(&error))?;
        let turn = self.turn();
        // Release: pairs with the Acquire in `owes_snapshot`.
        self.is_owing.store(false, Ordering::Release);
        self.done.notify_all();
        drop(turn);
        Ok(())
    }

    /// From now on a snapshot is being written; false if one is already.
    pub(crate) fn begin_snapshot(&self) -> bool {
        // AcqRel: what the writer before did is done; pairs with the Release in `end_snapshot`.
        if self.is_snapshotting.swap(true, Ordering::AcqRel) {
            return false;
        }
        // Relaxed: a thread that spoils this snapshot takes a place after the turn of its beginning, or is waited
        // for there.
        self.is_snapshot_spoiled.store(false, Ordering::Relaxed);
        // Release: as in `end_snapshot`.
        self.is_owed_being_written.store(self.owes_snapshot(), Ordering::Release);
        true
    }

    /// No snapshot is being written any more: a thread that waits for that looks again.
    pub(crate) fn end_snapshot(&self) {
        // Both behind the lock, so that a thread that waits for the first and then begins one is not refused.
        let turn = self.turn();
        // Release: a thread that sees it sees what was made, or that the file is gone; pairs with the Acquire in
        // `await_owed_writer`.
        self.is_owed_being_written.store(false, Ordering::Release);
        // Release: the file is gone before the next is made; pairs with the AcqRel in `begin_snapshot`.
        self.is_snapshotting.store(false, Ordering::Release);
        self.done.notify_all();
        drop(turn);
    }

    /// Syncs what a snapshot may have read, up to this LSN, also if it does not count yet; returns the last
    /// LSN of it.
    pub(crate) fn sync_for_snapshot(&self, lsn: Lsn) -> Result<Lsn> {
        if !self.owes_snapshot() {
            return self.wait_durable(lsn);
        }
        self.take_turn(true)?;
        Ok(lsn.min(self.writer().synced()))
    }
}
