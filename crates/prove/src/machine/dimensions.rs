//! What a step of a random search is like: every dimension is drawn by itself, so that every pair of
//! them occurs.
//!
//! A dimension has a name and a few values. What cannot go together (a data race is followed under
//! sequential consistency only, a thread that stops for ever needs a lock-free tree) is decided after
//! the draw and is not counted as missing.

use everleaf_machine::simulated::{
    Abandon, Config, CrashConfig, Domain, MemoryModel, Random, SchedulerKind,
};

use crate::machine::configure::{Fixed, domain_name, memory_name};

/// A dimension's name and its values.
pub type Dimension = (&'static str, Vec<&'static str>);

/// A value of a dimension: both names.
pub type Value = (&'static str, &'static str);

/// What was drawn for one step, as values for the table.
pub type Values = Vec<Value>;

/// The machine of one step.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// Its configuration.
    pub config: Config,
    /// What it is called in the table.
    pub values: Values,
}

/// Depths of crashes in recovery, by name.
const RECOVERIES: [&str; 5] = ["at full speed", "cut", "cut twice", "cut three times", NOT_TRIED];
/// There are no crashes.
const NOT_TRIED: &str = "not tried";
/// Schedulers, by name.
const SCHEDULERS: [&str; 5] =
    ["uniform", "priorities, shallow", "priorities, deep", "mixed", "in order"];

/// Values of the dimensions of every machine.
pub const MACHINES: [(&str, &[&str]); 8] = [
    ("domain", &["adr", "eadr", "process"]),
    ("memory", &["sc", "tso", "weak"]),
    ("locked", &["completes flushes", "completes nothing"]),
    ("matches", &["whole", "torn"]),
    ("compares", &["wide", "narrow"]),
    ("scheduler", &SCHEDULERS),
    ("recovery", &RECOVERIES),
    ("opening", &["before", "inside"]),
];

/// What a brief program may cost: many programs find more than many orders of one, but for those that few
/// orders show.
const WORK_OF_BRIEF: [u64; 3] = [25_000, 60_000, 150_000];

/// The dimensions of every machine.
pub fn machines() -> Vec<Dimension> {
    MACHINES.iter().map(|(name, values)| (*name, values.to_vec())).collect()
}

fn pick<T: Copy>(random: &mut Random, values: &[T]) -> T {
    values[random.below(values.len() as u64) as usize]
}

/// Draws a machine, but for what is fixed.
pub fn draw(random: &mut Random, fixed: Fixed) -> Drawn {
    let domains = [Domain::Adr, Domain::Adr, Domain::Eadr, Domain::Process];
    let domain = pick(random, &domains);
    let domain = fixed.domain.unwrap_or(domain);
    let memory = if random.one_in(3) { MemoryModel::Tso } else { MemoryModel::Sc };
    let memory = fixed.memory.unwrap_or(memory);
    let (rmw_drains, torn_matches) = (random.one_in(4), random.one_in(3));
    let (wide_compares, races) = (random.one_in(3), random.one_in(2));
    let (scheduler, scheduler_name) = draw_scheduler(random);
    let (crash, recovery) = draw_crashes(random);
    let simulate_open = random.one_in(8);
    let flag = |flag: bool, [yes, no]: [&'static str; 2]| if flag { yes } else { no };
    let values = vec![
        ("domain", domain_name(domain)),
        ("memory", memory_name(memory)),
        ("locked", flag(rmw_drains, ["completes flushes", "completes nothing"])),
        ("matches", flag(torn_matches, ["torn", "whole"])),
        ("compares", flag(wide_compares, ["wide", "narrow"])),
        ("scheduler", scheduler_name),
        ("recovery", recovery),
        ("opening", flag(simulate_open, ["inside", "before"])),
    ];
    let config = Config {
        domain,
        memory,
        rmw_drains,
        torn_matches,
        wide_compares,
        races: races && memory == MemoryModel::Sc,
        scheduler,
        crash,
        simulate_open,
        seed: random.next(),
        ..Config::default()
    };
    Drawn { config, values }
}

fn draw_scheduler(random: &mut Random) -> (SchedulerKind, &'static str) {
    match random.below(8) {
        0 => (SchedulerKind::Random, SCHEDULERS[0]),
        1 | 2 => (SchedulerKind::Pct { depth: 2 + random.below(2) as u32 }, SCHEDULERS[1]),
        3 => (SchedulerKind::Pct { depth: 4 + random.below(5) as u32 }, SCHEDULERS[2]),
        4 => (SchedulerKind::Dfs { preemptions: 1 + random.below(2) as u32 }, SCHEDULERS[4]),
        _ => (SchedulerKind::Mixed, SCHEDULERS[3]),
    }
}

/// Lives after crashes multiply with depth, so that deep ones are begun less often.
fn draw_crashes(random: &mut Random) -> (CrashConfig, &'static str) {
    let base = CrashConfig { budget: pick(random, &[16, 64, 64]), ..CrashConfig::default() };
    if random.one_in(6) {
        // Without crashes many times as many orders are run: for what threads do to each other.
        return (CrashConfig { enabled: false, ..base }, NOT_TRIED);
    }
    let depth = pick(random, &[0, 0, 0, 1, 1, 2, 3]);
    let nested_one_in = match depth {
        0 => 0,
        1 => pick(random, &[10, 50, 200]),
        2 => pick(random, &[60, 200]),
        _ => pick(random, &[150, 400]),
    };
    let nested_depth = if depth == 0 { base.nested_depth } else { depth };
    (CrashConfig { nested_one_in, nested_depth, ..base }, RECOVERIES[depth])
}

/// What recovery is to a search with such crashes, by name.
pub fn recovery_of(crash: &CrashConfig) -> &'static str {
    match crash {
        CrashConfig { enabled: false, .. } => NOT_TRIED,
        CrashConfig { nested_one_in: 0, .. } => RECOVERIES[0],
        CrashConfig { nested_depth, .. } => RECOVERIES[(*nested_depth).min(3)],
    }
}

