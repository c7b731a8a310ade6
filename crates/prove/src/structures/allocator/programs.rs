//! The programs of the allocator by name, and how they are drawn.

use everleaf_machine::simulated::{Config, CrashConfig, Plan, Random};

use super::{AllocatorProgram, File, Operation};
use crate::case::step::{self, Step};
use crate::case::{Case, PlannedCase};
use crate::machine::backing::SIZE_MIN;
use crate::machine::configure::Fixed;
use crate::machine::dimensions::{self, Dimension, Drawn};
use crate::structures::allocator::plans::{
    chunks, long, many, random, random_of, returned, shared, unmarked,
};
use crate::structures::pool::creation;

/// Those with sessions that all threads share: how many there are, and what the threads do. A thread that removes or
/// turns is inside of another operation.
const SHARED: [(&str, usize, &[&[Operation]]); 4] = [
    ("put, put", 1, &[&[Operation::Put(0, 10)], &[Operation::Put(0, 22)]]),
    ("remove, put", 1, &[&[Operation::Remove(1)], &[Operation::Put(1, 22)]]),
    (
        "remove, remove",
        2,
        &[&[Operation::Remove(0)], &[Operation::Remove(1)], &[Operation::Put(2, 12)]],
    ),
    ("turn, collect", 1, &[&[Operation::Turn, Operation::Rejoin], &[Operation::Turn]]),
];

/// Programs small enough for every order.
const SMALL: [(&str, &[&[Operation]]); 8] = [
    ("put, put", &[&[Operation::Put(0, 10)], &[Operation::Put(0, 21)]]),
    ("put, remove", &[&[Operation::Put(1, 10)], &[Operation::Remove(1)]]),
    ("put, get", &[&[Operation::Put(2, 14)], &[Operation::Get(2)]]),
    ("turn, peek", &[&[Operation::Turn, Operation::Turn], &[Operation::Peek]]),
    ("remove, release", &[&[Operation::Get(0)], &[Operation::Remove(0), Operation::Release]]),
    (
        "remove and leave, get",
        &[&[Operation::Get(0)], &[Operation::Remove(0), Operation::Rejoin, Operation::Release]],
    ),
    // Both come first to a place whose record is freed, and another like it is made.
    (
        "remove, put, release",
        &[&[Operation::Remove(2), Operation::Put(4, 13)], &[Operation::Get(2), Operation::Release]],
    ),
    // A chunk of a large record becomes one of blocks.
    (
        "a chunk changes its use",
        &[&[
            Operation::Put(4, 10),
            Operation::Remove(4),
            Operation::Release,
            Operation::Release,
            Operation::Put(1, 22),
            Operation::Put(3, 23),
            Operation::Put(5, 24),
            Operation::Put(1, 25),
            Operation::Put(3, 26),
        ]],
    ),
];

/// Those of them that are run with late marks, too.
const LATE: [&str; 4] =
    ["put, put", "remove, release", "remove and leave, get", "remove, put, release"];

/// One in which chunks that have given their space back become chunks of blocks: it has too many crash states for every
/// order, and is made for planted bugs.
pub(crate) const RETURNED: &str = "made/space comes back";
/// The same on a file of which no free page has space at first, as a copy of it may be.
pub(crate) const COPIED: &str = "made/space of a copy";
/// A copy of which nobody knows at first what is in use.
pub(crate) const UNMARKED: &str = "made/space of an unmarked copy";

/// The case of a name: `random/NUMBER`, `tiny/NUMBER`, `long/NUMBER`, `many/NUMBER`, `chunks/NUMBER`, `small/NAME`,
/// `shared/NAME`, `shared/random/NUMBER`, [`RETURNED`], [`COPIED`], [`UNMARKED`], or of a [`creation`]; behind `late/`,
/// some of them with marks made later.
fn case(name: &str) -> Option<Box<dyn Case>> {
    if let Some(seed) = name.strip_prefix("many/") {
        return Some(PlannedCase::boxed(many(seed.parse().ok()?)));
    }
    if let Some(seed) = name.strip_prefix("chunks/") {
        return Some(PlannedCase::boxed(chunks(seed.parse().ok()?)));
    }
    if let Some(seed) = name.strip_prefix("long/") {
        return Some(PlannedCase::boxed(long(seed.parse().ok()?)));
    }
    if let Some(seed) = name.strip_prefix("random/") {
        return Some(PlannedCase::boxed(random(seed.parse().ok()?)));
    }
    if let Some(seed) = name.strip_prefix("tiny/") {
        return Some(PlannedCase::boxed(random_of(seed.parse().ok()?, true)));
    }
    if let Some(seed) = name.strip_prefix("shared/random/") {
        return Some(PlannedCase::boxed(shared(seed.parse().ok()?)));
    }
    if let Some(case) = creation::case(name) {
        return Some(case);
    }
    if name == RETURNED {
        return Some(PlannedCase::boxed(returned(File::Returning)));
    }
    if name == COPIED {
        return Some(PlannedCase::boxed(returned(File::Sparse)));
    }
    if name == UNMARKED {
        return Some(PlannedCase::boxed(unmarked()));
    }
    if let Some(wanted) = name.strip_prefix("late/") {
        let (program, plan) = late(wanted)?;
        return Some(PlannedCase::boxed((AllocatorProgram { is_late: true, ..program }, plan)));
    }
    Some(PlannedCase::boxed(small_of(name)?))
}

