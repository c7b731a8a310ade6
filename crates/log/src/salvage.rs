//! Salvage: before a damaged log is opened, the files from behind the damage get other names.
//!
//! ```text
//!   log-1   log-2   log-3 (damaged)   log-4   log-5      what is found
//!   log-1   log-2   log-3 | log-4 (new)                  what is left: the log ends at the damage
//!                     damaged-log-4   damaged-log-5
//! ```
//!
//! What is left is an ordinary log that ends where the damage begins, and goes on from there: nothing
//! written later has the damage before it, so nothing has to be salvaged twice. Damage that no
//! recovery reads, because a good snapshot is behind it, is left alone.
//!
//! ```text
//!   log-1   log-2 (owed)   log-3 (damaged)   log-4
//! ```
//!
//! Segments that were owed count only with a snapshot, and in vain if that never came: the life behind them gave their
//! LSNs again. Where the segment with which it did so is damaged, nothing else tells. So before damage segments that
//! were owed count only if the log says itself that their snapshot came, or if the snapshot says that it was begun in
//! them.

use std::sync::Arc;

use crate::file_names::{free_name, numbers};
use crate::layout::{SEGMENT, SNAPSHOT, file_name};
use crate::recovery::{first_owed, is_snapshot_of, limited, mark_of_owed};
use crate::scan::{SegmentHeader, SegmentReader};
use crate::snapshot::SnapshotReader;
use crate::walk::{missing, no_header, walk};
use crate::{Disk, Error, LogOptions, Lsn, Result};

/// Segments with sound headers whose numbers follow each other, the oldest first.
type Run = Vec<SegmentHeader>;

/// What a good snapshot says of itself.
#[derive(Clone, Copy)]
struct Snapshot {
    from: Lsn,
    to: Lsn,
    /// Number of the segment in which it was begun, if it says so.
    begun_in: Option<u64>,
}

/// An empty store, with which a log can begin.
const EMPTY: Snapshot = Snapshot { from: 0, to: 0, begun_in: None };

/// Where what can be recovered ends.
struct End {
    /// Number of the last segment that is read.
    sequence: u64,
    /// What is damaged there; `None` if the segment is read up to its end.
    damage: Option<Error>,
    /// The last LSN.
    lsn: Lsn,
}

/// Finds how far the log can be recovered, and puts aside the segments behind. Returns what was found
/// damaged: nothing if no segment is behind it. The end of the last segment is the opening's business.
///
/// # Errors
/// [`Error::Damaged`] if nothing can be recovered; [`Error::Foreign`]; what the disk answers.
pub(crate) fn leave_what_follows<D: Disk>(
    disk: &Arc<D>,
    options: &LogOptions,
) -> Result<Vec<String>> {
    let names = disk.list().map_err(|error| Error::io("cannot list the log's folder", &error))?;
    let segments = numbers(&names, SEGMENT);
    let mut runs = runs(disk, options, &segments)?;
    let mut snapshots = Vec::new();
    for sequence in numbers(&names, SNAPSHOT) {
        let opened = SnapshotReader::open(Arc::clone(disk), options.uuid, sequence);
        match opened.and_then(|snapshot| snapshot.verify().map(|()| snapshot)) {
            Ok(snapshot) => snapshots.push(Snapshot {
                from: snapshot.from_lsn(),
                to: snapshot.to_lsn(),
                begun_in: snapshot.begun_in(),
            }),
            Err(Error::Damaged(_)) => {}
            Err(error) => return Err(error),
        }
    }
    for run in &mut runs {
        // Of what is not followed by damage the opening says whether it counts.
        if run.last().map(|last| last.sequence) < segments.first().copied() {
            leave_out_owed(disk, options, run, &snapshots)?;
        }
    }
    let mut end = None;
    for run in runs.iter().rev() {
        end = end_of(&**disk, options, run, &snapshots)?;
        if end.is_some() {
            break;
        }
    }
    let Some(end) = end else {
        // Where there are no snapshots, or none is needed, nothing can be made worse, and recovery says what
        // is wrong. Otherwise it would take the snapshots for those of a log that has lost its end.
        return match options.owner_has_all || numbers(&names, SNAPSHOT).is_empty() {
            true => Ok(Vec::new()),
            false => Err(Error::Damaged(
                "nothing can be salvaged: there is no good snapshot with a whole log behind it, and \
                 the log does not begin with an empty store; nothing was changed: restore a backup"
                    .into(),
            )),
        };
    };
    let behind: Vec<u64> =
        segments.iter().copied().filter(|sequence| *sequence > end.sequence).collect();
    if behind.is_empty() {
        return Ok(Vec::new());
    }
    let next = file_name(SEGMENT, end.sequence + 1);
    let cause = match end.damage {
        Some(error) => error,
        None if behind.contains(&(end.sequence + 1)) => no_header(&next),
        None => Error::Damaged(format!("{next} is missing")),
    };
    let mut list = Vec::new();
    // The newest first: what a crash leaves is the beginning of the log, or has a gap, and can be
    // salvaged again.
    for sequence in behind {
        let (name, aside) =
            (file_name(SEGMENT, sequence), free_name(&names, "damaged-log", sequence));
        disk.rename(&name, &aside)
            .map_err(|error| Error::io(format!("cannot put {name} aside"), &error))?;
        list.push(format!("{name} as {aside}"));
    }
    // Before their numbers are given again.
    disk.sync_folder().map_err(|error| Error::io("cannot sync the log's folder", &error))?;
    Ok(vec![format!("{cause}; put aside: {}", list.join(", "))])
}

