//! The place of a change in the log, taken before the change can be seen, and what is left there.

use everleaf_index::{
    BatchOp, BytesTree, Hardware, IndexError, LONG_VALUE_SIZE, NotMade, Session, Verify,
};
use everleaf_log::{Disk, Log, Lsn, Place, Record};

use super::log_directory::LogDisk;
use super::{LogEffect, NAMES, StoreLog, log_record, logged_expiry};
use crate::map::Attempt;
use crate::{Error, Result};

/// What is logged of a batch that was taken back, in bytes, at most: as much memory it takes for a moment.
const TAKEN_BACK_MAX: usize = if cfg!(test) { 256 << 10 } else { 32 << 20 };
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

    /// What was changed was taken back: a snapshot that may have read it fails.
    fn give_up_taken_back(self) {
        self.place.into_iter().for_each(Place::give_up_taken_back);
    }
}

impl StoreLog {
    /// Makes a change of one key, behind its place in the log. The caller has the key's stripe and has
    /// [checked](Self::check) that the log works.
    pub fn write<'v, R>(
        &self,
        map: u32,
        tree: &BytesTree,
        session: &mut Session<Hardware>,
        key: &[u8],
        write: &mut impl FnMut(&BytesTree, &mut Session<Hardware>) -> Attempt<'v, R>,
    ) -> Result<(R, Option<Lsn>)> {
        let map = numbered(map)?;
        // Before anybody can see the change.
        let reservation = self.place();
        match write(tree, session) {
            Ok((result, effect)) => {
                Ok((result, self.note(reservation, map, tree, session, key, effect)?))
            }
            Err(error) => {
                // Nothing was changed.
                reservation.give_up();
                Err(error.into())
            }
        }
    }

    /// Fills the place of a write with what it did to its key; gives it up if nothing was changed.
    /// The caller has the key's stripe.
    fn note(
        &self,
        reservation: LogReservation<'_>,
        map: u32,
        tree: &BytesTree,
        session: &mut Session<Hardware>,
        key: &[u8],
        effect: LogEffect<'_>,
    ) -> Result<Option<Lsn>> {
        self.log.disk().reached("store.changed");
        let put = |reservation: LogReservation<'_>, value: &[u8], expiry_ms| {
            self.count(key.len() + value.len());
            reservation.fill(&[log_record(map, key, Some(value), expiry_ms)])
        };
        let mut reservation = Some(reservation);
        let noted = match effect {
            LogEffect::Unchanged => {
                reservation.take().into_iter().for_each(LogReservation::give_up);
                return Ok(None);
            }
            LogEffect::Removed => None,
            LogEffect::Expiry(expiry_ms) => {
                self.count(key.len());
                let record = Record::expire(map, key, logged_expiry(expiry_ms));
                reservation.take().map(|reservation| reservation.fill(&[record]))
            }
            LogEffect::Value(value) => {
                reservation.take().map(|reservation| put(reservation, value, 0))
            }
            // Should it fail, the reservation goes, and the log ends before anything that comes of the change. What has expired
            // by now is there, too, if the clock is set back.
            LogEffect::Reread => tree
                .get_stored(session, key, Verify::Sum, |record| {
                    reservation
                        .take()
                        .map(|reservation| put(reservation, record.value, record.expiry_ms))
                })?
                .flatten(),
        };
        let delete = |reservation: LogReservation<'_>| {
            self.count(key.len());
            reservation.fill(&[Record::delete(map, key)])
        };
        noted.or_else(|| reservation.take().map(delete)).transpose()
    }

    /// The changes of a batch as the log takes them; `edits` are the same, in the same order. The caller
    /// has the stripes of all its keys.
    pub fn records<'a>(
        &self,
        changes: impl Iterator<Item = (u32, &'a [u8], Option<&'a [u8]>, u64)>,
        edits: &[BatchOp<'_>],
        session: &mut Session<Hardware>,
    ) -> Result<Vec<Record<'a>>> {
        let mut records = Vec::with_capacity(edits.len());
        for ((map, key, value, expiry_ms), edit) in changes.zip(edits) {
            let map = numbered(map)?;
            let is_kept = value.is_some_and(|value| has_long_value(edit.tree, session, key, value));
            records.push(match is_kept {
                true => Record::expire(map, key, logged_expiry(expiry_ms)),
                false => log_record(map, key, value, expiry_ms),
            });
        }
        Ok(records)
    }

    /// Fills the place of a batch, as one group: with its `records` if it was made. `edits` are the same,
    /// in the same order. The caller has the stripes of all its keys.
    pub fn note_batch(
        &self,
        reservation: Option<LogReservation<'_>>,
        made: std::result::Result<(), NotMade>,
        records: &[Record<'_>],
        edits: &[BatchOp<'_>],
        session: &mut Session<Hardware>,
    ) -> Result<Option<Lsn>> {
        // Without a place it was not begun.
        let Some(reservation) = reservation else {
            return made.map(|()| None).map_err(|not_made| not_made.error.into());
        };
        match made {
            Ok(()) => {}
            Err(NotMade { error, taken_back }) if error.leaves_nothing() => {
                // What was changed was taken back, but a snapshot may have read it before.
                self.note_taken_back(reservation, taken_back, records, edits, session)?;
                return Err(error.into());
            }
            // It may be there in part: the log ends before anything that comes of it.
            Err(not_made) => return Err(not_made.error.into()),
        }
        for record in records {
            self.count(record.key.len() + record.value().map_or(0, <[u8]>::len));
        }
        self.log.disk().reached("store.batch_made");
        reservation.fill(records).map(Some)
    }
}

impl StoreLog {
    /// Settles the place of a batch that was taken back, of whose puts others may have seen the first
    /// `seen`. A snapshot that has read them needs the log up to this place, and finds there what their
    /// keys are now. If that is much, the snapshot fails instead. Without a snapshot there is nothing to
    /// say.
    fn note_taken_back(
        &self,
        reservation: LogReservation<'_>,
        seen: usize,
        records: &[Record<'_>],
        edits: &[BatchOp<'_>],
        session: &mut Session<Hardware>,
    ) -> Result<()> {
        if seen == 0 || !self.log.is_snapshotting() {
            reservation.give_up();
            return Ok(());
        }
        // Puts come first, in the order of the edits.
        let puts = edits.iter().zip(records).filter(|(edit, _)| edit.value.is_some()).take(seen);
        let mut present = Vec::with_capacity(seen);
        let mut bytes = 0;
        for (edit, record) in puts {
            let own =
                |record: everleaf_index::Record<'_>| (record.value.to_vec(), record.expiry_ms);
            match edit.tree.get_stored(session, edit.key, Verify::Sum, own) {
                Ok(found) => present.push((record, found)),
                // A map that is gone has no keys, in the log neither.
                Err(IndexError::Removed) => present.push((record, None)),
                // What is damaged was so before the batch, and is damaged again: there is no value to
                // log, and no reason to end the log for all others.
                Err(_) => continue,
            }
            let value = present.last().and_then(|(_, found)| found.as_ref());
            bytes += PRESENT_SIZE + edit.key.len() + value.map_or(0, |(value, _)| value.len());
            if bytes > TAKEN_BACK_MAX {
                reservation.give_up_taken_back();
                return Ok(());
            }
        }
        let present: Vec<Record<'_>> = present
            .iter()
            .map(|(record, present)| {
                let (value, expiry_ms) = present
                    .as_ref()
                    .map_or((None, 0), |(value, expiry_ms)| (Some(value.as_slice()), *expiry_ms));
                log_record(record.map, record.key, value, expiry_ms)
            })
            .collect();
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

/// Whether a key has this value already, and it is long: then the log, which has it, gets the expiry only. A
/// batch has no other way to change an expiry. The caller has the stripe of the key.
fn has_long_value(
    tree: &BytesTree,
    session: &mut Session<Hardware>,
    key: &[u8],
    value: &[u8],
) -> bool {
    let is_same = |record: everleaf_index::Record<'_>| record.value == value;
    // What cannot be read is written again.
    value.len() >= LONG_VALUE_SIZE
        && matches!(tree.get_verified(session, key, Verify::Key, is_same), Ok(Some(true)))
}
