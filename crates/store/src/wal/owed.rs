//! A snapshot that is owed since the process died, and written behind the opening (W3).

use std::time::Duration;

use everleaf_index::Trees;

use super::StoreLog;
use crate::store::Shared;
use crate::{Durability, Error, Result};

/// Between two looks whether the older log was let go.
const END_REST: Duration = Duration::from_millis(1);

impl StoreLog {
    /// Whether nothing that is logged counts until there is a snapshot.
    pub fn owes_snapshot(&self) -> bool {
        self.log.owes_snapshot()
    }

    /// Whether somebody is writing a snapshot.
    pub fn is_snapshotting(&self) -> bool {
        self.log.is_snapshotting()
    }

    /// Ends the log, because the snapshot that is owed cannot be written.
    pub fn fail_owed(&self, trees: &Trees, error: Error) {
        let error = match trees.heap().pool().path() {
            Some(pool) => self.place.mention(error, pool),
            None => error,
        };
        self.log.fail_owed(&error.to_string());
    }

    /// Waits for who is writing a snapshot that is owed.
    pub fn await_snapshot(&self) -> Result<()> {
        Ok(self.log.await_snapshot()?)
    }
}

impl Shared {
    /// Makes everything durable that anybody can have seen.
    pub fn sync(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        self.settle_owed()?;
        log.sync()
    }

    /// Whether the log lacks what the process before had not brought to it when it died.
    pub fn owes_snapshot(&self) -> bool {
        let pool = self.trees.heap().pool();
        match &self.log {
            Some(log) => log.owes_snapshot(),
            // Open for reading: the log is left alone.
            None if pool.is_read_only() && !pool.was_clean() => super::last_durability(&self.trees)
                .is_ok_and(|durability| durability != Durability::Process),
            None => false,
        }
    }

    /// As [`Self::settle_owed`], and waits until whoever wrote the snapshot has let the older log go, too:
    /// then another snapshot can be begun.
    pub fn end_owed(&self) -> Result<()> {
        let Some(log) = self.log.as_ref().filter(|log| log.owes_snapshot()) else { return Ok(()) };
        self.settle_owed()?;
        while log.is_snapshotting() {
            std::thread::sleep(END_REST);
        }
        Ok(())
    }

    /// Writes the snapshot that is owed, if it is, or waits for whoever is writing it.
    pub fn settle_owed(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        while log.owes_snapshot() {
            if log.is_snapshotting() {
                log.await_snapshot()?;
                continue;
            }
            match self.snapshot() {
                // Another was faster.
                Err(_) if log.is_snapshotting() || !log.owes_snapshot() => {}
                written => {
                    let _pairs = written?;
                }
            }
        }
        Ok(())
    }
}
