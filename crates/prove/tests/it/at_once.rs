//! Pools that are opened at once: leaves are restored, and what they refer to is marked, while everybody is at work;
//! the power is cut anywhere, also then, and again in what comes after.

#![allow(clippy::print_stdout, reason = "what found a bug is the result")]

use std::time::Instant;

use crate::common::{budget, half_of, tell, tell_marks};
use everleaf_machine::simulated::Config;
use everleaf_prove::search::campaign::{Budget, Settings, run};
use everleaf_prove::structures::find;

/// Schedules in which each planted bug is found, at most.
const FINDS_IN: u64 = 40_000;

/// A bug of late marks, and a structure whose programs miss it.
type Planted = (&'static str, &'static str);

/// Those that are found soon.
const PLANTED: [Planted; 5] = [
    ("alloc", "late.begins_with_records"),
    ("alloc", "late.finishes_early"),
    ("alloc", "late.finishes_twice"),
    ("hashed-leaf-bytes-at-once", "late.begins_with_records"),
    ("hashed-leaf-bytes-at-once", "hashed.restore_marks_nothing"),
];

/// That whose hunt takes longer than those of all others.
const SLOW: [Planted; 1] = [("hashed-leaf-bytes-at-once", "hashed.frees_unmarked")];

#[test]
fn byte_strings_that_are_restored_late_survive() {
    let structure = find("hashed-leaf-bytes-at-once").expect("in the list");
    let (budget, seed) = budget(0.05, half_of(100), 3);
    let started = Instant::now();
    let settings = Settings { budget, seed, schedules: 20, ..Settings::default() };
    let verdict = run(structure, &settings, &mut |_| {});
    if let Some((record, failure)) = verdict.failure {
        panic!("{failure}\n{}", record.to_text());
    }
    tell(structure.name, started, &verdict.report);
    tell_marks(&verdict.report);
}

/// Programs with late marks are drawn among others: here each is one.
#[test]
fn programs_with_late_marks_survive() {
    for (structure, prefix) in [("alloc", "late/"), ("maps", "at-once/")] {
        let structure = find(structure).expect("in the list");
        let started = Instant::now();
        let mut total = everleaf_machine::simulated::Report::default();
        for number in crate::common::numbers(0.02, half_of(12)) {
            for kind in ["random", "tiny"] {
                let name = format!("{prefix}{kind}/{}", 7 * number + 1);
                let case = structure.case(&name).expect("its program");
                let config = Config { seed: number + 1, ..Config::default() };
                let (report, failure) = case.explore(&config, 10);
                if let Some(failure) = failure {
                    panic!("{name}: {failure}");
                }
                total.add(&report);
            }
        }
        tell(structure.name, started, &total);
    }
}

#[test]
fn planted_bugs_of_late_marks_are_found() {
    find_all(&PLANTED);
}

#[test]
#[ignore = "guards a landing"]
fn landing_the_slow_planted_bug_of_late_marks_is_found() {
    find_all(&SLOW);
}

fn find_all(planted: &[Planted]) {
    let only = std::env::var("EVERLEAF_PROVE_MUTANT").unwrap_or_default();
    let mut alive = vec![];
    for (structure, mutant) in planted.iter().filter(|(_, mutant)| mutant.contains(&only)) {
        let structure = find(structure).expect("in the list");
        let started = Instant::now();
        let settings = Settings {
            budget: Budget::Schedules(FINDS_IN),
            mutant: Some(mutant),
            schedules: 20,
            ..Settings::default()
        };
        let verdict = run(structure, &settings, &mut |_| {});
        let schedules = verdict.report.counts.schedules;
        match verdict.failure {
            Some((record, failure)) => println!(
                "{mutant:<32} {schedules:>6} schedules {:>6.1} s  {} ({}) {}",
                started.elapsed().as_secs_f64(),
                failure.kind,
                record.program,
                structure.name
            ),
            None => alive.push((structure.name, *mutant)),
        }
    }
    assert!(alive.is_empty(), "not found: {alive:?}");
}
