//! Opening: which files count, where the log ends, and what was lost behind its end.
//!
//! Reading tells what the page cache has, which after a failed sync need not be what the disk has.
//! So whatever no later chunk proves durable is written again, into the segment that the new
//! session begins; the old copy no longer counts.

mod owed;

use std::collections::VecDeque;
use std::sync::Arc;

pub(crate) use self::owed::{first_owed, is_any_durable, is_snapshot_of, limited};
use self::owed::{first_there_is, leaves_out_owed, proven_by_owed};
use crate::file_names::numbers;
use crate::layout::{BLOCK_SIZE, SEGMENT, SNAPSHOT, UNFINISHED, file_name, next_number};
use crate::record::Records;
use crate::salvage;
use crate::scan::{SegmentHeader, SegmentReader};
use crate::snapshot::{SnapshotReader, put_aside};
use crate::walk::{Walk, missing, no_header, walk};
use crate::writer::{Start, Writer};
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
    /// missing one. They were not durable when the machine stopped.
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
    /// Numbers of the snapshots, the newest first.
    snapshots: Vec<u64>,
    report: Report,
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
    /// [`Error::Damaged`] if there is none and the log does not begin with an empty store.
    pub fn replay_start(&self) -> Result<ReplayStart<D>> {
        let mut skipped = Vec::new();
        for &sequence in &self.snapshots {
            match self.good_snapshot(sequence) {
                Ok(snapshot) => return Ok(ReplayStart { snapshot: Some(snapshot), skipped }),
                Err(error) => skipped.push(error.to_string()),
            }
        }
        if self.report.first == 1 {
            return Ok(ReplayStart { snapshot: None, skipped });
        }
        let found = if skipped.is_empty() { "there is none".into() } else { skipped.join("; ") };
        Err(Error::Damaged(format!(
            "there is no good snapshot and the log begins at LSN {}, not with an empty store \
             ({found}): restore a backup",
            self.report.first
        )))
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
        if !self.disk.mutant("snapshot.trusts_unread") {
            self.aside(sequence, snapshot.verify())?;
        }
        Ok(snapshot)
    }

    /// Puts a snapshot aside that was found damaged.
    fn aside<T>(&self, sequence: u64, result: Result<T>) -> Result<T> {
        if let Err(Error::Damaged(_)) = result {
            put_aside(&*self.disk, sequence);
        }
        result
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
                             written by a faulty program",
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
                return Err(E::from(missing(reader.name(), walk.end + 1, walk.position)));
            }
        }
        Ok(end)
    }
}

/// What the last segment has.
struct Tail {
    walk: Walk,
    /// The last LSN that a later chunk, or the segment's header, says was durable.
    durable: Lsn,
    /// The chunks behind it.
    unproven: Vec<(Lsn, u32, Vec<u8>)>,
}

fn read_tail<D: Disk>(
    disk: &D,
    reader: &mut SegmentReader<'_, D>,
    header: &SegmentHeader,
) -> Result<Tail> {
    let mut durable = header.first - 1;
    let mut unproven: VecDeque<(Lsn, u32, Vec<u8>)> = VecDeque::new();
    let walk = walk::<D, Error>(disk, reader, header, Lsn::MAX, &mut |chunk| {
        durable = durable.max(chunk.header.durable);
        unproven.retain(|(first, _, _)| *first > durable);
        if chunk.header.count > 0 {
            unproven.push_back((chunk.header.first, chunk.header.count, chunk.body.to_vec()));
        }
        Ok(())
    })?;
    Ok(Tail { walk, durable, unproven: unproven.into() })
}

/// Removes the files of which the making was cut short.
fn remove_unfinished<D: Disk>(disk: &D, names: &[String]) -> Result<()> {
    for sequence in numbers(names, UNFINISHED) {
        let name = file_name(UNFINISHED, sequence);
        disk.remove(&name).map_err(|error| Error::io(format!("cannot remove {name}"), &error))?;
    }
    Ok(())
}

