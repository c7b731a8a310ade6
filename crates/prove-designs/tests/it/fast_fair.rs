//! FAST & FAIR on the simulated machine: every order of small programs, random plans, crashes in the
//! repair of crashes, and readers beside a writer that stops for ever.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use std::time::Instant;

use crate::common::{half_of, is_everyday, is_long, plain, survive, tell};
use crate::marks::assert_met;
use everleaf_designs::FastFair;
use everleaf_designs::fast_fair::variant::Small;
use everleaf_machine::Simulated;
use everleaf_machine::simulated::{Abandon, Config, CrashConfig, Domain, Report, SchedulerKind};
use everleaf_prove::Of;
use everleaf_prove::case::{SearchResult, explore};
use everleaf_prove::machine::configure::exhaustive;
use everleaf_prove::programs::scenarios::{self, Scenario};
use everleaf_prove::programs::{anomalies, plans, safeguards, trees};
use everleaf_prove::tree::operation::Operation::{
    self, Get, Insert, Remove, Scan, ScanBack, Update,
};
use everleaf_prove::tree::u64_program::U64Program;
use everleaf_prove_designs::structures::find;

type Tree<const RECORDS: usize> = Of<FastFair<Small<RECORDS>, Simulated>>;
type Locked<const RECORDS: usize> = Of<FastFair<Small<RECORDS, 1>, Simulated>>;

