//! The cases of a tree: every program by its name.
//!
//! ```text
//!   random/SLOTS/NUMBER   a random tree and plan
//!   crowded/NUMBER        a pool that is full
//!   growing/NUMBER        a pool that is full and may grow
//!   refusing/SLOTS/NUMBER a random tree and plan whose operations may find no memory
//!   scenario/NAME         a named scenario, with the slots it asks for
//!   roomy/NAME            the same with so much space at hand that nobody asks the allocator
//!   small/NAME            a program for exhaustive search
//!   anomaly/NAME          a program for what a published protocol loses
//!   guarded/NAME          a program made for a planted bug
//! ```

use everleaf_index::Tiny;
use everleaf_machine::simulated::{Abandon, Config, CrashConfig};

use crate::case::{Case, Outcome, Prepared, explore};
use crate::numbers::Numbers;
use crate::operation::Space;
use crate::scenarios::{self, Scenario};
use crate::structure::Step;
use crate::subject::{Nodes, Subject};
use crate::words::Words;
use crate::{anomalies, plans, safeguards, trouble};

/// The number at the end of a name.
fn number_after(name: &str, prefix: &str) -> Option<u64> {
    name.strip_prefix(prefix)?.parse().ok()
}

/// What a name says of a random program: whether it may refuse, slots, number.
fn random_of(name: &str) -> Option<(bool, usize, u64)> {
    let (kind, rest) = name.split_once('/')?;
    let refuses = match kind {
        "random" => false,
        "refusing" => true,
        _ => return None,
    };
    let (slots, seed) = rest.split_once('/')?;
    Some((refuses, slots.parse().ok()?, seed.parse().ok()?))
}

/// The scenario of a name, and its space.
fn scenario_of(name: &str) -> Option<(Scenario, Space)> {
    let (kind, wanted) = name.split_once('/')?;
    let (list, space) = match kind {
        "scenario" => (scenarios::named(), Space::default()),
        "roomy" => (scenarios::named(), SPACE_AT_HAND),
        "small" => (scenarios::small(), Space::default()),
        "anomaly" => (anomalies::scenarios(), Space::default()),
        "guarded" => (safeguards::scenarios(), Space::default()),
        _ => return None,
    };
    Some((list.into_iter().find(|scenario| scenario.name == wanted)?, space))
}

/// The case of this name for a tree of numbers, given with 2, 3 and 4 slots in a leaf.
pub fn numbers<S2: Subject, S3: Subject, S4: Subject>(name: &str) -> Option<Box<dyn Case>> {
    fn random<S: Subject>(slots: usize, seed: u64, refuses: bool) -> Box<dyn Case> {
        let (mut program, plan) = plans::random::<S>(seed, slots);
        program.space.may_fill = refuses;
        Prepared::boxed((program, plan))
    }
    fn named<S: Subject>(scenario: &Scenario, space: Space) -> Box<dyn Case> {
        let (program, plan) = scenario.numbers::<S>();
        Prepared::boxed((Numbers { space, ..program }, plan))
    }
    if let Some((refuses, slots, seed)) = random_of(name) {
        return Some(match slots {
            2 => random::<S2>(slots, seed, refuses),
            3 => random::<S3>(slots, seed, refuses),
            4 => random::<S4>(slots, seed, refuses),
            _ => return None,
        });
    }
    if let Some(seed) = number_after(name, "crowded/") {
        return Some(Prepared::boxed(trouble::crowded::<S2>(seed, false)));
    }
    if let Some(seed) = number_after(name, "growing/") {
        return Some(Prepared::boxed(trouble::crowded::<S2>(seed, true)));
    }
    let (scenario, space) = scenario_of(name)?;
    Some(match scenario.slots {
        2 => named::<S2>(&scenario, space),
        _ => named::<S3>(&scenario, space),
    })
}

