//! Every planted bug of the published designs is found, and in how long; what was made for one is right without it.

use crate::common::hunts::{assert_met_in_time, assert_right, find_all};
use everleaf_prove::hunt::mutants::{Mutant, OF_OTHER_TREES, RARE, all};
use everleaf_prove::planted::plain::PLAIN;
use everleaf_prove::programs::directed_case::DirectedCase;
use everleaf_prove::programs::safeguards::safeguards;
use everleaf_prove::structures;
use everleaf_prove_designs::structures::{STRUCTURES, find};

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

/// Whether a structure is not one of the product, whose planted bugs are hunted in `everleaf-prove`.
fn is_design(structure: &str) -> bool {
    structures::find(structure).is_none()
}

/// Those of a list that are missed by the structures of the designs.
fn of_designs(mutants: &[Mutant]) -> impl Iterator<Item = Mutant> {
    mutants.iter().copied().filter(|mutant| is_design(mutant.structure))
}

// Two tests, for two cores.

#[test]
#[ignore = "guards a landing"]
fn landing_every_other_planted_bug_of_the_other_trees_is_found() {
    find_all(STRUCTURES, of_other_trees(false).into_iter().step_by(2));
}

#[test]
#[ignore = "guards a landing"]
fn landing_the_other_planted_bugs_of_other_trees_are_found() {
    find_all(STRUCTURES, of_other_trees(false).into_iter().skip(1).step_by(2));
}

#[test]
#[ignore = "a long run"]
fn every_slow_planted_bug_of_the_other_trees_is_found() {
    let slow = of_other_trees(true);
    assert_eq!(slow.len(), SLOW_OF_OTHER_TREES.len());
    find_all(STRUCTURES, slow);
}

/// Those of the published trees whose hunts are slow, or the others.
fn of_other_trees(are_slow: bool) -> Vec<Mutant> {
    let is_slow = |mutant: &Mutant| SLOW_OF_OTHER_TREES.contains(&mutant.name);
    of_designs(OF_OTHER_TREES).filter(|mutant| is_slow(mutant) == are_slow).collect()
}

#[test]
#[ignore = "a long run"]
fn every_rare_planted_bug_is_found() {
    find_all(STRUCTURES, of_designs(RARE));
}

#[test]
#[ignore = "a long run"]
fn every_planted_bug_of_the_plain_search_is_found() {
    find_all(STRUCTURES, of_designs(PLAIN));
}

/// The programs that were made for planted bugs of designs.
fn made() -> Vec<DirectedCase> {
    safeguards().into_iter().filter(|directed| is_design(directed.structure)).collect()
}

#[test]
fn programs_made_for_planted_bugs_meet_them_in_time() {
    assert_met_in_time(STRUCTURES, made().iter());
}

#[test]
fn programs_made_for_planted_bugs_are_right_without() {
    assert_right(STRUCTURES, made().iter().step_by(3));
}

#[test]
#[ignore = "guards a landing"]
fn landing_the_other_programs_made_for_planted_bugs_are_right() {
    let all = made();
    assert_right(STRUCTURES, all.iter().skip(1).step_by(3));
    assert_right(STRUCTURES, all.iter().skip(2).step_by(3));
}

#[test]
fn every_planted_bug_is_of_a_structure_of_the_list() {
    for mutant in all() {
        assert!(find(mutant.structure).is_some(), "{}: {}", mutant.name, mutant.structure);
    }
}
