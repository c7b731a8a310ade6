//! Finding the end of a log: which segments and snapshots count, and what is missing.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Report;
use super::owed::{first_owed, is_snapshot_of, mark_of_owed};
use crate::chunk::{UnsealedChunk, with_header_space};
use crate::layout::{BLOCK_SIZE, SNAPSHOT, file_name};
use crate::scan::{SegmentHeader, SegmentReader};
use crate::snapshot::{SnapshotReader, put_aside};
use crate::walk::{Walk, missing, no_header, walk};
use crate::{Disk, Error, LogOptions, Lsn, Result};

/// What the last segment has.
pub(super) struct Tail {
    pub(super) walk: Walk,
    /// The last LSN that a later chunk, or the segment's header, says was durable.
    pub(super) durable: Lsn,
    /// The chunks behind it.
    pub(super) unproven: Vec<UnsealedChunk>,
}

/// A snapshot that an opening has found.
#[derive(Debug)]
pub(super) struct FoundSnapshot {
    pub(super) sequence: u64,
    /// Why it cannot be used, if it cannot.
    pub(super) damage: Option<String>,
}

fn read_tail<D: Disk>(
    disk: &D,
    reader: &mut SegmentReader<'_, D>,
    header: &SegmentHeader,
) -> Result<Tail> {
    let mut durable = header.first - 1;
    let mut unproven: VecDeque<UnsealedChunk> = VecDeque::new();
    let walk = walk::<D, Error>(disk, reader, header, Lsn::MAX, &mut |chunk| {
        durable = durable.max(chunk.header.durable);
        unproven.retain(|chunk| chunk.first > durable);
        let (first, count) = (chunk.header.first, chunk.header.count);
        if count > 0 {
            unproven.push_back(UnsealedChunk {
                first,
                count,
                bytes: with_header_space(chunk.body),
            });
        }
        Ok(())
    })?;
    Ok(Tail { walk, durable, unproven: unproven.into() })
}

/// What is known of a log while it is opened.
pub(super) struct Opening<'a, D: Disk> {
    pub(super) disk: &'a Arc<D>,
    pub(super) options: &'a LogOptions,
    pub(super) report: Report,
    /// An LSN that was durable and is gone, though the owner has everything.
    pub(super) cut: Option<Lsn>,
    /// The newest snapshot has what was logged up to it.
    pub(super) from: Lsn,
    /// Snapshots from behind the end of a log that was cut. They may be all that tells of the cut until a segment
    /// says durably that there is a gap, so they are put aside behind that.
    pub(super) stale: Vec<u64>,
    /// Why the segments that are read begin where they do, if that is because of the disk.
    pub(super) begins_behind: Option<String>,
}

impl<'a, D: Disk> Opening<'a, D> {
    pub(super) fn new(disk: &'a Arc<D>, options: &'a LogOptions) -> Self {
        Opening {
            disk,
            options,
            report: Report::default(),
            cut: None,
            from: 0,
            stale: Vec::new(),
            begins_behind: None,
        }
    }
}

