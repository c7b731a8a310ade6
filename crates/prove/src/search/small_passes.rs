//! What a search does with small programs, in its order.

use everleaf_machine::simulated::{Config, CrashConfig, Domain, MemoryModel, mix};

use crate::case::structure::Structure;
use crate::machine::configure::exhaustive;
use crate::search::settings::{Settings, WORK};

/// What is done with a small program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// A few orders without crashes, and a few crashes: what anything at all finds.
    Glance,
    /// Orders with one preemption, without crashes: on weak memory, and where space ends.
    Tight,
    /// The same where each allocation is refused in turn.
    Refused,
    /// A life after every crash, which is cut again.
    Lives,
    /// Orders with two preemptions, without crashes: what two threads do when each stops at a place.
    TwoStops,
    /// Some of its orders, if its lives take long.
    SomeOrders,
    /// The rest of such lives.
    LongLives,
    /// All of its orders.
    AllOrders,
}

/// A search of one small program.
#[derive(Clone, Debug)]
pub(crate) struct Small {
    pub program: String,
    pub config: Config,
    pub schedules: u64,
    pub pass: Pass,
}

/// What a first look at a small program costs, without crashes and with some.
const WORK_OF_GLANCES: [u64; 2] = [15_000, 50_000];
/// What the orders of a small program with two preemptions may cost, one by one, and as many by chance if those
/// are not all: the first that come switch late.
pub(crate) const WORK_OF_TWO_STOPS: [u64; 2] = [3_000_000, 1_000_000];
/// Lives that take more work wait until those of all programs have begun.
pub(crate) const WORK_OF_FIRST_LIVES: u64 = 2 * WORK;
/// Schedules of a small program of which every crash has a life after it.
const SMALL_SCHEDULES_OF_LIVES: u64 = 2;
/// Crash images that are taken at each point of them, about: with more of them, lives after lives take
/// minutes where a recovery writes much.
const IMAGES_OF_LIVES: usize = 8;
/// If those take at most this work, every crash in such a life has a life after it, too: some bugs show
/// in no other way. It takes several times as much, and far more where a recovery writes much.
pub(crate) const WORK_OF_LIVES: u64 = 1_000_000;
/// The most that lives of one small program may take: with less, the last crashes of a schedule would
/// have none.
const WORK_OF_ALL_LIVES: u64 = 8 * WORK;
/// The most schedules of a small program: where every order is to be run, none has as many.
const SMALL_SCHEDULES: u64 = 1_000_000;
/// The same where stores wait in buffers, whose steps multiply the orders: only a part of them.
const SMALL_SCHEDULES_TSO: u64 = 20_000;

/// What the orders of a program may cost where space or memory ends.
const WORK_OF_TIGHT: u64 = 60_000;

/// The small programs: in a search by time a glance at each, then some orders of each where space or memory ends;
/// then in each domain with a life after every crash, which is cut again (where that takes long, with some
/// orders in between), then with the search through all their orders.
pub(crate) fn all(structure: &Structure, settings: &Settings) -> Vec<Small> {
    let Some(preemptions) = settings.preemptions else { return vec![] };
    let mut programs = structure.small();
    if !settings.is_by_time() {
        let domains = domains(structure, settings).into_iter();
        let thorough = |domain| Thorough::of(&programs, settings, domain, preemptions);
        return domains.map(thorough).flat_map(|one| [one.lives, one.orders].concat()).collect();
    }
    programs.extend(structure.programs().more_small());
    let domains = domains(structure, settings);
    let mut all: Vec<Small> = vec![];
    let is_weak = is_weak(structure, settings);
    for (index, domain) in domains.iter().enumerate() {
        all.extend(glances(&programs, settings, *domain));
        if is_weak && index == 0 {
            all.extend(weak_glances(&programs, settings, *domain));
        }
    }
    all.extend(where_space_ends(&programs, structure, settings, domains[0]));
    for domain in &domains {
        let Thorough { lives, two_stops, long, orders } =
            Thorough::of(&programs, settings, *domain, preemptions);
        all.extend(lives);
        // What threads do to each other hardly depends on the domain.
        all.extend(two_stops.into_iter().filter(|_| *domain == domains[0]));
        all.extend(long);
        all.extend(orders);
    }
    all
}

/// Whether some of what is done is done on weak memory.
fn is_weak(structure: &Structure, settings: &Settings) -> bool {
    structure.is_tried_weak() && settings.fixed.memory.is_none()
}

fn domains(structure: &Structure, settings: &Settings) -> Vec<Domain> {
    let usual = || structure.programs().domains().to_vec();
    settings.fixed.domain.map_or_else(usual, |domain| vec![domain])
}

/// The machine of small programs.
fn base(settings: &Settings, domain: Domain) -> Config {
    let memory = settings.fixed.memory.unwrap_or(MemoryModel::Sc);
    let races = memory == MemoryModel::Sc;
    let births = races && settings.is_by_time();
    settings.planted(Config { domain, memory, races, births, ..Config::default() })
}

