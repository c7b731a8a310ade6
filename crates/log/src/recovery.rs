//! Opening: which files count, where the log ends, and what was lost behind its end.
//!
//! Reading tells what the page cache has, which after a failed sync need not be what the disk has.
//! So whatever no later chunk proves durable is written again, into the segment that the new
//! session begins; the old copy no longer counts.

mod damaged_end;
mod opening;
mod owed;

use std::io::ErrorKind;
use std::sync::Arc;

use self::damaged_end::{DamagedEnd, finish_copies};
use self::opening::{FoundSnapshot, Opening};
pub(crate) use self::owed::{first_owed, is_snapshot_of, limited, mark_of_owed};
use self::owed::{first_there_is, leaves_out_owed, proven_by_owed, with_owed_in_vain};
use crate::file_names::numbers;
use crate::layout::{SEGMENT, SNAPSHOT, UNFINISHED, file_name, next_number};
use crate::owner::is_put_aside_snapshot;
use crate::record::Records;
use crate::salvage;
use crate::scan::{SegmentHeader, SegmentReader};
use crate::snapshot::{SnapshotReader, put_aside};
use crate::walk::{missing, walk};
use crate::writer::{SealedChunks, Start, Writer};
use crate::{Disk, DiskFile, Error, LogOptions, Lsn, Record, Result};

/// What was found when the log was opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The last LSN there is. What was appended behind it was not durable and is gone. Of a log that was
    /// cut, the last that was durable once, as far as that is known.
    pub end: Lsn,
    /// The end of the log was cut off: only a new snapshot makes it whole. Only with
    /// [`LogOptions::owner_has_all`].
    pub is_cut: bool,
    /// An earlier opening owed a snapshot that never came ([`LogOptions::owes_snapshot`]), so what was
    /// logged behind that opening does not count. Stays so until the segments of that are let go, which a
    /// later snapshot does.
    pub was_owing: bool,
    /// The first LSN the segments have; there is none if it is larger than `end`.
    pub first: Lsn,
    /// Groups that were read and not proven durable, and were written again.
    pub rewritten: u64,
    /// Bytes behind the end that were written and belong to no whole chunk, or to one behind a
    /// missing one, or that cannot be read. They were not durable when the machine stopped, or are damaged.
    pub torn_bytes: u64,
    /// What was damaged though it had been durable; only with [`LogOptions::salvage`].
    pub damages: Vec<String>,
}

/// What there is to recover: a snapshot, and the log behind it.
///
/// Read it before the log of the same opening makes a snapshot: that recycles segments.
#[derive(Debug)]
pub struct Recovered<D: Disk> {
    disk: Arc<D>,
    uuid: [u8; 16],
    /// The segments, each with the last LSN that counts in it.
    segments: Vec<(SegmentHeader, Lsn)>,
    /// The newest first.
    snapshots: Vec<FoundSnapshot>,
    report: Report,
    /// Why it begins where it does, if that is because of the disk.
    begins_behind: Option<String>,
}

/// From where the log is to be replayed.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReplayStart<D: Disk> {
    /// The newest good snapshot; `None` if the log begins with an empty store.
    pub snapshot: Option<SnapshotReader<D>>,
    /// Why newer snapshots were passed over.
    pub skipped: Vec<String>,
}

impl<D: Disk> ReplayStart<D> {
    /// The LSN behind which the log is to be replayed.
    pub fn from_lsn(&self) -> Lsn {
        self.snapshot.as_ref().map_or(0, SnapshotReader::from_lsn)
    }
}

