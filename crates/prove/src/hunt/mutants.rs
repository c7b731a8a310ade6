//! How long the planted bugs (`planted.rs`) live.

use everleaf_machine::simulated::{Abandon, Config, CrashConfig, Domain, Failure, MemoryModel};

use crate::case::SearchResult;
use crate::case::step::Step;
use crate::case::structure::Structure;
use crate::machine::configure::{Fixed, exhaustive};
use crate::planted::of;
pub use crate::planted::plain::{all, named};
pub use crate::planted::{HARMLESS, MUTANTS, Mutant, OF_OTHER_TREES, RARE};
use crate::programs::published::{self, DIRECTED};
use crate::programs::{anomalies, safeguards, scenarios};
use crate::search::campaign::{self, Budget, Settings, WORK};
use crate::structures::allocator;

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
/// Schedules of a small program whose stores wait in buffers: those have many more orders.
const TSO_SCHEDULES: u64 = 50_000;
/// Schedules of a small program with crashes in recovery.
const NESTED_SCHEDULES: u64 = 2;
/// Schedules of the plain search for each round of the other.
const PLAIN_SCHEDULES: u64 = 20_000;
/// Steps of the random search per round.
const STEPS: u64 = 160;

/// Programs that were made for a planted bug, with the search through all orders that finds it and
/// how many schedules that may take.
fn made_for(mutant: Mutant) -> Vec<(String, Config, u64)> {
    let directed = [anomalies::anomalies(), safeguards::safeguards(), published::directed()];
    let directed = directed.into_iter().flatten();
    let directed = directed.filter(|one| mutant == of(one.structure, one.mutant));
    let directed = directed.map(|one| (one.program(), one.config(true), one.schedules));
    let others = match mutant.name {
        "alloc.returns_chunks"
        | "alloc.returns_header"
        | "alloc.secures_chunks"
        | "alloc.secures_nothing"
        | "alloc.trusts_returned" => {
            // What needs no crash is met without: there are very many crash states.
            let enabled = mutant.name == "alloc.trusts_returned";
            let crash = CrashConfig { enabled, ..CrashConfig::default() };
            let config = Config { mutants: vec![mutant.name], crash, ..Config::default() };
            vec![(allocator::RETURNED.to_string(), config, 200)]
        }
        "recovery.secures_chunks" | "recovery.unmarked_no_holes" => {
            let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
            let config = Config { mutants: vec![mutant.name], crash, ..Config::default() };
            let is_unmarked = mutant.name == "recovery.unmarked_no_holes";
            let program = if is_unmarked { allocator::UNMARKED } else { allocator::COPIED };
            vec![(program.to_string(), config, 200)]
        }
        "journal.stops_without_memory" => refused("refused/move, lone", mutant),
        "journal.lone_expiry_unwritten" => looked_before("small/full, look", mutant),
        "bytes.expiry_seen_early" => looked_before("small/expire, read, expire", mutant),
        "look.trusts" | "stripes.counts_nothing" => in_order("small/batch, at once", mutant),
        "read.looks_once" => {
            let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
            let config = Config { mutants: vec![mutant.name], crash, ..Config::default() };
            let program = "small/batch and read, batch".to_string();
            vec![(program, exhaustive(&config, 2), 20 * SMALL_SCHEDULES)]
        }
        "look.forgets_gate" => in_order("small/swap, lower, at once", mutant),
        "at_once.looks_once" => in_order("small/swap, at once", mutant),
        "journal.keeps_last_made" => refused("refused/move, expire", mutant),
        _ => vec![],
    };
    let lost = published::anomalies().into_iter();
    let lost = lost.filter(|one| one.mutant.is_some_and(|name| mutant == of(DIRECTED, name)));
    let lost = lost.map(|one| (one.program(), one.config(), one.schedules));
    others.into_iter().chain(directed).chain(lost).collect()
}

/// A small program in which a reader may look at the stripe before, and read behind the store of an expiry and before
/// its flush, where lines must be flushed. Gets look at the stripe once only, since the second look hides it.
fn looked_before(program: &str, mutant: Mutant) -> Vec<(String, Config, u64)> {
    let config = Config { mutants: vec![mutant.name, "read.looks_once"], ..Config::default() };
    vec![(program.to_string(), exhaustive(&config, 2), 20 * SMALL_SCHEDULES)]
}

