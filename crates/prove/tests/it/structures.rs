//! Every structure of the list survives a search: programs by chance, and in a search by time first its small programs,
//! too, in every order. (Of those, tests of their own and `rare_branches.rs` run some everyday.) A new structure needs
//! no test of its own.

use crate::common::structures::{
    assert_every_pair_is_drawn, assert_names_are_distinct, assert_programs_are_found,
    assert_steps_depend_on_seed_and_number, search_all,
};
use crate::marks::assert_met_by_structures;
use everleaf_prove::case::structure::Structure;
use everleaf_prove::machine::configure::Fixed;
use everleaf_prove::programs::made::{CLEAR, LOCKING, Made};
use everleaf_prove::structures::{STRUCTURES, find};

fn all() -> Vec<&'static Structure> {
    STRUCTURES.iter().collect()
}

#[test]
fn every_structure_survives() {
    assert_met_by_structures(&search_all(&all()));
}

#[test]
fn names_are_distinct_and_every_program_of_a_structure_is_found() {
    assert_names_are_distinct(STRUCTURES);
    assert_programs_are_found(&all());
}

#[test]
fn every_pair_of_dimensions_is_drawn() {
    assert_every_pair_is_drawn(&all());
}

#[test]
fn a_step_depends_on_seed_and_number_only() {
    assert_steps_depend_on_seed_and_number(&all());
}

/// A tree is emptied behind a lock: that others wait for a thread which has it for ever is no failure of theirs, and
/// the plain search of the flagship ended with it.
#[test]
fn no_thread_that_may_stop_for_ever_takes_a_lock() {
    let structure = find("nbtree").expect("in the list");
    let mut stops = 0;
    for number in 0..5000 {
        let step = structure.step(1, number, Fixed::default());
        if let (Some(_), Some(made)) = (step.config.abandon, Made::from_name(&step.program)) {
            assert_eq!(made.operations & (LOCKING | 1 << CLEAR), 0, "{}", step.program);
            stops += 1;
        }
    }
    assert!(stops > 50, "{stops}");
}
