//! Probabilistic concurrency testing: the actor of highest priority runs; at a few random steps the
//! one that runs falls to the bottom. A bug that needs d ordering constraints among n threads in k
//! steps is met with probability at least 1/(n k^(d-1)) per schedule (Burckhardt et al., ASPLOS'10).

use super::super::random::Random;
use super::Candidates;

/// From this step on the choice is uniform, so that a loop without [`Machine::spin`] cannot starve
/// the thread it waits for until the step limit.
///
/// [`Machine::spin`]: crate::Machine::spin
const FAIR_AFTER: u64 = 4_000;

/// The largest number of actors (threads and store buffers).
const ACTORS_MAX: usize = 2 * crate::simulated::THREADS_MAX;

pub struct Pct {
    priority: [u64; ACTORS_MAX],
    changes: Vec<u64>,
    next_low: u64,
    chance: Random,
}

impl Pct {
    /// Priorities and `depth - 1` change points in a schedule of about `steps` steps.
    pub fn new(depth: u32, steps: u64, mut chance: Random) -> Self {
        let priority = std::array::from_fn(|_| (1 << 32) + chance.below(1 << 32));
        let mut changes: Vec<u64> = (1..depth).map(|_| 1 + chance.below(steps.max(1))).collect();
        changes.sort_unstable_by(|a, b| b.cmp(a));
        Pct { priority, changes, next_low: 1 << 31, chance }
    }

    pub fn choose(&mut self, candidates: &Candidates<'_>) -> usize {
        if candidates.step > FAIR_AFTER {
            return self.chance.below(candidates.actors.len() as u64) as usize;
        }
        while self.changes.last().is_some_and(|&step| step <= candidates.step) {
            self.changes.pop();
            // The thread that would run now becomes the last of all.
            let top = self.top(candidates);
            self.next_low -= 1;
            self.priority[candidates.actors[top] as usize] = self.next_low;
        }
        self.top(candidates)
    }

    fn top(&self, candidates: &Candidates<'_>) -> usize {
        let priority = |index: &usize| self.priority[candidates.actors[*index] as usize];
        (0..candidates.actors.len()).max_by_key(priority).unwrap_or(0)
    }
}
