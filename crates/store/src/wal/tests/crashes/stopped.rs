//! Runs of threads that stand still (`simulated/crashes/threads.rs`).
//!
//! What was lost before a record took its place in the log ahead of its change: a thread read a value, wrote what
//! depended on it, and was acknowledged by a sync that did not have the value's own record yet. The power failed: the
//! effect was there, and its cause was not, in 537 of 28,681 dependent writes, and with `Store::sync` in between in
//! 1,459 of 81,236.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::wal::simulated::crashes::{Seen, threads as run};

fn run_whole(number: u64) -> Seen {
    match run(number, &[]) {
        Ok(seen) => seen,
        Err(text) => panic!("{text}\nTHREADS_RUN={number} repeats it"),
    }
}

#[test]
fn no_thread_has_an_effect_without_its_cause() {
    if let Some(number) = super::given("THREADS_RUN") {
        println!("{:?}", run_whole(number));
        return;
    }
    let mut seen = Seen::default();
    for number in 0..70 {
        seen.add(run_whole(number));
    }
    println!("{seen:?}");
    assert!(seen.crashes > 300 && seen.stopped > 20 && seen.kills > 20, "{seen:?}");
    assert!(seen.owing > 8 && seen.expiring > 3 && seen.lone > 2, "{seen:?}");
    assert!(seen.sights > 500 && seen.awaited > 100 && seen.snapshots > 20, "{seen:?}");
}

/// `THREADS_CRASHES` says how many crashes, `THREADS_FIRST` the number of the first run.
#[test]
#[ignore = "a long run"]
fn no_thread_has_an_effect_without_its_cause_at_very_many() {
    let wanted = super::given("THREADS_CRASHES").unwrap_or(100_000);
    let first = super::given("THREADS_FIRST").unwrap_or(1000);
    let (seen, next) = (Mutex::new(Seen::default()), std::sync::atomic::AtomicU64::new(first));
    let failed = AtomicBool::new(false);
    let lock = || seen.lock().unwrap_or_else(PoisonError::into_inner);
    let is_enough = |seen: Seen| seen.crashes + seen.kills >= wanted;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cpus {
            scope.spawn(|| {
                // Relaxed: a hint to stop, and only distinct numbers are wanted.
                while !is_enough(*lock()) && !failed.load(Ordering::Relaxed) {
                    // Relaxed: only distinct numbers are wanted.
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let found = std::panic::catch_unwind(|| run_whole(number));
                    // Relaxed: a hint to stop.
                    failed.fetch_or(found.is_err(), Ordering::Relaxed);
                    let mut seen = lock();
                    seen.add(found.unwrap_or_default());
                    if number.is_multiple_of(500) {
                        println!("run {number}: {seen:?}");
                    }
                }
            });
        }
    });
    // Relaxed: all have ended.
    let runs = next.load(Ordering::Relaxed) - first;
    println!("{:?} in {runs} runs from {first} on", lock());
    // Relaxed: all have ended, as for `runs`.
    assert!(!failed.load(Ordering::Relaxed), "a run failed: see above");
}

#[test]
fn effects_without_causes_are_found_where_they_are_planted() {
    for mutant in ["store.takes_place_late", "store.sync_is_a_wait"] {
        let found = (0..200).find_map(|number| Some((number, run(number, &[mutant]).err()?)));
        let (number, text) = found.unwrap_or_else(|| panic!("{mutant} is not found"));
        println!("{mutant}: {text}");
        let _ = run_whole(number);
    }
}
