//! The log, the snapshots and recovery as a structure: not on the simulated machine, but on the
//! simulated disk, with writers that stop between their steps.
//!
//! ```text
//!   run/NUMBER    lives of a store on a disk whose kind follows from the number
//!   arranged      what needs several rare accidents one after the other
//! ```
//!
//! What a run is, and what is judged, is in `everleaf_log::simulated::crashes`. A crash that is examined
//! counts as a crash state, and is recovered.

use std::panic::{AssertUnwindSafe, catch_unwind};

use everleaf_log::simulated::crashes::{arranged, run};
use everleaf_machine::simulated::{
    Config, Counts, Domain, Failure, FailureKind, Random, Replay, Report,
};

use crate::case::step::{self, Step};
use crate::case::{Case, Kept, SearchResult, Small};
use crate::machine::configure::Fixed;
use crate::machine::dimensions::{Dimension, Value};

/// One in so many operations of the disk is a crash that is examined.
const EXAMINE_ONE_IN: u32 = 2;
/// Of a step, the most runs: each has a disk of its own.
const RUNS: u64 = 4;

/// The kinds of disks and of waiting of a run, by its number; as `crashes::faults_of` draws them.
const DISKS: [&str; 10] = [
    "honest",
    "short writes",
    "errors",
    "failed syncs",
    "failed syncs",
    "full",
    "lies",
    "honest",
    "honest",
    "honest",
];
const MODES: [&str; 2] = ["interval", "sync"];

/// What there is to run.
#[derive(Clone, Copy, Debug)]
enum LogCase {
    /// So many runs from this number on.
    Runs(u64),
    Arranged,
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

impl LogCase {
    /// Runs one: the crashes that were examined, and what was wrong.
    fn go(self, number: u64, config: &Config) -> (u64, Option<(FailureKind, String)>) {
        let mutants = &config.mutants[..];
        let done = catch_unwind(AssertUnwindSafe(|| match self {
            LogCase::Runs(_) => {
                let outcome = run(number, mutants, EXAMINE_ONE_IN);
                (outcome.crashes, outcome.failure)
            }
            LogCase::Arranged => (1, arranged(mutants).err()),
        }));
        match done {
            Ok((crashes, failure)) => {
                (crashes, failure.map(|message| (FailureKind::NotDurable, message)))
            }
            Err(panic) => (0, Some((FailureKind::Panic, text_of(&*panic)))),
        }
    }

    fn first(self) -> u64 {
        match self {
            LogCase::Runs(first) => first,
            LogCase::Arranged => 0,
        }
    }
}

fn failure_of(number: u64, schedule: u64, (kind, message): (FailureKind, String)) -> Failure {
    let plan = String::new();
    Failure { kind, message, seed: number, schedule, choices: vec![], steps: 0, plan }
}

impl Case for LogCase {
    fn explore(&self, config: &Config, schedules: u64) -> SearchResult {
        let mut report = Report { exhausted: true, ..Report::default() };
        let runs = match self {
            LogCase::Runs(_) => schedules.clamp(1, RUNS),
            LogCase::Arranged => 1,
        };
        for index in 0..runs {
            let number = self.first() + index;
            let (crashes, failure) = self.go(number, config);
            report.counts.add(&Counts {
                schedules: 1,
                crash_points: crashes,
                images: crashes,
                recoveries: crashes,
                ..Counts::default()
            });
            if let Some(found) = failure {
                let failure = failure_of(number, report.counts.schedules, found);
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
        let failure = failure.map(|found| failure_of(seed, 1, found));
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
        if name == "arranged" {
            return Some(Box::new(LogCase::Arranged));
        }
        let number = name.strip_prefix("run/")?.parse().ok()?;
        Some(Box::new(LogCase::Runs(number)))
    }

    fn step(&self, _number: u64, random: &mut Random, fixed: Fixed) -> Step {
        // Runs in a row have every kind of disk.
        let number = random.below(1 << 40);
        let domain = fixed.domain.unwrap_or(Domain::Adr);
        let disk: Value = ("disk", DISKS[(number % 10) as usize]);
        let mode: Value = ("mode", MODES[usize::from(!(number / 10).is_multiple_of(4))]);
        let config = Config { domain, seed: number, ..Config::default() };
        Step { program: format!("run/{number}"), config, values: vec![disk, mode] }
    }

    fn dimensions(&self) -> Vec<Dimension> {
        let mut disks = DISKS.to_vec();
        disks.sort_unstable();
        disks.dedup();
        vec![("disk", disks), ("mode", MODES.to_vec())]
    }

    fn small(&self) -> Vec<String> {
        vec!["arranged".to_owned()]
    }
}
