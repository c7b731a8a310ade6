//! The log, the snapshots and recovery on a disk that does what disks may, with the power cut before
//! every operation.
//!
//! The model is exact: what recovery gives must be the store after the groups up to the LSN that it
//! says, no group more and none less, and everything acknowledged must be among them. That covers lost
//! writes, deleted keys that come back, broken batches, and snapshots that do not fit their log.
//!
//! Each run follows from its number. What finds something says so; it panics only where the run itself
//! cannot go on.

mod arranged;
mod images;
mod tails;
mod truth;
mod world;

use super::{Faults, Random, SimulatedDisk};
use crate::Portions;
pub use arranged::{arranged, rotten_older_snapshot, snapshot_up_to_a_place_given_up};
use world::{World, live, lock};

/// What a run found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashFindings {
    /// Crashes of which the examination saw what they leave.
    pub crashes: u64,
    /// What is wrong, if something is.
    pub failure: Option<String>,
}

/// The kind of disk of a run: nine in ten are honest, and one in three has accidents.
fn faults_of(number: u64, mutants: &[&'static str]) -> Faults {
    let mut random = Random::new(number ^ 0x5EED);
    let mut faults = Faults {
        block_size: if random.one_in(2) { 512 } else { 4096 },
        tears: random.one_in(2),
        mutants: mutants.to_vec(),
        ..Faults::default()
    };
    match number % 10 {
        1 => faults.short_write_one_in = 3,
        2 => faults.error_one_in = 40,
        3 | 4 => faults.sync_error_one_in = 6,
        5 => faults.capacity = 60_000 + random.below(200_000),
        6 => faults.lies = true,
        _ => {}
    }
    if random.one_in(2) {
        // Values end a block of a snapshot each, and chunks are larger than what is read at once.
        faults.portions = Portions { window: 4096, block: 64, write: 256 };
    }
    faults
}

/// Whether the store of a run is one that sometimes has what was never logged; one run in three is. Those on
/// a disk that lies have enough to judge.
fn owes_of(number: u64) -> bool {
    // Not by what says which disk it is, or how often it is synced, or some would never meet.
    number % 10 != 6 && (number / 40).is_multiple_of(3)
}

/// The interval of a run in the mode `Interval`, in milliseconds of its clock; one run in four is. So long that half of
/// it, and what comes in addition, are not more than it (R4): a millisecond until the first look at the clock, one
/// until the next where a sync is due while another thread leads, and one that a round may last.
fn interval_of(number: u64) -> Option<u64> {
    // Not by what says which disk it is, or some would never meet.
    (number / 10).is_multiple_of(4).then_some(6 + number % 9)
}

/// Runs some lives of a store on one disk, with some planted bugs; one in so many operations is a crash
/// that is examined.
pub fn run(number: u64, mutants: &[&'static str], examine_one_in: u32) -> CrashFindings {
    let faults = faults_of(number, mutants);
    let world = World::new(number, &faults, interval_of(number), examine_one_in);
    lock(&world).truth.owes = owes_of(number);
    // A disk that forgets what one life wrote can show the next what the one before it wrote.
    let lives = if faults.lies { 1 } else { 4 };
    let mut disk = SimulatedDisk::new(faults, number);
    let mut failure = None;
    for _ in 0..lives {
        let steps = 20 + lock(&world).random.below(60);
        match live(&world, disk, steps) {
            Ok(next) => disk = next,
            Err(text) => {
                failure = Some(text);
                break;
            }
        }
        if lock(&world).failure.is_some() {
            break;
        }
    }
    let world = lock(&world);
    CrashFindings { crashes: world.crashes, failure: world.failure.clone().or(failure) }
}
