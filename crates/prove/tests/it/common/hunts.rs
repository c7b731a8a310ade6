//! Hunts of planted bugs, and what was made for them.

use std::time::Instant;

use everleaf_machine::simulated::MemoryModel;
use everleaf_prove::case::structure::{Structure, find_in};
use everleaf_prove::hunt::mutants::{Mutant, hunt};
use everleaf_prove::programs::directed_case::DirectedCase;

/// The environment variable that picks the planted bugs whose names contain it.
const VARIABLE: &str = "EVERLEAF_PROVE_MUTANT";

/// Schedules of a search through every order, at most.
const ALL: u64 = 1_000_000;

/// The same where stores wait in buffers: those have many more orders, and not all are gone through.
const MANY: u64 = 5000;

/// Panics unless each is found by the programs of its structure, which is in the list.
pub fn find_all(structures: &'static [Structure], mutants: impl IntoIterator<Item = Mutant>) {
    let only = std::env::var(VARIABLE).unwrap_or_default();
    let (mut hunted, mut alive) = (0, vec![]);
    for mutant in mutants {
        hunted += 1;
        if !mutant.name.contains(&only) {
            continue;
        }
        let started = Instant::now();
        let structure = find_in(structures, mutant.structure).expect("in the list");
        match hunt(structure, mutant, 2) {
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
    assert!(hunted > 0, "there is nothing to be found");
    assert!(alive.is_empty(), "not found: {alive:?}");
}

/// Panics unless each program meets the bug that it was made for.
pub fn assert_met_in_time<'a>(
    structures: &'static [Structure],
    programs: impl Iterator<Item = &'a DirectedCase>,
) {
    for directed in programs {
        let (mutant, name) = (directed.mutant, directed.scenario.name);
        let structure = find_in(structures, directed.structure).expect("in the list");
        let case = structure.case(&directed.program()).expect("its program");
        let (met, failure) = case.explore(&directed.config(true), directed.schedules);
        let failure = failure.unwrap_or_else(|| panic!("{mutant}, {name}: not met"));
        let (schedules, bound) = (met.counts.schedules, directed.schedules);
        println!("{mutant}, {name}: {} in schedule {schedules} of {bound}", failure.kind);
    }
}

/// Panics unless each program is right without the bug that it was made for.
pub fn assert_right<'a>(
    structures: &'static [Structure],
    programs: impl Iterator<Item = &'a DirectedCase>,
) {
    for directed in programs {
        let (mutant, name) = (directed.mutant, directed.scenario.name);
        let structure = find_in(structures, directed.structure).expect("in the list");
        let case = structure.case(&directed.program()).expect("its program");
        let is_buffered = directed.memory == MemoryModel::Tso;
        let bound = if is_buffered { MANY } else { ALL };
        let (report, none) = case.explore(&directed.config(false), bound);
        println!("{mutant}, {name}: right in {}", report.counts.schedules);
        assert!(none.is_none(), "{}, {name}: {none:?}", directed.structure);
        assert!(report.exhausted || is_buffered, "{name}: more than {ALL} schedules");
    }
}
