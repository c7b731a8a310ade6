//! What the threads of a log share: the buffers, the writer, and whose turn it is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar};

use everleaf_machine::ranked_mutex::{RankedGuard, RankedMutex};

use super::interval::Clock;
use crate::buffers::{BROKEN_OFF, Buffers, Taken};
use crate::writer::Writer;
use crate::{Disk, Error, Lsn, Result, SyncMode};

/// What the threads of a log share.
pub(crate) struct Shared<D: Disk> {
    pub(crate) disk: Arc<D>,
    pub(crate) uuid: [u8; 16],
    pub(super) mode: SyncMode,
    pub(super) buffers: Buffers,
    pub(super) durable: Arc<AtomicU64>,
    pub(super) stored: Arc<AtomicU64>,
    pub(super) writer: RankedMutex<Writer<D>>,
    pub(super) turn: RankedMutex<Turn>,
    /// A leader is done, or the log has failed.
    pub(super) done: Condvar,
    /// The background thread has something to do.
    pub(crate) work: Condvar,
    pub(super) has_failed: AtomicBool,
    pub(crate) is_work_due: AtomicBool,
    /// Whether a snapshot is being written.
    pub(crate) is_snapshotting: AtomicBool,
    /// Whether it is the one that is owed.
    pub(crate) is_owed_being_written: AtomicBool,
    /// Whether it may have read what is not so, and the log does not tell.
    pub(crate) is_snapshot_spoiled: AtomicBool,
    /// Whether nothing counts until there is a snapshot.
    pub(super) is_owing: AtomicBool,
}

/// Whose turn it is.
pub(crate) struct Turn {
    pub(super) is_led: bool,
    pub(crate) failed: Option<Error>,
    pub(crate) is_ending: bool,
    /// The thread that leads next is to sync.
    pub(crate) is_sync_due: bool,
    pub(crate) clock: Clock,
}

impl<D: Disk> std::fmt::Debug for Shared<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl<D: Disk> Shared<D> {
    pub(crate) fn turn(&self) -> RankedGuard<'_, Turn> {
        // The lock protects plain flags that are whole at every moment.
        self.turn.lock()
    }

    /// The writing end. If its holder panicked, the log has failed, and nobody writes any more.
    pub(crate) fn writer(&self) -> RankedGuard<'_, Writer<D>> {
        self.writer.lock_unless(|| self.disk.waits("log.awaits_writer"))
    }

    pub(crate) fn durable_lsn(&self) -> Lsn {
        // Acquire: pairs with the Release in `Writer::publish`.
        self.durable.load(Ordering::Acquire)
    }

    pub(crate) fn last_lsn(&self) -> Lsn {
        self.buffers.last_lsn()
    }

    /// Every change up to this LSN was made before this call.
    pub(crate) fn made_lsn(&self) -> Lsn {
        self.buffers.collected()
    }

    /// Takes a place back, or leaves nothing there.
    pub(crate) fn give_up(&self, place: Taken, thread: usize) {
        if !self.buffers.give_back(place) {
            let _waiting = self.buffers.fill(thread, place, 0, &[]);
        }
    }

    /// Ends the log: the change of a place may have been made, and will not be logged.
    pub(crate) fn break_off(&self, thread: usize) {
        self.fail(&Error::Failed(BROKEN_OFF.into()));
        self.buffers.break_off(thread);
    }

    /// Stops the log; returns what everybody is told.
    pub(super) fn fail(&self, cause: &Error) -> Error {
        let mut turn = self.turn();
        let error = turn.failed.get_or_insert_with(|| Error::failed_by(cause)).clone();
        if self.disk.mutant("log.goes_on_after_failure") {
            turn.failed = None;
            return error;
        }
        // Release: the reason is there when the flag is; pairs with the Acquire in `Log::check`.
        self.has_failed.store(true, Ordering::Release);
        self.done.notify_all();
        error
    }

    /// Waits until everything up to this LSN is durable that was not given up; returns the last LSN of
    /// it. One that was given up at the end may never be given again.
    pub(crate) fn wait_durable(&self, lsn: Lsn) -> Result<Lsn> {
        let wanted = || lsn.min(self.last_lsn());
        self.await_owed(|| self.durable_lsn() >= lsn)?;
        while self.durable_lsn() < lsn {
            let now = wanted();
            if self.durable_lsn() >= now {
                return Ok(now);
            }
            self.turn_or_wait(true, |_| self.durable_lsn() >= wanted())?;
        }
        Ok(lsn)
    }

    /// Writes what waits, as soon as no other thread does.
    pub(crate) fn take_turn(&self, sync: bool) -> Result<()> {
        while !self.turn_or_wait(sync, |_| false)? {}
        Ok(())
    }

    /// Waits until somebody has begun the sync that is due, or does it.
    pub(crate) fn take_due_turn(&self) -> Result<()> {
        while self.turn().is_sync_due {
            self.turn_or_wait(false, |turn| !turn.is_sync_due)?;
        }
        Ok(())
    }
}
