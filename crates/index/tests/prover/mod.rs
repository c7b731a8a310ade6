//! Programs that run the trees on the simulated machine.

#![allow(dead_code, reason = "each test target uses its part")]
#![allow(clippy::print_stdout, reason = "what was explored is the result")]

pub mod backing;
pub mod budget;
pub mod mutants;
pub mod number;
pub mod plans;
pub mod scenarios;
pub mod trouble;
pub mod words;
