//! FAST & FAIR on the simulated machine: every order of small programs, random plans, crashes in the
//! repair of crashes, readers beside a writer that stops for ever, and the planted bugs.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

mod common;

use std::time::Instant;

use common::{is_long, plain, survive, tell};
use everleaf_index::FastFair;
use everleaf_index::fast_fair::variant::Small;
use everleaf_machine::Simulated;
use everleaf_machine::simulated::{
    Abandon, Config, CrashConfig, Domain, Failure, MemoryModel, Report,
};
use everleaf_prove::case::{Outcome, explore};
use everleaf_prove::configure::exhaustive;
use everleaf_prove::numbers::Numbers;
use everleaf_prove::operation::Operation::{self, Get, Insert, Remove, Scan, ScanBack, Update};
use everleaf_prove::scenarios::{self, Scenario};
use everleaf_prove::{Of, anomalies, plans, trees};

type Tree<const RECORDS: usize> = Of<FastFair<Small<RECORDS>, Simulated>>;
type Locked<const RECORDS: usize> = Of<FastFair<Small<RECORDS, 1>, Simulated>>;

fn random(number: u64, locked: bool, config: &Config) -> Outcome {
    macro_rules! run {
        ($subject:ty, $slots:literal) => {{
            let (program, plan) = plans::random::<$subject>(number, $slots);
            explore(program, plan, config, 10)
        }};
    }
    match (number % 3, locked) {
        (0, false) => run!(Tree<2>, 2),
        (1, false) => run!(Tree<3>, 3),
        (_, false) => run!(Tree<3>, 7),
        (0, true) => run!(Locked<2>, 2),
        (1, true) => run!(Locked<3>, 3),
        (_, true) => run!(Locked<3>, 7),
    }
}

fn run_scenario(scenario: &Scenario, locked: bool, config: &Config, schedules: u64) -> Outcome {
    let space = Default::default();
    if locked {
        trees::run_numbers::<Locked<2>, Locked<3>>(scenario, config, schedules, space)
    } else {
        trees::run_numbers::<Tree<2>, Tree<3>>(scenario, config, schedules, space)
    }
}

fn all_scenarios() -> Vec<Scenario> {
    let all = scenarios::nasty().into_iter().chain(scenarios::others()).chain(ours());
    all.chain(anomalies::scenarios()).collect()
}

fn scenario(
    name: &'static str,
    slots: usize,
    history: &[Operation],
    plan: &[&[Operation]],
) -> Scenario {
    let plan = plan.iter().map(|operations| operations.to_vec()).collect();
    Scenario { name, slots, history: history.to_vec(), plan }
}

/// Situations in which the published protocol fails.
fn ours() -> Vec<Scenario> {
    vec![
        scenario(
            "equal values next to each other",
            3,
            &[Insert(1, 7), Insert(2, 7), Insert(3, 7)],
            &[&[Insert(4, 7), Remove(2)], &[Get(1), Get(3), Scan(0, 9)], &[Insert(2, 7)]],
        ),
        scenario(
            "the smallest key comes and goes",
            3,
            &[Insert(5, 50), Insert(6, 60)],
            &[&[Insert(1, 10), Remove(1), Insert(2, 20)], &[Get(5), Get(6), ScanBack(9, 9)]],
        ),
        scenario(
            "an update, and its neighbour's removal",
            3,
            &[Insert(1, 10), Insert(2, 20), Insert(3, 30)],
            &[&[Remove(1), Update(2, 21), Remove(3)], &[Get(3), Get(2), Get(3)]],
        ),
    ]
}

#[test]
fn random_plans_survive() {
    survive("random plans", 0.1, 30, plain, |number, config| random(number, false, config));
}

#[test]
fn random_plans_with_leaf_locks_survive() {
    survive("random plans, leaf locks", 0.06, 30, plain, |number, config| {
        random(number, true, config)
    });
}

fn all(name: &str, locked: bool, part: f64, base: impl Fn(u64) -> Config, schedules: u64) {
    let scenarios = all_scenarios();
    survive(name, part, 6, base, |_, config| {
        common::all_of(&scenarios, |scenario| run_scenario(scenario, locked, config, schedules))
    });
}

