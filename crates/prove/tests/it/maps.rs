//! Programs of maps that once failed, and what is known to come of damage.

#![allow(clippy::print_stdout, reason = "what was found is the result")]

use crate::marks::assert_all_met;
use everleaf_machine::simulated::{Config, Report};
use everleaf_prove::structures::find;

/// What it does before its threads come found the pool full, with trees of either design: a session had the blocks
/// of the trees that it had removed (head of `maps.rs`).
#[test]
fn a_pool_whose_blocks_are_in_one_session_has_room_for_a_tree() {
    let maps = find("maps").expect("in the list");
    for leaves in ["", "hashed/"] {
        let case = maps.case(&format!("{leaves}random/153494954858106")).expect("its program");
        let (report, failure) = case.explore(&Config::default(), 5);
        if let Some(failure) = failure {
            panic!("{leaves}: {failure}");
        }
        assert!(report.counts.schedules > 0);
    }
}

/// A pool that was damaged is refused, or opened with what is wrong told, or nobody can tell: all three are searched.
#[test]
fn damage_is_refused_and_told_of_and_harmless() {
    let maps = find("maps").expect("in the list");
    let mut total = Report::default();
    for program in ["damage/0", "damage/3", "damage/8"] {
        let case = maps.case(program).expect("its program");
        let (report, failure) = case.explore(&Config::default(), 3);
        assert!(failure.is_none(), "{program}: {failure:?}");
        total.add(&report);
    }
    assert_all_met(&total, &["damage.refused", "damage.told", "damage.untold"]);
}

/// What was lost: a damaged state of an entry that was removed from a hashed leaf was taken for that of one that is
/// dead, until its leaf was replaced; then the key was back.
#[test]
fn what_a_damaged_pool_takes_brings_nothing_back() {
    let maps = find("maps").expect("in the list");
    let look = |mutant: Option<&'static str>, number: u64| {
        let case = maps.case(&format!("hashed/damage/{number}")).expect("its program");
        let config = Config { mutants: mutant.into_iter().collect(), ..Config::default() };
        case.explore(&config, 3)
    };
    let mut total = Report::default();
    for number in 0..8 {
        let (report, failure) = look(None, number);
        assert!(failure.is_none(), "{number}: {failure:?}");
        total.add(&report);
    }
    assert_all_met(&total, &["damage.refused", "damage.untold"]);
    let mutant = "hashed.takes_damaged";
    let found = (0..200).find_map(|number| Some((number, look(Some(mutant), number).1?)));
    let (number, failure) = found.unwrap_or_else(|| panic!("{mutant} is not missed"));
    println!("{mutant}: {} ({number})", failure.kind);
    let (_, failure) = look(None, number);
    assert!(failure.is_none(), "{number}: {failure:?}");
}
