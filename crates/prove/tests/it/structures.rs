//! Every structure of the list survives a search: programs by chance, and in a search by time first its small programs,
//! too, in every order. (Of those, tests of their own and `rare_branches.rs` run some everyday.) A new structure needs
//! no test of its own.

use crate::common::structures::{
    assert_every_pair_is_drawn, assert_names_are_distinct, assert_programs_are_found,
    assert_steps_depend_on_seed_and_number, search_all,
};
use crate::marks::assert_met_by_structures;
use everleaf_prove::case::structure::Structure;
use everleaf_prove::structures::STRUCTURES;

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
