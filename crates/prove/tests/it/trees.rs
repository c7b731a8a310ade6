//! The trees on the simulated machine: threads in every order that chance gives, power cuts wherever
//! they can matter, and a judge that knows what each answer and each recovered key may be.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use std::rc::Rc;
use std::time::Instant;

use crate::common::{Witnesses, all_of, half_of, is_long, plain, survive, tell};
use crate::marks::assert_met;
use everleaf_index::Tiny;
use everleaf_machine::simulated::{Abandon, Config, CrashConfig, Domain, Report};
use everleaf_prove::Nb;
use everleaf_prove::case::{SearchResult, explore};
use everleaf_prove::hunt::mutants;
use everleaf_prove::machine::configure::exhaustive;
use everleaf_prove::machine::space::SPACE_AT_HAND;
use everleaf_prove::machine::space::Space;
use everleaf_prove::programs::scenarios::Scenario;
use everleaf_prove::programs::trees::{run_numbers, run_words};
use everleaf_prove::programs::{exhaustion, plans, scenarios};

type Nb2 = Nb<Tiny<2, 3>>;
type Nb3 = Nb<Tiny<3, 3>>;
type Nb4 = Nb<Tiny<4, 3>>;

/// Runs a scenario on trees of numbers, in a pool of the smallest size.
fn run_scenario(scenario: &Scenario, config: &Config, schedules: u64) -> SearchResult {
    run_numbers::<Nb2, Nb3>(scenario, config, schedules, Space::default())
}

#[test]
fn random_plans_on_trees_of_numbers_survive() {
    survive("random plans", 0.15, half_of(24), plain, |number, config| match number % 3 {
        0 => {
            let (program, plan) = plans::random::<Nb2>(number, 2);
            explore(program, plan, config, 20)
        }
        1 => {
            let (program, plan) = plans::random::<Nb3>(number, 3);
            explore(program, plan, config, 20)
        }
        _ => {
            let (program, plan) = plans::random::<Nb4>(number, 4);
            explore(program, plan, config, 20)
        }
    });
}

#[test]
fn random_plans_on_trees_of_byte_strings_survive() {
    let report =
        survive("random plans on byte strings", 0.15, half_of(24), plain, |number, config| {
            if number % 2 == 0 {
                let (program, plan) = plans::random_words::<Tiny<2, 3>>(number, 2);
                explore(program, plan, config, 20)
            } else {
                let (program, plan) = plans::random_words::<Tiny<3, 3>>(number, 3);
                explore(program, plan, config, 20)
            }
        });
    assert_met(&report, &["nbtree.write.frozen_claim"]);
}

#[test]
fn the_fifteen_scenarios_of_published_bugs_survive() {
    let scenarios = scenarios::published_bugs();
    assert_eq!(scenarios.len(), 15);
    let report = survive("published_bugs scenarios", 0.1, half_of(2), plain, |_, config| {
        all_of(&scenarios, |scenario| run_scenario(scenario, config, 10))
    });
    assert_met(
        &report,
        &[
            "nbtree.install.busy",
            "nbtree.observe",
            "nbtree.split.lost_offer",
            "nbtree.write.help_pending",
            "nbtree.write.lost_race",
        ],
    );
}

#[test]
fn merging_scanning_and_emptying_survive() {
    let scenarios = scenarios::others();
    survive("other scenarios", 0.08, half_of(2), plain, |_, config| {
        all_of(&scenarios, |scenario| run_scenario(scenario, config, 10))
    });
}

#[test]
fn all_scenarios_survive_on_byte_strings() {
    let scenarios: Vec<_> =
        scenarios::published_bugs().into_iter().chain(scenarios::others()).collect();
    let report = survive("scenarios on byte strings", 0.1, half_of(2), plain, |_, config| {
        all_of(&scenarios, |scenario| run_words(scenario, config, 5, Space::default()))
    });
    assert_met(&report, &["nbtree.merge.given_up", "nbtree.merge.helped"]);
}

#[test]
fn small_programs_survive_every_order_with_few_preemptions() {
    let started = Instant::now();
    let mut total = Report { exhausted: true, ..Report::default() };
    let mut run = |scenario: &Scenario, preemptions| {
        for domain in [Domain::Adr, Domain::Eadr] {
            let base = Config { domain, races: true, ..Config::default() };
            let config = exhaustive(&base, preemptions);
            let (report, failure) = run_scenario(scenario, &config, 1_000_000);
            if let Some(failure) = failure {
                panic!("{}, {config:?}: {failure}", scenario.name);
            }
            total.add(&report);
        }
    };
    // Where leaves are replaced, two preemptions take a minute and three an hour.
    let extra = u32::from(is_long());
    scenarios::small_leaves().iter().for_each(|scenario| run(scenario, 2 + extra));
    scenarios::small_structure().iter().for_each(|scenario| run(scenario, 1 + extra));
    assert!(total.exhausted);
    tell("small programs", started, &total);
}