/// The runs of segments, the oldest first. `segments` has the newest first.
fn runs<D: Disk>(disk: &Arc<D>, options: &LogOptions, segments: &[u64]) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for &sequence in segments.iter().rev() {
        let mut reader = SegmentReader::open(&**disk, &options.uuid, sequence)?;
        let Some(header) = reader.header(sequence)? else { continue };
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(|last| last.sequence + 1 == sequence) => {
                run.push(header);
            }
            _ => runs.push(vec![header]),
        }
    }
    Ok(runs)
}

/// Leaves out the segments at the end of a run that were owed, if nothing says that their snapshot came.
fn leave_out_owed<D: Disk>(
    disk: &Arc<D>,
    options: &LogOptions,
    run: &mut Run,
    snapshots: &[Snapshot],
) -> Result<()> {
    while let Some(first) = first_owed(run.iter()) {
        let is_its = |snapshot: &Snapshot| {
            let begun_in = snapshot.begun_in;
            let is_any = disk.mutant("log.owed_by_any_snapshot");
            (is_any || begun_in.is_some())
                && is_snapshot_of(run[first..].iter(), snapshot.from, begun_in.filter(|_| !is_any))
        };
        if snapshots.iter().any(is_its)
            || mark_of_owed(&**disk, &options.uuid, run[first..].iter())?.is_there
        {
            break;
        }
        run.truncate(first);
    }
    Ok(())
}

/// How far a run of segments can be recovered, from the newest snapshot that is consistent by then, or from an empty
/// store.
fn end_of<D: Disk>(
    disk: &D,
    options: &LogOptions,
    run: &Run,
    snapshots: &[Snapshot],
) -> Result<Option<End>> {
    // First LSNs need not ascend: a segment that was owed, and never counted, is followed by one that begins
    // before it. What counts is what recovery reads.
    let segments = limited(run.iter().copied(), Lsn::MAX);
    let Some((oldest, _)) = segments.first() else { return Ok(None) };
    for &Snapshot { from, to, .. } in snapshots.iter().chain([&EMPTY]) {
        if from + 1 < oldest.first {
            continue;
        }
        let end = reach(disk, options, &segments, from)?;
        if end.as_ref().is_some_and(|end| end.lsn >= to) {
            return Ok(end);
        }
    }
    Ok(None)
}

/// How far the log in segments, each with the last LSN that counts in it, can be read from behind LSN `from` on.
fn reach<D: Disk>(
    disk: &D,
    options: &LogOptions,
    segments: &[(SegmentHeader, Lsn)],
    from: Lsn,
) -> Result<Option<End>> {
    let mut end = None;
    for &(ref header, limit) in segments.iter().filter(|(_, limit)| *limit > from) {
        let mut reader = SegmentReader::open(disk, &options.uuid, header.sequence)?;
        let walk = walk::<D, Error>(disk, &mut reader, header, limit, &mut |_| Ok(()))?;
        let is_damaged = walk.end < limit && limit != Lsn::MAX;
        let lacking = || missing(reader.name(), walk.end + 1, walk.position);
        end = Some(End {
            sequence: header.sequence,
            damage: is_damaged
                .then(|| reader.unreadable_from(walk.position).unwrap_or_else(lacking)),
            lsn: walk.end,
        });
        if is_damaged {
            break;
        }
    }
    Ok(end)
}