fn glances(programs: &[String], settings: &Settings, domain: Domain) -> Vec<Small> {
    let mut all = vec![];
    for program in programs {
        for (enabled, work_limit) in [false, true].into_iter().zip(WORK_OF_GLANCES) {
            let budget = IMAGES_OF_LIVES;
            let crash = CrashConfig { enabled, budget, ..CrashConfig::default() };
            let seed = settings.seed;
            let config = Config { crash, work_limit, seed, ..base(settings, domain) };
            let (program, schedules) = (program.clone(), settings.schedules);
            all.push(Small { program, config, schedules, pass: Pass::Glance });
        }
    }
    all
}

/// Some orders of each on weak memory, without crashes.
fn weak_glances(programs: &[String], settings: &Settings, domain: Domain) -> Vec<Small> {
    let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
    let (memory, work_limit, seed) = (MemoryModel::Weak, WORK_OF_GLANCES[0], settings.seed);
    let config = Config { memory, crash, work_limit, seed, ..base(settings, domain) };
    let glance = |program: &String| {
        let (program, config) = (program.clone(), config.clone());
        Small { program, config, schedules: settings.schedules, pass: Pass::Glance }
    };
    programs.iter().map(glance).collect()
}

/// Orders with one preemption, without crashes: of all programs, on weak memory where that is tried (behind the first
/// looks, all that comes later is sequentially consistent), and where space or memory ends.
fn where_space_ends(
    programs: &[String],
    structure: &Structure,
    settings: &Settings,
    domain: Domain,
) -> Vec<Small> {
    let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
    let seed = settings.seed;
    let base = Config { crash, work_limit: WORK_OF_TIGHT, seed, ..base(settings, domain) };
    let small = |program: &String, config: Config, pass| {
        let program = program.clone();
        Small { program, config, schedules: SMALL_SCHEDULES, pass }
    };
    let orders = |program: &String| small(program, exhaustive(&base, 1), Pass::Tight);
    let refused = |program: &String| {
        // Which allocations there are is found out.
        let base = Config { fail_allocation: Some(0), work_limit: WORK, ..base.clone() };
        small(program, exhaustive(&base, 1), Pass::Refused)
    };
    let programs_of = structure.programs();
    let mut all: Vec<Small> = programs.iter().map(orders).collect();
    let is_weak = is_weak(structure, settings);
    if is_weak {
        all.iter_mut().for_each(|small| small.config.memory = MemoryModel::Weak);
    }
    let again = all.clone().into_iter().filter(|_| is_weak);
    all.extend(programs_of.tight().iter().map(orders));
    all.extend(programs_of.refused().iter().map(refused));
    // Other loads are given older values.
    all.extend(again.map(|small| {
        let seed = mix(small.config.seed);
        Small { config: Config { seed, ..small.config }, ..small }
    }));
    all
}

/// What is done with small programs in one domain.
struct Thorough {
    lives: Vec<Small>,
    two_stops: Vec<Small>,
    long: Vec<Small>,
    orders: Vec<Small>,
}

impl Thorough {
    fn of(programs: &[String], settings: &Settings, domain: Domain, preemptions: u32) -> Thorough {
        let base = base(settings, domain);
        let crash = CrashConfig {
            nested_one_in: 1,
            nested_depth: 1,
            budget: IMAGES_OF_LIVES,
            ..CrashConfig::default()
        };
        let seed = settings.seed;
        let lives = Config { crash, work_limit: WORK_OF_ALL_LIVES, seed, ..base.clone() };
        let first = if settings.is_by_time() { WORK_OF_FIRST_LIVES } else { WORK_OF_ALL_LIVES };
        let first = Config { work_limit: first, ..lives.clone() };
        let orders = exhaustive(&base, preemptions);
        let some = Config { work_limit: WORK, ..orders.clone() };
        let in_every_order =
            if base.memory == MemoryModel::Tso { SMALL_SCHEDULES_TSO } else { SMALL_SCHEDULES };
        let mut all = Thorough { lives: vec![], two_stops: vec![], long: vec![], orders: vec![] };
        for program in programs {
            let small = |pass, config: &Config, schedules| {
                let (program, config) = (program.clone(), config.clone());
                Small { program, config, schedules, pass }
            };
            all.lives.push(small(Pass::Lives, &first, SMALL_SCHEDULES_OF_LIVES));
            all.two_stops.push(small(Pass::TwoStops, &base, in_every_order));
            all.lives.push(small(Pass::SomeOrders, &some, in_every_order));
            all.long.push(small(Pass::LongLives, &lives, SMALL_SCHEDULES_OF_LIVES));
            all.orders.push(small(Pass::AllOrders, &orders, in_every_order));
        }
        all
    }
}
