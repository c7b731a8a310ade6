//! The store with a log on a simulated disk, which loses its power at any moment.
//!
//! A run does what users do, in an order that a seed decides: writes, batches, maps that are made,
//! emptied and dropped, snapshots, clean ends. Before each operation of the disk other writes may
//! come, and the machine crashes or the process is killed. The log that is left of a crash is opened
//! without its pool; a killed process leaves the pool, too. What is found is compared with what the
//! store was after each change (`crashes::model`), and some of what is left lives on, to be cut again.
//!
//! One run in three is in the mode `Interval`, on a clock of its own: nobody waits, and what is older
//! than the interval must be there all the same.
//!
//! A failure names its run: `STORE_RUN=<number>` repeats it.

mod arranged;
mod called;
mod causes;
mod cut_log;
mod damaged;
mod explore;
mod free;
mod misnumbered;
mod named;
mod no_room;
mod owed;
mod rolled_back;
mod salvaging;
mod stopped;

use std::panic::catch_unwind;

use self::explore::Explore;
use crate::wal::simulated::crashes;
use crate::wal::simulated::crashes::Counts;
pub(super) use crate::wal::simulated::crashes::world;

fn run(number: u64, mutant: Option<&'static str>) -> Counts {
    crashes::run(number, mutant.as_slice())
}

/// A number that the environment gives.
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_store_with_a_log_loses_nothing_at_any_crash() {
    if let Some(number) = given("STORE_RUN") {
        println!("{:?}", run(number, None));
        return;
    }
    let counts = Explore { first: 0, wanted: 500, threads: 1, tells: false }.go();
    println!("{counts:?}");
    assert!(counts.crashes > 200 && counts.kills > 100 && counts.lived_on > 20, "{counts:?}");
    assert!(counts.from_snapshots > 60 && counts.maps_made > 10, "{counts:?}");
    assert!(counts.lost_in_interval > 20 && counts.owing > 5, "{counts:?}");
}

/// `STORE_CRASHES` says how many crashes, `STORE_FIRST` the number of the first run, `STORE_THREADS`
/// how many go on at the same time.
#[test]
#[ignore = "a long run"]
fn a_store_with_a_log_loses_nothing_at_any_of_very_many_crashes() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let explore = Explore {
        first: given("STORE_FIRST").unwrap_or(1000),
        wanted: given("STORE_CRASHES").unwrap_or(100_000),
        threads: given("STORE_THREADS").unwrap_or(cpus),
        tells: true,
    };
    let wanted = explore.wanted;
    let counts = explore.go();
    println!("{counts:?}");
    assert!(counts.seen() >= wanted && counts.lost_in_interval > 0, "{counts:?}");
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

#[test]
fn a_sync_that_is_due_and_not_done_is_found() {
    assert!(is_found("log.misses_interval", 60));
}

#[test]
fn a_sync_that_was_asked_for_and_not_done_is_found() {
    assert!(is_found("store.sync_is_a_wait", 300));
}

/// A view was closed, and with it went old values that another one needed: it showed what came later.
#[test]
fn a_closing_that_frees_what_others_need_is_found() {
    assert!(is_found("store.close_frees_needed", 60));
}

/// The log's own tests find it everyday.
#[test]
#[ignore = "guards a landing"]
fn landing_half_a_batch_of_what_was_not_synced_is_found() {
    assert!(is_found("log.takes_torn_chunk", 600));
}
