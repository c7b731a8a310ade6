//! How long to search, and what was searched.

use std::time::{Duration, Instant};

use everleaf_index::Tiny;
use everleaf_machine::simulated::{
    Config, Domain, Failure, MemoryModel, Program, Report, Runner, SchedulerKind,
};

use super::number::{Numbers, Space};
use super::scenarios::Scenario;

/// Seconds that all tests together spend on searching, if the environment does not say otherwise.
const SECONDS: f64 = 40.0;
/// The environment variable that says otherwise.
const VARIABLE: &str = "EVERLEAF_PROVE_SECONDS";

/// A part of the time that there is for all tests.
pub fn share(part: f64) -> Duration {
    let given = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(given.unwrap_or(SECONDS) * part)
}

/// Prints what a search covered.
pub fn tell(name: &str, started: Instant, report: &Report) {
    let counts = &report.counts;
    println!(
        "{name}: {} schedules{}, {} crash states ({} recovered, {} nested runs), {} steps, {:.1} s",
        counts.schedules,
        if report.exhausted { " (all)" } else { "" },
        counts.images,
        counts.recoveries,
        counts.nested_runs,
        counts.steps,
        started.elapsed().as_secs_f64(),
    );
}

/// Prints the coverage marks that a search met.
pub fn tell_marks(report: &Report) {
    for (mark, count) in &report.marks {
        println!("    {mark:<32} {count:>9}");
    }
}

/// The configuration of the given number: all domains and memory models take turns, as do the
/// meaning of locked operations for flushes, torn matches, and the check of orderings.
pub fn vary(number: u64, base: &Config) -> Config {
    let domain = [Domain::Line, Domain::Visible, Domain::Line, Domain::Process];
    let memory = if number % 3 == 1 { MemoryModel::Tso } else { MemoryModel::Sc };
    Config {
        domain: domain[(number % 4) as usize],
        memory,
        rmw_drains: number % 8 == 2,
        torn_matches: number % 5 == 3,
        races: memory == MemoryModel::Sc && number.is_multiple_of(2),
        seed: number + 1,
        ..base.clone()
    }
}

/// Whether there is time for what takes long.
pub fn is_long() -> bool {
    share(1.0).as_secs_f64() > 2.0 * SECONDS
}

/// Runs a scenario on byte strings with the geometry it asks for.
pub fn run_words(
    scenario: &Scenario,
    config: &Config,
    schedules: u64,
) -> (Report, Option<Box<Failure>>) {
    match scenario.slots {
        2 => {
            let (program, plan) = scenario.words::<Tiny<2, 3>>();
            explore(program, plan, config, schedules)
        }
        3 => {
            let (program, plan) = scenario.words::<Tiny<3, 3>>();
            explore(program, plan, config, schedules)
        }
        other => panic!("no geometry with {other} slots"),
    }
}

/// Runs a scenario with the geometry it asks for, in a pool of the smallest size.
pub fn run_scenario(
    scenario: &Scenario,
    config: &Config,
    schedules: u64,
) -> (Report, Option<Box<Failure>>) {
    run_scenario_with(scenario, config, schedules, Space::default())
}

/// Runs a scenario with the geometry it asks for.
pub fn run_scenario_with(
    scenario: &Scenario,
    config: &Config,
    schedules: u64,
    space: Space,
) -> (Report, Option<Box<Failure>>) {
    let plan = scenario.plan.clone();
    match scenario.slots {
        2 => {
            let program: Numbers<Tiny<2, 3>> = Numbers { space, ..scenario.program() };
            explore(program, plan, config, schedules)
        }
        3 => {
            let program: Numbers<Tiny<3, 3>> = Numbers { space, ..scenario.program() };
            explore(program, plan, config, schedules)
        }
        other => panic!("no geometry with {other} slots"),
    }
}

/// Runs a program; the report is complete also if it failed.
pub fn explore<P: Program + 'static>(
    program: P,
    plan: Vec<Vec<P::Operation>>,
    config: &Config,
    schedules: u64,
) -> (Report, Option<Box<Failure>>) {
    let mut runner = match Runner::new(program, plan, config.clone()) {
        Ok(runner) => runner,
        Err(failure) => return (Report::default(), Some(failure)),
    };
    match runner.explore(schedules) {
        Ok(report) => (report, None),
        Err(failure) => (runner.report(), Some(failure)),
    }
}

/// A search through every order with at most `preemptions` preemptions.
pub fn exhaustive(base: &Config, preemptions: u32) -> Config {
    Config { scheduler: SchedulerKind::Dfs { preemptions }, ..base.clone() }
}
