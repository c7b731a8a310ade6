//! What the tests of the proof share: how long to search, and what was searched.

#![allow(dead_code, reason = "each test target uses its part")]
#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use std::rc::Rc;
use std::time::{Duration, Instant};

use everleaf_machine::simulated::{Config, Report};
use everleaf_prove::case::Outcome;
use everleaf_prove::configure::vary;
use everleaf_prove::operation::Seen;
use everleaf_prove::scenarios::Scenario;

/// Seconds that all tests together spend on searching, if the environment does not say otherwise.
const SECONDS: f64 = 60.0;
/// The environment variable that says otherwise.
const VARIABLE: &str = "EVERLEAF_PROVE_SECONDS";

/// A part of the time that there is for all tests.
pub fn share(part: f64) -> Duration {
    let given = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(given.unwrap_or(SECONDS) * part)
}

/// Whether there is time for what takes long.
pub fn is_long() -> bool {
    share(1.0).as_secs_f64() > 2.0 * SECONDS
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

/// Calls `run` with 0, 1, 2, .. and changing configurations until the time is over, at least
/// `rounds` times; panics with the first failure.
pub fn survive(
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

/// Runs each scenario, one after the other, and adds up; the first failure ends it.
pub fn all_of(scenarios: &[Scenario], mut run: impl FnMut(&Scenario) -> Outcome) -> Outcome {
    let mut total = Report::default();
    for scenario in scenarios {
        let (report, failure) = run(scenario);
        total.add(&report);
        if let Some(mut failure) = failure {
            failure.message = format!("{}: {}", scenario.name, failure.message);
            return (total, Some(failure));
        }
    }
    (total, None)
}

/// The ordinary configuration, whatever the number.
pub fn plain(_number: u64) -> Config {
    Config::default()
}

/// Remembers what all programs of a search have seen.
#[derive(Default)]
pub struct Witnesses(pub Vec<Rc<Seen>>);

impl Witnesses {
    /// Adds up what the programs counted.
    pub fn count(&self, what: impl Fn(&Seen) -> u64) -> u64 {
        self.0.iter().map(|seen| what(seen)).sum()
    }
}
