//! The programs of batches: random ones, and those that are small enough for every order.

use everleaf_machine::simulated::{Plan, Random};

use super::{Batches, Operation, Room};
use crate::case::step::{self, Step};
use crate::case::{Case, PlannedCase};
use crate::machine::configure::Fixed;
use crate::machine::dimensions::{self, Dimension, Drawn};
use crate::structures::batches::vanishing;

/// A random plan: 2 or 3 threads with 1 to 3 operations each.
pub fn plan(seed: u64) -> (Batches, Plan<Operation>) {
    plan_of(seed, 3)
}

/// The same with as many operations of each thread at most.
fn plan_of(seed: u64, longest: u64) -> (Batches, Plan<Operation>) {
    let mut random = Random::new(seed ^ 0x6261_7463);
    let (threads, length) = (2 + random.below(2) as usize, 1 + random.below(longest));
    let stripes = 1 << random.below(5);
    let mut value = 0;
    // In some plans nobody meets: then their batches are under way together.
    let swaps = seed % 4 == 3;
    let mut operation = |thread: usize| {
        value += 1;
        if swaps && value % 4 != 3 {
            let other = random.below(threads as u64) as usize;
            return match random.below(10) {
                0..4 => Operation::Swap(thread),
                4..7 => Operation::ReadSwapping(other),
                7 => Operation::Alone(thread, value),
                8 => Operation::Alone(thread, 0),
                _ => Operation::GetTogether(other),
            };
        }
        match random.below(25) {
            24 => Operation::GetLone((thread + 1) % threads),
            23 => Operation::LoneExpire(thread, value),
            21..23 => Operation::Lone(thread, if value % 5 == 4 { 0 } else { value }),
            18..21 => Operation::Expire(thread, value),
            0..5 => Operation::Batch(value),
            5..7 => Operation::Put(value),
            7 => Operation::Get,
            8..10 => Operation::Twins,
            10 if value % 2 == 0 => Operation::TwinsAmong,
            10 => Operation::TwinsAtOnce,
            11 => Operation::LowerIfIdle,
            12 => Operation::GetOwn((thread + 1) % threads),
            13 => Operation::Own(thread, 0),
            _ => Operation::Own(thread, value),
        }
    };
    let plan =
        (0..threads).map(|thread| (0..length).map(|_| operation(thread)).collect()).collect();
    // Leaves that are replaced have so many crash states that only short plans are to have them.
    let fills = seed % 4 == 2 && threads as u64 * length <= 4;
    let room = if seed % 8 == 1 { Room::Little } else { Room::Enough };
    let refuses = is_refusing(seed);
    (Batches { threads, stripes, fills, moves: false, swaps, room, refuses, hashes: false }, plan)
}

/// Whether memory may be refused in a random program: in half of those with fillers, too, whose batches
/// replace leaves.
fn is_refusing(seed: u64) -> bool {
    seed % 8 == 6 || seed % 8 == 5
}

use Operation::{
    Alone, Batch, Expire, GetLone, GetOwn, GetTogether, Lone, LoneExpire, LowerIfIdle, Move, Own,
    Put, ReadSwapping, Renew, Swap, Twins, TwinsAmong, TwinsAtOnce,
};

/// Programs small enough for every order.
const SMALL: [(&str, usize, &[&[Operation]]); 31] = [
    ("batch, read", 4, &[&[Batch(1)], &[Twins]]),
    // The gate is up when the reader begins: the second batch need not wait for it.
    ("batch and read, batch", 4, &[&[Batch(1), Twins], &[Batch(2)]]),
    ("batch, put", 4, &[&[Batch(1)], &[Put(2), Put(3)]]),
    ("batch, batch", 2, &[&[Batch(1)], &[Batch(2)]]),
    // The thread that raises the gate second has to wait, too, for the one that has not seen it.
    ("put, batch, batch", 4, &[&[Put(1)], &[Batch(2)], &[Batch(3)]]),
    ("batch alone, put", 1, &[&[Batch(1), Put(2), Batch(3)]]),
    ("batch, lower, put", 1, &[&[Batch(1), LowerIfIdle], &[Put(2)]]),
    ("fillers, put", 4, &[&[Batch(2), Batch(3)], &[Put(4)]]),
    // The second batch removes what the first added, while the leaf of one of its keys is replaced.
    ("fillers, own", 16, &[&[Batch(2), Batch(3)], &[Own(1, 4)]]),
    ("own, own", 16, &[&[Own(0, 1), Own(0, 0)], &[Own(1, 2)]]),
    ("own, read", 16, &[&[Own(0, 1), Own(0, 2)], &[GetOwn(0), GetOwn(0)]]),
    ("expire, read", 16, &[&[Own(0, 1), Expire(0, 4)], &[GetOwn(0), GetOwn(0)]]),
    ("expire, expire", 16, &[&[Own(0, 1), Expire(0, 6)], &[Own(1, 2), Expire(1, 5)]]),
    ("expire half", 16, &[&[Own(0, 1), Expire(0, 5), Expire(0, 7)], &[Expire(1, 3)]]),
    ("crowded", 4, &[&[Batch(1), Own(0, 2), Batch(3)], &[Own(1, 4)]]),
    // Batches of one change.
    ("lone, read", 16, &[&[Lone(0, 1), LoneExpire(0, 4), Lone(0, 0)], &[GetLone(0), GetLone(0)]]),
    ("lone, batch", 1, &[&[Lone(0, 1), Own(0, 2), Lone(0, 3)], &[LoneExpire(0, 5), Own(1, 2)]]),
    ("full, lone", 16, &[&[Lone(0, 4), LoneExpire(0, 5), Lone(0, 8), Lone(0, 0)], &[GetLone(0)]]),
    ("full, look", 16, &[&[Lone(0, 4), GetLone(1)], &[LoneExpire(1, 5)]]),
    // A removal behind a put meets a leaf that another thread has frozen.
    ("move, lone", 16, &[&[Lone(0, 4)], &[Move(1)]]),
    // The same of an expiry that is written again behind another one, which is rolled back then.
    ("move, expire", 16, &[&[Lone(0, 4)], &[Expire(1, 6)]]),
    ("move, move", 16, &[&[Move(0), Move(0)], &[Move(1)]]),
    // One put and a removal, with no room for a leaf, and with room for a long record only in the journal.
    ("move, full", 16, &[&[Move(0), Move(0)], &[GetOwn(1)]]),
    // One put for which there is no leaf, and expiries that change in place: nobody may begin what a crash cannot end.
    ("move, full, renew", 16, &[&[Renew(1, 4)], &[GetOwn(1)]]),
    // Several keys at one moment: beside batches, and beside single writes with the gate down and as it is raised.
    // The thread that reads is the first: a search in every order comes to orders late that begin with another.
    ("batch, at once", 4, &[&[Batch(2), TwinsAtOnce], &[Batch(1)]]),
    ("batch, at once, one stripe", 1, &[&[Batch(2), TwinsAtOnce], &[Batch(1)]]),
    ("batch, more at once", 4, &[&[TwinsAmong], &[Batch(1), Batch(2)]]),
    ("alone, at once", 4, &[&[Alone(0, 2), Alone(0, 0)], &[GetTogether(0)]]),
    ("swap, at once", 4, &[&[Swap(0), ReadSwapping(0)], &[Swap(0)]]),
    ("swap, batch, at once", 4, &[&[Swap(0)], &[Batch(1)], &[ReadSwapping(0)]]),
    ("swap, lower, at once", 4, &[&[Batch(1), ReadSwapping(0)], &[LowerIfIdle, Swap(0)]]),
];