/// Opens the log: finds its end and begins a new segment there.
pub(crate) fn open<D: Disk>(
    disk: Arc<D>,
    options: &LogOptions,
) -> Result<(Writer<D>, Recovered<D>)> {
    let mut opening =
        Opening { disk: &disk, options, report: Report::default(), cut: None, from: 0 };
    if options.salvage {
        opening.report.damages = salvage::leave_what_follows(&disk, options)?;
    }
    let names = disk.list().map_err(|error| Error::io("cannot list the log's folder", &error))?;
    let numbers = |kind: &str| numbers(&names, kind);
    // The names that were read may be younger than the last sync of the folder, and one that is
    // made now might outlive them.
    if !disk.mutant("log.no_sync_at_opening") {
        disk.sync_folder().map_err(|error| Error::io("cannot sync the log's folder", &error))?;
    }
    let sequences = numbers(SEGMENT);
    let mut headers = opening.headers(&sequences)?;
    let counting = opening.counting(&headers, &numbers(SNAPSHOT))?;
    let last = counting.checked_sub(1).and_then(|last| headers.get(last).copied());
    let tail = opening.tail(last.as_ref(), proven_by_owed(&headers, counting))?;
    let (end, durable) = match &tail {
        Some(tail) => (tail.walk.end, tail.durable.min(tail.walk.end)),
        None => {
            let end = if options.starts_empty { 0 } else { 1 };
            (end, end)
        }
    };
    let snapshots = opening.snapshots(numbers(SNAPSHOT), headers.is_empty(), end)?;
    opening.look_for_cut(headers.iter().take(counting), end)?;
    let sequence = sequences.first().map_or(Ok(1), |newest| next_number(SEGMENT, *newest))?;
    let cut = opening.cut.map(|lsn| lsn.max(end));
    let mut report = opening.report;
    report.end = cut.unwrap_or(end);
    report.is_cut = cut.is_some();
    report.was_owing = leaves_out_owed(&headers, counting, end);
    report.first = first_there_is(&headers, counting, end).unwrap_or(durable + 1);
    report.rewritten = end - durable;
    let mut first = durable + 1;
    let mut chunks = Vec::new();
    let is_marked = cut.is_some() && !disk.mutant("log.cut_unmarked");
    match (&tail, cut) {
        // A gap: replay stops there, at whatever snapshot it begins.
        (_, Some(cut)) if !disk.mutant("log.cut_goes_on") => first = cut + 1,
        (Some(_), _) if disk.mutant("log.no_rewrite") => first = end + 1,
        (Some(tail), _) => chunks.clone_from(&tail.unproven),
        (None, _) => {}
    }
    // Not before it is known that all of this is ours.
    remove_unfinished(&*disk, &names)?;
    let writer = Writer::start(
        Arc::clone(&disk),
        Start {
            uuid: options.uuid,
            segment_size: options.segment_size,
            segments: headers.clone(),
            sequence,
            first,
            is_cut: is_marked,
            owes_snapshot: options.owes_snapshot && cut.is_none(),
            chunks,
        },
    )?;
    // What is behind damage stays, for who wants to look at it.
    if let (Some(last), Some(tail), true) =
        (last, &tail, report.damages.is_empty() && cut.is_none())
    {
        give_back(&*disk, &last, tail.walk.position);
    }
    headers.push_back(writer.current());
    let recovered = Recovered {
        disk,
        uuid: options.uuid,
        segments: limited(headers.into_iter(), report.end),
        snapshots,
        report,
    };
    Ok((writer, recovered))
}

/// Gives back the space behind the end of a segment that is no longer written. Best effort: it is
/// only space.
fn give_back<D: Disk>(disk: &D, last: &SegmentHeader, position: u64) {
    if let Ok(file) = disk.open(&file_name(SEGMENT, last.sequence))
        && file.size().is_ok_and(|size| size > position)
    {
        drop(file.truncate(position));
    }
}

