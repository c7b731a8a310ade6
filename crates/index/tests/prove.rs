//! The trees on the simulated machine: threads in every order that chance gives, power cuts wherever
//! they can matter, and a judge that knows what each answer and each recovered key may be.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

mod prover;

use std::time::Instant;

use everleaf_index::Tiny;
use everleaf_machine::simulated::{Config, Domain, Report};
use prover::budget::{exhaustive, explore, run_scenario, share, tell, tell_marks, vary};
use prover::scenarios::Scenario;
use prover::{mutants, plans, scenarios};

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
