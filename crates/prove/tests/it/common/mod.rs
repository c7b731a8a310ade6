//! What the tests of the proof share: how long to search, and what was searched.

#![allow(dead_code, reason = "each test target uses its part")]
#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use std::rc::Rc;
use std::str::FromStr;
use std::time::{Duration, Instant};

use everleaf_machine::simulated::{Config, Report};
use everleaf_prove::campaign::Budget;
use everleaf_prove::case::Outcome;
use everleaf_prove::configure::vary;
use everleaf_prove::operation::Seen;
use everleaf_prove::scenarios::Scenario;

/// The environment variable with the seconds that all tests together may search (`cargo xtask sim`).
/// Without it schedules are counted, so that a busy machine searches the same.
const SECONDS: &str = "EVERLEAF_PROVE_SECONDS";
/// The environment variable with how many times the everyday schedules are searched (`cargo xtask
/// landing`).
const TIMES: &str = "EVERLEAF_PROVE_TIMES";

fn given<T: FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// A part of the time that there is for all tests, where time is what ends a search.
pub fn share(part: f64) -> Option<Duration> {
    given::<f64>(SECONDS).map(|seconds| Duration::from_secs_f64(seconds * part))
}

/// Whether there is time for what takes long.
pub fn is_long() -> bool {
    share(1.0).is_some()
}

/// How many schedules, programs or rounds there are where everyday there are so many.
pub fn times(everyday: u64) -> u64 {
    everyday * given::<u64>(TIMES).unwrap_or(1)
}

/// Whether a search goes on that began then and has made so many rounds, of which everyday there are
/// `everyday` at least.
pub fn goes_on(started: Instant, part: f64, made: u64, everyday: u64) -> bool {
    made < times(everyday) || share(part).is_some_and(|time| started.elapsed() < time)
}

/// What ends a search of which everyday there are so many schedules.
pub fn budget(part: f64, everyday: u64) -> Budget {
    share(part).map_or(Budget::Schedules(times(everyday)), Budget::Cpu)
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

/// Calls `run` with 0, 1, 2, .. and changing configurations, everyday `rounds` times; panics with the first
/// failure.
pub fn survive(
    name: &str,
    part: f64,
    rounds: u64,
    base: impl Fn(u64) -> Config,
    mut run: impl FnMut(u64, &Config) -> Outcome,
) -> Report {
    let started = Instant::now();
    let mut total = Report::default();
    for number in (0..).take_while(|number| goes_on(started, part, *number, rounds)) {
        let config = vary(number, &base(number));
        let (report, failure) = run(number, &config);
        total.add(&report);
        if let Some(failure) = failure {
            panic!("{name}, number {number}, {config:?}: {failure}");
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