impl<D: Disk> Recovered<D> {
    /// What was found when the log was opened.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Chooses the newest snapshot that is whole and that the log reaches back to. All of it is
    /// read and checked. One that is damaged gets another name (`damaged-..`) and is kept.
    ///
    /// # Errors
    /// [`Error::Damaged`] if there is none and the log does not begin with an empty store; what the disk answers if one
    /// cannot be read at this moment.
    pub fn replay_start(&self) -> Result<ReplayStart<D>> {
        let mut skipped = Vec::new();
        for found in &self.snapshots {
            if let Some(damage) = &found.damage {
                skipped.push(damage.clone());
                continue;
            }
            match self.good_snapshot(found.sequence) {
                Ok(snapshot) => return Ok(ReplayStart { snapshot: Some(snapshot), skipped }),
                Err(Error::Damaged(damage)) => skipped.push(damage),
                // An earlier call has put it aside.
                Err(Error::Io { kind: ErrorKind::NotFound, what, .. }) => skipped.push(what),
                // There may be nothing wrong with it.
                Err(error) => return Err(error),
            }
        }
        let gap = self.gap_behind(0);
        if self.report.first == 1 && gap.is_none() {
            return Ok(ReplayStart { snapshot: None, skipped });
        }
        if skipped.is_empty() {
            skipped.push("there is none".into());
        }
        skipped.extend(self.begins_behind.clone());
        let found = skipped.join("; ");
        // Where nothing is before it, there is nothing to go on with.
        if let Some(gap) = gap.filter(|gap| gap.first > self.report.first) {
            return Err(self.lacks_snapshot(gap, &found));
        }
        // An older snapshot may go with segments that do not follow each other up to there.
        let otherwise = match self.has_older_segment() {
            true => {
                ", or use `everleaf snapshot POOL --salvage-log` to go on with what was before, if an older snapshot \
                 has it, and without all that was written since"
            }
            false => "",
        };
        Err(Error::Damaged(format!(
            "there is no good snapshot and the log begins at LSN {}, not with an empty store \
             ({found}): restore a backup{otherwise}",
            self.report.first
        )))
    }

    /// Whether there is a segment from before those that are read.
    fn has_older_segment(&self) -> bool {
        let names = self.disk.list().unwrap_or_default();
        let (numbers, first) = (numbers(&names, SEGMENT), self.segments.first());
        let oldest = numbers.last().zip(first);
        oldest.is_some_and(|(oldest, (header, _))| *oldest < header.sequence)
    }

    /// The newest segment that does not follow what is before it, if a snapshot from this LSN on is before it.
    fn gap_behind(&self, from: Lsn) -> Option<&SegmentHeader> {
        let is_planted = |name| self.disk.mutant(name);
        if is_planted("log.passes_gap") || is_planted("log.owed_without_gap") {
            return None;
        }
        let mut headers = self.segments.iter().rev().map(|(header, _)| header);
        headers.find(|header| header.gap.is_beginning()).filter(|gap| from + 1 < gap.first)
    }

    /// The error where only older snapshots are good than the one that this segment needs.
    fn lacks_snapshot(&self, gap: &SegmentHeader, found: &str) -> Error {
        // An earlier call may have put it aside.
        let mut names = self.disk.list().unwrap_or_default();
        names.retain(|name| is_put_aside_snapshot(name) && !found.contains(name.as_str()));
        names.sort_unstable();
        let aside = match names.is_empty() {
            true => String::new(),
            false => format!("; put aside earlier: {}", names.join(", ")),
        };
        Error::Damaged(format!(
            "{} counts only with a snapshot from LSN {} on, and there is no good one ({found}{aside}): restore that \
             snapshot or all of it from a backup, or use `everleaf snapshot POOL --salvage-log` to go on with what was \
             before that LSN and without all that was written since",
            file_name(SEGMENT, gap.sequence),
            gap.first
        ))
    }

    fn good_snapshot(&self, sequence: u64) -> Result<SnapshotReader<D>> {
        let snapshot = self
            .aside(sequence, SnapshotReader::open(Arc::clone(&self.disk), self.uuid, sequence))?;
        let reaches = snapshot.from_lsn() + 1 >= self.report.first;
        if !reaches && !self.disk.mutant("snapshot.no_reach_check") {
            return Err(Error::Damaged(format!(
                "{} needs the log from LSN {} on and the log begins at LSN {}",
                file_name(SNAPSHOT, sequence),
                snapshot.from_lsn() + 1,
                self.report.first
            )));
        }
        if let Some(gap) = self.gap_behind(snapshot.from_lsn()) {
            return Err(Error::Damaged(format!(
                "{} has what was logged up to LSN {}, and {} does not follow that",
                file_name(SNAPSHOT, sequence),
                snapshot.from_lsn(),
                file_name(SEGMENT, gap.sequence)
            )));
        }
        if !self.disk.mutant("snapshot.trusts_unread") {
            self.aside(sequence, snapshot.verify())?;
        }
        Ok(snapshot)
    }

    /// Puts a snapshot aside that was found damaged.
    fn aside<T>(&self, sequence: u64, result: Result<T>) -> Result<T> {
        result.map_err(|error| match error {
            // Best effort: it is found damaged again.
            Error::Damaged(damage) => Error::Damaged(
                put_aside(&*self.disk, sequence, "damaged")
                    .map_or(damage.clone(), |aside| kept_as(&damage, &aside)),
            ),
            error => error,
        })
    }

