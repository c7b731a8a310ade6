//! The whole store as a structure: its maps, batches, views, watches, expiries and snapshots on a simulated disk,
//! with its pool in a real file.
//!
//! ```text
//!   run/NUMBER        lives of a store: one thread, and others that write whenever it is about to use the disk
//!   brief/NUMBER      one such life, of fewer operations
//!   threads/NUMBER    four threads that stand still between place, change and record, and read each other
//!   calls/NUMBER      one thread that makes every call there is, on a clock that moves
//!   meeting/NUMBER    two threads, of which the first stops in the middle of a call
//!   refusing/NUMBER   calls on a disk that refuses, and in a pool that is full
//!   racing/NUMBER     threads that nobody holds up, on the same keys
//!   damaging/NUMBER   stores that are damaged, or put back from older copies, while they are closed
//! ```
//!
//! What a run is, and what is judged, is in `everleaf::simulated`. A crash of the machine or a death of the process
//! that is examined counts as a crash state, and is recovered. Runs start threads of their own, and so does what they
//! open: time is that of the whole process. But for a race a run does the same each time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use everleaf::simulated::{brief, calls, damaging, meeting, racing, refusing, run, threads};
use everleaf_machine::simulated::{
    Config, Counts, Domain, Failure, FailureKind, Random, Replay, Report, process_cpu_time,
};

use crate::case::step::{self, Step};
use crate::case::{Case, Kept, SearchResult, Small};
use crate::machine::configure::Fixed;
use crate::machine::dimensions::{Dimension, Value};

/// Whether a call is waited for, by the number of a run; as `everleaf::simulated` has it.
const MODES: [&str; 2] = ["interval", "power"];
const THREADS: [&str; 3] = ["four", "two", "one"];

/// What a run has seen.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Crashes and deaths.
    left: u64,
    /// Of these, what had a life of its own.
    lived_on: u64,
}

/// What there is to run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Run,
    Brief,
    Threads,
    Calls,
    Meeting,
    Refusing,
    Racing,
    Damaging,
}

/// The kinds by their names, with the parts of a search that each has, and how many threads.
const KINDS: [(Kind, &str, u64, &str); 8] = [
    (Kind::Run, "run", 1, "one"),
    (Kind::Brief, "brief", 5, "one"),
    (Kind::Threads, "threads", 3, "four"),
    (Kind::Calls, "calls", 2, "one"),
    (Kind::Meeting, "meeting", 10, "two"),
    (Kind::Refusing, "refusing", 3, "one"),
    (Kind::Racing, "racing", 2, "four"),
    (Kind::Damaging, "damaging", 2, "one"),
];

/// A run, by its number.
#[derive(Clone, Copy, Debug)]
struct StoreCase {
    kind: Kind,
    number: u64,
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

impl StoreCase {
    /// Runs it: what was left and examined, how much of that lived on, and what was wrong.
    fn go(self, number: u64, config: &Config) -> (Seen, Option<String>) {
        let mutants = &config.mutants[..];
        let of_lives = |counts: everleaf::simulated::Counts| Seen {
            left: counts.seen(),
            lived_on: counts.lived_on,
        };
        // What a run finds it says by a panic where it cannot go on.
        let done = catch_unwind(AssertUnwindSafe(|| match self.kind {
            Kind::Run => Ok(of_lives(run(number, mutants))),
            Kind::Brief => Ok(of_lives(brief(number, mutants))),
            Kind::Threads => threads(number, mutants)
                .map(|seen| Seen { left: seen.crashes + seen.kills, lived_on: 0 }),
            Kind::Calls => Ok(of_lives(calls(number, mutants))),
            Kind::Meeting => Ok(of_lives(meeting(number, mutants))),
            Kind::Refusing => Ok(of_lives(refusing(number, mutants))),
            Kind::Racing => Ok(of_lives(racing(number, mutants))),
            Kind::Damaging => Ok(of_lives(damaging(number, mutants))),
        }));
        match done {
            Ok(Ok(seen)) => (seen, None),
            Ok(Err(text)) => (Seen::default(), Some(text)),
            Err(panic) => (Seen::default(), Some(text_of(&*panic))),
        }
    }
}

fn failure_of(number: u64, schedule: u64, message: String) -> Failure {
    let (kind, plan) = (FailureKind::NotDurable, String::new());
    Failure { kind, message, seed: number, schedule, choices: vec![], steps: 0, plan }
}

impl Case for StoreCase {
    /// One schedule, however many are asked for: a run has one number, and a disk and a pool of its own.
    fn explore(&self, config: &Config, _schedules: u64) -> SearchResult {
        let (seen, failure) = self.go(self.number, config);
        let counts = Counts {
            schedules: 1,
            crash_points: seen.left,
            images: seen.left,
            recoveries: seen.left,
            nested_runs: seen.lived_on,
            nested_at: [seen.lived_on, 0, 0, 0],
            ..Counts::default()
        };
        let failure = failure.map(|text| Box::new(failure_of(self.number, 1, text)));
        (Report { counts, exhausted: true, ..Report::default() }, failure)
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
        let (kind, ..) = KINDS.iter().find(|(_, name, ..)| *name == kind)?;
        Some(Box::new(StoreCase { kind: *kind, number }))
    }

    fn step(&self, _number: u64, random: &mut Random, fixed: Fixed) -> Step {
        // The number decides the mode: those of runs in a row have both.
        let number = random.below(1 << 40);
        let mut part = random.below(KINDS.iter().map(|(_, _, parts, _)| parts).sum());
        let is_it = |(_, _, parts, _): &&(Kind, &str, u64, &str)| {
            let is_it = part < *parts;
            part = part.saturating_sub(*parts);
            is_it
        };
        let (kind, name, _, count) = *KINDS.iter().find(is_it).expect("the parts are all");
        let domain = fixed.domain.unwrap_or(Domain::Adr);
        let has_modes = !matches!(kind, Kind::Refusing | Kind::Racing | Kind::Damaging);
        let mode: Value = ("mode", MODES[usize::from(!has_modes || number % 3 != 1)]);
        let config = Config { domain, seed: number, ..Config::default() };
        let values = vec![mode, ("threads", count)];
        Step { program: format!("{name}/{number}"), config, values }
    }

    fn dimensions(&self) -> Vec<Dimension> {
        vec![("mode", MODES.to_vec()), ("threads", THREADS.to_vec())]
    }

    fn cpu_time(&self) -> Duration {
        process_cpu_time()
    }

    /// None: a run has one order, and its number has nothing to do with the domain.
    fn small(&self) -> Vec<String> {
        vec![]
    }
}
