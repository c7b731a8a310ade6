//! The cases of a tree: every program by its name.
//!
//! ```text
//!   random/SLOTS/NUMBER   a random tree and plan
//!   near_full/NUMBER      a pool that is full
//!   growing/NUMBER        a pool that is full and may grow
//!   refusing/SLOTS/NUMBER a random tree and plan whose operations may find no memory
//!   scenario/NAME         a named scenario, with the slots it asks for
//!   roomy/NAME            the same with so much space at hand that nobody asks the allocator
//!   small/NAME            a program for exhaustive search
//!   wide/NAME             one on nodes as wide as they may be
//!   anomaly/NAME          a program for what a published protocol loses
//!   long/SLOTS/KEYS/NUMBER a long walk (`long.rs`)
//!   made/..               a program that is made (`made.rs`)
//!   tiny/SLOTS/KEYS/SPACE/NUMBER a tiny one, for every order (`tiny.rs`); so cached/.., crowd/.., emptied/..
//!   directed/NAME         a program made for a planted bug
//!   refused/NAME          a small program whose operations may be refused memory
//!   tight/DIGITS/NAME     one in a pool without space but so many blocks that sessions have at hand
//!   bare/NAME             one that was made for a planted bug, in a pool without space even for a record
//! ```

use everleaf_index::Tiny as Small;
use everleaf_machine::simulated::{Config, Random};

use crate::case::step::{Programs, Step};
use crate::case::{Case, PlannedCase, SearchResult, explore};
use crate::machine::configure::Fixed;
use crate::machine::dimensions::{self, Dimension, Drawn};
use crate::machine::space::Space;
use crate::programs::long::Long;
use crate::programs::made::{
    CLEAR, CLOSING, ENDING, KEYS, LOCKING, Made, ROOMS, Room, draw_operations, draw_phases, name_in,
};
use crate::programs::scenarios::Scenario;
use crate::programs::tiny::{self, Form, Tiny};
pub use crate::programs::written::small;
use crate::programs::written::{
    all_small, more_small, name_at, scenario_of, tight, under, wide_of, wide_scenario,
};
use crate::programs::{exhaustion, plans};
use crate::tree::bytes_program::{AnyWords, BytesProgram};
use crate::tree::living::AnyTree;
use crate::tree::subject::{Nodes, Subject};
use crate::tree::u64_program::U64Program;

/// A tree of numbers in several sizes of leaves, by slots.
#[derive(Clone, Copy, Debug)]
pub struct Trees {
    /// Slots and tree, ascending; two at least.
    pub sizes: &'static [(usize, AnyTree)],
    /// The same with nodes as wide as they may be, for long walks only.
    pub wide: &'static [(usize, AnyTree)],
    /// Whether programs have one thread only: all that others would do, in turn.
    pub alone: bool,
}

/// The tree of byte strings in several sizes of leaves, by slots.
#[derive(Clone, Copy, Debug)]
pub struct Strings {
    /// Slots and tree, ascending; two at least.
    pub sizes: &'static [(usize, AnyWords)],
    /// The same with nodes as wide as they may be, for long walks only.
    pub wide: &'static [(usize, AnyWords)],
}

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

/// What has this many slots, or nearly.
fn sized<T>(sizes: &'static [(usize, T)], slots: usize) -> &'static T {
    let at_most = sizes.iter().rev().find(|(known, _)| *known <= slots);
    &at_most.unwrap_or(&sizes[0]).1
}

/// What a long walk of so many slots is on.
fn long_of<T>(
    sizes: &'static [(usize, T)],
    wide: &'static [(usize, T)],
    slots: usize,
) -> &'static T {
    let exactly = wide.iter().find(|(known, _)| *known == slots);
    exactly.map_or_else(|| sized(sizes, slots), |(_, tree)| tree)
}

/// Slots that a long walk may have.
fn slots_of<T>(sizes: &[(usize, T)], wide: &[(usize, T)]) -> Vec<usize> {
    // Each as often as the other kind.
    let mut all: Vec<usize> = sizes.iter().map(|(slots, _)| *slots).collect();
    let rounds = if wide.is_empty() { 0 } else { sizes.len().div_ceil(wide.len()) };
    all.extend((0..rounds).flat_map(|_| wide.iter().map(|(slots, _)| *slots)));
    all
}

impl Programs for Trees {
    fn case(&self, name: &str) -> Option<Box<dyn Case>> {
        let case = self.with_threads(name)?;
        let own_threads =
            ["anomaly/", "directed/", "bare/"].iter().any(|kind| name.starts_with(kind));
        Some(if self.alone && !own_threads { case.alone() } else { case })
    }

