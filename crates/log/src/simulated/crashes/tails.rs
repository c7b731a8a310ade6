//! Logs whose owner has more than they: what was never logged, or an end that was cut off.

use crate::simulated::{Random, SimulatedDisk};
use crate::{Disk, DiskFile, Error, Log};

use super::images::next_disk;
use super::truth::{Examined, Group, Truth, append, some_group, write_snapshot};

fn text(error: &Error) -> String {
    error.to_string()
}

/// The store begins a life with something that was never logged, for which a snapshot is owed: the LSN that
/// is nobody's stands for it. What is found up to that LSN, or behind it, has it from the snapshot.
pub fn note_unlogged(
    log: &Log<SimulatedDisk>,
    truth: &mut Truth,
    random: &mut Random,
) -> Result<(), String> {
    let next = truth.history.len() as u64 + 1;
    if !log.owes_snapshot() || log.last_lsn() != next {
        return Err(format!("a snapshot is owed from LSN {next} on, not {}", log.last_lsn()));
    }
    let changes = some_group(random, next);
    truth.note_place(next, Group { changes, ..Group::default() });
    truth.has_gap = true;
    Ok(())
}

/// Takes away files at the end of the log, or the end of the last.
fn shorten(disk: &SimulatedDisk, random: &mut Random) -> std::io::Result<()> {
    let mut names = disk.names();
    names.retain(|name| name.starts_with("log-"));
    for _ in 0..random.below(3) {
        names.pop().map_or(Ok(()), |name| disk.remove(&name))?;
    }
    let Some(name) = names.last() else { return Ok(()) };
    let file = disk.open(name)?;
    let size = file.size()?;
    let left = match random.below(3) {
        0 => size,
        1 => random.below(size as usize + 1) as u64,
        _ => random.below((size / 4096) as usize + 1) as u64 * 4096,
    };
    file.truncate(left)
}

/// Cuts off the end of a log that was closed. An owner that knows how far it went, and has nothing, is refused, or
/// has lost nothing; one that has everything goes on, and has a whole log again with the next snapshot, and none
/// before. Returns the number of crashes.
pub fn cut_off(disk: &SimulatedDisk, truth: &Truth, seed: u64) -> Result<u64, String> {
    let random = &mut Random::new(seed ^ 0x7A11);
    let Some(Examined { log, end }) = truth.examine(disk)? else { return Ok(1) };
    log.close().map_err(|error| text(&error))?;
    let mut truth = Truth { has_gap: true, ..truth.recovered(end) };
    shorten(disk, random).map_err(|error| error.to_string())?;
    let knowing = truth.options(disk).reached(end);
    let refusing = Truth { may_be_refused: true, ..truth.clone() };
    let left = disk.copied(random.bits());
    if refusing.examine_as(&left, &knowing)?.is_none() && left.names() != disk.names() {
        return Err("a log that was refused is not as it was found".into());
    }
    let opened = Log::open(disk.clone(), &knowing.clone().owner_has_all(true));
    let (log, recovered) = opened
        .map_err(|error| format!("it is refused for an owner that has everything: {error}"))?;
    let report = recovered.report();
    if report.end != end {
        return Err(format!("LSN {end} was durable, and what was cut ends at {}", report.end));
    }
    if !report.is_cut {
        drop(log);
        return truth.examine(disk).map(|_| 2);
    }
    for _ in 0..random.below(3) {
        let group = some_group(random, end);
        append(&log, &mut truth, 0, group).map_err(|error| text(&error))?;
        log.write_out().map_err(|error| text(&error))?;
    }
    let again = Log::open(disk.copied(random.bits()), &knowing.owner_has_all(true));
    if !again.map_err(|error| text(&error))?.1.report().is_cut {
        // Then there was a snapshot from its end.
        truth.examine(&disk.copied(random.bits()))?;
    }
    // Still refused, unless the crash takes back that it was cut.
    let refusing = Truth { may_be_refused: true, ..truth.clone() };
    refusing.examine(&next_disk(disk, random))?;
    write_snapshot(&log, &truth).map_err(|error| text(&error))?;
    truth.floor = log.durable_lsn();
    truth.examine(&next_disk(disk, random))?;
    // It is one more log that goes on.
    let group = some_group(random, end);
    append(&log, &mut truth, 0, group).map_err(|error| text(&error))?;
    truth.floor = log.sync().map_err(|error| text(&error))?;
    truth.examine(&next_disk(disk, random)).map(|_| 4)
}