#[test]
fn scenarios_survive() {
    all("scenarios", false, 0.08, plain, 10);
}

#[test]
fn scenarios_with_leaf_locks_survive() {
    all("scenarios, leaf locks", true, 0.04, plain, 10);
}

#[test]
fn a_crash_while_a_crash_is_repaired_loses_nothing() {
    let crash = CrashConfig { nested_one_in: 50, ..CrashConfig::default() };
    let base = |_| Config { crash, ..Config::default() };
    let report =
        survive("crashed repairs", 0.06, 24, base, |number, config| random(number, false, config));
    assert!(report.counts.nested_runs > 0);
    assert!(
        report.marks.iter().any(|(mark, _)| *mark == "fast_fair.mended"),
        "nothing had to be mended"
    );
}

#[test]
fn opening_inside_the_simulation_survives() {
    let base = |_| Config { simulate_open: true, ..Config::default() };
    survive("simulated opening", 0.03, 8, base, |number, config| random(number, false, config));
}

#[test]
fn memory_and_space_that_give_out_harm_nothing() {
    survive("full pools", 0.03, 12, plain, |number, config| {
        let (program, plan) =
            everleaf_prove::trouble::crowded::<Tree<2>>(number, number.is_multiple_of(2));
        explore(program, plan, config, 10)
    });
}

#[test]
fn readers_finish_beside_a_writer_that_stops_for_ever() {
    let base = |number: u64| {
        let abandon = Abandon { thread: 0, after_points: number * 7 % 97 };
        Config { abandon: Some(abandon), crash: no_crash(), ..Config::default() }
    };
    survive("abandoned writers", 0.04, 97, base, |number, config| {
        let history = [1, 2, 3, 4, 5].map(|key| Insert(key, key * 10)).to_vec();
        let writes = match number % 3 {
            0 => vec![Insert(6, 60), Insert(0, 1)],
            1 => vec![Remove(3), Remove(4), Remove(1)],
            _ => vec![Insert(0, 1), Remove(2), Update(5, 51)],
        };
        let reads = vec![Get(1), Get(3), Scan(0, 9), ScanBack(9, 9), Get(6)];
        let program = Numbers::<Tree<2>>::new((0..=6).collect(), history, 3);
        explore(program, vec![writes, reads.clone(), reads], config, 10)
    });
}

fn no_crash() -> CrashConfig {
    CrashConfig { enabled: false, ..CrashConfig::default() }
}

#[test]
fn small_programs_survive_every_order_with_few_preemptions() {
    let started = Instant::now();
    let mut total = Report { exhausted: true, ..Report::default() };
    let mut run = |scenario: &Scenario, locked, preemptions| {
        for domain in [Domain::Line, Domain::Visible] {
            let base = Config { domain, races: true, ..Config::default() };
            let config = exhaustive(&base, preemptions);
            let (report, failure) = run_scenario(scenario, locked, &config, 1_000_000);
            if let Some(failure) = failure {
                panic!("{}, {config:?}: {failure}", scenario.name);
            }
            total.add(&report);
        }
    };
    let extra = u32::from(is_long());
    for locked in [false, true] {
        scenarios::small_leaves().iter().for_each(|scenario| run(scenario, locked, 2));
        narrow().iter().for_each(|scenario| run(scenario, locked, 2));
        scenarios::small_structure().iter().for_each(|scenario| run(scenario, locked, 1 + extra));
    }
    assert!(total.exhausted);
    tell("small programs", started, &total);
}

/// Planted bugs, by the numbers of the list of mutants where they have one.
const MUTANTS: &[&str] = &[
    "fast_fair.wrong_line_end",   // M34
    "fast_fair.key_first",        // M35
    "fast_fair.no_recheck",       // M35
    "fast_fair.cut_before_link",  // M36
    "fast_fair.middle_key_stays", // M37
    "fast_fair.no_mend",          // M38
    "fast_fair.word_first",       // M39
    "fast_fair.stays_left",       // M40
    "fast_fair.root_before_node", // M53
    "fast_fair.old_lock",         // M54
    "fast_fair.first_key",        // the published comparison
    "fast_fair.equal_words",      // the published values
    "fast_fair.no_shift_persist",
    "fast_fair.no_turn",
    "fast_fair.quiet_update",
    "fast_fair.quiet_merge",
    "fast_fair.merge_keeps_sibling",
    "fast_fair.blind_separator",
    "fast_fair.blind_growth",
];