#[test]
fn trees_survive_harmless_changes() {
    for mutant in mutants::HARMLESS.iter().filter(|mutant| mutant.structure == "nbtree") {
        let base = |_| Config { mutants: vec![mutant.name], ..Config::default() };
        survive(mutant.name, 0.02, 1, base, |_, config| {
            all_of(&scenarios::published_bugs(), |scenario| run_scenario(scenario, config, 10))
        });
    }
}

#[test]
fn trees_survive_a_full_pool() {
    let mut seen = Witnesses::default();
    survive("full pools", 0.04, half_of(12), plain, |number, config| {
        let (program, plan) = exhaustion::near_full::<Nb2>(number, false);
        seen.0.push(Rc::clone(&program.seen));
        explore(program, plan, config, 10)
    });
    let refused = seen.count(|seen| seen.refused.get());
    println!("    {refused} operations were refused");
    assert!(refused > 0);
}

#[test]
fn a_pool_that_grows_under_its_users_survives() {
    let mut seen = Witnesses::default();
    survive("growing pools", 0.04, half_of(12), plain, |number, config| {
        let (program, plan) = exhaustion::near_full::<Nb2>(number, true);
        seen.0.push(Rc::clone(&program.seen));
        explore(program, plan, config, 10)
    });
    let grown = seen.count(|seen| seen.grown.get());
    println!("    {grown} pools had grown");
    assert!(grown > 0);
}

#[test]
fn trees_survive_a_pool_full_of_records() {
    let mut seen = Witnesses::default();
    let report = survive("full of records", 0.04, 6, plain, |number, config| {
        let (program, plan) = exhaustion::near_full_bytes::<Tiny<2, 3>>(number, false);
        seen.0.push(Rc::clone(&program.seen));
        explore(program, plan, config, 5)
    });
    assert_met(&report, &["nbtree.split.no_space_to_help"]);
    let refused = seen.count(|seen| seen.refused.get());
    println!("    {refused} operations were refused");
    assert!(refused > 0);
}

#[test]
fn trees_survive_an_allocation_that_fails_anywhere() {
    let space = Space { may_fill: true, ..Space::default() };
    let base = |number| Config { fail_allocation: Some(number % 14), ..Config::default() };
    let scenarios: Vec<_> =
        scenarios::published_bugs().into_iter().chain(scenarios::others()).collect();
    let mut seen = Witnesses::default();
    survive("failing allocations", 0.04, half_of(14), base, |number, config| {
        let (mut program, plan) = plans::random_words::<Tiny<2, 3>>(number, 2);
        program.space = space;
        seen.0.push(Rc::clone(&program.seen));
        let (mut report, failure) = explore(program, plan, config, 3);
        if failure.is_some() {
            return (report, failure);
        }
        let (more, failure) =
            all_of(&scenarios, |scenario| run_numbers::<Nb2, Nb3>(scenario, config, 1, space));
        report.add(&more);
        (report, failure)
    });
    let refused = seen.count(|seen| seen.refused.get());
    println!("    {refused} operations on byte strings were refused");
    assert!(refused > 0);
}

#[test]
fn no_memory_is_refused_to_an_opening_that_is_simulated() {
    let space = Space { may_fill: true, ..Space::default() };
    for number in 0..14 {
        let config =
            Config { fail_allocation: Some(number), simulate_open: true, ..Config::default() };
        let (mut program, plan) = plans::random_words::<Tiny<2, 3>>(number, 2);
        program.space = space;
        let (_, failure) = explore(program, plan, &config, 1);
        assert!(failure.is_none(), "allocation {number}: {failure:?}");
    }
}

#[test]
fn trees_survive_recoveries_that_are_cut_and_repeated() {
    let crash = CrashConfig { nested_one_in: 100, ..CrashConfig::default() };
    let base = |_| Config { crash, ..Config::default() };
    let report = survive("crashed recoveries", 0.05, half_of(12), base, |number, config| {
        let (program, plan) = plans::random::<Nb2>(number, 2);
        explore(program, plan, config, 5)
    });
    assert!(report.counts.nested_runs > 0);
    let name = "crashed recoveries of byte strings";
    let report = survive(name, 0.05, half_of(12), base, |number, config| {
        let (program, plan) = plans::random_words::<Tiny<3, 3>>(number, 3);
        explore(program, plan, config, 5)
    });
    assert!(report.counts.nested_runs > 0);
}

#[test]
fn opening_inside_the_simulation_survives() {
    let base = |_| Config { simulate_open: true, ..Config::default() };
    survive("simulated opening", 0.03, 6, base, |number, config| {
        let (program, plan) = plans::random_words::<Tiny<2, 3>>(number, 2);
        explore(program, plan, config, 3)
    });
}

#[test]
fn the_others_survive_a_thread_that_stops_for_ever() {
    let scenarios = scenarios::published_bugs();
    let base = |number: u64| {
        let abandon = Abandon { thread: number as usize % 2, after_points: number * 7 % 61 };
        Config { abandon: Some(abandon), ..Config::default() }
    };
    survive("abandoned threads", 0.05, 4, base, |_, config| {
        all_of(&scenarios, |scenario| run_numbers::<Nb2, Nb3>(scenario, config, 3, SPACE_AT_HAND))
    });
}
