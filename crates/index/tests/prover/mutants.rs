//! The planted bugs, and how long they live.

use everleaf_index::Tiny;
use everleaf_machine::simulated::{Config, CrashConfig, Failure};

use super::budget::{explore, run_scenario};
use super::{plans, scenarios};

/// Every planted bug of tree and allocator that a search must find.
pub const MUTANTS: [&str; 20] = [
    "epoch.no_grace",
    "nbtree.commit_ignores_freeze",
    "nbtree.freeze_kills_pending",
    "nbtree.late_in_flight",
    "nbtree.modify_ignores_freeze",
    "nbtree.no_build_flush",
    "nbtree.no_carry",
    "nbtree.no_clear",
    "nbtree.no_commit_flush",
    "nbtree.no_finalize",
    "nbtree.no_freeze_slots",
    "nbtree.no_insert_flush",
    "nbtree.no_merge_mark",
    "nbtree.no_observe",
    "nbtree.no_pending",
    "nbtree.no_tomb_observe",
    "nbtree.no_update_flush",
    "nbtree.no_validate",
    "nbtree.read_pending",
    "nbtree.switch_before_commit",
];

/// How a planted bug was found.
pub struct Kill {
    pub scenario: String,
    /// Schedules until then.
    pub schedules: u64,
    pub failure: Box<Failure>,
}

/// Looks for a planted bug: round after round through the named scenarios and random plans, with
/// more schedules each time.
pub fn hunt(mutant: &'static str, rounds: u64) -> Option<Kill> {
    let mut schedules = 0;
    let all = || scenarios::nasty().into_iter().chain(scenarios::others());
    for round in 0..rounds {
        let crash = CrashConfig { nested_one_in: 0, ..CrashConfig::default() };
        let config = Config { mutants: vec![mutant], crash, seed: round + 1, ..Config::default() };
        for scenario in all() {
            let (report, failure) = run_scenario(&scenario, &config, 20 << round);
            schedules += report.counts.schedules;
            if let Some(failure) = failure {
                return Some(Kill { scenario: scenario.name.to_owned(), schedules, failure });
            }
        }
        for number in 0..20 {
            let seed = round * 1000 + number;
            let (program, plan) = plans::random::<Tiny<3, 3>>(seed, 3);
            let (report, failure) = explore(program, plan, &config, 20 << round);
            schedules += report.counts.schedules;
            if let Some(failure) = failure {
                return Some(Kill { scenario: format!("random plan {seed}"), schedules, failure });
            }
        }
    }
    None
}
