//! The log on a simulated disk that loses its power at any moment (`simulated/crashes`).
//!
//! Each run follows from its number; a failure names it, and `LOG_RUN=<number>` repeats it.

use everleaf_log::simulated::crashes::{
    CrashFindings, arranged, rotten_older_snapshot, run, snapshot_up_to_a_place_given_up,
};

fn run_whole(number: u64, examine_one_in: u32) -> u64 {
    let outcome: CrashFindings = run(number, &[], examine_one_in);
    if let Some(failure) = outcome.failure {
        panic!("run {number}: {failure}\nrepeat it with LOG_RUN={number}");
    }
    outcome.crashes
}

#[test]
fn no_crash_loses_what_was_acknowledged() {
    if let Some(number) = std::env::var("LOG_RUN").ok().and_then(|text| text.parse().ok()) {
        run_whole(number, 1);
        return;
    }
    let crashes: u64 = (0..60).map(|number| run_whole(number, 3)).sum();
    println!("{crashes} crashes");
    assert!(crashes > 1500, "only {crashes} crashes were examined");
}

/// `cargo test -p everleaf-log --release --test it crashes -- --ignored --nocapture`
#[test]
#[ignore = "a long run"]
fn no_crash_of_very_many_loses_what_was_acknowledged() {
    let wanted: u64 =
        std::env::var("LOG_CRASHES").ok().and_then(|text| text.parse().ok()).unwrap_or(200_000);
    let (mut crashes, mut number) = (0, 1000);
    while crashes < wanted {
        crashes += run_whole(number, 1);
        number += 1;
    }
    println!("{crashes} crashes in {} runs", number - 1000);
}

#[test]
fn a_run_repeats_exactly() {
    for number in 0..10 {
        let (first, second) = (run(number, &[], 2), run(number, &[], 2));
        assert_eq!(first, second);
    }
}

/// Every safeguard that can be switched off, and what its absence does; `docs/log.md` has them too.
const MUTANTS: [&str; 46] = [
    "caller.fills_first",
    "caller.takes_place_late",
    "log.checks_first_block",
    "log.counts_what_is_owed",
    "log.cut_goes_on",
    "log.cut_unmarked",
    "log.durable_before_sync",
    "log.ends_what_is_owed",
    "log.forgets_gap",
    "log.forgets_reached",
    "log.goes_on_after_failure",
    "log.ignores_short_write",
    "log.keeps_leftovers",
    "log.misses_interval",
    "log.mark_unread",
    "log.no_folder_sync",
    "log.no_header_sync",
    "log.no_limit",
    "log.no_rewrite",
    "log.no_sync_at_opening",
    "log.no_sync_at_switch",
    "log.owed_without_gap",
    "log.passes_gap",
    "log.retries_sync",
    "log.skips_gap",
    "log.takes_old_chunks",
    "log.takes_torn_chunk",
    "log.takes_what_is_there",
    "log.tells_of_what_is_owed",
    "log.tick_forgets",
    "log.window_bounds",
    "snapshot.counts_on",
    "snapshot.footer_early",
    "snapshot.frees_log_early",
    "snapshot.from_places",
    "snapshot.keeps_no_older_log",
    "snapshot.keeps_unread",
    "snapshot.late_from",
    "snapshot.needs_given_up",
    "snapshot.no_folder_sync",
    "snapshot.no_reach_check",
    "snapshot.no_sync",
    "snapshot.marks_early",
    "snapshot.trusts_stale",
    "snapshot.trusts_unread",
    "snapshot.writes_in_place",
];

/// Runs until a planted bug is found: number of the run, crashes until then, and what was seen. Only
/// what the examination says counts; a run that ends by a panic tells nothing.
fn hunt(mutant: &'static str, runs: u64) -> Option<(u64, u64, String)> {
    let mut crashes = 0;
    // What needs several rare accidents one after the other is arranged.
    if let Err(failure) = arranged(&[mutant]) {
        return Some((0, 1, failure));
    }
    for number in 0..runs {
        let caught = std::panic::catch_unwind(|| run(number, &[mutant], 2));
        let Ok(outcome) = caught else { continue };
        crashes += outcome.crashes;
        if let Some(failure) = outcome.failure {
            assert_eq!(run(number, &[], 2).failure, None, "it fails without {mutant}, too");
            return Some((number, crashes, failure));
        }
    }
    None
}

#[test]
fn a_run_that_ends_by_a_panic_finds_no_planted_bug() {
    assert_eq!(hunt("caller.panics", 3), None);
}

/// Those that more than fifteen runs look for, and so most of the time of all.
const SLOW: [&str; 4] = [
    "log.checks_first_block",
    "log.tick_forgets",
    "snapshot.no_reach_check",
    "snapshot.trusts_stale",
];

/// `LOG_MUTANT=<name>` hunts one.
#[test]
fn every_planted_bug_but_the_slow_ones_is_found() {
    match std::env::var("LOG_MUTANT") {
        Ok(name) => find_all(MUTANTS.into_iter().filter(|mutant| *mutant == name)),
        Err(_) => find_all(MUTANTS.into_iter().filter(|mutant| !SLOW.contains(mutant))),
    }
}

#[test]
#[ignore = "guards a landing"]
fn landing_every_planted_bug_whose_hunt_is_slow_is_found() {
    assert!(SLOW.iter().all(|slow| MUTANTS.contains(slow)));
    find_all(SLOW);
}

#[expect(clippy::print_stdout, reason = "when each was found is the result")]
fn find_all(mutants: impl IntoIterator<Item = &'static str>) {
    let mut missed = Vec::new();
    for mutant in mutants {
        match hunt(mutant, 2000) {
            Some((number, crashes, failure)) => {
                let failure: String = failure.chars().take(100).collect();
                println!("{mutant}: run {number}, {crashes} crashes: {failure}");
            }
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn a_snapshot_needs_no_place_that_was_given_up() {
    snapshot_up_to_a_place_given_up(&[]).expect("nothing is planted");
}

#[test]
fn a_segment_shows_nothing_of_the_past_of_its_file() {
    arranged(&[]).expect("nothing is planted");
}

#[test]
fn a_snapshot_stays_until_a_newer_one_is_known_to_be_good() {
    rotten_older_snapshot(&[]).expect("nothing is planted");
}