/// The dimensions of machines on which nothing crashes.
pub fn without_crashes() -> Vec<Dimension> {
    let none = |(name, values)| match name {
        "recovery" => (name, vec![NOT_TRIED]),
        _ => (name, values),
    };
    machines().into_iter().map(none).collect()
}

/// Has the orders of a program gone through one by one; those of a crowd, which are too many for crashes in
/// each and have preemptions that depend on each other, also by priorities.
pub fn draw_orders(random: &mut Random, is_crowd: bool, drawn: &mut Drawn) {
    let uncut = random.one_in(if is_crowd { 1 } else { 4 }) && !random.one_in(4);
    let preemptions = if uncut || random.one_in(4) { 2 } else { 1 };
    let (scheduler, name) = match is_crowd && random.one_in(2) {
        true => (SchedulerKind::Pct { depth: 3 + random.below(3) as u32 }, SCHEDULERS[2]),
        false => (SchedulerKind::Dfs { preemptions }, SCHEDULERS[4]),
    };
    drawn.config.scheduler = scheduler;
    drawn.name("scheduler", name);
    if uncut {
        drawn.config.crash.enabled = false;
        drawn.name("recovery", NOT_TRIED);
    }
}

/// A machine for a brief program: few switches at any places, or every order with one; crashes in the middle
/// of operations, or only where one has returned, which leaves work for many more orders, or none.
pub fn draw_brief(random: &mut Random, is_crowd: bool, drawn: &mut Drawn) {
    let (scheduler, name) = match random.below(3) {
        0 if !is_crowd => (SchedulerKind::Dfs { preemptions: 1 }, SCHEDULERS[4]),
        2 => (SchedulerKind::Pct { depth: 4 + random.below(2) as u32 }, SCHEDULERS[2]),
        _ => (SchedulerKind::Pct { depth: 2 + random.below(2) as u32 }, SCHEDULERS[1]),
    };
    drawn.config.scheduler = scheduler;
    drawn.name("scheduler", name);
    let crash = &mut drawn.config.crash;
    match random.below(4) {
        0 => {
            crash.enabled = false;
            drawn.name("recovery", NOT_TRIED);
        }
        1 | 2 if crash.enabled && drawn.config.domain == Domain::Adr => crash.at_returns = true,
        _ => {}
    }
    drawn.config.work_limit = pick(random, &WORK_OF_BRIEF);
}

impl Drawn {
    /// The pool is opened at full speed, before the threads come.
    pub fn open_before(&mut self) {
        self.config.simulate_open = false;
        self.name("opening", "before");
    }

    /// Says what a dimension has become.
    fn name(&mut self, dimension: &str, name: &'static str) {
        let values = self.values.iter_mut().filter(|(known, _)| *known == dimension);
        values.for_each(|(_, value)| *value = name);
    }
}

/// Stops one of the threads for ever. The pool is then opened before: for the thread that opens it
/// the others would wait.
pub fn draw_stop(random: &mut Random, threads: usize, drawn: &mut Drawn) {
    drawn.config.abandon = Some(stop_of(random, threads));
    drawn.open_before();
}

fn stop_of(random: &mut Random, threads: usize) -> Abandon {
    let most = pick(random, &[20, 60, 150]);
    let after_points = random.below(most);
    Abandon { thread: random.below(threads as u64) as usize, after_points }
}
