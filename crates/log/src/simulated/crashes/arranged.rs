//! What needs several rare accidents one after the other, arranged: of the seeds of a crash, one that
//! does what is wanted is taken.

use std::sync::{Arc, Mutex};

use crate::simulated::{Faults, KeptPlace, SimulatedDisk};
use crate::{Disk, DiskFile, Log, Record, Result, SnapshotWriter};

use super::truth::options;

const SEEDS: u64 = 2000;

fn put(log: &Log<SimulatedDisk>, value: &'static [u8]) -> Result<()> {
    log.append(&[Record::put(1, b"key", value)]).map(drop)
}

/// Gives a disk after a crash that fulfils the condition.
fn crashed(
    disk: &SimulatedDisk,
    what: &str,
    is_wanted: impl Fn(&SimulatedDisk) -> bool,
) -> std::result::Result<SimulatedDisk, String> {
    let found = (0..SEEDS).find(|&seed| is_wanted(&disk.crashed(seed)));
    found.map(|seed| disk.crashed(seed)).ok_or_else(|| format!("no crash has {what}"))
}

fn size(disk: &SimulatedDisk, name: &str) -> u64 {
    disk.open(name).and_then(|file| file.size()).unwrap_or(0)
}

/// Runs all of it, with some planted bugs.
///
/// # Errors
/// What was seen.
pub fn arranged(mutants: &[&'static str]) -> std::result::Result<(), String> {
    recycled_segment(mutants)?;
    left_over_file(mutants)?;
    rotten_older_snapshot(mutants)?;
    snapshot_up_to_a_place_given_up(mutants)
}

/// A segment whose file was a segment before, with a chunk that would fit: a crash leaves the chunk
/// behind the end of the log; its LSN is given again; the next crash undoes that the file was cut
/// off; the file is recycled, and the chunk now lies just where the next one is expected.
fn recycled_segment(mutants: &[&'static str]) -> std::result::Result<(), String> {
    let honest = Faults { block_size: 512, ..Faults::default() };
    let disk = SimulatedDisk::new(honest.clone(), 1);
    let open = |disk: &SimulatedDisk| Log::open(disk.clone(), &options(disk)).expect("it is whole");
    // One chunk with the LSNs 1 to 4, and one with 5; none is durable, and only the second stays.
    let (log, _) = open(&disk);
    for value in [&b"lost"[..]; 4] {
        put(&log, value).expect("the log works");
    }
    log.write_out().expect("the disk works");
    put(&log, b"never acknowledged").expect("the log works");
    log.write_out().expect("the disk works");
    let disk = crashed(&disk, "only the second chunk", |disk| {
        let (_, recovered) = open(&disk.copied(1));
        recovered.report().end == 0 && recovered.report().torn_bytes > 0
    })?;
    // The file is cut off behind the end of the log, and that is lost.
    let whole = size(&disk, "log-0000000000000001");
    let (second, _) = open(&disk);
    let disk = crashed(&disk, "the second segment, and the first as it was", |disk| {
        size(disk, "log-0000000000000001") == whole && size(disk, "log-0000000000000002") > 0
    })?;
    drop((log, second));
    // Two snapshots let the first segment go, and four groups fill the third.
    let faults = Faults { mutants: mutants.to_vec(), ..honest };
    disk.set_faults(faults);
    let (log, _) = Log::open(disk.clone(), &options(&disk)).map_err(|error| error.to_string())?;
    for _ in 0..2 {
        let snapshot = SnapshotWriter::begin(&log).map_err(|error| error.to_string())?;
        snapshot.finish().map_err(|error| error.to_string())?;
    }
    for _ in 0..4 {
        put(&log, b"kept").map_err(|error| error.to_string())?;
        log.sync().map_err(|error| error.to_string())?;
    }
    let next = disk.copied(1);
    let (_, recovered) =
        Log::open(next.clone(), &options(&next)).map_err(|error| error.to_string())?;
    match recovered.report().end {
        4 => Ok(()),
        end => Err(format!("four groups were appended and the log ends at LSN {end}")),
    }
}

/// A file that was to be a segment and never got its name, with chunks in it: the opening was cut
/// off, and what it had read and written again is gone where it was read. The next opening makes a
/// segment of the same number.
fn left_over_file(mutants: &[&'static str]) -> std::result::Result<(), String> {
    let disk = SimulatedDisk::new(Faults { block_size: 512, ..Faults::default() }, 1);
    let open = |disk: &SimulatedDisk| Log::open(disk.clone(), &options(disk)).expect("it is whole");
    let (log, _) = open(&disk);
    put(&log, b"never acknowledged").expect("the log works");
    log.write_out().expect("the disk works");
    let next = disk.copied(1);
    let found: Arc<Mutex<Option<SimulatedDisk>>> = Arc::default();
    let inner = Arc::clone(&found);
    next.set_hook(move |disk| {
        let is_wanted = |disk: &SimulatedDisk| {
            let names = disk.names();
            let is_left = names.iter().any(|name| name.starts_with("spare-"));
            is_left && names.len() == 2 && open(&disk.copied(1)).1.report().end == 0
        };
        // The first that is found is too early: the file is there and nothing is in it.
        if disk.names().iter().any(|name| name.starts_with("spare-"))
            && let Ok(image) = crashed(disk, "an unfinished segment", is_wanted)
        {
            *inner.lock().expect("nobody panics with it") = Some(image);
        }
    });
    drop(open(&next));
    next.clear_hook();
    let disk = found.lock().expect("nobody panics with it").take();
    let mut disk = disk.ok_or("no crash leaves an unfinished segment")?;
    disk.set_faults(Faults { mutants: mutants.to_vec(), ..disk.faults() });
    for _ in 0..2 {
        let opened = Log::open(disk.clone(), &options(&disk));
        let (log, recovered) = opened.map_err(|error| error.to_string())?;
        // The process dies: what it would do at its end does not happen.
        disk = disk.copied(1);
        drop(log);
        if recovered.report().end != 0 {
            return Err("a group is back that was lost".into());
        }
    }
    Ok(())
}

/// Of three snapshots the second rots before the third is made, and nobody has looked at it: the first
/// must stay. Then the third rots, too.
///
/// # Errors
/// What was seen.
pub fn rotten_older_snapshot(mutants: &[&'static str]) -> std::result::Result<(), String> {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let (log, _) = Log::open(disk.clone(), &options(&disk)).map_err(|error| error.to_string())?;
    // Others are for the crashes to find.
    let mutants = mutants.iter().copied().filter(|name| *name == "snapshot.keeps_unread");
    disk.set_faults(Faults { mutants: mutants.collect(), ..Faults::default() });
    let rot = |name: &str| -> std::result::Result<(), String> {
        let file = disk.open(name).map_err(|error| error.to_string())?;
        let mut byte = [0];
        // Behind the header: in the first block.
        file.read_at(&mut byte, 70).map_err(|error| error.to_string())?;
        file.write_at(&[!byte[0]], 70).map_err(|error| error.to_string())?;
        Ok(())
    };
    for number in 1..=3 {
        // Each in a segment of its own.
        put(&log, &[7; 30_000]).map_err(|error| error.to_string())?;
        log.sync().map_err(|error| error.to_string())?;
        let mut snapshot = SnapshotWriter::begin(&log).map_err(|error| error.to_string())?;
        let pair = Record::put(1, b"key", b"incompressible");
        snapshot.add(&pair).map_err(|error| error.to_string())?;
        snapshot.finish().map_err(|error| error.to_string())?;
        if number > 1 {
            rot(&format!("snapshot-{number:016x}"))?;
        }
    }
    log.close().map_err(|error| error.to_string())?;
    let (_, recovered) =
        Log::open(disk.clone(), &options(&disk)).map_err(|error| error.to_string())?;
    let start = recovered.replay_start().map_err(|error| error.to_string())?;
    match recovered.replay(start.from_lsn(), |_, _| Result::Ok(())) {
        Ok(3) => Ok(()),
        Ok(end) => Err(format!("replay ends at LSN {end} and the log at 3")),
        Err(error) => Err(error.to_string()),
    }
}

/// A snapshot ends while the last place in the log is taken; the place is given up, and the power fails
/// before its LSN is given again. The snapshot must not need that LSN.
///
/// # Errors
/// What was seen.
pub fn snapshot_up_to_a_place_given_up(
    mutants: &[&'static str],
) -> std::result::Result<(), String> {
    // Others are for the crashes to find.
    let mutants = mutants.iter().copied().filter(|name| *name == "snapshot.needs_given_up");
    let faults = Faults { mutants: mutants.collect(), ..Faults::default() };
    let disk = SimulatedDisk::new(faults, 1);
    let (log, _) = Log::open(disk.clone(), &options(&disk)).map_err(|error| error.to_string())?;
    put(&log, b"kept").map_err(|error| error.to_string())?;
    let log = Arc::new(log);
    let snapshot = SnapshotWriter::begin(&log).map_err(|error| error.to_string())?;
    let (kept, to_give_up) = (Mutex::new(Some(KeptPlace::keep(log.place()))), Arc::clone(&log));
    disk.set_point_hook(move |_| {
        if let Some(place) = kept.lock().expect("nobody panics with it").take() {
            place.back(&to_give_up).give_up();
        }
    });
    let made = snapshot.finish().map_err(|error| error.to_string())?;
    disk.clear_hook();
    assert_eq!((log.last_lsn(), made.from), (1, 1), "the place was given up, and not before");
    let left = disk.crashed(1);
    match Log::open(left.clone(), &options(&left)) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