/// A small program in every order with one preemption, without crashes.
fn in_order(program: &str, mutant: Mutant) -> Vec<(String, Config, u64)> {
    let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
    let config = Config { mutants: vec![mutant.name], crash, ..Config::default() };
    vec![(program.to_string(), exhaustive(&config, 1), 20 * SMALL_SCHEDULES)]
}

/// A small program with each of its first allocations refused in turn: which of them is made by the thread that meets a
/// leaf that another one has frozen depends on the order.
fn refused(program: &str, mutant: Mutant) -> Vec<(String, Config, u64)> {
    let config = |number| {
        let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
        let (mutants, fail_allocation) = (vec![mutant.name], Some(number));
        exhaustive(&Config { mutants, crash, fail_allocation, ..Config::default() }, 1)
    };
    (0..8).map(|number| (program.to_string(), config(number), SMALL_SCHEDULES)).collect()
}

/// Looks for a planted bug with the programs of `structure`, which is its own: first in those that were made for it,
/// then in every order of the small ones with one preemption, then with crashes in their recovery,
/// then round after round at random, in turn a written program, with more schedules each time, and a
/// step of the plain search, then in every order of the small ones' store buffers too, and at last by
/// the plain search.
pub fn hunt(structure: &'static Structure, mutant: Mutant, rounds: u64) -> Option<Kill> {
    assert_eq!(structure.name, mutant.structure, "it is missed by programs of another structure");
    let domain = structure.programs().domains()[0];
    let base = Config { mutants: vec![mutant.name], domain, ..Config::default() };
    let mut hunt = Hunt { structure, mutant: mutant.name, schedules: 0, kill: None };
    for (program, config, schedules) in made_for(mutant) {
        if hunt.run(program, config, schedules) {
            return hunt.kill;
        }
    }
    for program in structure.small() {
        if hunt.run(program, exhaustive(&base, 1), SMALL_SCHEDULES) {
            return hunt.kill;
        }
    }
    // Then with many crashes in recovery, and the whole plan again after them.
    let crash = CrashConfig { nested_one_in: 1, ..CrashConfig::default() };
    let nested = Config { crash, ..base.clone() };
    for program in structure.small() {
        if hunt.run(program, nested.clone(), NESTED_SCHEDULES) {
            return hunt.kill;
        }
    }
    for round in 0..rounds {
        for number in round * STEPS..(round + 1) * STEPS {
            let (program, config) = step(structure.name, number);
            let config = Config { mutants: base.mutants.clone(), ..config };
            if hunt.run(program, config, 20 << round) || hunt.run_plain_step(number) {
                return hunt.kill;
            }
        }
    }
    let tso = Config { memory: MemoryModel::Tso, ..base };
    for program in structure.small() {
        if hunt.run(program, exhaustive(&tso, 1), TSO_SCHEDULES) {
            return hunt.kill;
        }
    }
    // At last what finds what nobody has met: the plain search.
    let kill = hunt_plainly(structure, mutant, Budget::Schedules(rounds * PLAIN_SCHEDULES), 1)?;
    Some(Kill { schedules: hunt.schedules + kill.schedules, ..kill })
}

/// Looks for a planted bug as for one that nobody knows: by the plain search of its structure.
pub fn hunt_plainly(
    structure: &'static Structure,
    mutant: Mutant,
    budget: Budget,
    seed: u64,
) -> Option<Kill> {
    let settings = Settings { budget, seed, mutant: Some(mutant.name), ..Settings::default() };
    let verdict = campaign::run(structure, &settings, &mut |_| {});
    let schedules = verdict.report.counts.schedules;
    verdict.failure.map(|(record, failure)| Kill {
        program: record.program,
        config: record.config,
        schedules,
        failure: Box::new(failure),
    })
}

