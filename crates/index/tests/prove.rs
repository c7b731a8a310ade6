//! The trees on the simulated machine: threads in every order that chance gives, power cuts wherever
//! they can matter, and a judge that knows what each answer and each recovered key may be.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

mod prover;

use std::rc::Rc;
use std::time::Instant;

use everleaf_index::Tiny;
use everleaf_machine::simulated::{Abandon, Config, CrashConfig, Domain, Plan, Program, Report};
use prover::budget::{
    exhaustive, explore, run_scenario, run_scenario_with, share, tell, tell_marks, vary,
};
use prover::number::{Seen, Space};
use prover::scenarios::Scenario;
use prover::{mutants, plans, scenarios, trouble};

/// Runs scenarios in turn, each under changing configurations, until the time is over.
fn survive(name: &str, scenarios: &[Scenario], part: f64, base: &Config) {
    let (started, time) = (Instant::now(), share(part));
    let mut total = Report::default();
    for round in 0.. {
        for scenario in scenarios {
            let config = vary(round, base);
            let (report, failure) = run_scenario(scenario, &config, 25);
            total.add(&report);
            if let Some(failure) = failure {
                panic!("{}, {config:?}: {failure}", scenario.name);
            }
        }
        if started.elapsed() > time && round >= 3 {
            break;
        }
    }
    tell(name, started, &total);
    tell_marks(&total);
}

#[test]
fn random_plans_on_trees_of_numbers_survive() {
    let (started, time) = (Instant::now(), share(0.25));
    let mut total = Report::default();
    for number in 0.. {
        let config = vary(number, &Config::default());
        let (report, failure) = match number % 3 {
            0 => {
                let (program, plan) = plans::random::<Tiny<2, 3>>(number, 2);
                explore(program, plan, &config, 20)
            }
            1 => {
                let (program, plan) = plans::random::<Tiny<3, 3>>(number, 3);
                explore(program, plan, &config, 20)
            }
            _ => {
                let (program, plan) = plans::random::<Tiny<4, 3>>(number, 4);
                explore(program, plan, &config, 20)
            }
        };
        total.add(&report);
        if let Some(failure) = failure {
            panic!("random plan {number}, {config:?}: {failure}");
        }
        if started.elapsed() > time && number >= 24 {
            break;
        }
    }
    tell("random plans", started, &total);
    tell_marks(&total);
}

#[test]
fn random_plans_on_trees_of_byte_strings_survive() {
    let (started, time) = (Instant::now(), share(0.25));
    let mut total = Report::default();
    for number in 0.. {
        let config = vary(number, &Config::default());
        let (report, failure) = if number % 2 == 0 {
            let (program, plan) = plans::random_words::<Tiny<2, 3>>(number, 2);
            explore(program, plan, &config, 20)
        } else {
            let (program, plan) = plans::random_words::<Tiny<3, 3>>(number, 3);
            explore(program, plan, &config, 20)
        };
        total.add(&report);
        if let Some(failure) = failure {
            panic!("random plan {number} on byte strings, {config:?}: {failure}");
        }
        if started.elapsed() > time && number >= 24 {
            break;
        }
    }
    tell("random plans on byte strings", started, &total);
    tell_marks(&total);
}

#[test]
fn the_fifteen_nasty_scenarios_survive() {
    survive("nasty scenarios", &scenarios::nasty(), 0.2, &Config::default());
}

#[test]
fn merging_scanning_and_emptying_survive() {
    survive("other scenarios", &scenarios::others(), 0.15, &Config::default());
}

#[test]
fn small_programs_survive_every_order_with_few_preemptions() {
    let started = Instant::now();
    let mut total = Report { exhausted: true, ..Report::default() };
    for scenario in scenarios::small() {
        for domain in [Domain::Line, Domain::Visible] {
            let config = exhaustive(&Config { domain, races: true, ..Config::default() }, 2);
            let (report, failure) = run_scenario(&scenario, &config, 1_000_000);
            if let Some(failure) = failure {
                panic!("{}, {config:?}: {failure}", scenario.name);
            }
            tell(scenario.name, started, &report);
            total.add(&report);
        }
    }
    assert!(total.exhausted);
    tell("small programs", started, &total);
}

#[test]
fn every_planted_bug_is_found() {
    let mut alive = vec![];
    for mutant in mutants::MUTANTS {
        let started = Instant::now();
        match mutants::hunt(mutant, 3) {
            Some(kill) => println!(
                "{mutant:<32} {:>6} schedules {:>6.2} s  {} ({})",
                kill.schedules,
                started.elapsed().as_secs_f64(),
                kill.failure.kind,
                kill.scenario
            ),
            None => {
                println!("{mutant:<32} ALIVE {:>6.2} s", started.elapsed().as_secs_f64());
                alive.push(mutant);
            }
        }
    }
    assert!(alive.is_empty(), "not found: {alive:?}");
}

/// Runs the programs that `make` gives, under changing configurations, until the time is over.
fn survive_all<P: Program + 'static>(
    name: &str,
    part: f64,
    base: &Config,
    schedules: u64,
    mut make: impl FnMut(u64) -> (P, Plan<P::Operation>),
) -> Report {
    let (started, time) = (Instant::now(), share(part));
    let mut total = Report::default();
    for number in 0.. {
        let config = vary(number, base);
        let (program, plan) = make(number);
        let (report, failure) = explore(program, plan, &config, schedules);
        total.add(&report);
        if let Some(failure) = failure {
            panic!("{name} {number}, {config:?}: {failure}");
        }
        if started.elapsed() > time && number >= 12 {
            break;
        }
    }
    tell(name, started, &total);
    tell_marks(&total);
    total
}

