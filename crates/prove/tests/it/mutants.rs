//! Every planted bug of the product is found, and in how long; what was made for one is right without it.

use crate::common::hunts::{assert_met_in_time, assert_right, find_all};
use everleaf_prove::hunt::mutants::{MUTANTS, Mutant, OF_OTHER_TREES, RARE, all};
use everleaf_prove::planted::plain::{OF_THE_STORE, PLAIN};
use everleaf_prove::programs::directed_case::DirectedCase;
use everleaf_prove::programs::safeguards::safeguards;
use everleaf_prove::structures::{STRUCTURES, find};

/// Those of the product whose hunts take longest, three quarters of the time of all. Programs that find some of them
/// find others everyday: `journal.expiry_unflushed`, `nbtree.recovery_no_end_flush`.
const SLOW: [&str; 11] = [
    "journal.enters_one",
    "journal.expires_first",
    "journal.expiry_unflushed",
    "journal.redo_skips_expiries",
    "nbtree.modify_ignores_freeze",
    "nbtree.no_tomb_observe",
    "nbtree.recovery_keeps_marks",
    "nbtree.recovery_leans",
    "nbtree.recovery_no_end_flush",
    "nbtree.recovery_no_live_flush",
    "record.expiry_no_persist",
];

/// Those of a list that are missed by the product's structures. The others are hunted in `everleaf-prove-designs`.
fn of_product(mutants: &[Mutant]) -> impl Iterator<Item = Mutant> {
    mutants.iter().copied().filter(|mutant| find(mutant.structure).is_some())
}

#[test]
fn every_planted_bug_but_the_slow_ones_is_found() {
    find_all(STRUCTURES, MUTANTS.iter().copied().filter(|mutant| !SLOW.contains(&mutant.name)));
}

#[test]
#[ignore = "guards a landing"]
fn landing_every_planted_bug_whose_hunt_is_slow_is_found() {
    let slow: Vec<_> =
        MUTANTS.iter().copied().filter(|mutant| SLOW.contains(&mutant.name)).collect();
    assert_eq!(slow.len(), SLOW.len());
    find_all(STRUCTURES, slow);
}

#[test]
#[ignore = "guards a landing"]
fn landing_planted_bugs_of_hashed_leaves_are_found() {
    find_all(STRUCTURES, of_product(OF_OTHER_TREES));
}

#[test]
#[ignore = "a long run"]
fn every_rare_planted_bug_is_found() {
    find_all(STRUCTURES, of_product(RARE));
}

#[test]
#[ignore = "a long run"]
fn every_planted_bug_of_the_plain_search_is_found() {
    find_all(STRUCTURES, of_product(PLAIN));
}

/// The programs that were made for planted bugs of the product.
fn made() -> Vec<DirectedCase> {
    safeguards().into_iter().filter(|directed| find(directed.structure).is_some()).collect()
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

/// The page about them is written by hand, but for this.
#[test]
fn the_page_says_how_many_there_are() {
    let page = include_str!("../../../../docs/mutants.md");
    let (planted, rare) = (all().count(), RARE.len());
    assert!(page.contains(&format!("There are {planted}. ")), "not {planted}");
    assert_eq!(rare, 14, "the page says fourteen");
}

/// It said 28 when there were 32.
#[test]
fn the_page_of_searches_says_how_many_are_planted_in_the_store() {
    let page = include_str!("../../../../docs/simulation.md");
    // It tells of the first by name, and then how many more there are.
    let others = OF_THE_STORE.iter().filter(|mutant| mutant.name != "store.takes_place_late");
    let more = others.count();
    assert!(page.contains(&format!(" {more} more are planted in")), "not {more}");
}
