//! The store with a log on a simulated disk, which loses its power at any moment.
//!
//! A run does what users do, in an order that a seed decides: writes, batches, maps that are made,
//! emptied and dropped, snapshots, clean ends. Before each operation of the disk other writes may
//! come, and the machine crashes or the process is killed. The log that is left of a crash is opened
//! without its pool; a killed process leaves the pool, too. What is found is compared with what the
//! store was after each change ([`world::Model`]), and some of what is left lives on, to be cut again.
//!
//! A failure names its run: `STORE_RUN=<number>` repeats it.

mod arranged;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use everleaf_log::simulated::{Faults, Random};

use self::world::{Counts, Run};

/// Faults that follow from the number of a run.
fn faults_of(run: u64, mutant: Option<&'static str>) -> Faults {
    let mut random = Random::new(run ^ 0x5EED);
    Faults {
        block_size: if random.one_in(2) { 512 } else { 4096 },
        tears: random.one_in(3),
        mutants: mutant.into_iter().collect(),
        ..Faults::default()
    }
}

fn run(number: u64, mutant: Option<&'static str>) -> Counts {
    Run::new(number, faults_of(number, mutant)).go()
}

/// Runs until the time is over; at least `count`.
fn explore(count: u64, time: Duration) -> Counts {
    let (mut counts, end) = (Counts::default(), Instant::now() + time);
    let only = std::env::var("STORE_RUN").ok().and_then(|number| number.parse::<u64>().ok());
    let first = only.unwrap_or(0);
    for number in first.. {
        if only.is_some_and(|only| number > only) || number >= count && Instant::now() > end {
            break;
        }
        match catch_unwind(AssertUnwindSafe(|| run(number, None))) {
            Ok(found) => counts.add(found),
            Err(_) => panic!("run {number} failed: STORE_RUN={number} repeats it"),
        }
    }
    println!("{counts:?}");
    counts
}

#[test]
fn a_store_with_a_log_loses_nothing_at_any_crash() {
    let counts = explore(3, Duration::from_secs(5));
    assert!(counts.crashes > 60 && counts.kills > 30 && counts.lived_on > 5, "{counts:?}");
    assert!(counts.from_snapshots > 20 && counts.maps_made > 5, "{counts:?}");
}

#[test]
#[ignore = "takes minutes: STORE_SECONDS says how many seconds"]
fn a_store_with_a_log_loses_nothing_at_any_of_many_crashes() {
    let seconds = std::env::var("STORE_SECONDS").ok().and_then(|text| text.parse().ok());
    let counts = explore(1, Duration::from_secs(seconds.unwrap_or(300)));
    assert!(counts.crashes > 0);
}

/// Whether a run finds the bug, and passes without it.
fn is_found(mutant: &'static str, runs: u64) -> bool {
    (0..runs).any(|number| {
        let found = catch_unwind(|| run(number, Some(mutant))).is_err();
        if found {
            run(number, None);
            println!("{mutant}: found by run {number}");
        }
        found
    })
}

#[test]
fn a_debt_that_is_not_paid_after_a_kill_is_found() {
    assert!(is_found("store.owes_no_snapshot", 60));
}

#[test]
fn a_write_that_is_told_of_before_its_sync_is_found() {
    assert!(is_found("log.durable_before_sync", 60));
}

#[test]
fn a_name_that_is_not_synced_is_found() {
    assert!(is_found("snapshot.no_folder_sync", 300));
}
