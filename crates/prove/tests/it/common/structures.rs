//! What holds of every structure of a list.

use std::collections::BTreeSet;
use std::time::Instant;

use everleaf_prove::case::structure::Structure;
use everleaf_prove::machine::configure::Fixed;
use everleaf_prove::search::campaign::{Settings, run};
use everleaf_prove::search::coverage::Coverage;

use super::{budget, is_long, tell, tell_marks};

/// Schedules of each structure, everyday: the same on every machine.
const SCHEDULES: u64 = 25;

/// Searches each, panics with the first failure, and returns the marks that were met.
pub fn search_all(structures: &[&'static Structure]) -> BTreeSet<&'static str> {
    let mut met = BTreeSet::new();
    for structure in structures {
        let (budget, seed) = budget(0.5 / structures.len() as f64, SCHEDULES, 1);
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
    met
}

/// Panics if a structure does not know one of its programs, or knows any.
pub fn assert_programs_are_found(structures: &[&'static Structure]) {
    for structure in structures {
        let steps = (0..200).map(|number| structure.step(1, number, Fixed::default()).program);
        let programs = structure.programs();
        let by_time = [programs.more_small(), programs.tight(), programs.refused()].concat();
        for program in structure.small().into_iter().chain(by_time).chain(steps) {
            assert!(structure.case(&program).is_some(), "{}: {program}", structure.name);
        }
        assert!(structure.case("no such program").is_none());
    }
}

/// Panics if two of them have one name.
pub fn assert_names_are_distinct(structures: &[Structure]) {
    let names: BTreeSet<_> = structures.iter().map(|structure| structure.name).collect();
    assert_eq!(names.len(), structures.len(), "{names:?}");
}

/// Panics if a pair of values of two dimensions is never drawn.
pub fn assert_every_pair_is_drawn(structures: &[&'static Structure]) {
    for structure in structures {
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

/// Panics if a step is another one when it is asked for again, or the same with another seed or number.
pub fn assert_steps_depend_on_seed_and_number(structures: &[&'static Structure]) {
    for structure in structures {
        let step = |seed, number| {
            let step = structure.step(seed, number, Fixed::default());
            (step.program, format!("{:?}", step.config))
        };
        assert_eq!(step(1, 7), step(1, 7));
        assert_ne!(step(1, 7), step(1, 8));
        assert_ne!(step(1, 7), step(2, 7));
    }
}