/// The program of a name of which there is one with late marks.
fn late(name: &str) -> Option<(AllocatorProgram, Plan<Operation>)> {
    if let Some(seed) = name.strip_prefix("random/") {
        return Some(random(seed.parse().ok()?));
    }
    if let Some(seed) = name.strip_prefix("tiny/") {
        return Some(random_of(seed.parse().ok()?, true));
    }
    small_of(name)
}

/// The program `small/NAME` or `shared/NAME`.
fn small_of(name: &str) -> Option<(AllocatorProgram, Plan<Operation>)> {
    let (shared, plan) = match name.strip_prefix("shared/") {
        Some(wanted) => {
            let (_, shared, plan) = SHARED.iter().find(|(known, ..)| *known == wanted)?;
            (*shared, plan)
        }
        None => {
            let wanted = name.strip_prefix("small/")?;
            (0, &SMALL.iter().find(|(known, _)| *known == wanted)?.1)
        }
    };
    let plan: Plan<Operation> = plan.iter().map(|thread| thread.to_vec()).collect();
    let initial = vec![(0, 11), (1, 20), (2, 31)];
    let pool_bytes = SIZE_MIN as usize;
    let program = AllocatorProgram {
        initial,
        threads: plan.len(),
        pool_bytes,
        shared,
        ..AllocatorProgram::default()
    };
    Some((program, plan))
}

/// The small programs.
fn small() -> Vec<String> {
    let late = LATE.iter().map(|name| format!("late/small/{name}"));
    SMALL.iter().map(|(name, _)| format!("small/{name}")).chain(late).collect()
}

/// The programs of this structure.
pub struct Programs;

impl step::Programs for Programs {
    fn case(&self, name: &str) -> Option<Box<dyn Case>> {
        case(name)
    }

    fn step(&self, number: u64, random: &mut Random, fixed: Fixed) -> Step {
        let Drawn { config, values } = dimensions::draw(random, fixed);
        let seed = random.below(1 << 40) << 8 | number & 255;
        if random.one_in(3) {
            // Each crash is a recovery of many chunks, and programs find more than schedules here.
            let crash = CrashConfig { budget: 8, nested_one_in: 0, ..config.crash };
            let kind = ["many", "chunks", "chunks", "long", "long"][random.below(5) as usize];
            let work_limit = if kind == "chunks" { 20_000 } else { 60_000 };
            let config = Config { crash, work_limit, ..config };
            return Step { program: format!("{kind}/{seed}"), config, values };
        }
        let late = if random.one_in(4) { "late/" } else { "" };
        Step { program: format!("{late}random/{seed}"), config, values }
    }

    fn brief(&self, _number: u64, random: &mut Random, fixed: Fixed) -> Option<Step> {
        let mut drawn = dimensions::draw(random, fixed);
        dimensions::draw_brief(random, false, &mut drawn);
        let Drawn { config, values } = drawn;
        let seed = random.below(1 << 40);
        // Walks find before the threads come, and so fast that little is to be spent on what comes then.
        let kind = [("chunks", 6_000), ("many", 20_000)];
        if let Some((kind, work_limit)) = kind.get(random.below(8) as usize) {
            let crash = CrashConfig { budget: 4, nested_one_in: 0, ..config.crash };
            let config = Config { crash, work_limit: *work_limit, ..config };
            return Some(Step { program: format!("{kind}/{seed}"), config, values });
        }
        if random.one_in(8) {
            return Some(Step { program: format!("shared/random/{seed}"), config, values });
        }
        let late = if random.one_in(4) { "late/" } else { "" };
        Some(Step { program: format!("{late}tiny/{seed}"), config, values })
    }

    fn dimensions(&self) -> Vec<Dimension> {
        dimensions::machines()
    }

    fn small(&self) -> Vec<String> {
        small()
    }

    fn more_small(&self) -> Vec<String> {
        let shared = SHARED.iter().map(|(name, ..)| format!("shared/{name}"));
        shared
            .chain(creation::names())
            .chain([RETURNED, COPIED, UNMARKED].map(str::to_owned))
            .collect()
    }
}
