//! Mutants by rule: which accesses of a structure are missed when they are spoilt, and by whom. No
//! name, no list and no program is made for any of them.

use everleaf_machine::simulated::{Config, Fault};

use crate::campaign::{Budget, Settings, Verdict, WORK, run};
use crate::configure::Fixed;
use crate::structure::{Step, Structure};

/// Steps of a search in which everything that can be spoilt is met.
pub const STEPS: u64 = 400;

/// All that the programs of a structure do and that can be spoilt, in order of place: met in the
/// first `steps` steps of a search.
///
/// # Panics
/// If something fails with nothing spoilt.
pub fn faults_of(structure: &Structure, steps: u64) -> Vec<Fault> {
    let mut all = vec![];
    for number in 0..steps {
        let Step { program, config, .. } = structure.step(1, number, Fixed::default());
        let config = Config { lists_faults: true, work_limit: WORK, ..config };
        let case = structure.case(&program).expect("a structure knows its own programs");
        let (report, failure) = case.explore(&config, 10);
        if let Some(failure) = failure {
            panic!("{}, {program}: {failure}", structure.name);
        }
        all.extend(report.faults);
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Searches as for any failure, with one access spoilt.
pub fn hunt(structure: &'static Structure, fault: Fault, budget: Budget, seed: u64) -> Verdict {
    let settings = Settings { budget, seed, fault: Some(fault), ..Settings::default() };
    run(structure, &settings, &mut |_| {})
}