struct Opening<'a, D: Disk> {
    disk: &'a Arc<D>,
    options: &'a LogOptions,
    report: Report,
    /// An LSN that was durable and is gone, though the owner has everything.
    cut: Option<Lsn>,
    /// The newest snapshot has what was logged up to it.
    from: Lsn,
}

impl<D: Disk> Opening<'_, D> {
    /// How many segments count: not those at the end that count only with a snapshot, if it is not there.
    /// It is if the log says so, or if there is one from the first LSN of the first of them on.
    fn counting(&self, headers: &VecDeque<SegmentHeader>, snapshots: &[u64]) -> Result<usize> {
        let mut count = headers.len();
        while let Some(first) = first_owed(headers.range(..count)) {
            if self.disk.mutant("log.counts_what_is_owed")
                || is_any_durable(&**self.disk, &self.options.uuid, headers.range(first..count))?
                || self.has_snapshot_of(snapshots, headers.range(first..count))?
            {
                break;
            }
            count = first;
        }
        Ok(count)
    }

    /// Whether there is the snapshot with which segments count that were owed.
    fn has_snapshot_of<'h>(
        &self,
        snapshots: &[u64],
        owed: impl DoubleEndedIterator<Item = &'h SegmentHeader> + Clone,
    ) -> Result<bool> {
        for &sequence in snapshots {
            match SnapshotReader::open(Arc::clone(self.disk), self.options.uuid, sequence) {
                Ok(snapshot) => {
                    let is_any = self.disk.mutant("log.owed_by_any_snapshot");
                    let begun_in = snapshot.begun_in().filter(|_| !is_any);
                    if is_snapshot_of(owed.clone(), snapshot.from_lsn(), begun_in) {
                        return Ok(true);
                    }
                }
                Err(error @ Error::Foreign(_)) => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Looks whether there is a snapshot from behind the last gap, since a repair may have been cut short,
    /// and compares the end with what the owner knows to have been durable.
    fn look_for_cut<'h>(
        &mut self,
        headers: impl DoubleEndedIterator<Item = &'h SegmentHeader>,
        end: Lsn,
    ) -> Result<()> {
        // What begins with a later segment does not count before it, a gap neither.
        let mut later = Lsn::MAX;
        let gap = headers.rev().find(|header| {
            let counts = header.first <= later;
            later = later.min(header.first);
            counts && header.gap.is_beginning()
        });
        let is_open = gap.is_some_and(|gap| self.from + 1 < gap.first);
        if is_open && !self.disk.mutant("log.forgets_gap") {
            // If the owner does not have everything, recovery says what is missing.
            let _ = self.is_cut_behind(end);
        }
        let reached =
            if self.disk.mutant("log.forgets_reached") { 0 } else { self.options.reached };
        if end >= reached || self.is_cut_behind(reached) {
            return Ok(());
        }
        self.damage(Error::Damaged(format!(
            "the log ends at LSN {end}, and LSN {reached} was durable once: its end was cut off; restore \
             the folder of the log from a backup, or use `everleaf snapshot POOL --salvage-log` to go on with what is left"
        )))
    }

    /// Takes note that this LSN was durable and is behind the end; false if that is damage.
    fn is_cut_behind(&mut self, lsn: Lsn) -> bool {
        if self.options.owner_has_all {
            self.cut = self.cut.max(Some(lsn));
        }
        self.options.owner_has_all
    }

    /// As [`Self::is_cut_behind`], of what is there and damaged.
    fn is_damaged_behind(&mut self, lsn: Lsn) -> bool {
        self.options.owner_is_proven && self.is_cut_behind(lsn)
    }

    /// Takes note of damage.
    ///
    /// # Errors
    /// The damage, unless the log is to be salvaged.
    fn damage(&mut self, error: Error) -> Result<()> {
        if !self.options.salvage {
            return Err(error);
        }
        let text = error.to_string();
        if !self.report.damages.iter().any(|known| known.starts_with(&text)) {
            self.report.damages.push(text);
        }
        Ok(())
    }

    /// The headers of the segments that belong together, the oldest first. `sequences` has the
    /// newest first.
    fn headers(&mut self, sequences: &[u64]) -> Result<VecDeque<SegmentHeader>> {
        let mut headers: VecDeque<SegmentHeader> = VecDeque::new();
        for &sequence in sequences {
            let follows = headers.front().is_none_or(|next| next.sequence == sequence + 1);
            if !follows {
                break;
            }
            let mut reader = SegmentReader::open(&**self.disk, &self.options.uuid, sequence)?;
            match reader.header(sequence)? {
                Some(header) => headers.push_front(header),
                // Recycled, and the new name was not durable.
                None if !headers.is_empty() => break,
                // Cut before its first chunk.
                None if reader.size() < BLOCK_SIZE && self.is_cut_behind(0) => {}
                None if self.is_damaged_behind(0) => {}
                None => self.damage(no_header(reader.name()))?,
            }
        }
        if headers.is_empty() && !sequences.is_empty() && self.cut.is_none() {
            return Err(Error::Damaged("no segment of the log has a sound header".into()));
        }
        Ok(headers)
    }

    /// Reads the last segment, and looks whether something durable is missing at its end: what it says itself, or the
    /// segments behind it that do not count, up to LSN `proven`.
    fn tail(&mut self, last: Option<&SegmentHeader>, proven: Lsn) -> Result<Option<Tail>> {
        let Some(last) = last else { return self.demand_none(proven).map(|()| None) };
        let mut reader = SegmentReader::open(&**self.disk, &self.options.uuid, last.sequence)?;
        let tail = read_tail(&**self.disk, &mut reader, last)?;
        let behind = reader.look_behind(last.sequence, tail.walk.position)?;
        let (durable, behind) = behind.unwrap_or_default();
        let proven = if self.disk.mutant("log.owed_proves_nothing") { 0 } else { proven };
        let durable = durable.max(proven);
        if durable > tail.walk.end && !self.is_damaged_behind(behind.max(durable)) {
            self.damage(missing(reader.name(), tail.walk.end + 1, tail.walk.position))?;
        }
        self.report.torn_bytes = reader.written_behind(last.sequence, tail.walk.position)?;
        Ok(Some(tail))
    }

    /// The numbers of the snapshots that can be chosen, the newest first.
    fn snapshots(&mut self, numbers: Vec<u64>, has_no_log: bool, end: Lsn) -> Result<Vec<u64>> {
        let mut usable = Vec::new();
        for sequence in numbers {
            let name = file_name(SNAPSHOT, sequence);
            if has_no_log && !self.is_cut_behind(end) {
                self.damage(Error::Damaged(format!(
                    "there is {name} and no log beside it: restore a backup"
                )))?;
            }
            let opened = SnapshotReader::open(Arc::clone(self.disk), self.options.uuid, sequence);
            let to = match opened {
                Ok(snapshot) => {
                    if snapshot.to_lsn() <= end {
                        self.from = self.from.max(snapshot.from_lsn());
                    }
                    snapshot.to_lsn()
                }
                Err(error @ Error::Foreign(_)) => return Err(error),
                // It says so when it is chosen.
                Err(_) => 0,
            };
            if to <= end || self.disk.mutant("snapshot.trusts_stale") {
                usable.push(sequence);
                continue;
            }
            if !self.is_cut_behind(to) {
                self.damage(Error::Damaged(format!(
                    "{name} belongs to the log up to LSN {to}, and the log ends at LSN {end}: the disk \
                     has lost what it said was durable; restore a backup, or \
                     open with --salvage-log"
                )))?;
            }
            // The LSNs behind the end are given again, and must not be taken for the old ones.
            self.disk
                .rename(&name, &file_name("stale", sequence))
                .map_err(|error| Error::io(format!("cannot put {name} aside"), &error))?;
        }
        Ok(usable)
    }
}
