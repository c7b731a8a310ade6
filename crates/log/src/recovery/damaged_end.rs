//! The copy of the segment with which a log that is salvaged ends: what is behind its sound part may be nowhere else,
//! and the segment itself goes when two snapshots are newer.
//!
//! ```text
//!   1. unfinished-log-3                  made, empty
//!   2. log-4                             begun: nothing tells of the damage any more
//!   3. unfinished-log-3                  gets what log-3 has, which needs room, as the new segment does before it
//!   4. unfinished-log-3 -> damaged-log-3
//! ```
//!
//! An opening that finds the file of step 1 goes on from step 3: the process was killed in between.

use crate::disk::{Unreadable, write_whole};
use crate::file_names::{free_name, numbers};
use crate::layout::{COPYING, SEGMENT, file_name};
use crate::scan::SegmentHeader;
use crate::{Disk, DiskFile, Error, Result};

/// A segment with something behind its sound part.
pub(super) struct DamagedEnd {
    sequence: u64,
    /// Behind which damage its copy is told of.
    damage: usize,
}

impl DamagedEnd {
    /// Notes that the last segment of a log that is salvaged is to be copied, because of the damage of this number. The
    /// new segment, which is begun behind this, makes the note durable.
    pub(super) fn note<D: Disk>(
        disk: &D,
        last: Option<&SegmentHeader>,
        damage: Option<usize>,
    ) -> Option<Self> {
        let (sequence, damage) = (last?.sequence, damage?);
        // Best effort, as the copy. It is there if a salvage was killed before the new segment was.
        drop(disk.create(&file_name(COPYING, sequence)));
        Some(DamagedEnd { sequence, damage })
    }

    /// What became of the copy.
    fn tell(&self, kept: &std::io::Result<String>, damages: &mut [String]) {
        let name = file_name(SEGMENT, self.sequence);
        damages[self.damage].push_str(&match kept {
            Ok(aside) => format!("; {name} is kept as {aside}, with what is behind its sound part"),
            Err(error) => format!(
                "; there is no copy of {name} for what is behind its sound part, and it is deleted when two snapshots \
                 are newer: {error}"
            ),
        });
    }
}

/// Makes the copy of a segment, and those that salvages before were killed in, as far as their segments are still
/// there. Best effort; of the one that this opening has noted it is told. To be called when the new segment is there.
///
/// # Errors
/// If the new names cannot be made durable.
pub(super) fn finish_copies<D: Disk>(
    disk: &D,
    names: &[String],
    noted: Option<DamagedEnd>,
    damages: &mut [String],
) -> Result<()> {
    let mut sequences = numbers(names, COPYING);
    let number = noted.as_ref().map(|end| end.sequence);
    sequences.extend(number.filter(|number| !sequences.contains(number)));
    for &sequence in &sequences {
        let is_there = names.contains(&file_name(SEGMENT, sequence));
        let copied = is_there.then(|| copy(disk, names, sequence));
        let told = noted.as_ref().filter(|end| end.sequence == sequence).zip(copied.as_ref());
        if let Some((end, kept)) = told {
            end.tell(kept, damages);
        }
        // One that failed is not tried again, or each opening would be in want of its room.
        if !matches!(copied, Some(Ok(_))) {
            drop(disk.remove(&file_name(COPYING, sequence)));
        }
    }
    if sequences.is_empty() {
        return Ok(());
    }
    disk.sync_folder().map_err(|error| Error::io("cannot sync the log's folder", &error))
}

/// Copies a segment, and returns the name of the copy.
fn copy<D: Disk>(disk: &D, names: &[String], sequence: u64) -> std::io::Result<String> {
    let unfinished = file_name(COPYING, sequence);
    let aside = free_name(names, "damaged-log", sequence);
    copy_file(disk, &file_name(SEGMENT, sequence), &unfinished)?;
    disk.rename(&unfinished, &aside)?;
    Ok(aside)
}

/// Copies a file but for the zeros at its end, and with zeros for what cannot be read of it, durably but for its name,
/// which there may be.
fn copy_file<D: Disk>(disk: &D, from: &str, to: &str) -> std::io::Result<()> {
    let (from, to) = (disk.open(from)?, disk.create(to).or_else(|_| disk.open(to))?);
    to.truncate(0)?;
    // A file system that answers before it looks where the file ends cannot read behind that either.
    let size = from.size()?;
    let mut buffer = vec![0; disk.portions().window];
    let (mut position, mut unreadable) = (0, Unreadable::default());
    while position < size {
        let wanted = (size - position).min(buffer.len() as u64) as usize;
        let count = unreadable.read_around(&from, &mut buffer[..wanted], position)?;
        if count == 0 {
            break;
        }
        if let Some(last) = buffer[..count].iter().rposition(|byte| *byte != 0) {
            write_whole(&to, &buffer[..=last], position)?;
        }
        position += count as u64;
    }
    to.sync_data()
}