    fn step(&self, number: u64, random: &mut Random, fixed: Fixed) -> Step {
        let slots: Vec<usize> = self.sizes.iter().map(|(slots, _)| *slots).collect();
        let lock_free = self.sizes[0].1.lock_free && !self.alone;
        let longs = slots_of(self.sizes, self.wide);
        let mut step = draw_step(number, random, fixed, [&slots, &longs], lock_free, self.alone);
        // What opening has left is made up for by the threads: of hundreds of leaves that takes 400,000 steps.
        step.config.step_limit *= if self.sizes[0].1.leaves_space { 10 } else { 1 };
        step
    }

    fn brief(&self, _number: u64, random: &mut Random, fixed: Fixed) -> Option<Step> {
        let slots: Vec<usize> = self.sizes.iter().map(|(slots, _)| *slots).collect();
        (!self.alone).then(|| draw_brief(random, &slots, fixed))
    }

    fn dimensions(&self) -> Vec<Dimension> {
        dimensions_of(self.sizes.iter().map(|(slots, _)| *slots), self.alone)
    }

    fn small(&self) -> Vec<String> {
        small()
    }

    fn more_small(&self) -> Vec<String> {
        more_small(self.wide)
    }

    fn tight(&self) -> Vec<String> {
        tight()
    }

    fn refused(&self) -> Vec<String> {
        under("refused", all_small())
    }
}

impl Trees {
    fn with_threads(&self, name: &str) -> Option<Box<dyn Case>> {
        if let Some(made) = Made::from_name(name) {
            return Some(PlannedCase::boxed(made.numbers(sized(self.sizes, made.slots))));
        }
        if let Some(tiny) = Tiny::from_name(name) {
            return Some(PlannedCase::boxed(tiny.numbers(sized(self.sizes, tiny.slots))));
        }
        if let Some(long) = Long::from_name(name) {
            let tree = long_of(self.sizes, self.wide, long.slots);
            return Some(PlannedCase::boxed(long.numbers(tree)));
        }
        if let Some((refuses, slots, seed)) = random_of(name) {
            let is_usual = (2..=4).contains(&slots);
            if !is_usual && !self.sizes.iter().any(|(known, _)| *known == slots) {
                return None;
            }
            let (mut program, plan) = plans::random_on(sized(self.sizes, slots), seed, slots);
            program.space.may_fill = refuses;
            return Some(PlannedCase::boxed((program, plan)));
        }
        let smallest = &self.sizes[0].1;
        if let Some(seed) = number_after(name, "near_full/") {
            return Some(PlannedCase::boxed(exhaustion::near_full_on(smallest, seed, false)));
        }
        if let Some(seed) = number_after(name, "growing/") {
            return Some(PlannedCase::boxed(exhaustion::near_full_on(smallest, seed, true)));
        }
        if let Some((scenario, space)) = wide_scenario(name) {
            let (program, plan) = scenario.numbers_on(wide_of(self.wide)?);
            return Some(PlannedCase::boxed((U64Program { space, ..program }, plan)));
        }
        let (scenario, space) = scenario_of(name)?;
        let (program, plan) = scenario.numbers_on(sized(self.sizes, scenario.slots));
        Some(PlannedCase::boxed((U64Program { space, ..program }, plan)))
    }
}

impl Programs for Strings {
    fn case(&self, name: &str) -> Option<Box<dyn Case>> {
        if let Some(made) = Made::from_name(name) {
            return Some(PlannedCase::boxed(made.words(sized(self.sizes, made.slots))));
        }
        if let Some(tiny) = Tiny::from_name(name) {
            return Some(PlannedCase::boxed(tiny.words(sized(self.sizes, tiny.slots))));
        }
        if let Some(long) = Long::from_name(name) {
            let tree = long_of(self.sizes, self.wide, long.slots);
            return Some(PlannedCase::boxed(long.words(tree)));
        }
        if let Some((refuses, slots, seed)) = random_of(name) {
            let known = self.sizes.iter().find(|(known, _)| *known == slots);
            let (mut program, plan) = plans::random_words_on(&known?.1, seed, slots);
            program.space.may_fill = refuses;
            return Some(PlannedCase::boxed((program, plan)));
        }
        let smallest = &self.sizes[0].1;
        if let Some(seed) = number_after(name, "near_full/") {
            return Some(PlannedCase::boxed(exhaustion::near_full_bytes_on(smallest, seed, false)));
        }
        if let Some(seed) = number_after(name, "growing/") {
            return Some(PlannedCase::boxed(exhaustion::near_full_bytes_on(smallest, seed, true)));
        }
        if let Some((scenario, space)) = wide_scenario(name) {
            let (program, plan) = scenario.words_on(wide_of(self.wide)?);
            return Some(PlannedCase::boxed((BytesProgram { space, ..program }, plan)));
        }
        let (scenario, space) = scenario_of(name)?;
        let (program, plan) = scenario.words_on(sized(self.sizes, scenario.slots));
        Some(PlannedCase::boxed((BytesProgram { space, ..program }, plan)))
    }

