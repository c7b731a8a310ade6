//! A program with its plan, whatever its type: what a search runs, and what a failure names.

pub mod step;
pub mod structure;

use std::fmt::Debug;

use everleaf_machine::simulated::{Config, Failure, Plan, Program, Replay, Report, Runner, shrink};

/// What a search did, and the failure that ended it, if one did.
pub type SearchResult = (Report, Option<Box<Failure>>);

/// The operations of each thread, by number, in ascending order.
pub type Kept = Vec<Vec<usize>>;

/// A failure made small.
pub struct Small {
    /// The operations of the plan that are left.
    pub kept: Kept,
    /// The failure of what is left, of the same kind as before.
    pub failure: Failure,
}

/// A program and what its threads do. The same case gives the same schedules for ever.
pub trait Case {
    /// Runs up to `schedules` schedules, fewer if one fails or an exhaustive search ends. The report
    /// is complete also if one failed.
    fn explore(&self, config: &Config, schedules: u64) -> SearchResult;

    /// Repeats one schedule, with a readable trace.
    ///
    /// # Errors
    /// The fresh pool does not open.
    fn replay(&self, config: &Config, seed: u64, choices: &[u8]) -> Result<Replay, Box<Failure>>;

    /// Makes a failure of this case small, with about `effort` schedules per attempt.
    ///
    /// # Panics
    /// If the failure does not happen again.
    fn shrink(&self, config: &Config, failure: &Failure, effort: u64) -> Small;

    /// The same program with a part of its plan; operations that are not there are left out.
    fn keep(&self, kept: &Kept) -> Box<dyn Case>;

    /// The same program with the operations of all threads, in turn, in one.
    fn alone(&self) -> Box<dyn Case>;
}

/// A [`Program`] with its [`Plan`].
#[derive(Clone, Debug)]
pub struct PlannedCase<P: Program>(pub P, pub Plan<P::Operation>);

impl<P: Program + Clone + 'static> PlannedCase<P> {
    /// The same behind the trait.
    pub fn boxed((program, plan): (P, Plan<P::Operation>)) -> Box<dyn Case> {
        Box::new(PlannedCase(program, plan))
    }
}

impl<P: Program + Clone + 'static> Case for PlannedCase<P> {
    fn explore(&self, config: &Config, schedules: u64) -> SearchResult {
        explore(self.0.clone(), self.1.clone(), config, schedules)
    }

    fn replay(&self, config: &Config, seed: u64, choices: &[u8]) -> Result<Replay, Box<Failure>> {
        let mut runner = Runner::new(self.0.clone(), self.1.clone(), config.clone())?;
        Ok(runner.replay(seed, choices))
    }

    fn shrink(&self, config: &Config, failure: &Failure, effort: u64) -> Small {
        if failure.is_before_all() {
            let kept = self.1.iter().map(|operations| (0..operations.len()).collect()).collect();
            return Small { kept, failure: failure.clone() };
        }
        let shrunk = shrink(config, &self.1, failure, effort, || self.0.clone());
        Small { kept: positions(&self.1, &shrunk.plan), failure: shrunk.failure }
    }

    fn keep(&self, kept: &Kept) -> Box<dyn Case> {
        let of_thread = |(thread, operations): (usize, &Vec<P::Operation>)| {
            let numbers = kept.get(thread).map(Vec::as_slice).unwrap_or_default();
            numbers.iter().filter_map(|number| operations.get(*number).cloned()).collect()
        };
        let plan = self.1.iter().enumerate().map(of_thread).collect();
        Box::new(PlannedCase(self.0.clone(), plan))
    }

    fn alone(&self) -> Box<dyn Case> {
        Box::new(PlannedCase(self.0.clone(), vec![in_turn(&self.1)]))
    }
}

/// The operations of all threads, one of each in turn.
pub fn in_turn<O: Clone>(plan: &Plan<O>) -> Vec<O> {
    let length = plan.iter().map(Vec::len).max().unwrap_or(0);
    let round = |number| plan.iter().filter_map(move |operations| operations.get(number));
    (0..length).flat_map(round).cloned().collect()
}

/// Which operations of `plan` are those of `part`, which lacks some of them.
pub fn positions<O: Debug>(plan: &Plan<O>, part: &Plan<O>) -> Kept {
    let of_thread = |(operations, left): (&Vec<O>, &Vec<O>)| {
        let mut left = left.iter().map(|operation| format!("{operation:?}")).peekable();
        let mut kept = vec![];
        for (number, operation) in operations.iter().enumerate() {
            if left.next_if(|wanted| *wanted == format!("{operation:?}")).is_some() {
                kept.push(number);
            }
        }
        kept
    };
    plan.iter().zip(part).map(of_thread).collect()
}

/// Runs a program; the report is complete also if it failed.
pub fn explore<P: Program + 'static>(
    program: P,
    plan: Plan<P::Operation>,
    config: &Config,
    schedules: u64,
) -> SearchResult {
    let mut runner = match Runner::new(program, plan, config.clone()) {
        Ok(runner) => runner,
        Err(failure) => return (Report::default(), Some(failure)),
    };
    match runner.explore(schedules) {
        Ok(report) => (report, None),
        Err(failure) => (runner.report(), Some(failure)),
    }
}
