//! What a search runs of the maps: their programs, those that are damaged, and the making of their pool.

use everleaf_machine::simulated::Random;

use crate::case::step::{self, Step};
use crate::case::{Case, PlannedCase};
use crate::machine::configure::Fixed;
use crate::machine::dimensions::{self, Dimension, Drawn};
use crate::structures::maps::damage;
use crate::structures::maps::{self, Maps};
use crate::structures::pool::creation;

/// Those of them that are run on hashed leaves, too.
const SMALL_HASHED: [&str; 5] = ["make, make", "put, drop", "clear, put", "load, load", "close"];

/// Those that are run on such as are opened at once.
const SMALL_AT_ONCE: [&str; 5] =
    ["put, drop", "drop, make", "clear, put", "read, read and drop", "read, count"];

/// What the leaves of a drawn program are.
fn leaves(random: &mut Random) -> &'static str {
    match random.below(6) {
        0 => "hashed/",
        1 => "at-once/",
        _ => "",
    }
}

/// The case of a name: `random/NUMBER`, `tiny/NUMBER` or `small/NAME`; behind `hashed/`, on hashed leaves; behind
/// `at-once/`, on such that are opened at once.
fn case(name: &str) -> Option<Box<dyn Case>> {
    if let Some(case) = creation::case(name) {
        return Some(case);
    }
    let (at_once, name) = match name.strip_prefix("at-once/") {
        Some(rest) => (true, rest),
        None => (false, name),
    };
    let (hashes, name) = match name.strip_prefix("hashed/") {
        Some(rest) => (true, rest),
        None => (at_once, name),
    };
    if let Some(case) = damage::case(name, hashes) {
        return Some(case);
    }
    let (maps, plan) = maps::program(name)?;
    Some(PlannedCase::boxed((Maps { hashes, at_once, ..maps }, plan)))
}

/// The programs of this structure.
pub struct Programs;

impl step::Programs for Programs {
    fn case(&self, name: &str) -> Option<Box<dyn Case>> {
        case(name)
    }

    fn step(&self, number: u64, random: &mut Random, fixed: Fixed) -> Step {
        let Drawn { mut config, values } = dimensions::draw(random, fixed);
        let seed = random.below(1 << 40) << 8 | number & 255;
        let leaves = leaves(random);
        if random.one_in(4) {
            return damage::step(leaves, random, Drawn { config, values });
        }
        config.fail_allocation = maps::is_refusing(seed).then(|| random.below(14));
        Step { program: format!("{leaves}random/{seed}"), config, values }
    }

    fn brief(&self, _number: u64, random: &mut Random, fixed: Fixed) -> Option<Step> {
        let mut drawn = dimensions::draw(random, fixed);
        dimensions::draw_brief(random, false, &mut drawn);
        let Drawn { mut config, values } = drawn;
        let seed = random.below(1 << 40);
        config.fail_allocation = maps::is_refusing(seed).then_some(0);
        let leaves = leaves(random);
        Some(Step { program: format!("{leaves}tiny/{seed}"), config, values })
    }

    fn dimensions(&self) -> Vec<Dimension> {
        dimensions::machines()
    }

    fn small(&self) -> Vec<String> {
        let hashed = SMALL_HASHED.iter().map(|name| format!("hashed/small/{name}"));
        let at_once = SMALL_AT_ONCE.iter().map(|name| format!("at-once/small/{name}"));
        maps::small().chain(hashed).chain(at_once).collect()
    }

    fn more_small(&self) -> Vec<String> {
        creation::names()
    }
}