    fn step(&self, number: u64, random: &mut Random, fixed: Fixed) -> Step {
        // Its records come from the allocator, whose locks are honest locks.
        let slots: Vec<usize> = self.sizes.iter().map(|(slots, _)| *slots).collect();
        let longs = slots_of(self.sizes, self.wide);
        draw_step(number, random, fixed, [&slots, &longs], false, false)
    }

    fn brief(&self, _number: u64, random: &mut Random, fixed: Fixed) -> Option<Step> {
        let slots: Vec<usize> = self.sizes.iter().map(|(slots, _)| *slots).collect();
        Some(draw_brief(random, &slots, fixed))
    }

    fn dimensions(&self) -> Vec<Dimension> {
        dimensions_of(self.sizes.iter().map(|(slots, _)| *slots), false)
    }

    fn small(&self) -> Vec<String> {
        small()
    }

    fn more_small(&self) -> Vec<String> {
        more_small(self.wide)
    }

    fn tight(&self) -> Vec<String> {
        tight()
    }

    fn refused(&self) -> Vec<String> {
        under("refused", all_small())
    }
}

/// Names of sizes of leaves.
const SLOTS: [(&str, usize); 9] =
    [("1", 1), ("2", 2), ("3", 3), ("4", 4), ("6", 6), ("7", 7), ("9", 9), ("17", 17), ("22", 22)];
/// Names of numbers of threads.
const THREADS: [&str; 4] = ["1", "2", "3", "4"];

fn dimensions_of(slots: impl Iterator<Item = usize>, alone: bool) -> Vec<Dimension> {
    let mut all = dimensions::machines();
    all.push(("slots", slots.map(|slots| name_in(&SLOTS, slots)).collect()));
    all.push(("keys", KEYS.iter().map(|(name, _)| *name).collect()));
    all.push(("space", ROOMS.iter().map(|(name, _)| *name).collect()));
    all.push(("threads", if alone { vec![THREADS[0]] } else { THREADS.to_vec() }));
    all
}

/// A step of a search: a made program, or one of those that were written, on a machine that is drawn
/// by itself.
fn draw_step(
    number: u64,
    random: &mut Random,
    fixed: Fixed,
    [slots, longs]: [&[usize]; 2],
    lock_free: bool,
    alone: bool,
) -> Step {
    let mut drawn = dimensions::draw(random, fixed);
    let pick = |random: &mut Random, count: usize| random.below(count as u64) as usize;
    // Written ones have what dimensions they have; the machine is drawn for them, too.
    match random.below(9) {
        0 => {
            let kind = if lock_free && random.one_in(4) { "roomy" } else { "scenario" };
            let program = format!("{kind}/{}", name_at(random.below(1 << 20)));
            if kind == "roomy" {
                dimensions::draw_stop(random, 2, &mut drawn);
            }
            return Step { program, config: drawn.config, values: drawn.values };
        }
        1 => {
            let slots = 2 + random.below(3);
            let program = format!("random/{slots}/{}", random.below(1 << 40) << 8 | number & 255);
            return Step { program, config: drawn.config, values: drawn.values };
        }
        2 => {
            let slots = longs[pick(random, longs.len())];
            let (_, keys) = KEYS[pick(random, KEYS.len())];
            let long = Long { slots, keys, number: random.next() as u32 };
            let config = Long::machine(drawn.config, random);
            return Step { program: long.name(), config, values: drawn.values };
        }
        3..6 if !alone => return draw_tiny(random, slots, drawn, lock_free),
        _ => {}
    }
    let slots = slots[pick(random, slots.len())];
    let (keys_name, keys) = KEYS[pick(random, KEYS.len())];
    let threads = if alone { 1 } else { [1, 2, 2, 2, 3, 3, 4][pick(random, 7)] };
    // Full pools have many keys, which is expensive.
    let mut room = if random.one_in(6) { ROOMS[pick(random, ROOMS.len())].1 } else { Room::Usual };
    let stops = lock_free && threads > 1 && random.one_in(8);
    if stops {
        room = Room::AtHand;
        dimensions::draw_stop(random, threads, &mut drawn);
    }
    let Drawn { mut config, mut values } = drawn;
    let mut operations = draw_operations(random);
    match room {
        Room::Refusing => config.fail_allocation = Some(random.below(14)),
        // Sessions that come and go take the allocator's locks, and what empties a tree takes that of its name.
        Room::AtHand if stops => operations = operations & !(LOCKING | 1 << CLEAR) | 1,
        // Many keys make many volatile nodes, and everything longer.
        Room::Full | Room::Growing => {
            config.arena_bytes = 4 << 20;
            config.step_limit *= 5;
            config.crash.nested_one_in *= 10;
            operations = operations & !(1 << CLEAR) | 1;
        }
        _ => {}
    }
    let mut walk = draw_phases(random, 4);
    if random.one_in(4) {
        let at = random.below(walk.len() as u64 + 1) as usize;
        walk.insert(at, [CLOSING, ENDING][pick(random, 2)]);
    }
    let warm = if stops { vec![] } else { draw_phases(random, 3) };
    let tail = random.next() as u32;
    let made = Made { slots, keys, threads, room, operations, walk, warm, tail };
    values.push(("slots", name_in(&SLOTS, slots)));
    values.push(("keys", keys_name));
    values.push(("space", name_in(&ROOMS, room)));
    values.push(("threads", THREADS[threads - 1]));
    Step { program: made.name(), config, values }
}