impl<D: Disk> Opening<'_, D> {
    /// How many segments count: not those at the end that count only with a snapshot, if it is not there.
    /// It is if the log says so, or if there is one from the first LSN of the first of them on.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the log may say so in a part that cannot be read; what the disk answers.
    pub(super) fn counting(
        &mut self,
        headers: &VecDeque<SegmentHeader>,
        snapshots: &[u64],
    ) -> Result<usize> {
        let mut count = headers.len();
        while let Some(first) = first_owed(headers.range(..count)) {
            let mark = mark_of_owed(&**self.disk, &self.options.uuid, headers.range(first..count))?;
            if self.disk.mutant("log.counts_what_is_owed")
                || mark.is_there
                || self.has_snapshot_of(snapshots, headers.range(first..count))?
            {
                break;
            }
            if let Some(error) = mark.unreadable.filter(|_| !self.is_damaged_behind(0)) {
                self.damage(error)?;
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
                Err(Error::Damaged(_)) => {}
                // What cannot be read at this moment may be the one.
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Looks whether there is a snapshot from behind the last gap, since a repair may have been cut short,
    /// and compares the end with what the owner knows to have been durable.
    pub(super) fn look_for_cut<'h>(
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
             the folder of the log from a backup, or use `everleaf snapshot POOL --salvage-log` to go on with what \
             is left"
        )))
    }

    /// Takes note that this LSN was durable and is behind the end; false if that is damage.
    fn is_cut_behind(&mut self, lsn: Lsn) -> bool {
        if self.options.owner_has_all {
            self.cut = self.cut.max(Some(lsn));
        }
        self.options.owner_has_all
    }

    /// With which LSN a log goes on that was cut. Where its owner may have more than was logged up to there, no
    /// snapshot that is there already must reach up to that LSN: the one before it is nobody's if one would.
    pub(super) fn behind_cut(&self, cut: Lsn) -> Lsn {
        if self.options.owes_snapshot { cut.max(self.from + 1) + 1 } else { cut + 1 }
    }

    /// As [`Self::is_cut_behind`], of what is there and damaged.
    fn is_damaged_behind(&mut self, lsn: Lsn) -> bool {
        self.options.owner_is_proven && self.is_cut_behind(lsn)
    }

    /// Where no segment counts: up to LSN `proven` there were some.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    fn demand_none(&mut self, proven: Lsn) -> Result<()> {
        let is_proven = proven > 0 && !self.disk.mutant("log.owed_proves_nothing");
        if !is_proven || self.is_damaged_behind(proven) {
            return Ok(());
        }
        self.damage(Error::Damaged(format!(
            "of the log up to LSN {proven}, which was durable, no segment is found before those that count only with a \
             snapshot: restore a backup, or use `everleaf snapshot POOL --salvage-log` to go on with what is left"
        )))
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
    pub(super) fn headers(&mut self, sequences: &[u64]) -> Result<VecDeque<SegmentHeader>> {
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
                None if !headers.is_empty() => {
                    self.begins_behind = reader.unreadable();
                    break;
                }
                // Cut before its first chunk.
                None if reader.size() < BLOCK_SIZE && self.is_cut_behind(0) => {}
                None if self.is_damaged_behind(0) => {}
                None => {
                    let lacking = || no_header(reader.name());
                    self.damage(reader.unreadable_from(0).unwrap_or_else(lacking))?;
                }
            }
        }
        if headers.is_empty() && !sequences.is_empty() && self.cut.is_none() {
            return Err(Error::Damaged("no segment of the log has a sound header".into()));
        }
        Ok(headers)
    }

    /// Reads the last segment, and looks whether something durable is missing at its end: what it says itself, or the
    /// segments behind it that do not count, up to LSN `proven`.
    pub(super) fn tail(
        &mut self,
        last: Option<&SegmentHeader>,
        proven: Lsn,
    ) -> Result<Option<Tail>> {
        let Some(last) = last else { return self.demand_none(proven).map(|()| None) };
        let mut reader = SegmentReader::open(&**self.disk, &self.options.uuid, last.sequence)?;
        let tail = read_tail(&**self.disk, &mut reader, last)?;
        let behind = reader.look_behind(last.sequence, tail.walk.position)?;
        let (durable, behind) = behind.unwrap_or_default();
        let proven = if self.disk.mutant("log.owed_proves_nothing") { 0 } else { proven };
        let durable = durable.max(proven);
        let Walk { end, position } = tail.walk;
        let lacking = (durable > end).then(|| missing(reader.name(), end + 1, position));
        // Nobody knows what was there: it must not pass for the end.
        let damage = reader.unreadable_from(position).or(lacking);
        if let Some(error) = damage.filter(|_| !self.is_damaged_behind(behind.max(durable))) {
            self.damage(error)?;
        }
        let written = reader.written_behind(last.sequence, position)?;
        self.report.torn_bytes = written + reader.unreadable_size_from(position);
        Ok(Some(tail))
    }

    /// The snapshots that can be chosen, the newest first, and those that are damaged.
    ///
    /// # Errors
    /// Besides damage, what the disk answers where one cannot be read at this moment: nobody knows then whether it
    /// is from behind the end.
    pub(super) fn snapshots(
        &mut self,
        numbers: Vec<u64>,
        has_no_log: bool,
        end: Lsn,
    ) -> Result<Vec<FoundSnapshot>> {
        let mut usable = Vec::new();
        for sequence in numbers {
            let name = file_name(SNAPSHOT, sequence);
            if has_no_log && !self.is_cut_behind(end) {
                self.damage(Error::Damaged(format!(
                    "there is {name} and no log beside it: restore a backup"
                )))?;
            }
            let opened = SnapshotReader::open(Arc::clone(self.disk), self.options.uuid, sequence);
            let (from, to) = match opened {
                Ok(snapshot) => (snapshot.from_lsn(), snapshot.to_lsn()),
                Err(Error::Damaged(damage)) => {
                    usable.push(FoundSnapshot { sequence, damage: Some(damage) });
                    continue;
                }
                Err(error) => return Err(error),
            };
            if to <= end || self.disk.mutant("snapshot.trusts_stale") {
                self.from = self.from.max(from);
                usable.push(FoundSnapshot { sequence, damage: None });
                continue;
            }
            if self.is_cut_behind(to) {
                self.from = self.from.max(from);
                self.stale.push(sequence);
                continue;
            }
            self.damage(Error::Damaged(format!(
                "{name} belongs to the log up to LSN {to}, and the log ends at LSN {end}: the disk \
                 has lost what it said was durable; restore a backup, or \
                 open with --salvage-log"
            )))?;
            // The LSNs behind the end are given again, and must not be taken for the old ones.
            drop(put_aside(&**self.disk, sequence, "stale")?);
        }
        Ok(usable)
    }
}
