//! Mutants by rule: which accesses of a structure are missed when they have a fault, and by which program. No
//! name, no list and no program is made for any of them.

use everleaf_machine::simulated::{Config, Failure, Fault};

use crate::case::step::Step;
use crate::case::structure::Structure;
use crate::machine::configure::Fixed;
use crate::search::campaign::{Budget, Settings, Verdict, WORK, run};
use crate::search::record::Record;

/// Steps of a search in which every access that can have a fault is met.
pub const STEPS: u64 = 400;
/// Schedules of each of them.
const SCHEDULES: u64 = 10;

/// All accesses of the programs of a structure that can have a fault, in order of place: met in the
/// first `steps` steps of a search.
///
/// # Errors
/// The failure if there is one without a fault.
pub fn faults_of(structure: &Structure, steps: u64) -> Result<Vec<Fault>, Box<(Record, Failure)>> {
    let mut all = vec![];
    for number in 0..steps {
        let Step { program, config, .. } = structure.step(1, number, Fixed::default());
        let config = Config { lists_faults: true, work_limit: WORK, ..config };
        let case = structure.case(&program).expect("a structure knows its own programs");
        let (report, failure) = case.explore(&config, SCHEDULES);
        if let Some(failure) = failure {
            let record = Record::new(structure.name, &program, &config, &failure);
            return Err(Box::new((record, *failure)));
        }
        all.extend(report.faults.into_iter().filter(|fault| !is_of_a_program(fault)));
        if number % 16 == 15 {
            all.sort_unstable();
            all.dedup();
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Whether an access is one of the programs that use a structure, not of the structure.
fn is_of_a_program(fault: &Fault) -> bool {
    fault.site.file.starts_with("crates/prove/")
}

/// At most so many of them, evenly spread.
pub fn spread(all: &[Fault], count: usize) -> Vec<Fault> {
    let count = count.min(all.len());
    (0..count).map(|index| all[index * all.len() / count]).collect()
}

/// Searches as for any failure, with a fault in one access.
pub fn hunt(
    structure: &'static Structure,
    fault: Fault,
    budget: Budget,
    seed: u64,
    tell: &mut dyn FnMut(&Verdict),
) -> Verdict {
    let settings = Settings { budget, seed, fault: Some(fault), ..Settings::default() };
    run(structure, &settings, tell)
}
