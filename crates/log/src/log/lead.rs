//! Leading: one thread writes for all that wait.

use everleaf_machine::ranked_mutex::RankedGuard;

use super::{Shared, Turn};
use crate::{Disk, Error, Result};

impl<D: Disk> Shared<D> {
    /// Whether a [tick](crate::Log::tick) waits for no other thread now: somebody leads, or can lead at once.
    #[cfg(feature = "simulated")]
    pub(crate) fn ticks_at_once(&self) -> bool {
        self.turn().is_led || self.writer.try_lock().is_some()
    }

    /// Leads one round if nobody does, and says so; otherwise waits for the thread that does. Neither if
    /// `is_done`.
    pub(super) fn turn_or_wait(&self, sync: bool, is_done: impl Fn(&Turn) -> bool) -> Result<bool> {
        let turn = self.turn();
        if is_done(&turn) {
            return Ok(false);
        }
        if let Some(error) = &turn.failed {
            return Err(error.clone());
        }
        if turn.is_led {
            drop(turn);
            if !self.disk.waits("log.awaits_leader") {
                let turn = self.turn();
                if turn.is_led {
                    drop(turn.wait(&self.done));
                }
            }
            return Ok(false);
        }
        self.lead(turn, sync).map(|()| true)
    }

    /// Leads one round; nobody else does. Syncs if that is asked for, or due: else the threads that
    /// write without a sync could take every turn from the one that waits for one.
    pub(super) fn lead(&self, mut turn: RankedGuard<'_, Turn>, sync: bool) -> Result<()> {
        turn.is_led = true;
        let is_due = std::mem::take(&mut turn.is_sync_due);
        drop(turn);
        let sync = sync || is_due && !self.disk.mutant("log.misses_interval");
        let lead = Lead { shared: self, is_over: false };
        let result = self.writer().round(&self.buffers, sync);
        let result = result.map_err(|error| self.fail(&error));
        lead.end();
        result
    }
}

/// A turn of leading. If it ends by a panic, the log fails.
struct Lead<'a, D: Disk> {
    shared: &'a Shared<D>,
    is_over: bool,
}

impl<D: Disk> Lead<'_, D> {
    fn end(mut self) {
        self.is_over = true;
    }
}

impl<D: Disk> Drop for Lead<'_, D> {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.fail(&Error::Failed("the thread that wrote the log panicked".into()));
        }
        self.shared.turn().is_led = false;
        self.shared.done.notify_all();
    }
}