/// Those that take nothing away: no writer reaches the right half of a split before the left one is
/// cut, so the copies that the mark keeps readers from are equal.
const HARMLESS: &[&str] = &["fast_fair.no_uncut"];

/// Those that the programs of [`narrow`] are for.
const NARROW: &[&str] = &["fast_fair.quiet_update", "fast_fair.quiet_merge"];

/// Programs for races that need certain preemptions and little else; searched in every order.
fn narrow() -> Vec<Scenario> {
    let of_update = anomalies::anomalies();
    let of_update = of_update.into_iter().find(|one| one.mutant == "fast_fair.quiet_update");
    vec![
        of_update.expect("in the list").scenario,
        scenario(
            "a merge between a reader's records and its sibling",
            3,
            &[Insert(1, 10), Insert(2, 20), Insert(3, 30), Insert(4, 40), Remove(4)],
            &[&[Update(1, 11), Remove(3)], &[Get(2)]],
        ),
    ]
}

/// How a planted bug was found.
struct Kill {
    schedules: u64,
    name: String,
    failure: Box<Failure>,
}

fn hunt(mutant: &'static str, rounds: u64) -> Option<Kill> {
    let mutants = if mutant.is_empty() { vec![] } else { vec![mutant] };
    let base = Config { mutants, ..Config::default() };
    let mut schedules = 0;
    let mut judge = |name: String, (report, failure): Outcome| {
        schedules += report.counts.schedules;
        failure.map(|failure| Kill { schedules, name, failure })
    };
    for scenario in if NARROW.contains(&mutant) { narrow() } else { vec![] } {
        let base = Config { domain: Domain::Visible, crash: no_crash(), ..base.clone() };
        let config = exhaustive(&base, 3);
        let name = format!("{}, Visible, every order", scenario.name);
        let kill = judge(name, run_scenario(&scenario, false, &config, 300_000));
        if kill.is_some() {
            return kill;
        }
    }
    for number in 0..rounds {
        let domain = [Domain::Line, Domain::Visible][(number % 2) as usize];
        let memory = if number % 3 == 2 { MemoryModel::Tso } else { MemoryModel::Sc };
        let crash = CrashConfig { nested_one_in: 50, ..CrashConfig::default() };
        let crash = if number % 4 == 3 { crash } else { base.crash };
        let config = Config { domain, memory, crash, seed: number + 1, ..base.clone() };
        for locked in [false, true] {
            for scenario in ours().iter().chain(&all_scenarios()[number as usize % 7..]) {
                let name = format!("{}, {domain:?}, {memory:?}", scenario.name);
                let kill = judge(name, run_scenario(scenario, locked, &config, 30));
                if kill.is_some() {
                    return kill;
                }
            }
            for plan in number * 20..(number + 1) * 20 {
                let name = format!("random plan {plan}, {domain:?}, {memory:?}");
                let kill = judge(name, random(plan, locked, &config));
                if kill.is_some() {
                    return kill;
                }
            }
        }
    }
    None
}

#[test]
fn without_a_planted_bug_the_hunt_finds_nothing() {
    for mutant in HARMLESS.iter().copied().chain([""]) {
        if let Some(Kill { name, failure, .. }) = hunt(mutant, 1) {
            panic!("{mutant}, {name}: {failure}");
        }
    }
}

#[test]
fn every_planted_bug_is_found() {
    let mut alive = vec![];
    for mutant in MUTANTS {
        let started = Instant::now();
        match hunt(mutant, 6) {
            Some(Kill { schedules, name, failure }) => println!(
                "{mutant:<28} {schedules:>6} schedules {:>6.2} s  {}, seed {:#x}: {name}",
                started.elapsed().as_secs_f64(),
                failure.kind,
                failure.seed,
            ),
            None => {
                println!("{mutant:<32} ALIVE {:>6.2} s", started.elapsed().as_secs_f64());
                alive.push(mutant);
            }
        }
    }
    assert!(alive.is_empty(), "not found: {alive:?}");
}