/// A tiny program, whose orders are gone through.
fn draw_tiny(random: &mut Random, slots: &[usize], mut drawn: Drawn, lock_free: bool) -> Step {
    let pick = |random: &mut Random, count: usize| random.below(count as u64) as usize;
    let slots = slots[pick(random, slots.len())];
    let (keys_name, keys) = KEYS[pick(random, KEYS.len())];
    let form = [Form::Few, Form::Cached, Form::Crowd, Form::Contrary][pick(random, 4)];
    let stops = lock_free && random.one_in(8);
    let room = match random.below(5) {
        _ if stops => Room::AtHand,
        0 => Room::Refusing,
        _ => Room::Usual,
    };
    let is_crowd = form == Form::Crowd || form == Form::Cached && random.one_in(2);
    dimensions::draw_orders(random, is_crowd, &mut drawn);
    if stops {
        dimensions::draw_stop(random, 2, &mut drawn);
    }
    let tiny = Tiny { form, slots, keys, room, number: random.next() as u32 };
    let Drawn { mut config, mut values } = drawn;
    // Few operations allocate little.
    config.fail_allocation = (room == Room::Refusing).then(|| random.below(6));
    values.push(("slots", name_in(&SLOTS, slots)));
    values.push(("keys", keys_name));
    values.push(("space", name_in(&ROOMS, room)));
    Step { program: tiny.name(), config, values }
}

/// A tiny program of any form, of which some orders are run: mostly with small leaves, which are full soon, and
/// often where space or memory ends within the program.
pub(crate) fn draw_brief(random: &mut Random, slots: &[usize], fixed: Fixed) -> Step {
    let pick = |random: &mut Random, count: usize| random.below(count as u64) as usize;
    let mut drawn = dimensions::draw(random, fixed);
    let few = if random.one_in(3) { slots.len() } else { slots.len().min(3) };
    let slots = slots[pick(random, few)];
    let (keys_name, keys) = KEYS[pick(random, KEYS.len())];
    let (_, form) = tiny::FORMS[pick(random, tiny::FORMS.len())];
    let room = match random.below(8) {
        0 => Room::Refusing,
        1 | 2 => Room::Tight,
        _ => Room::Usual,
    };
    dimensions::draw_brief(random, form == Form::Crowd, &mut drawn);
    let tiny = Tiny { form, slots, keys, room, number: random.next() as u32 };
    let Drawn { mut config, mut values } = drawn;
    config.fail_allocation = (room == Room::Refusing).then_some(0);
    values.push(("slots", name_in(&SLOTS, slots)));
    values.push(("keys", keys_name));
    values.push(("space", name_in(&ROOMS, room)));
    Step { program: tiny.name(), config, values }
}

/// Runs a scenario on trees of numbers with 2 or 3 slots.
pub fn run_numbers<S2: Subject, S3: Subject>(
    scenario: &Scenario,
    config: &Config,
    schedules: u64,
    space: Space,
) -> SearchResult {
    fn run<S: Subject>(
        s: &Scenario,
        config: &Config,
        schedules: u64,
        space: Space,
    ) -> SearchResult {
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
pub fn run_words(
    scenario: &Scenario,
    config: &Config,
    schedules: u64,
    space: Space,
) -> SearchResult {
    fn run<G: Nodes>(s: &Scenario, config: &Config, schedules: u64, space: Space) -> SearchResult {
        let (mut program, plan) = s.words::<G>();
        program.space = space;
        explore(program, plan, config, schedules)
    }
    match scenario.slots {
        2 => run::<Small<2, 3>>(scenario, config, schedules, space),
        _ => run::<Small<3, 3>>(scenario, config, schedules, space),
    }
}
