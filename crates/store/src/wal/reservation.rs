//! The place of a change in the log, taken before the change can be seen, and what is left there.
//!
//! A writer W, a reader R that writes something that depends on what it read, and the log. Time goes down:
//!
//! ```text
//!    W                        tree                     log                     R
//!    |                         |                        |                      |
//!    |-- takes the stripe of the key ------------------>|                      |
//!    |-- takes a place (LSN 7) ------------------------>| 7 taken, empty       |
//!    |-- changes the key ----->| new value visible      |                      |
//!    |                         |<------------------------------- reads it -----|
//!    |                         |                        |<-- takes a place ----|  8: behind 7
//!    |-- fills place 7 -------------------------------->| 7 filled             |
//!    |   releases the stripe   |                        |<-- fills place 8 ----|
//!    |                         |                        | 7 and 8, one sync    |
//!    |<-- durable up to 7 ------------------------------|-- durable up to 8 -->|
//!    |   returns               |                        |           returns    |
//! ```
//!
//! R may see the value before it is in the log, and write what depends on it: its place is behind 7, and the log is
//! written in the order of its places, never past an empty one. What R tells others on the strength of the read alone a
//! crash of the machine can take back; `Store::sync` waits for all that can have been seen (docs/log.md).

use everleaf_index::{
    BatchOp, BytesTree, Change, Hardware, IndexError, NotMade, Session, Verify, What,
};
use everleaf_log::{Disk, Log, Lsn, Place, Record};

use super::StoreLog;
use super::log_effect::{LogEffect, log_record};
use super::log_folder::LogDisk;
use super::metadata_keys::NAMES;
use crate::{Error, Result};

/// What is logged of a batch that was rolled back, in bytes, at most: as much memory it takes for a moment.
const ROLLED_BACK_MAX: usize = if cfg!(test) { 256 << 10 } else { 32 << 20 };
/// What a record takes besides its key and its value.
const PRESENT_SIZE: usize = 64;

/// A place in the log. One that is dropped instead of filled or given up stops the log: its change may
/// have been seen.
#[must_use]
pub(crate) struct LogReservation<'a> {
    log: &'a Log<LogDisk>,
    /// `None` only if the planted bug is shown: then it is taken when it is filled.
    place: Option<Place<'a, LogDisk>>,
}

impl<'a> LogReservation<'a> {
    #[inline]
    pub fn take(log: &'a Log<LogDisk>) -> Self {
        let is_late = log.disk().mutant("store.takes_place_late");
        let place = (!is_late).then(|| log.place());
        log.disk().reached("store.place_taken");
        LogReservation { log, place }
    }

    /// Leaves the change there; returns its LSN.
    pub fn fill(self, records: &[Record<'_>]) -> Result<Lsn> {
        let place = self.place.unwrap_or_else(|| self.log.place());
        let lsn = place.fill(records)?;
        self.log.disk().reached("store.place_filled");
        Ok(lsn)
    }

    /// Nothing was changed.
    pub fn give_up(self) {
        self.place.into_iter().for_each(Place::give_up);
    }

    /// What was changed was rolled back: a snapshot that may have read it fails.
    fn give_up_rolled_back(self) {
        self.place.into_iter().for_each(Place::give_up_rolled_back);
    }
}

impl StoreLog {
    /// Takes the place of a change of one key of a map, as [`Self::place`].
    pub fn place_in(&self, map: u32) -> Result<LogReservation<'_>> {
        numbered(map)?;
        Ok(self.place())
    }

