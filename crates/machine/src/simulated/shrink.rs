//! Makes a failure small: fewer operations, then fewer preemptions.

use super::config::{Config, SchedulerKind};
use super::failure::Failure;
use super::program::{Plan, Program};
use super::runner::{Replay, Runner};

/// A failure made small.
pub struct Shrunk<P: Program> {
    /// The plan that is left; threads keep their numbers, some may have nothing to do.
    pub plan: Plan<P::Operation>,
    /// The failure, which is of the kind of the original one.
    pub failure: Failure,
    /// The whole schedule that leads to it, in order, one line each.
    pub trace: Vec<String>,
}

/// Makes `failure` of `plan` small. `make` gives the program, always the same; `effort` is the
/// number of schedules spent per attempt (1,000 is a fair start).
///
/// # Panics
/// If `failure` does not happen again: `make`, `plan` or `config` are not those that gave it.
pub fn shrink<P: Program + 'static>(
    config: &Config,
    plan: &Plan<P::Operation>,
    failure: &Failure,
    effort: u64,
    make: impl Fn() -> P,
) -> Shrunk<P> {
    let shrinker = Shrinker { config, effort, kind: failure.kind, make };
    let mut plan = plan.clone();
    let mut best = shrinker
        .replay(&plan, failure.seed, &failure.choices)
        .expect("a failure replays in the program, plan and configuration that gave it");
    shrinker.drop_operations(&mut plan, &mut best);
    shrinker.drop_preemptions(&plan, &mut best);
    let Replay { trace, .. } = shrinker.run(&plan, best.seed, &best.choices).unwrap_or_default();
    Shrunk { plan, failure: best, trace }
}

struct Shrinker<'a, F> {
    config: &'a Config,
    effort: u64,
    kind: super::failure::FailureKind,
    make: F,
}

impl<P: Program + 'static, F: Fn() -> P> Shrinker<'_, F> {
    fn runner(&self, plan: &Plan<P::Operation>, scheduler: SchedulerKind) -> Option<Runner<P>> {
        let config = Config { scheduler, ..self.config.clone() };
        Runner::new((self.make)(), plan.clone(), config).ok()
    }

    fn run(&self, plan: &Plan<P::Operation>, seed: u64, choices: &[u8]) -> Option<Replay> {
        Some(self.runner(plan, self.config.scheduler)?.replay(seed, choices))
    }

    /// Repeats choices as far as they can be; the failure if one of the right kind comes of it.
    fn replay(&self, plan: &Plan<P::Operation>, seed: u64, choices: &[u8]) -> Option<Failure> {
        self.run(plan, seed, choices)?.failure.filter(|failure| failure.kind == self.kind)
    }

    /// Looks for the failure in a plan.
    fn find(&self, plan: &Plan<P::Operation>, known: &Failure) -> Option<Failure> {
        self.replay(plan, known.seed, &known.choices)
            .or_else(|| self.explore(plan, SchedulerKind::Dfs { preemptions: 2 }, self.effort))
            .or_else(|| self.explore(plan, SchedulerKind::Mixed, self.effort))
    }

    fn explore(
        &self,
        plan: &Plan<P::Operation>,
        scheduler: SchedulerKind,
        schedules: u64,
    ) -> Option<Failure> {
        let failure = self.runner(plan, scheduler)?.explore(schedules).err()?;
        (failure.kind == self.kind).then_some(*failure)
    }

    fn drop_operations(&self, plan: &mut Plan<P::Operation>, best: &mut Failure) {
        let mut again = true;
        while again {
            again = false;
            for thread in 0..plan.len() {
                let mut index = plan[thread].len();
                while index > 0 {
                    index -= 1;
                    let mut smaller = plan.clone();
                    smaller[thread].remove(index);
                    if let Some(failure) = self.find(&smaller, best) {
                        (*plan, *best) = (smaller, failure);
                        again = true;
                    }
                }
            }
        }
    }

    /// First by exhaustive search with few preemptions, else by leaving out switches one by one.
    fn drop_preemptions(&self, plan: &Plan<P::Operation>, best: &mut Failure) {
        for preemptions in 0..=3 {
            let kind = SchedulerKind::Dfs { preemptions };
            if let Some(failure) = self.explore(plan, kind, 10 * self.effort) {
                *best = failure;
                return;
            }
        }
        let mut index = 1;
        while index < best.choices.len() {
            let mut choices = best.choices.clone();
            choices[index] = choices[index - 1];
            if choices != best.choices
                && let Some(failure) = self.replay(plan, best.seed, &choices)
                && failure.choices.len() <= best.choices.len()
                && failure.choices != best.choices
            {
                *best = failure;
            }
            index += 1;
        }
    }
}
