//! Every structure of the list survives a search: programs by chance, and in a search by time first its small programs,
//! too, in every order. (Of those, tests of their own and `rare_branches.rs` run some everyday.) A new structure needs
//! no test of its own.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::common::{budget, is_long, tell, tell_marks};
use crate::marks::assert_met_by_structures;
use everleaf_prove::campaign::{Settings, run};
use everleaf_prove::configure::Fixed;
use everleaf_prove::coverage::Coverage;
use everleaf_prove::structure::STRUCTURES;

/// Schedules of each structure, everyday: the same on every machine.
const SCHEDULES: u64 = 25;

#[test]
fn every_structure_survives() {
    let mut met = BTreeSet::new();
    for structure in STRUCTURES {
        let (budget, seed) = budget(0.5 / STRUCTURES.len() as f64, SCHEDULES, 1);
        let (started, preemptions) = (Instant::now(), is_long().then_some(1));
        let settings = Settings { budget, seed, schedules: 20, preemptions, ..Settings::default() };
        let verdict = run(structure, &settings, &mut |_| {});
        if let Some((record, failure)) = verdict.failure {
            panic!("{}: {failure}\n{}", structure.name, record.to_text());
        }
        assert!(verdict.report.counts.schedules > 0);
        tell(structure.name, started, &verdict.report);
        tell_marks(&verdict.report);
        met.extend(verdict.report.marks.iter().map(|(mark, _)| *mark));
    }
    assert_met_by_structures(&met);
}

#[test]
fn names_are_distinct_and_every_program_of_a_structure_is_found() {
    for (index, structure) in STRUCTURES.iter().enumerate() {
        let others = &STRUCTURES[index + 1..];
        assert!(others.iter().all(|other| other.name != structure.name), "{}", structure.name);
        let steps = (0..200).map(|number| structure.step(1, number, Fixed::default()).program);
        let programs = structure.programs();
        let by_time = [programs.more_small(), programs.tight(), programs.refused()].concat();
        for program in structure.small().into_iter().chain(by_time).chain(steps) {
            assert!(structure.case(&program).is_some(), "{}: {program}", structure.name);
        }
        assert!(structure.case("no such program").is_none());
    }
}

#[test]
fn every_pair_of_dimensions_is_drawn() {
    for structure in STRUCTURES {
        let mut coverage = Coverage::of(structure.dimensions());
        let all_are_drawn = (0..18).any(|part| {
            for number in 500 * part..500 * (part + 1) {
                coverage.count(&structure.step(1, number, Fixed::default()).values);
            }
            coverage.missing().is_empty()
        });
        assert!(all_are_drawn, "{}: {:?}", structure.name, coverage.missing());
    }
}

#[test]
fn a_step_depends_on_seed_and_number_only() {
    for structure in STRUCTURES {
        let step = |seed, number| {
            let step = structure.step(seed, number, Fixed::default());
            (step.program, format!("{:?}", step.config))
        };
        assert_eq!(step(1, 7), step(1, 7));
        assert_ne!(step(1, 7), step(1, 8));
        assert_ne!(step(1, 7), step(2, 7));
    }
}
