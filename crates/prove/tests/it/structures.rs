//! Every structure of the list survives a search: its small programs in every order, then its
//! programs by chance. A new structure needs no test of its own.

use std::time::Instant;

use crate::common::{share, tell, tell_marks};
use everleaf_prove::campaign::{Settings, run};
use everleaf_prove::structure::STRUCTURES;

#[test]
fn every_structure_survives() {
    for structure in STRUCTURES {
        let (started, budget) = (Instant::now(), share(0.5 / STRUCTURES.len() as f64));
        let settings = Settings { budget, schedules: 20, ..Settings::default() };
        let verdict = run(structure, &settings, &mut |_| {});
        if let Some((record, failure)) = verdict.failure {
            panic!("{}: {failure}\n{}", structure.name, record.to_text());
        }
        assert!(verdict.report.counts.schedules > 0);
        tell(structure.name, started, &verdict.report);
        tell_marks(&verdict.report);
    }
}

#[test]
fn names_are_distinct_and_every_program_of_a_structure_is_found() {
    for (index, structure) in STRUCTURES.iter().enumerate() {
        let others = &STRUCTURES[index + 1..];
        assert!(others.iter().all(|other| other.name != structure.name), "{}", structure.name);
        let steps = (0..200).map(|number| (structure.step)(number).program);
        for program in (structure.small)().into_iter().chain(steps) {
            assert!((structure.case)(&program).is_some(), "{}: {program}", structure.name);
        }
        assert!((structure.case)("no such program").is_none());
    }
}
