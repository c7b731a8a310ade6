//! The programs of expiries: random ones, and those that are small enough for every order.

use everleaf_machine::simulated::{Domain, Plan, Random};

use super::{BEHIND_VALUES, Expiries, FAR, KEY, Operation};
use crate::case::step::{self, Step};
use crate::case::{Case, PlannedCase};
use crate::machine::configure::Fixed;
use crate::machine::dimensions::{self, Dimension, Drawn};

use Operation::{Expire, Get, Insert, Keep, LowerIfIdle, Purge, Put, Remove, Rewrite, Update};

/// A random plan: 2 or 3 threads with 1 to 3 operations each.
pub fn plan(seed: u64) -> (Expiries, Plan<Operation>) {
    plan_of(seed, 3)
}

/// The same with as many operations of each thread at most.
fn plan_of(seed: u64, longest: u64) -> (Expiries, Plan<Operation>) {
    let mut random = Random::new(seed ^ 0x6578_7069);
    let (threads, length) = (2 + random.below(2) as usize, 1 + random.below(longest));
    let now = [0, 0, 2, 4][random.below(4) as usize];
    let mut last = 0;
    let mut operation = || {
        last += 1;
        // Early times recur, later ones are distinct.
        let number =
            if now > 0 && random.one_in(2) { 1 + random.below(now + 1) } else { last + now };
        match random.below(18) {
            0..3 => Put(number),
            3..7 => Expire(number),
            7 => Rewrite,
            8 => Keep,
            9 => Remove,
            10..12 => Get,
            12 | 13 => Purge,
            14 | 15 => Insert(last + now),
            16 => Update(number),
            _ => LowerIfIdle,
        }
    };
    let plan = (0..threads).map(|_| (0..length).map(|_| operation()).collect()).collect();
    let far = if random.one_in(3) { BEHIND_VALUES } else { FAR };
    let hashes = random.one_in(2);
    let key = if random.one_in(4) { &[] } else { KEY };
    (Expiries { threads, now, far, hashes, key }, plan)
}

/// Programs small enough for every order.
const SMALL: [(&str, &[&[Operation]]); 11] = [
    ("expire, read", &[&[Put(1), Expire(2)], &[Get, Get]]),
    // The second change waits for no thread that has looked at the stripe: the gate is up since the first.
    ("expire, read, expire", &[&[Put(1), Expire(2), Get], &[Expire(3)]]),
    ("expire, rewrite", &[&[Put(1), Expire(2)], &[Rewrite, Get]]),
    ("expire, expire", &[&[Put(1), Expire(2)], &[Expire(3)]]),
    ("expire, remove", &[&[Put(1), Expire(2)], &[Remove]]),
    ("expire, purge", &[&[Put(1), Expire(2)], &[Purge, Put(3)]]),
    // The last time has come in these, whose names say so.
    ("gone: expire, insert", &[&[Put(3), Expire(2)], &[Insert(3), Get]]),
    ("gone: put, purge", &[&[Put(2), Insert(3)], &[Purge, Get]]),
    ("gone: put, update", &[&[Put(2), Get], &[Update(3), Rewrite]]),
    ("gone: put, put", &[&[Put(2), Put(3)], &[Put(1), Remove]]),
    ("expire, lower, rewrite", &[&[Put(1), Expire(2), LowerIfIdle, Expire(3)], &[Rewrite]]),
];

/// The case of a name: `random/NUMBER`, `tiny/NUMBER`, `small/NAME`, and `hashed/NAME` on hashed leaves, `behind/NAME`
/// with times that are behind the values.
fn case(name: &str) -> Option<Box<dyn Case>> {
    if let Some(seed) = name.strip_prefix("random/") {
        return Some(PlannedCase::boxed(plan(seed.parse().ok()?)));
    }
    if let Some(seed) = name.strip_prefix("tiny/") {
        return Some(PlannedCase::boxed(plan_of(seed.parse().ok()?, 2)));
    }
    let (kind, wanted) = name.split_once('/')?;
    let base = match kind {
        "small" => Expiries::default(),
        "hashed" => Expiries { hashes: true, ..Expiries::default() },
        "behind" => Expiries { far: BEHIND_VALUES, ..Expiries::default() },
        _ => return None,
    };
    let (_, plan) = SMALL.iter().find(|(known, _)| *known == wanted)?;
    let plan: Plan<Operation> = plan.iter().map(|thread| thread.to_vec()).collect();
    let now = if wanted.starts_with("gone: ") { 2 } else { 0 };
    Some(PlannedCase::boxed((Expiries { threads: plan.len(), now, ..base }, plan)))
}

/// The programs of this structure.
pub struct Programs;

impl step::Programs for Programs {
    fn case(&self, name: &str) -> Option<Box<dyn Case>> {
        case(name)
    }

    fn step(&self, number: u64, random: &mut Random, fixed: Fixed) -> Step {
        let Drawn { config, values } = dimensions::draw(random, fixed);
        let program = format!("random/{}", random.below(1 << 40) << 8 | number & 255);
        Step { program, config, values }
    }

    fn brief(&self, _number: u64, random: &mut Random, fixed: Fixed) -> Option<Step> {
        let mut drawn = dimensions::draw(random, fixed);
        dimensions::draw_brief(random, false, &mut drawn);
        let Drawn { config, values } = drawn;
        Some(Step { program: format!("tiny/{}", random.below(1 << 40)), config, values })
    }

    fn dimensions(&self) -> Vec<Dimension> {
        dimensions::machines()
    }

    fn domains(&self) -> [Domain; 2] {
        // Where lines must be flushed nothing changes in place.
        [Domain::Eadr, Domain::Adr]
    }

    fn small(&self) -> Vec<String> {
        let of = |kind| SMALL.iter().map(move |(name, _)| format!("{kind}/{name}"));
        of("small").chain(of("hashed")).chain(of("behind")).collect()
    }
}
