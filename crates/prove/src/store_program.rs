//! The whole store as a structure: its maps, batches, views, watches, expiries and snapshots on a simulated disk,
//! with its pool in a real file.
//!
//! ```text
//!   run/NUMBER        lives of a store: one thread, and others that write whenever it is about to use the disk
//!   threads/NUMBER    four threads that stand still between place, change and record, and read each other
//! ```
//!
//! What a run is, and what is judged, is in `everleaf::simulated`. A crash of the machine or a death of the process
//! that is examined counts as a crash state, and is recovered.

use std::panic::{AssertUnwindSafe, catch_unwind};

use everleaf::simulated::{run, threads};
use everleaf_machine::simulated::{
    Config, Counts, Domain, Failure, FailureKind, Random, Replay, Report,
};

use crate::case::{Case, Kept, Outcome, Small};
use crate::configure::Fixed;
use crate::dimensions::{Dimension, Value};
use crate::step::{self, Step};

/// Of a step, the most runs: each has a disk and a pool of its own.
const RUNS: u64 = 1;

/// The kinds of runs, by number; as `everleaf::simulated` has them.
const MODES: [&str; 2] = ["interval", "power"];
const THREADS: [&str; 2] = ["four", "one"];

/// What there is to run, from which number on.
#[derive(Clone, Copy, Debug)]
enum StoreCase {
    Runs(u64),
    Threads(u64),
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

impl StoreCase {
    fn first(self) -> u64 {
        match self {
            StoreCase::Runs(first) | StoreCase::Threads(first) => first,
        }
    }

    /// Runs one: what was left and examined, and what was wrong.
    fn go(self, number: u64, config: &Config) -> (u64, Option<String>) {
        let mutants = &config.mutants[..];
        // What a run finds it says by a panic where it cannot go on.
        let done = catch_unwind(AssertUnwindSafe(|| match self {
            StoreCase::Runs(_) => Ok(run(number, mutants).seen()),
            StoreCase::Threads(_) => threads(number, mutants).map(|seen| seen.crashes + seen.kills),
        }));
        match done {
            Ok(Ok(seen)) => (seen, None),
            Ok(Err(text)) => (0, Some(text)),
            Err(panic) => (0, Some(text_of(&*panic))),
        }
    }
}

fn failure_of(number: u64, schedule: u64, message: String) -> Failure {
    let (kind, plan) = (FailureKind::NotDurable, String::new());
    Failure { kind, message, seed: number, schedule, choices: vec![], steps: 0, plan }
}

impl Case for StoreCase {
    fn explore(&self, config: &Config, schedules: u64) -> Outcome {
        let mut report = Report { exhausted: true, ..Report::default() };
        for number in (self.first()..).take(schedules.clamp(1, RUNS) as usize) {
            let (seen, failure) = self.go(number, config);
            report.counts.add(&Counts {
                schedules: 1,
                crash_points: seen,
                images: seen,
                recoveries: seen,
                ..Counts::default()
            });
            if let Some(text) = failure {
                let failure = failure_of(number, report.counts.schedules, text);
                return (report, Some(Box::new(failure)));
            }
            if report.counts.work() >= config.work_limit {
                break;
            }
        }
        (report, None)
    }

    fn replay(&self, config: &Config, seed: u64, _choices: &[u8]) -> Result<Replay, Box<Failure>> {
        let (_, failure) = self.go(seed, config);
        let failure = failure.map(|text| failure_of(seed, 1, text));
        Ok(Replay { failure, ..Replay::default() })
    }

    fn shrink(&self, _config: &Config, failure: &Failure, _effort: u64) -> Small {
        // A run is one number: there is nothing to leave out.
        Small { kept: vec![], failure: failure.clone() }
    }

    fn keep(&self, _kept: &Kept) -> Box<dyn Case> {
        Box::new(*self)
    }

    fn alone(&self) -> Box<dyn Case> {
        Box::new(*self)
    }
}

/// The programs of this structure.
pub struct Programs;

impl step::Programs for Programs {
    fn case(&self, name: &str) -> Option<Box<dyn Case>> {
        let (kind, number) = name.split_once('/')?;
        let number = number.parse().ok()?;
        match kind {
            "run" => Some(Box::new(StoreCase::Runs(number))),
            "threads" => Some(Box::new(StoreCase::Threads(number))),
            _ => None,
        }
    }

    fn step(&self, _number: u64, random: &mut Random, fixed: Fixed) -> Step {
        // Runs in a row have every mode.
        let number = random.below(1 << 40);
        let many = random.one_in(3);
        let domain = fixed.domain.unwrap_or(Domain::Adr);
        let mode: Value = ("mode", MODES[usize::from(number % 3 != 1)]);
        let count: Value = ("threads", THREADS[usize::from(!many)]);
        let kind = if many { "threads" } else { "run" };
        let config = Config { domain, seed: number, ..Config::default() };
        Step { program: format!("{kind}/{number}"), config, values: vec![mode, count] }
    }

    fn dimensions(&self) -> Vec<Dimension> {
        vec![("mode", MODES.to_vec()), ("threads", THREADS.to_vec())]
    }

    fn small(&self) -> Vec<String> {
        vec!["run/0".to_owned(), "threads/0".to_owned()]
    }
}
