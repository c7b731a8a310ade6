//! The trees whose inner nodes are in DRAM: larger leaves, crashes in recovery, every order of small
//! programs, and the planted bugs that only they have.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

mod common;

use std::time::Instant;

use common::{share, tell, tell_marks};
use everleaf_index::{Design, RnTree, RnTreeDual, Tiny};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::{Config, CrashConfig, Domain, Report};
use everleaf_prove::case::{Outcome, explore};
use everleaf_prove::configure::vary;
use everleaf_prove::operation::Space;
use everleaf_prove::{Of, plans, scenarios, trees};

type M = Simulated;

/// Calls `run` with 0, 1, 2, .. and changing configurations until the time is over, at least `rounds`
/// times; panics with the first failure.
fn survive(
    name: &str,
    part: f64,
    rounds: u64,
    base: impl Fn(u64) -> Config,
    mut run: impl FnMut(u64, &Config) -> Outcome,
) -> Report {
    let (started, time) = (Instant::now(), share(part));
    let mut total = Report::default();
    for number in 0.. {
        let config = vary(number, &base(number));
        let (report, failure) = run(number, &config);
        total.add(&report);
        if let Some(failure) = failure {
            panic!("{name}, number {number}, {config:?}: {failure}");
        }
        if started.elapsed() > time && number + 1 >= rounds {
            break;
        }
    }
    tell(name, started, &total);
    tell_marks(&total);
    total
}

fn random<T: Design<M>>(number: u64, slots: usize, config: &Config) -> Outcome {
    random_of::<T>(number, slots, config, 10)
}

fn random_of<T: Design<M>>(number: u64, slots: usize, config: &Config, effort: u64) -> Outcome {
    let (program, plan) = plans::random::<Of<T>>(number, slots);
    explore(program, plan, config, effort)
}

fn random_plans<T2: Design<M>, T3: Design<M>, T9: Design<M>>() {
    let name = T2::INFO.name;
    let nested = CrashConfig { nested_one_in: 200, ..CrashConfig::default() };
    let base = |number| match number % 8 {
        3 => Config { crash: nested, ..Config::default() },
        5 => Config { simulate_open: true, ..Config::default() },
        _ => Config::default(),
    };
    survive(name, 0.1, 24, base, |number, config| match number % 3 {
        0 => random::<T2>(number, 2, config),
        1 => random::<T3>(number, 3, config),
        _ => random::<T9>(number, 9, config),
    });
    let all: Vec<_> = scenarios::nasty().into_iter().chain(scenarios::others()).collect();
    survive(&format!("{name}, scenarios"), 0.05, 4, |_| Config::default(), |_, config| {
        let mut total = Report::default();
        for scenario in &all {
            let space = Default::default();
            let (report, failure) =
                trees::run_numbers::<Of<T2>, Of<T3>>(scenario, config, 5, space);
            total.add(&report);
            if let Some(mut failure) = failure {
                failure.message = format!("{}: {}", scenario.name, failure.message);
                return (total, Some(failure));
            }
        }
        (total, None)
    });
}

macro_rules! trees {
    ($($name:ident: $tree:ident,)*) => {$(
        #[test]
        fn $name() {
            random_plans::<$tree<Tiny<2, 3>, M>, $tree<Tiny<3, 3>, M>, $tree<Tiny<9, 3>, M>>();
        }
    )*};
}

/// Looks for a planted bug: in named scenarios and random plans, with more schedules in each round.
/// Gives the schedules until it was found, and where.
fn hunt<T2: Design<M>, T3: Design<M>, T9: Design<M>>(
    mutant: &'static str,
) -> Option<(u64, String)> {
    let mut schedules = 0;
    let mut found = |name: String, config: &Config, (report, failure): Outcome| {
        schedules += report.counts.schedules;
        failure.map(|failure| {
            let seed = format!("seed {:#x} of number {}", failure.seed, config.seed);
            (schedules, format!("{} ({name}, {seed})", failure.kind))
        })
    };
    for round in 0..3 {
        for number in round * 60..(round + 1) * 60 {
            let nested = CrashConfig { nested_one_in: 30, ..CrashConfig::default() };
            let crash = if number % 4 == 3 { nested } else { CrashConfig::default() };
            let domain = if number % 6 == 5 { Domain::Visible } else { Domain::Line };
            let base = Config { mutants: vec![mutant], domain, crash, ..Config::default() };
            let config = Config { seed: number + 1, ..base };
            let effort = 10 << round;
            let outcome = match number % 3 {
                0 => random_of::<T2>(number, 2, &config, effort),
                1 => random_of::<T3>(number, 3, &config, effort),
                _ => random_of::<T9>(number, 9, &config, effort),
            };
            let kill = found(format!("random plan {number}"), &config, outcome);
            if kill.is_some() {
                return kill;
            }
            let named = scenarios::named();
            let scenario = &named[number as usize % named.len()];
            let outcome =
                trees::run_numbers::<Of<T2>, Of<T3>>(scenario, &config, effort, Space::default());
            let kill = found(scenario.name.to_owned(), &config, outcome);
            if kill.is_some() {
                return kill;
            }
        }
    }
    None
}

macro_rules! mutants {
    ($($name:ident: $tree:ident, [$($mutant:literal,)*],)*) => {$(
        #[test]
        fn $name() {
            let mut alive = vec![];
            $(
                let started = Instant::now();
                let kill =
                    hunt::<$tree<Tiny<2, 3>, M>, $tree<Tiny<3, 3>, M>, $tree<Tiny<9, 3>, M>>($mutant);
                let seconds = started.elapsed().as_secs_f64();
                match kill {
                    Some((schedules, how)) => {
                        println!("{:<28} {schedules:>6} schedules {seconds:>6.2} s  {how}", $mutant);
                    }
                    None => {
                        println!("{:<28} ALIVE {seconds:>6.2} s", $mutant);
                        alive.push($mutant);
                    }
                }
            )*
            assert!(alive.is_empty(), "not found: {alive:?}");
        }
    )*};
}

mutants! {
    planted_bugs_of_rntree_are_found: RnTree, [
        "hybrid.no_image_flush",
        "hybrid.no_new_flush",
        "hybrid.no_rewrite_flush",
        "hybrid.no_token",
        "hybrid.replay_again",
        "inner.no_validation",
        "lock.no_generation",
        "rntree.early_split",
        "rntree.in_place",
        "rntree.max_slot",
        "rntree.no_entry_flush",
        "rntree.no_recheck",
        "rntree.no_revalidation",
        "rntree.no_slot_flush",
    ],
    planted_bugs_of_rntree_dual_are_found: RnTreeDual, [
        "hybrid.no_token",
        "rntree.early_switch",
        "rntree.in_place",
        "rntree.no_revalidation",
    ],
}

trees! {
    rntree_survives: RnTree,
    rntree_dual_survives: RnTreeDual,
}
