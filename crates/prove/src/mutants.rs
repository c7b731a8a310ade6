//! The planted bugs, and how long they live.

use everleaf_machine::simulated::{Config, Domain, Failure, MemoryModel};

use crate::case::Outcome;
use crate::configure::exhaustive;
use crate::structure::{Step, Structure, find};

/// A safeguard that can be switched off by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Its name in the source.
    pub name: &'static str,
    /// The structure whose programs miss it.
    pub structure: &'static str,
}

const fn of(structure: &'static str, name: &'static str) -> Mutant {
    Mutant { name, structure }
}

/// Every planted bug that a search must find.
pub const MUTANTS: &[Mutant] = &[
    of("nbtree", "epoch.no_grace"),
    of("nbtree", "nbtree.commit_ignores_freeze"),
    of("nbtree", "nbtree.freeze_kills_pending"),
    of("nbtree", "nbtree.late_in_flight"),
    of("nbtree", "nbtree.modify_ignores_freeze"),
    of("nbtree", "nbtree.no_build_flush"),
    of("nbtree", "nbtree.no_clear"),
    of("nbtree", "nbtree.no_commit_flush"),
    of("nbtree", "nbtree.no_finalize"),
    of("nbtree", "nbtree.no_freeze_slots"),
    of("nbtree", "nbtree.no_insert_flush"),
    of("nbtree", "nbtree.no_merge_mark"),
    of("nbtree", "nbtree.no_observe"),
    of("nbtree", "nbtree.no_pending"),
    of("nbtree", "nbtree.no_scan_tomb_observe"),
    of("nbtree", "nbtree.no_tomb_observe"),
    of("nbtree", "nbtree.no_update_flush"),
    of("nbtree", "nbtree.no_validate"),
    of("nbtree", "nbtree.read_pending"),
    of("nbtree", "nbtree.switch_before_commit"),
];

/// Those that take nothing away but speed or the guarantee of progress (`docs/mutants.md`).
pub const HARMLESS: &[Mutant] = &[of("nbtree", "nbtree.no_carry")];

/// The planted bug of this name.
pub fn named(name: &str) -> Option<Mutant> {
    MUTANTS.iter().chain(HARMLESS).find(|mutant| mutant.name == name).copied()
}

/// How a planted bug was found.
pub struct Kill {
    /// The program that found it.
    pub program: String,
    /// Its configuration.
    pub config: Config,
    /// Schedules until then, of all programs.
    pub schedules: u64,
    /// What was seen.
    pub failure: Box<Failure>,
}

/// Schedules of a small program: a bug that needs more is left to the other searches.
const SMALL_SCHEDULES: u64 = 2000;
/// Steps of the random search per round.
const STEPS: u64 = 160;

/// Looks for a planted bug with the programs of its structure: first in every order of the small
/// ones with one preemption, then round after round at random, with more schedules each time.
pub fn hunt(mutant: Mutant, rounds: u64) -> Option<Kill> {
    let structure = find(mutant.structure).expect("the list names structures that exist");
    let base = Config { mutants: vec![mutant.name], ..Config::default() };
    let mut hunt = Hunt { structure, schedules: 0, kill: None };
    for program in (structure.small)() {
        if hunt.run(program, exhaustive(&base, 1), SMALL_SCHEDULES) {
            return hunt.kill;
        }
    }
    for round in 0..rounds {
        for number in round * STEPS..(round + 1) * STEPS {
            let Step { program, config } = (structure.step)(number);
            // Most bugs are seen under one memory model and with caches that forget; the others
            // take turns.
            let memory = if number % 5 == 4 { MemoryModel::Tso } else { MemoryModel::Sc };
            let domain = if number % 7 == 6 { Domain::Visible } else { Domain::Line };
            let races = memory == MemoryModel::Sc && number % 3 == 2;
            let mutants = base.mutants.clone();
            let config = Config { mutants, memory, domain, races, seed: number + 1, ..config };
            if hunt.run(program, config, 20 << round) {
                return hunt.kill;
            }
        }
    }
    None
}

struct Hunt {
    structure: &'static Structure,
    schedules: u64,
    kill: Option<Kill>,
}

impl Hunt {
    /// Counts a search; true if it found the bug.
    fn run(&mut self, program: String, config: Config, schedules: u64) -> bool {
        let case = (self.structure.case)(&program).expect("a structure knows its programs");
        let (report, failure): Outcome = case.explore(&config, schedules);
        self.schedules += report.counts.schedules;
        let schedules = self.schedules;
        self.kill = failure.map(|failure| Kill { program, config, schedules, failure });
        self.kill.is_some()
    }
}