/// The case of this name for the tree of byte strings.
pub fn words(name: &str) -> Option<Box<dyn Case>> {
    fn random<G: Nodes>(slots: usize, seed: u64, refuses: bool) -> Box<dyn Case> {
        let (mut program, plan) = plans::random_words::<G>(seed, slots);
        program.space.may_fill = refuses;
        Prepared::boxed((program, plan))
    }
    fn named<G: Nodes>(scenario: &Scenario, space: Space) -> Box<dyn Case> {
        let (program, plan) = scenario.words::<G>();
        Prepared::boxed((Words { space, ..program }, plan))
    }
    if let Some((refuses, slots, seed)) = random_of(name) {
        return Some(match slots {
            2 => random::<Tiny<2, 3>>(slots, seed, refuses),
            3 => random::<Tiny<3, 3>>(slots, seed, refuses),
            4 => random::<Tiny<4, 3>>(slots, seed, refuses),
            _ => return None,
        });
    }
    if let Some(seed) = number_after(name, "crowded/") {
        return Some(Prepared::boxed(trouble::crowded_words::<Tiny<2, 3>>(seed, false)));
    }
    if let Some(seed) = number_after(name, "growing/") {
        return Some(Prepared::boxed(trouble::crowded_words::<Tiny<2, 3>>(seed, true)));
    }
    let (scenario, space) = scenario_of(name)?;
    Some(match scenario.slots {
        2 => named::<Tiny<2, 3>>(&scenario, space),
        _ => named::<Tiny<3, 3>>(&scenario, space),
    })
}

/// What a search of a lock-free tree does at its step of this number: mostly random plans and
/// scenarios; then full and growing pools, crashes in recovery, opening inside the simulation,
/// memory that gives out, and threads that stop for ever.
pub fn step_lock_free(number: u64) -> Step {
    if number % 16 == 15 {
        let abandon =
            Abandon { thread: number as usize / 16 % 2, after_points: number / 16 * 7 % 61 };
        let config = Config { abandon: Some(abandon), ..Config::default() };
        return Step { program: format!("roomy/{}", name_at(number)), config };
    }
    step(number)
}

/// As [`step_lock_free`] for a tree whose threads may wait for one that has stopped.
pub fn step(number: u64) -> Step {
    let random = |kind| format!("{kind}/{}/{number}", 2 + number % 3);
    let config = Config::default();
    // Many keys make many volatile nodes.
    let roomy = Config { arena_bytes: 4 << 20, ..Config::default() };
    let crash = CrashConfig { nested_one_in: 300, ..CrashConfig::default() };
    let (program, config) = match number % 16 {
        8..11 | 15 => (format!("scenario/{}", name_at(number)), config),
        11 => (format!("crowded/{number}"), roomy),
        12 => (format!("growing/{number}"), roomy),
        13 => (random("random"), Config { crash, ..config }),
        14 if number % 32 == 14 => (random("random"), Config { simulate_open: true, ..config }),
        14 => {
            let fail_allocation = Some(number / 32 % 14);
            (random("refusing"), Config { fail_allocation, ..config })
        }
        _ => (random("random"), config),
    };
    Step { program, config }
}

fn name_at(number: u64) -> &'static str {
    let named = scenarios::named();
    named[(number as usize * 5 + number as usize / 16) % named.len()].name
}

/// The small programs, for exhaustive search.
pub fn small() -> Vec<String> {
    scenarios::small().into_iter().map(|scenario| format!("small/{}", scenario.name)).collect()
}

/// Space for a run in which a thread stops for ever: enough at hand that nobody waits for the
/// allocator, whose locks are honest locks.
pub const SPACE_AT_HAND: Space =
    Space { pool_bytes: 256 << 10, chunk_shift: 12, blocks_at_hand: 24, may_fill: false };

/// Runs a scenario on trees of numbers with 2 or 3 slots.
pub fn run_numbers<S2: Subject, S3: Subject>(
    scenario: &Scenario,
    config: &Config,
    schedules: u64,
    space: Space,
) -> Outcome {
    fn run<S: Subject>(s: &Scenario, config: &Config, schedules: u64, space: Space) -> Outcome {
        let (mut program, plan) = s.numbers::<S>();
        program.space = space;
        explore(program, plan, config, schedules)
    }
    match scenario.slots {
        2 => run::<S2>(scenario, config, schedules, space),
        _ => run::<S3>(scenario, config, schedules, space),
    }
}

/// Runs a scenario on trees of byte strings.
pub fn run_words(scenario: &Scenario, config: &Config, schedules: u64, space: Space) -> Outcome {
    fn run<G: Nodes>(s: &Scenario, config: &Config, schedules: u64, space: Space) -> Outcome {
        let (mut program, plan) = s.words::<G>();
        program.space = space;
        explore(program, plan, config, schedules)
    }
    match scenario.slots {
        2 => run::<Tiny<2, 3>>(scenario, config, schedules, space),
        _ => run::<Tiny<3, 3>>(scenario, config, schedules, space),
    }
}