/// Remembers what all programs of a search have seen.
#[derive(Default)]
struct Witnesses(Vec<Rc<Seen>>);

impl Witnesses {
    fn count(&self, what: impl Fn(&Seen) -> u64) -> u64 {
        self.0.iter().map(|seen| what(seen)).sum()
    }
}

#[test]
fn a_full_pool_refuses_and_loses_nothing() {
    let mut seen = Witnesses::default();
    survive_all("full pools", 0.04, &Config::default(), 10, |seed| {
        let (program, plan) = trouble::crowded(seed, false);
        seen.0.push(Rc::clone(&program.seen));
        (program, plan)
    });
    let refused = seen.count(|seen| seen.refused.get());
    println!("    {refused} operations were refused");
    assert!(refused > 0);
}

#[test]
fn a_pool_that_grows_under_its_users_survives() {
    let mut seen = Witnesses::default();
    survive_all("growing pools", 0.04, &Config::default(), 10, |seed| {
        let (program, plan) = trouble::crowded(seed, true);
        seen.0.push(Rc::clone(&program.seen));
        (program, plan)
    });
    let grown = seen.count(|seen| seen.grown.get());
    println!("    {grown} pools had grown");
    assert!(grown > 0);
}

#[test]
fn a_pool_full_of_records_refuses_and_loses_nothing() {
    let mut seen = Witnesses::default();
    survive_all("full of records", 0.04, &Config::default(), 10, |seed| {
        let (program, plan) = trouble::crowded_words(seed);
        seen.0.push(Rc::clone(&program.seen));
        (program, plan)
    });
    let refused = seen.count(|seen| seen.refused.get());
    println!("    {refused} operations were refused");
    assert!(refused > 0);
}

#[test]
fn an_allocation_that_fails_anywhere_harms_nothing() {
    let space = Space { may_fill: true, ..Space::default() };
    let base = |index| Config { fail_allocation: Some(index), ..Config::default() };
    let (started, time, mut total) = (Instant::now(), share(0.04), Report::default());
    let mut seen = Witnesses::default();
    for number in 0.. {
        let config = vary(number, &base(number % 14));
        let scenarios = scenarios::nasty().into_iter().chain(scenarios::others());
        for scenario in scenarios {
            let (report, failure) = run_scenario_with(&scenario, &config, 3, space);
            total.add(&report);
            if let Some(failure) = failure {
                panic!("{}, {config:?}: {failure}", scenario.name);
            }
        }
        for plan_number in 0..8 {
            let seed = number * 8 + plan_number;
            let (mut program, plan) = plans::random_words::<Tiny<2, 3>>(seed, 2);
            program.space = space;
            seen.0.push(Rc::clone(&program.seen));
            let (report, failure) = explore(program, plan, &config, 3);
            total.add(&report);
            if let Some(failure) = failure {
                panic!("random plan {seed} on byte strings, {config:?}: {failure}");
            }
        }
        if started.elapsed() > time && number >= 14 {
            break;
        }
    }
    let refused = seen.count(|seen| seen.refused.get());
    tell("failing allocations", started, &total);
    println!("    {refused} operations on byte strings were refused");
    assert!(refused > 0);
}

#[test]
fn recovery_can_be_cut_and_repeated_and_lived_after() {
    let crash = CrashConfig { nested_one_in: 40, ..CrashConfig::default() };
    let base = Config { crash, ..Config::default() };
    let report = survive_all("crashed recoveries", 0.1, &base, 10, |number| {
        plans::random::<Tiny<2, 3>>(number, 2)
    });
    assert!(report.counts.nested_runs > 0);
    let report = survive_all("crashed recoveries of byte strings", 0.1, &base, 10, |number| {
        plans::random_words::<Tiny<3, 3>>(number, 3)
    });
    assert!(report.counts.nested_runs > 0);
}

#[test]
fn opening_inside_the_simulation_survives() {
    let base = Config { simulate_open: true, ..Config::default() };
    survive_all("simulated opening", 0.05, &base, 5, |number| {
        plans::random_words::<Tiny<2, 3>>(number, 2)
    });
}

#[test]
fn the_others_finish_when_a_thread_stops_for_ever() {
    let (started, time) = (Instant::now(), share(0.1));
    let mut total = Report::default();
    for number in 0.. {
        for scenario in scenarios::nasty() {
            let thread = number as usize % scenario.plan.len();
            let after_points = number * 7 % 60;
            let base =
                Config { abandon: Some(Abandon { thread, after_points }), ..Config::default() };
            let config = vary(number, &base);
            let (report, failure) = run_scenario_with(
                &scenario,
                &config,
                5,
                Space { blocks_at_hand: 24, pool_bytes: 256 << 10, ..Space::default() },
            );
            total.add(&report);
            if let Some(failure) = failure {
                panic!("{}, {config:?}: {failure}", scenario.name);
            }
        }
        if started.elapsed() > time && number >= 10 {
            break;
        }
    }
    tell("abandoned threads", started, &total);
    tell_marks(&total);
}
