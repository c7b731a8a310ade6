//! Every planted bug is found, and in how long.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use std::time::Instant;

use everleaf_prove::mutants::{MUTANTS, hunt};

/// The environment variable that picks the planted bugs whose names contain it.
const VARIABLE: &str = "EVERLEAF_PROVE_MUTANT";

#[test]
fn every_planted_bug_is_found() {
    let only = std::env::var(VARIABLE).unwrap_or_default();
    let mut alive = vec![];
    for mutant in MUTANTS.iter().filter(|mutant| mutant.name.contains(&only)) {
        let started = Instant::now();
        match hunt(*mutant, 2) {
            Some(kill) => println!(
                "{:<32} {:>6} schedules {:>6.2} s  {} ({})",
                mutant.name,
                kill.schedules,
                started.elapsed().as_secs_f64(),
                kill.failure.kind,
                kill.program
            ),
            None => {
                println!("{:<32} ALIVE {:>6.2} s", mutant.name, started.elapsed().as_secs_f64());
                alive.push(mutant.name);
            }
        }
    }
    assert!(alive.is_empty(), "not found: {alive:?}");
}