/// Those of them that are run on hashed leaves, too.
const SMALL_HASHED: [&str; 12] = [
    "batch, put",
    "fillers, put",
    "fillers, own",
    "expire half",
    "crowded",
    "full, lone",
    "move, lone",
    "move, full",
    "batch, at once",
    "batch, more at once",
    "alone, at once",
    "swap, at once",
];

/// The case of a name: `random/NUMBER`, `tiny/NUMBER`, `small/NAME` or `refused/NAME`, or one of `vanishing.rs`; behind
/// `hashed/`, on hashed leaves.
fn case(name: &str) -> Option<Box<dyn Case>> {
    let (hashes, name) = match name.strip_prefix("hashed/") {
        Some(rest) => (true, rest),
        None => (false, name),
    };
    if let Some(case) = vanishing::case(name, hashes) {
        return Some(case);
    }
    let (batches, plan) = program(name)?;
    Some(PlannedCase::boxed((Batches { hashes, ..batches }, plan)))
}

fn program(name: &str) -> Option<(Batches, Plan<Operation>)> {
    if let Some(seed) = name.strip_prefix("random/") {
        return Some(plan(seed.parse().ok()?));
    }
    if let Some(seed) = name.strip_prefix("tiny/") {
        return Some(plan_of(seed.parse().ok()?, 2));
    }
    let refused = name.strip_prefix("refused/");
    let (refuses, wanted) = (refused.is_some(), refused.or_else(|| name.strip_prefix("small/"))?);
    let (_, stripes, plan) = SMALL.iter().find(|(known, ..)| *known == wanted)?;
    let plan: Plan<Operation> = plan.iter().map(|thread| thread.to_vec()).collect();
    let (fills, moves) = (wanted.starts_with("fillers"), wanted.starts_with("move"));
    let swaps = wanted.starts_with("swap");
    let room = match wanted {
        "crowded" => Room::Little,
        "full, lone" | "full, look" | "move, full" | "move, full, renew" => Room::None,
        _ => Room::Enough,
    };
    let (stripes, threads) = (*stripes, plan.len());
    Some((Batches { threads, stripes, fills, moves, swaps, room, refuses, hashes: false }, plan))
}

/// The small programs.
fn small() -> Vec<String> {
    let hashed = SMALL_HASHED.iter().map(|name| format!("hashed/small/{name}"));
    let written = SMALL.iter().map(|(name, ..)| format!("small/{name}"));
    written.chain(hashed).chain(vanishing::small()).collect()
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
        let leaves = if random.one_in(3) { "hashed/" } else { "" };
        if random.one_in(6) {
            let program = vanishing::random_name(random);
            config.fail_allocation = vanishing::is_refusing(&program).then(|| random.below(14));
            return Step { program: format!("{leaves}{program}"), config, values };
        }
        config.fail_allocation = is_refusing(seed).then(|| random.below(14));
        Step { program: format!("{leaves}random/{seed}"), config, values }
    }

    fn brief(&self, _number: u64, random: &mut Random, fixed: Fixed) -> Option<Step> {
        let mut drawn = dimensions::draw(random, fixed);
        dimensions::draw_brief(random, false, &mut drawn);
        let Drawn { mut config, values } = drawn;
        let leaves = if random.one_in(3) { "hashed/" } else { "" };
        let seed = random.below(1 << 40);
        config.fail_allocation = is_refusing(seed).then_some(0);
        Some(Step { program: format!("{leaves}tiny/{seed}"), config, values })
    }

    fn dimensions(&self) -> Vec<Dimension> {
        dimensions::machines()
    }

    fn small(&self) -> Vec<String> {
        small()
    }

    fn refused(&self) -> Vec<String> {
        small().into_iter().map(|name| name.replacen("small/", "refused/", 1)).collect()
    }
}
