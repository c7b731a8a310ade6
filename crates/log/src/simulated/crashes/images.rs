//! What is done with the disk that a crash leaves: it rots, lives on for a while, or loses power again.

use std::sync::{Arc, Mutex};

use crate::simulated::{Random, SimulatedDisk};

use super::tails::note_unlogged;
use super::truth::{Examined, Truth, append, some_group, write_snapshot};

/// Flips a bit of a segment that is not the last: of the last one, nobody can tell what was acknowledged.
pub fn rot_segment(disk: &SimulatedDisk, random: &mut Random) {
    let mut names = disk.names();
    names.retain(|name| name.starts_with("log-"));
    names.pop();
    if !names.is_empty() {
        let name = &names[random.below(names.len())];
        disk.rot(name, random);
    }
}

/// Flips a bit of the newest snapshot.
pub fn rot_newest_snapshot(disk: &SimulatedDisk, random: &mut Random) {
    let names = disk.names();
    if let Some(name) = names.iter().rfind(|name| name.starts_with("snapshot-")) {
        disk.rot(name, random);
    }
}

/// Examines, appends a little, syncs perhaps, loses power or the process, and examines again.
/// Returns the number of crashes.
pub fn short_life(disk: &SimulatedDisk, truth: &Truth, random: &mut Random) -> Result<u64, String> {
    let mut disk = disk.clone();
    let mut truth = truth.clone();
    let lives = 1 + random.below(3);
    for _ in 0..lives {
        let owes = truth.owes && random.one_in(3);
        let options = truth.options(&disk).owes_snapshot(owes);
        let Some(Examined { log, end }) = truth.examine_as(&disk, &options)? else { return Ok(1) };
        truth = truth.recovered(end);
        if owes {
            note_unlogged(&log, &mut truth, random)?;
        }
        for _ in 0..random.below(4) {
            let number = random.bits();
            let group = some_group(random, number);
            append(&log, &mut truth, random.below(3), group).map_err(|error| error.to_string())?;
            match random.below(4) {
                0 if !owes => log.sync().map(drop),
                1 => log.write_out(),
                _ => Ok(()),
            }
            .map_err(|error| error.to_string())?;
        }
        if random.one_in(4) {
            write_snapshot(&log, &truth).map_err(|error| error.to_string())?;
        }
        truth.floor = truth.floor.max(log.durable_lsn());
        disk = next_disk(&disk, random);
    }
    truth.examine(&disk).map(|_| lives as u64)
}

/// The disk after the process died, or the power failed.
pub fn next_disk(disk: &SimulatedDisk, random: &mut Random) -> SimulatedDisk {
    let next = match random.below(3) {
        0 => disk.copied(random.bits()),
        _ => disk.crashed(random.bits()),
    };
    if random.one_in(2) {
        next.evict();
    }
    next
}

/// Cuts the power before every operation of the recovery, too. Returns the number of crashes.
pub fn crashes_in_recovery(disk: &SimulatedDisk, truth: &Truth, seed: u64) -> Result<u64, String> {
    let found: Arc<Mutex<(u64, Option<String>)>> = Arc::default();
    let (inner, nested) = (Arc::clone(&found), truth.clone());
    let mut random = Random::new(seed);
    disk.set_hook(move |disk| {
        let image = disk.crashed(random.bits());
        let outcome = nested.examine(&image);
        let mut found = inner.lock().expect("nobody panics with it");
        found.0 += 1;
        if let Err(text) = outcome {
            found.1.get_or_insert(format!("after a crash in recovery: {text}"));
        }
    });
    let outcome = truth.examine(disk).map(drop);
    disk.clear_hook();
    let found = found.lock().expect("nobody panics with it");
    match &found.1 {
        Some(text) => Err(text.clone()),
        None => outcome.map(|()| found.0),
    }
}
