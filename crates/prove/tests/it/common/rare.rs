//! Programs that are known to meet rare branches.

use std::collections::BTreeSet;
use std::time::Instant;

use everleaf_machine::simulated::{Config, CrashConfig};
use everleaf_prove::case::structure::{Structure, find_in};
use everleaf_prove::machine::configure::exhaustive;

use super::tell;

/// A structure, one of its programs, and rare branches that the orders of its threads meet.
pub type Meets = (&'static str, &'static str, &'static [&'static str]);

/// Schedules of a program, at most.
const SCHEDULES: u64 = 2000;
/// The same where chance decides.
const SCHEDULES_BY_CHANCE: u64 = 400;

/// Runs programs without crashes in orders with so many preemptions, or by chance, and panics if one of them fails or
/// does not meet its marks.
pub fn all_meet(structures: &'static [Structure], all: &[Meets], preemptions: Option<u32>) {
    let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
    let config = Config { crash, ..Config::default() };
    let (config, schedules) = match preemptions {
        Some(preemptions) => (exhaustive(&config, preemptions), SCHEDULES),
        None => (config, SCHEDULES_BY_CHANCE),
    };
    let mut unmet = vec![];
    for (structure, program, marks) in all {
        let (name, started) = (format!("{structure}, {program}"), Instant::now());
        let case = find_in(structures, structure).expect("in the list").case(program);
        let (report, failure) = case.expect("its own program").explore(&config, schedules);
        assert!(failure.is_none(), "{name}: {failure:?}");
        tell(&name, started, &report);
        let met: BTreeSet<&str> = report.marks.iter().map(|(mark, _)| *mark).collect();
        let missing = marks.iter().filter(|mark| !met.contains(**mark));
        unmet.extend(missing.map(|mark| format!("{name}: {mark}")));
    }
    assert!(unmet.is_empty(), "rare branches that are not met any more: {unmet:#?}");
}