    /// Gives `visit` every atomic group behind LSN `after`, in the order of the LSNs. Returns the
    /// LSN of the last: the end of the log.
    ///
    /// # Errors
    /// What `visit` answers; what the disk answers; [`Error::Damaged`] if a group is missing that
    /// was durable.
    pub fn replay<E: From<Error>>(
        &self,
        after: Lsn,
        mut visit: impl FnMut(Lsn, &[Record<'_>]) -> std::result::Result<(), E>,
    ) -> std::result::Result<Lsn, E> {
        let mut end = after;
        for &(header, limit) in self.segments.iter().filter(|(_, limit)| *limit > after) {
            let mut reader = SegmentReader::open(&*self.disk, &self.uuid, header.sequence)?;
            let limit = if self.disk.mutant("log.no_limit") { Lsn::MAX } else { limit };
            let walk = walk(&*self.disk, &mut reader, &header, limit, &mut |chunk| {
                for entry in &chunk.entries {
                    if entry.lsn <= after || entry.lsn > limit {
                        continue;
                    }
                    let records: Vec<Record<'_>> = Records::new(entry.records).collect();
                    if records.len() != entry.record_count
                        && !self.disk.mutant("log.takes_torn_chunk")
                    {
                        return Err(E::from(Error::Damaged(format!(
                            "the group with LSN {} has {} records and should have {}: the log was \
                             written by a faulty program: restore a backup",
                            entry.lsn,
                            records.len(),
                            entry.record_count
                        ))));
                    }
                    visit(entry.lsn, &records)?;
                }
                Ok(())
            })?;
            end = end.max(walk.end);
            let is_short = walk.end < limit && limit != Lsn::MAX;
            if is_short && !self.disk.mutant("log.passes_gap") {
                let lacking = || missing(reader.name(), walk.end + 1, walk.position);
                return Err(E::from(reader.unreadable_from(walk.position).unwrap_or_else(lacking)));
            }
        }
        Ok(end)
    }
}

/// Removes the files of which the making was cut short.
fn remove_unfinished<D: Disk>(disk: &D, names: &[String]) -> Result<()> {
    for sequence in numbers(names, UNFINISHED) {
        let name = file_name(UNFINISHED, sequence);
        disk.remove(&name).map_err(|error| Error::io(format!("cannot remove {name}"), &error))?;
    }
    Ok(())
}

/// Puts the snapshots aside that are damaged. Whether one is from behind the end nobody knows. LSNs from there on are
/// given again, and if it can be read some day, it must not be taken for a snapshot of what they stand for then. The
/// segment that is begun behind this makes the new names durable.
fn leave_damaged<D: Disk>(disk: &D, snapshots: &mut [FoundSnapshot]) -> Result<()> {
    for found in snapshots {
        if let Some(damage) = &mut found.damage {
            *damage = kept_as(damage, &put_aside(disk, found.sequence, "damaged")?);
        }
    }
    Ok(())
}

fn kept_as(damage: &str, aside: &str) -> String {
    format!("{damage} (it is kept as {aside})")
}

/// The names of the log's files, durably: those that are read may be younger than the last sync of the folder, and one
/// that is made now might outlive them.
fn synced_names<D: Disk>(disk: &D) -> Result<Vec<String>> {
    let names = disk.list().map_err(|error| Error::io("cannot list the log's folder", &error))?;
    if !disk.mutant("log.no_sync_at_opening") {
        disk.sync_folder().map_err(|error| Error::io("cannot sync the log's folder", &error))?;
    }
    Ok(names)
}

/// Opens the log: finds its end and begins a new segment there.
pub(crate) fn open<D: Disk>(
    disk: Arc<D>,
    options: &LogOptions,
) -> Result<(Writer<D>, Recovered<D>)> {
    let mut opening = Opening::new(&disk, options);
    if options.salvage {
        opening.report.damages = salvage::leave_what_follows(&disk, options)?;
    }
    let names = synced_names(&*disk)?;
    let numbers = |kind: &str| numbers(&names, kind);
    let sequences = numbers(SEGMENT);
    let mut headers = opening.headers(&sequences)?;
    let counting = opening.counting(&headers, &numbers(SNAPSHOT))?;
    let last = counting.checked_sub(1).and_then(|last| headers.get(last).copied());
    let mut tail = opening.tail(last.as_ref(), proven_by_owed(&headers, counting))?;
    // Of the segments; that of snapshots comes behind it, and may be the only one.
    let damage = opening.report.damages.len().saturating_sub(1);
    let (end, durable) = match &tail {
        Some(tail) => (tail.walk.end, tail.durable.min(tail.walk.end)),
        None => {
            let end = if options.starts_empty { 0 } else { 1 };
            (end, end)
        }
    };
    let mut snapshots = opening.snapshots(numbers(SNAPSHOT), headers.is_empty(), end)?;
    opening.look_for_cut(headers.iter().take(counting), end)?;
    let sequence = sequences.first().map_or(Ok(1), |newest| next_number(SEGMENT, *newest))?;
    let cut = opening.cut.map(|lsn| lsn.max(end));
    let behind_cut = cut.map(|cut| opening.behind_cut(cut));
    let (mut report, begins_behind) = (opening.report, opening.begins_behind);
    report.end = cut.unwrap_or(end);
    report.is_cut = cut.is_some();
    report.was_owing = leaves_out_owed(&headers, counting, end);
    report.first = first_there_is(&headers, counting, end).unwrap_or(durable + 1);
    report.rewritten = end - durable;
    let mut first = durable + 1;
    let mut chunks = Vec::new();
    match (&mut tail, behind_cut) {
        // A gap: replay stops there, at whatever snapshot it begins.
        (_, Some(behind)) if !disk.mutant("log.cut_goes_on") => first = behind,
        (Some(_), _) if disk.mutant("log.no_rewrite") => first = end + 1,
        (Some(tail), _) => chunks = std::mem::take(&mut tail.unproven),
        (None, _) => {}
    }
    // Not before it is known that all of this is ours.
    remove_unfinished(&*disk, &names)?;
    leave_damaged(&*disk, &mut snapshots)?;
    let start = Start {
        uuid: options.uuid,
        segment_size: options.segment_size,
        segments: headers.clone(),
        sequence,
        first,
        is_cut: cut.is_some() && !disk.mutant("log.cut_unmarked"),
        owes_snapshot: options.owes_snapshot && cut.is_none(),
        chunks: SealedChunks::seal(&*disk, &options.uuid, (sequence, first), chunks),
    };
    // What is behind damage stays, to be looked at.
    let ended = last.zip(tail.as_ref()).map(|(last, tail)| (last.sequence, tail.walk.position));
    let ended = with_owed_in_vain(ended, &*disk, &options.uuid, headers.range(counting..));
    let ended = if report.damages.is_empty() && cut.is_none() { ended } else { Vec::new() };
    let is_behind = report.torn_bytes > 0 && damage < report.damages.len();
    let damaged_end = DamagedEnd::note(&*disk, last.as_ref(), is_behind.then_some(damage));
    let writer = begin(&disk, &ended, &start)?;
    finish_copies(&*disk, &names, damaged_end, &mut report.damages)?;
    for sequence in opening.stale {
        drop(put_aside(&*disk, sequence, "stale")?);
    }
    headers.push_back(writer.current());
    let recovered = Recovered {
        disk,
        uuid: options.uuid,
        segments: limited(headers.into_iter(), report.end.max(first - 1)),
        snapshots,
        report,
        begins_behind,
    };
    Ok((writer, recovered))
}

/// Begins the new segment, and gives back the space behind the `ended` ones.
fn begin<D: Disk>(disk: &Arc<D>, ended: &[(u64, u64)], start: &Start) -> Result<Writer<D>> {
    let writer = match Writer::start(Arc::clone(disk), start) {
        // What the last segment has taken ahead may be all the space that there is.
        Err(Error::Full(_)) if give_back(&**disk, ended) => Writer::start(Arc::clone(disk), start)?,
        started => started?,
    };
    give_back(&**disk, ended);
    Ok(writer)
}

/// Gives back the space behind the ends of segments that are no longer written, and says whether there was some. Best
/// effort: it is only space.
fn give_back<D: Disk>(disk: &D, ended: &[(u64, u64)]) -> bool {
    let mut is_any = false;
    for &(sequence, position) in ended {
        let file = disk.open(&file_name(SEGMENT, sequence)).ok();
        let file = file.filter(|file| file.size().is_ok_and(|size| size > position));
        is_any |= file.is_some_and(|file| file.truncate(position).is_ok());
    }
    is_any
}
