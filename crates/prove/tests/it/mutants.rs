//! Every planted bug is found, and in how long; what was made for one is right without it.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use std::time::Instant;

use everleaf_machine::simulated::MemoryModel;
use everleaf_prove::directed_case::DirectedCase;
use everleaf_prove::mutants::{MUTANTS, Mutant, OF_OTHER_TREES, RARE, all, hunt};
use everleaf_prove::plain::PLAIN;
use everleaf_prove::safeguards::safeguards;
use everleaf_prove::structure::find;

/// The environment variable that picks the planted bugs whose names contain it.
const VARIABLE: &str = "EVERLEAF_PROVE_MUTANT";

/// Schedules of a search through every order, at most.
const ALL: u64 = 1_000_000;

/// The same where stores wait in buffers: those have many more orders, and not all are gone through.
const MANY: u64 = 5000;

/// Those of the product whose hunts take longest, three quarters of the time of all. Programs that find some of them
/// find others everyday: `journal.expiry_unflushed`, `nbtree.recovery_no_end_flush`.
const SLOW: [&str; 8] = [
    "journal.enters_one",
    "journal.expires_first",
    "journal.redo_skips_expiries",
    "nbtree.modify_ignores_freeze",
    "nbtree.no_tomb_observe",
    "nbtree.recovery_keeps_marks",
    "nbtree.recovery_leans",
    "nbtree.recovery_no_live_flush",
];

/// Those of the published trees whose hunts take longest, six of seven CPU seconds of the time of all: programs of a
/// structure with thousands of steps, or orders that are rare. They run at night.
const SLOW_OF_OTHER_TREES: [&str; 9] = [
    "bwtree.no_bound",
    "bwtree.no_range_check",
    "f3.run_cuts_first",
    "f3.run_drops_upper",
    "f3.run_overlaps",
    "f3.run_passes_sibling",
    "f3.run_takes_removals",
    "pactree.no_erase_flush",
    "utree.hides_first",
];

fn find_all<'a>(mutants: impl IntoIterator<Item = &'a Mutant>) {
    let only = std::env::var(VARIABLE).unwrap_or_default();
    let mut alive = vec![];
    for mutant in mutants.into_iter().filter(|mutant| mutant.name.contains(&only)) {
        let started = Instant::now();
        match hunt(*mutant, 2) {
            Some(kill) => println!(
                "{:<34} {:>6} schedules {:>6.2} s  {} ({})",
                mutant.name,
                kill.schedules,
                started.elapsed().as_secs_f64(),
                kill.failure.kind,
                kill.program
            ),
            None => {
                println!("{:<34} ALIVE {:>6.2} s", mutant.name, started.elapsed().as_secs_f64());
                alive.push(mutant.name);
            }
        }
    }
    assert!(alive.is_empty(), "not found: {alive:?}");
}

#[test]
fn every_planted_bug_but_the_slow_ones_is_found() {
    find_all(MUTANTS.iter().filter(|mutant| !SLOW.contains(&mutant.name)));
}

#[test]
#[ignore = "guards a landing"]
fn landing_every_planted_bug_whose_hunt_is_slow_is_found() {
    let slow: Vec<_> = MUTANTS.iter().filter(|mutant| SLOW.contains(&mutant.name)).collect();
    assert_eq!(slow.len(), SLOW.len());
    find_all(slow);
}

// Two tests, for two cores.

#[test]
#[ignore = "guards a landing"]
fn landing_every_other_planted_bug_of_the_other_trees_is_found() {
    find_all(of_other_trees(false).iter().step_by(2));
}

#[test]
#[ignore = "guards a landing"]
fn landing_the_other_planted_bugs_of_other_trees_are_found() {
    find_all(of_other_trees(false).iter().skip(1).step_by(2));
}

#[test]
#[ignore = "a long run"]
fn every_slow_planted_bug_of_the_other_trees_is_found() {
    let slow = of_other_trees(true);
    assert_eq!(slow.len(), SLOW_OF_OTHER_TREES.len());
    find_all(&slow);
}

/// Those of the published trees whose hunts are slow, or the others.
fn of_other_trees(are_slow: bool) -> Vec<Mutant> {
    let is_slow = |mutant: &Mutant| SLOW_OF_OTHER_TREES.contains(&mutant.name);
    OF_OTHER_TREES.iter().filter(|mutant| is_slow(mutant) == are_slow).copied().collect()
}

#[test]
#[ignore = "a long run"]
fn every_rare_planted_bug_is_found() {
    find_all(RARE);
}

#[test]
#[ignore = "a long run"]
fn every_planted_bug_of_the_plain_search_is_found() {
    find_all(PLAIN);
}

#[test]
fn programs_made_for_planted_bugs_meet_them_in_time() {
    for guarded in safeguards() {
        let (mutant, name) = (guarded.mutant, guarded.scenario.name);
        let structure = find(guarded.structure).expect("in the list");
        let case = structure.case(&guarded.program()).expect("its program");
        let (met, failure) = case.explore(&guarded.config(true), guarded.schedules);
        let failure = failure.unwrap_or_else(|| panic!("{mutant}, {name}: not met"));
        let (schedules, bound) = (met.counts.schedules, guarded.schedules);
        println!("{mutant}, {name}: {} in schedule {schedules} of {bound}", failure.kind);
    }
}

#[test]
fn programs_made_for_planted_bugs_are_right_without() {
    are_right(safeguards().iter().step_by(3));
}

#[test]
#[ignore = "guards a landing"]
fn landing_the_other_programs_made_for_planted_bugs_are_right() {
    let all = safeguards();
    are_right(all.iter().skip(1).step_by(3));
    are_right(all.iter().skip(2).step_by(3));
}

fn are_right<'a>(programs: impl Iterator<Item = &'a DirectedCase>) {
    for guarded in programs {
        let (mutant, name) = (guarded.mutant, guarded.scenario.name);
        let structure = find(guarded.structure).expect("in the list");
        let case = structure.case(&guarded.program()).expect("its program");
        let is_buffered = guarded.memory == MemoryModel::Tso;
        let bound = if is_buffered { MANY } else { ALL };
        let (report, none) = case.explore(&guarded.config(false), bound);
        println!("{mutant}, {name}: right in {}", report.counts.schedules);
        assert!(none.is_none(), "{}, {name}: {none:?}", guarded.structure);
        assert!(report.exhausted || is_buffered, "{name}: more than {ALL} schedules");
    }
}

/// The page about them is written by hand, but for this.
#[test]
fn the_page_says_how_many_there_are() {
    let page = include_str!("../../../../docs/mutants.md");
    let (planted, rare) = (all().count(), RARE.len());
    assert!(page.contains(&format!("There are {planted}. ")), "not {planted}");
    assert_eq!(rare, 13, "the page says thirteen");
}
