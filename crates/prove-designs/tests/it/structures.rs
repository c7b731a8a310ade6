//! Every published design survives a search: programs by chance, and in a search by time first its small programs,
//! too, in every order. (Of those, tests of their own and `rare_branches.rs` run some everyday.) A new design needs
//! no test of its own.

use crate::common::structures::{
    assert_every_pair_is_drawn, assert_names_are_distinct, assert_programs_are_found,
    assert_steps_depend_on_seed_and_number, search_all,
};
use crate::marks::assert_met_by_structures;
use everleaf_prove::case::structure::Structure;
use everleaf_prove_designs::structures::{STRUCTURES, of_designs};

/// Those of the product have the same tests in their own package.
fn all() -> Vec<&'static Structure> {
    of_designs().collect()
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

/// Those of the product keep their places among the designs, and their names.
#[test]
fn every_structure_of_the_product_is_in_the_list() {
    let of_product = everleaf_prove::structures::STRUCTURES;
    assert_eq!(of_designs().count() + of_product.len(), STRUCTURES.len());
    assert!(of_designs().count() > of_product.len());
}