fn random(number: u64, locked: bool, config: &Config) -> SearchResult {
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

fn run_scenario(
    scenario: &Scenario,
    locked: bool,
    config: &Config,
    schedules: u64,
) -> SearchResult {
    let space = Default::default();
    if locked {
        trees::run_numbers::<Locked<2>, Locked<3>>(scenario, config, schedules, space)
    } else {
        trees::run_numbers::<Tree<2>, Tree<3>>(scenario, config, schedules, space)
    }
}

fn all_scenarios() -> Vec<Scenario> {
    let all = scenarios::published_bugs().into_iter().chain(scenarios::others()).chain(ours());
    all.chain(anomalies::scenarios()).chain(safeguards::scenarios()).collect()
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
    let report = survive("random plans", 0.1, half_of(60), plain, |number, config| {
        random(number, false, config)
    });
    assert_met(&report, &["fast_fair.search.restarted"]);
}

#[test]
fn random_plans_with_leaf_locks_survive() {
    survive("random plans, leaf locks", 0.06, half_of(30), plain, |number, config| {
        random(number, true, config)
    });
}

fn all(name: &str, locked: bool, part: f64, base: impl Fn(u64) -> Config, schedules: u64) {
    let scenarios = all_scenarios();
    survive(name, part, 1, base, |_, config| {
        crate::common::all_of(&scenarios, |scenario| {
            run_scenario(scenario, locked, config, schedules)
        })
    });
}

/// Schedules of each scenario. Four rounds of landings have what the everyday one leaves out.
fn schedules() -> u64 {
    if is_everyday() { 2 } else { 5 }
}

#[test]
fn scenarios_survive() {
    all("scenarios", false, 0.08, plain, schedules());
}

#[test]
fn scenarios_with_leaf_locks_survive() {
    all("scenarios, leaf locks", true, 0.04, plain, schedules());
}

#[test]
fn trees_survive_a_crash_while_a_crash_is_repaired() {
    let crash = CrashConfig { nested_one_in: 50, ..CrashConfig::default() };
    let base = |_| Config { crash, ..Config::default() };
    let report = survive("crashed repairs", 0.06, half_of(8), base, |number, config| {
        random(number, false, config)
    });
    assert!(report.counts.nested_runs > 0);
    assert!(
        report.marks.iter().any(|(mark, _)| *mark == "fast_fair.mended"),
        "nothing had to be mended"
    );
}

#[test]
fn opening_inside_the_simulation_survives() {
    let base = |_| Config { simulate_open: true, ..Config::default() };
    survive("simulated opening", 0.03, half_of(8), base, |number, config| {
        random(number, false, config)
    });
}

#[test]
fn trees_survive_that_space_gives_out() {
    survive("full pools", 0.03, 2, plain, |number, config| {
        let (program, plan) = everleaf_prove::programs::exhaustion::near_full::<Tree<2>>(
            number,
            number.is_multiple_of(2),
        );
        explore(program, plan, config, 10)
    });
}

#[test]
fn readers_survive_a_writer_that_stops_for_ever() {
    let base = |number: u64| {
        let abandon = Abandon { thread: 0, after_points: number * 7 % 97 };
        Config { abandon: Some(abandon), crash: no_crash(), ..Config::default() }
    };
    survive("abandoned writers", 0.04, half_of(33), base, |number, config| {
        let history = [1, 2, 3, 4, 5].map(|key| Insert(key, key * 10)).to_vec();
        let writes = match number % 3 {
            0 => vec![Insert(6, 60), Insert(0, 1)],
            1 => vec![Remove(3), Remove(4), Remove(1)],
            _ => vec![Insert(0, 1), Remove(2), Update(5, 51)],
        };
        let reads = vec![Get(1), Get(3), Scan(0, 9), ScanBack(9, 9), Get(6)];
        let program = U64Program::new::<Tree<2>>((0..=6).collect(), history, 3);
        explore(program, vec![writes, reads.clone(), reads], config, 10)
    });
}

fn no_crash() -> CrashConfig {
    CrashConfig { enabled: false, ..CrashConfig::default() }
}

#[test]
#[ignore = "guards a landing"]
fn landing_small_programs_survive_every_order() {
    let started = Instant::now();
    let mut total = Report { exhausted: true, ..Report::default() };
    let mut run = |scenario: &Scenario, locked, preemptions| {
        for domain in [Domain::Adr, Domain::Eadr] {
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

/// Programs for races that need certain preemptions and little else; searched in every order.
fn narrow() -> Vec<Scenario> {
    let all = anomalies::anomalies().into_iter().chain(safeguards::safeguards());
    let narrow = ["fast_fair.quiet_update", "fast_fair.quiet_merge", "fast_fair.early_cut"];
    all.filter(|one| narrow.contains(&one.mutant)).map(|one| one.scenario).collect()
}

/// Persisting what was deferred emptied a leaf, opened it, and came back to see whether it was empty: beside a thread
/// that writes all the time there was no end. And it replaced leaves, which takes space that a full pool does not have.
#[test]
fn deferred_writes_bring_every_leaf_to_the_pool_once() {
    let persists = |structure: &str, marks: [&str; 2]| {
        let program = "directed/persisting beside writes of one key";
        let case = find(structure).expect("in the list").case(program).expect("its program");
        let mut most = 0;
        for seed in 0..300 {
            let scheduler = SchedulerKind::Random;
            let config = Config { crash: no_crash(), scheduler, seed, ..Config::default() };
            let (report, failure) = case.explore(&config, 1);
            assert!(failure.is_none(), "{structure}: {failure:?}");
            let met = |name: &str| {
                let counts = report.marks.iter().filter(|(mark, _)| *mark == name);
                counts.map(|(_, count)| *count).sum::<u64>()
            };
            let [filled, replaced] = marks.map(met);
            // Once while the other thread writes, and once when the pool is closed.
            assert!(filled <= 2 && replaced == 0, "{structure}, {seed}: {filled}, {replaced}");
            most = most.max(filled);
        }
        assert_eq!(most, 2, "{structure}");
    };
    let fast_fair = ["fast_fair.fill_in", "fast_fair.replace"];
    persists("fast-fair-b-unlogged", fast_fair);
    persists("fast-fair-boc-unlogged", fast_fair);
    persists("cceh-b-unlogged", ["cceh.fill_in", "cceh.replace"]);
    persists("cceh-boc-unlogged", ["cceh.fill_in", "cceh.replace"]);
    persists("sptree-unlogged", ["sptree.flush", "sptree.split"]);
}
