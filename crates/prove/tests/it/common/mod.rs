//! What the tests of the proof share: how long to search, and what was searched.

#![allow(dead_code, reason = "each test target uses its part")]
#![allow(clippy::print_stdout, reason = "what was explored is the result")]

pub mod hunts;
pub mod marks;
pub mod rare;
pub mod structures;

use std::ops::Range;
use std::rc::Rc;
use std::str::FromStr;
use std::time::{Duration, Instant};

use everleaf_machine::simulated::{Config, Report};
use everleaf_prove::case::SearchResult;
use everleaf_prove::machine::configure::vary;
use everleaf_prove::machine::space::Seen;
use everleaf_prove::programs::scenarios::Scenario;
use everleaf_prove::search::campaign::Budget;

/// The environment variable with the seconds that all tests together may search (`cargo xtask sim`).
/// Without it schedules are counted, so that a busy machine searches the same.
const SECONDS: &str = "EVERLEAF_PROVE_SECONDS";
/// The environment variable with which searches go on where the everyday ones end, up to so many times as
/// many schedules (`cargo xtask landing`, which runs the tests with `survive` in their names so).
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

/// Whether neither time nor a landing decides what is searched.
pub fn is_everyday() -> bool {
    !is_long() && !is_landing()
}

/// Whether searches go on where the everyday ones end.
pub fn is_landing() -> bool {
    turn(1).start > 0
}

/// How many numbers a search has everyday, and how many landings take their times of: the same, unless the
/// everyday search has less than its part.
#[derive(Clone, Copy)]
pub struct Rounds {
    everyday: u64,
    part: u64,
}

impl From<u64> for Rounds {
    fn from(everyday: u64) -> Self {
        Self { everyday, part: everyday }
    }
}

/// Everyday the first half of so many; landings begin behind it, and end where they would if all were.
pub fn half_of(part: u64) -> Rounds {
    Rounds { everyday: part / 2, part }
}

/// The numbers of programs, rounds or machines, of which there are so many everyday; at landings those behind
/// them.
pub fn turn(rounds: impl Into<Rounds>) -> Range<u64> {
    let Rounds { everyday, part } = rounds.into();
    given::<u64>(TIMES).map_or(0..everyday, |times| everyday..times * part)
}

/// The numbers of a search, which begins now: where time ends it, until then.
pub fn numbers(part: f64, rounds: impl Into<Rounds>) -> impl Iterator<Item = u64> {
    let (started, Range { start, end }) = (Instant::now(), turn(rounds));
    let is_time = move || share(part).is_some_and(|time| started.elapsed() < time);
    (start..).take_while(move |number| *number < end || is_time())
}

/// What ends a search of which everyday there are so many schedules, and the seed that it begins with: at
/// landings another one.
pub fn budget(part: f64, schedules: impl Into<Rounds>, seed: u64) -> (Budget, u64) {
    let turn = turn(schedules);
    let schedules = Budget::Schedules(turn.end - turn.start);
    (share(part).map_or(schedules, Budget::Cpu), seed + 1000 * u64::from(turn.start > 0))
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

/// Calls `run` with 0, 1, 2, .. and changing configurations, everyday `rounds` times, and at landings with the
/// numbers behind them; panics with the first failure.
pub fn survive(
    name: &str,
    part: f64,
    rounds: impl Into<Rounds>,
    base: impl Fn(u64) -> Config,
    mut run: impl FnMut(u64, &Config) -> SearchResult,
) -> Report {
    let started = Instant::now();
    let mut total = Report::default();
    for number in numbers(part, rounds) {
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
pub fn all_of(
    scenarios: &[Scenario],
    mut run: impl FnMut(&Scenario) -> SearchResult,
) -> SearchResult {
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
