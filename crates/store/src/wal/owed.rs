//! A snapshot that is owed since the process died, and written behind the opening (W3).

use everleaf_index::{Change, Hardware, IndexError, Session, Trees};

use super::StoreLog;
use super::log_metadata::reached_note;
use super::metadata_keys::REACHED;
use crate::shared::{Shared, thread_number};
use crate::{Durability, Error, Result};

impl StoreLog {
    /// Whether nothing that is logged counts until there is a snapshot.
    pub fn owes_snapshot(&self) -> bool {
        self.log.owes_snapshot()
    }

    /// Whether somebody is writing a snapshot.
    pub fn is_snapshotting(&self) -> bool {
        self.log.is_snapshotting()
    }

    /// Notes in the pool what is durable, so that an older copy of the log beside it is noticed; while others use
    /// the store, by one of its sessions: a check waits for those alone.
    pub fn note_reached(&self, session: &mut Session<Hardware>) -> Result<()> {
        let note = reached_note(self.identity, self.log.durable_lsn());
        self.metadata.change(session, &Change::upsert(REACHED, &note))?;
        Ok(())
    }

    /// Ends the log, because the snapshot that is owed cannot be written.
    pub fn fail_owed(&self, trees: &Trees, error: Error) {
        let error = match trees.heap().pool().path() {
            Some(pool) => self.directory.mention(error, pool),
            None => error,
        };
        self.log.fail_owed(&error.to_string());
    }

    /// Waits for the thread that is writing a snapshot that is owed.
    pub fn await_snapshot(&self) -> Result<()> {
        Ok(self.log.await_snapshot()?)
    }

    /// As [`Self::await_snapshot`], and until the older log was let go.
    fn await_owed_writer(&self) -> Result<()> {
        Ok(self.log.await_owed_writer()?)
    }
}

impl Shared {
    /// Makes everything durable that anybody can have seen.
    pub fn sync(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let _pairs = self.write_owed_snapshot()?;
        log.sync()
    }

    /// Whether nothing more can be made durable.
    pub fn has_log_failed(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.check().is_err())
    }

    /// Whether the log lacks what the process before had not brought to it when it died.
    pub fn owes_snapshot(&self) -> bool {
        match &self.log {
            Some(log) => log.owes_snapshot(),
            // Open for reading: the log is left alone.
            None => {
                !self.trees.heap().pool().was_clean() && self.durability() != Durability::Process
            }
        }
    }

    /// What survives; of a store that is open for reading, what does of what its writers write.
    pub fn durability(&self) -> Durability {
        match &self.log {
            Some(log) => log.durability(),
            None if self.trees.heap().pool().is_read_only() => {
                super::last_durability(&self.trees).unwrap_or_default()
            }
            None => Durability::Process,
        }
    }

    /// Bytes of keys and values in the log since the last snapshot, and commits not yet on the disk; of a
    /// store that is open for reading, as of its closing.
    pub fn log_lag(&self) -> (u64, u64) {
        let pool = self.trees.heap().pool();
        match &self.log {
            Some(log) => log.lag(),
            None if pool.is_read_only() && pool.was_clean() => {
                (super::logged_at_close(&self.trees).unwrap_or(0), 0)
            }
            None => (0, 0),
        }
    }

    /// As [`Self::write_owed_snapshot`], and waits until the thread that wrote the snapshot has let the older log go,
    /// too: then another snapshot can be begun.
    pub fn end_owed(&self) -> Result<()> {
        let _pairs = self.write_owed_snapshot()?;
        self.log.as_ref().map_or(Ok(()), StoreLog::await_owed_writer)
    }

    /// Writes a snapshot for the log.
    pub fn snapshot(&self) -> Result<u64> {
        let Some(log) = &self.log else {
            let text = "the store has no log that a snapshot could shorten: make a backup instead";
            return Err(Error::Unsupported(text.to_string()));
        };
        // A session of its own: it is held for long, and a check waits for those of the pool.
        let mut session = self.trees.heap().session().map_err(IndexError::from)?;
        let pair_count = log.snapshot(&self.trees, &mut session)?;
        drop(session);
        // Only evidence: if all are in use, the next closing says it.
        let own = self.trees.sessions().try_enter(thread_number());
        own.into_iter().for_each(|mut own| drop(log.note_reached(&mut own)));
        Ok(pair_count)
    }

    /// Writes the snapshot that is owed, if it is, or waits for the thread that is writing it. Returns the number of
    /// pairs if it was written here.
    pub fn write_owed_snapshot(&self) -> Result<Option<u64>> {
        let Some(log) = &self.log else { return Ok(None) };
        let mut pairs = None;
        while log.owes_snapshot() {
            if log.is_snapshotting() {
                log.await_snapshot()?;
                continue;
            }
            match self.snapshot() {
                // Another is being written, or a batch was rolled back that it may have a part of. Then it is
                // written anew: what is in its way is over some time.
                Err(Error::SnapshotBusy(_)) => {}
                // Another was faster.
                Err(_) if log.is_snapshotting() || !log.owes_snapshot() => {}
                written => pairs = Some(written?),
            }
        }
        Ok(pairs)
    }
}
