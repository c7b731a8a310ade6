//! The planted bugs, and how long they live.

use everleaf_index::Tiny;
use everleaf_machine::simulated::{Config, Failure, Report};

use super::budget::{exhaustive, explore, run_scenario};
use super::{plans, scenarios};

/// Every planted bug of tree and allocator that a search must find.
pub const MUTANTS: [&str; 20] = [
    "epoch.no_grace",
    "nbtree.commit_ignores_freeze",
    "nbtree.freeze_kills_pending",
    "nbtree.late_in_flight",
    "nbtree.modify_ignores_freeze",
    "nbtree.no_build_flush",
    "nbtree.no_clear",
    "nbtree.no_commit_flush",
    "nbtree.no_finalize",
    "nbtree.no_freeze_slots",
    "nbtree.no_insert_flush",
    "nbtree.no_merge_mark",
    "nbtree.no_observe",
    "nbtree.no_pending",
    "nbtree.no_scan_tomb_observe",
    "nbtree.no_tomb_observe",
    "nbtree.no_update_flush",
    "nbtree.no_validate",
    "nbtree.read_pending",
    "nbtree.switch_before_commit",
];

/// Those that take nothing away but speed or the guarantee of progress (`docs/mutants.md`).
pub const HARMLESS: [&str; 1] = ["nbtree.no_carry"];

/// How a planted bug was found.
pub struct Kill {
    pub scenario: String,
    /// Schedules until then.
    pub schedules: u64,
    pub failure: Box<Failure>,
}

/// Looks for a planted bug: first in every order of the small programs with one preemption, then
/// round after round through the named scenarios and random plans, with more schedules each time.
pub fn hunt(mutant: &'static str, rounds: u64) -> Option<Kill> {
    let mut hunt = Hunt { schedules: 0, kill: None };
    let base = Config { mutants: vec![mutant], ..Config::default() };
    for scenario in scenarios::small() {
        let config = exhaustive(&base, 1);
        if hunt.note(scenario.name, run_scenario(&scenario, &config, 2000)) {
            return hunt.kill;
        }
    }
    for round in 0..rounds {
        let config = Config { seed: round + 1, ..base.clone() };
        for scenario in scenarios::nasty().into_iter().chain(scenarios::others()) {
            if hunt.note(scenario.name, run_scenario(&scenario, &config, 20 << round)) {
                return hunt.kill;
            }
        }
        for seed in round * 1000..round * 1000 + 20 {
            let (program, plan) = plans::random::<Tiny<3, 3>>(seed, 3);
            let name = format!("random plan {seed}");
            if hunt.note(&name, explore(program, plan, &config, 20 << round)) {
                return hunt.kill;
            }
        }
    }
    None
}

struct Hunt {
    schedules: u64,
    kill: Option<Kill>,
}

impl Hunt {
    /// Counts a search; true if it found the bug.
    fn note(&mut self, scenario: &str, (report, failure): (Report, Option<Box<Failure>>)) -> bool {
        self.schedules += report.counts.schedules;
        let (scenario, schedules) = (scenario.to_owned(), self.schedules);
        self.kill = failure.map(|failure| Kill { scenario, schedules, failure });
        self.kill.is_some()
    }
}