    /// Fills the place of a write with what it did to its key; gives it up if nothing was changed.
    /// The caller has the key's stripe.
    pub fn note(
        &self,
        reservation: LogReservation<'_>,
        map: u32,
        tree: &BytesTree,
        session: &mut Session<Hardware>,
        key: &[u8],
        effect: LogEffect<'_>,
    ) -> Result<Option<Lsn>> {
        self.log.disk().reached("store.changed");
        match effect {
            LogEffect::Unchanged => {
                reservation.give_up();
                return Ok(None);
            }
            LogEffect::Made(change) => return self.fill(reservation, map, &change).map(Some),
            LogEffect::Reread => {}
        }
        let mut reservation = Some(reservation);
        let mut fill = |change: Change<'_>| {
            reservation.take().map(|reservation| self.fill(reservation, map, &change))
        };
        // Should it fail, the reservation goes, and the log ends before anything that comes of the change. What has
        // expired by now is there, too, if the clock is set back.
        let passes_expired = self.mutant("store.logs_expired_as_gone");
        let found = tree.get_stored(session, key, Verify::Sum, |record| {
            let is_passed = passes_expired && record.has_expired::<Hardware>();
            (!is_passed).then(|| fill(Change::upsert(key, record.value).expiring(record.expiry_ms)))
        })?;
        found.flatten().unwrap_or_else(|| fill(Change::remove(key))).transpose()
    }

    fn fill(&self, reservation: LogReservation<'_>, map: u32, change: &Change<'_>) -> Result<Lsn> {
        self.count(change.key.len() + change.value().map_or(0, <[u8]>::len));
        reservation.fill(&[log_record(map, change)])
    }

    /// The changes of a batch as the log takes them: `operations`, which are of these maps. The caller
    /// has the stripes of all their keys.
    pub fn records<'a>(
        &self,
        maps: impl Iterator<Item = u32>,
        operations: &[BatchOp<'a>],
    ) -> Result<Vec<Record<'a>>> {
        let record = |(map, operation): (u32, &BatchOp<'a>)| {
            Ok(log_record(numbered(map)?, &operation.change()))
        };
        let lacks_expiries = self.mutant("store.batch_expiry_unlogged");
        let is_logged = |operation: &BatchOp<'a>| {
            !lacks_expiries || !matches!(operation.change().what, What::Expire)
        };
        maps.zip(operations).filter(|(_, one)| is_logged(one)).map(record).collect()
    }

    /// Fills the place of a batch, as one group: with its `records` if it was made. `operations` are the same,
    /// in the same order. The caller has the stripes of all its keys.
    pub fn note_batch(
        &self,
        reservation: Option<LogReservation<'_>>,
        made: std::result::Result<(), NotMade>,
        records: &[Record<'_>],
        operations: &[BatchOp<'_>],
        session: &mut Session<Hardware>,
    ) -> Result<Option<Lsn>> {
        // Without a place it was not begun.
        let Some(reservation) = reservation else {
            return made.map(|()| None).map_err(|not_made| not_made.error.into());
        };
        match made {
            Ok(()) => {}
            Err(NotMade { error, rolled_back }) if error.leaves_nothing() => {
                // What was changed was rolled back, but a snapshot may have read it before.
                self.note_rolled_back(reservation, rolled_back, records, operations, session)?;
                return Err(error.into());
            }
            // It may be there in part: the log ends before anything that comes of it.
            Err(not_made) => return Err(not_made.error.into()),
        }
        for record in records {
            self.count(record.key.len() + record.value().map_or(0, <[u8]>::len));
        }
        self.log.disk().reached("store.batch_made");
        if self.mutant("store.batch_is_two_groups") && records.len() > 1 {
            let (first, second) = records.split_at(records.len() / 2);
            reservation.fill(first)?;
            return self.place().fill(second).map(Some);
        }
        reservation.fill(records).map(Some)
    }
}

impl StoreLog {
    /// Ends the place of a batch that was rolled back, of whose puts, and behind them changes of expiries, others may
    /// have seen the first `seen`. A snapshot that has read them needs the log up to this place, and finds there what
    /// their keys are now. If that is much, or cannot be told, the snapshot fails instead. Without a snapshot there is
    /// nothing to say.
    fn note_rolled_back(
        &self,
        reservation: LogReservation<'_>,
        seen: usize,
        records: &[Record<'_>],
        operations: &[BatchOp<'_>],
        session: &mut Session<Hardware>,
    ) -> Result<()> {
        if seen == 0 || !self.log.is_snapshotting() {
            reservation.give_up();
            return Ok(());
        }
        // Puts come first, in the order of the operations.
        let all = || operations.iter().zip(records);
        let puts = all().filter(|(operation, _)| operation.change().value().is_some()).take(seen);
        let mut present = Vec::with_capacity(seen);
        let mut bytes = 0;
        for (operation, record) in puts {
            let own =
                |record: everleaf_index::Record<'_>| (record.value.to_vec(), record.expiry_ms);
            match operation.tree().get_stored(session, record.key, Verify::Sum, own) {
                Ok(found) => present.push((record, found)),
                // A map that is gone has no keys, in the log neither.
                Err(IndexError::Removed) => present.push((record, None)),
                // What is damaged was so before the batch, and is damaged again: there is no value to log over the
                // one that a snapshot may have read, and no reason to end the log for all others.
                Err(_) => {
                    reservation.give_up_rolled_back();
                    return Ok(());
                }
            }
            let value = present.last().and_then(|(_, found)| found.as_ref());
            bytes += PRESENT_SIZE + record.key.len() + value.map_or(0, |(value, _)| value.len());
            if bytes > ROLLED_BACK_MAX {
                reservation.give_up_rolled_back();
                return Ok(());
            }
        }
        let has_expiries = present.len() < seen && !self.mutant("store.rolls_back_values_only");
        let mut present: Vec<Record<'_>> = present
            .iter()
            .map(|(record, present)| {
                let change = match present {
                    Some((value, expiry_ms)) => {
                        Change::upsert(record.key, value).expiring(*expiry_ms)
                    }
                    None => Change::remove(record.key),
                };
                log_record(record.map, &change)
            })
            .collect();
        // Of those whose expiry was to change alone the value is what it was.
        let is_expiry = |operation: &BatchOp<'_>| operation.change().what == What::Expire;
        for (operation, record) in all().filter(|(it, _)| has_expiries && is_expiry(it)) {
            let expiry_of = |found: everleaf_index::Record<'_>| found.expiry_ms;
            match operation.tree().get_stored(session, record.key, Verify::Key, expiry_of) {
                Ok(Some(expiry_ms)) => {
                    present.push(log_record(record.map, &Change::expire(record.key, expiry_ms)));
                }
                Ok(None) | Err(IndexError::Removed) => {}
                // A snapshot may have read a time that is not to be.
                Err(_) => {
                    reservation.give_up_rolled_back();
                    return Ok(());
                }
            }
        }
        reservation.fill(&present).map(drop)
    }
}

/// Refuses what would be logged as a change of the list of names.
fn numbered(map: u32) -> Result<u32> {
    if map == NAMES {
        let text = "the map has no number in the log, because its making failed: open it again";
        return Err(Error::LogFailed(text.to_string()));
    }
    Ok(map)
}