/// What the random part of a hunt does at its step of this number: mostly one memory model and caches
/// that forget, in which most planted bugs are seen; the others take turns.
fn step(structure: &str, number: u64) -> (String, Config) {
    let nested = |nested_one_in| CrashConfig { nested_one_in, ..CrashConfig::default() };
    let usual = Config::default();
    let simple = format!("random/{number}");
    let (program, config) = match structure {
        "alloc" | "pool" => {
            let one_in = if structure == "alloc" { 1000 } else { 200 };
            let crash = nested(if number.is_multiple_of(4) { one_in } else { 0 });
            (simple, Config { crash, simulate_open: number % 8 == 5, ..usual })
        }
        name if name.starts_with("nbtree-on-") => {
            let crash = nested(if number.is_multiple_of(4) { 100 } else { 0 });
            (format!("random/2/{number}"), Config { crash, ..usual })
        }
        name if name.starts_with("blocks-") => {
            let crash = nested(if number.is_multiple_of(4) { 50 } else { 0 });
            (simple, Config { crash, simulate_open: number % 8 == 5, ..usual })
        }
        "log" => (format!("run/{number}"), usual),
        "store" if number % 2 == 1 => (format!("threads/{number}"), usual),
        "store" => (format!("run/{number}"), usual),
        "batch" | "expiry" | "maps" => {
            (simple, Config { crash: nested(if number % 4 == 3 { 50 } else { 0 }), ..usual })
        }
        "epoch" => {
            let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
            (simple, Config { crash, ..usual })
        }
        _ => step_of_trees(structure, number),
    };
    let memory = if number % 5 == 4 { MemoryModel::Tso } else { MemoryModel::Sc };
    let domain = if number % 7 == 6 { Domain::Eadr } else { Domain::Adr };
    let races = memory == MemoryModel::Sc && number % 3 == 2;
    (program, Config { memory, domain, races, seed: number + 1, ..config })
}

/// The same of a tree.
fn step_of_trees(structure: &str, number: u64) -> (String, Config) {
    let random = |kind| format!("{kind}/{}/{number}", 2 + number % 3);
    let usual = Config::default();
    // Many keys make many volatile nodes.
    let roomy = Config { arena_bytes: 4 << 20, ..Config::default() };
    let crash = CrashConfig { nested_one_in: 300, ..CrashConfig::default() };
    let named = scenarios::named();
    let name = named[(number as usize * 5 + number as usize / 16) % named.len()].name;
    match number % 16 {
        15 if structure == "nbtree" => {
            let (thread, after_points) = (number as usize / 16 % 2, number / 16 * 7 % 61);
            let abandon = Some(Abandon { thread, after_points });
            (format!("roomy/{name}"), Config { abandon, ..usual })
        }
        8..11 | 15 => (format!("scenario/{name}"), usual),
        11 => (format!("near_full/{number}"), roomy),
        12 => (format!("growing/{number}"), roomy),
        13 => (random("random"), Config { crash, ..usual }),
        14 if number % 32 == 14 => (random("random"), Config { simulate_open: true, ..usual }),
        14 => {
            let fail_allocation = Some(number / 32 % 14);
            (random("refusing"), Config { fail_allocation, ..usual })
        }
        _ => (random("random"), usual),
    }
}

struct Hunt {
    structure: &'static Structure,
    mutant: &'static str,
    schedules: u64,
    kill: Option<Kill>,
}

impl Hunt {
    /// Counts a search; true if it found the bug.
    fn run(&mut self, program: String, config: Config, schedules: u64) -> bool {
        let case = self.structure.case(&program).expect("a structure knows its programs");
        let (report, failure): SearchResult = case.explore(&config, schedules);
        self.schedules += report.counts.schedules;
        let schedules = self.schedules;
        self.kill = failure.map(|failure| Kill { program, config, schedules, failure });
        self.kill.is_some()
    }

    /// A step of the plain search: its leaves have all sizes, and its trees a past. What needs those is
    /// met by few written programs.
    fn run_plain_step(&mut self, number: u64) -> bool {
        let Step { program, config, .. } = self.structure.step(1, number, Fixed::default());
        let config = Config { mutants: vec![self.mutant], work_limit: WORK, ..config };
        self.run(program, config, Settings::default().schedules)
    }
}
