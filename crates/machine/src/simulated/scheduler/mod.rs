//! What runs next: one strategy per file, all treating threads and store-buffer steps alike.

mod candidates;
mod dfs;
mod pct;
mod random;
mod replay;

use super::config::SchedulerKind;
use super::random::{Random, mix};
pub(super) use candidates::Candidates;
use dfs::Dfs;
use pct::Pct;
use replay::Replay;

/// A strategy in the middle of a search.
pub(super) enum Scheduler {
    Random(Random),
    Pct(Pct),
    Dfs(Dfs),
    Replay(Replay),
}

impl Scheduler {
    /// The strategy for one schedule. A depth-first search continues where `previous` stands;
    /// the others depend on the seed alone (and PCT on `steps`, the usual length of a schedule).
    pub fn start(kind: SchedulerKind, seed: u64, steps: u64, previous: Option<Scheduler>) -> Self {
        let mut chance = Random::new(seed);
        match kind {
            SchedulerKind::Random => Scheduler::Random(chance),
            SchedulerKind::Pct { depth } => Scheduler::Pct(Pct::new(depth, steps, chance)),
            SchedulerKind::Dfs { preemptions } => match previous {
                Some(Scheduler::Dfs(mut dfs)) => {
                    dfs.rewind();
                    Scheduler::Dfs(dfs)
                }
                _ => Scheduler::Dfs(Dfs::new(preemptions)),
            },
            SchedulerKind::Mixed => match mix(seed) % 12 {
                depth @ 2..=7 => Scheduler::Pct(Pct::new(depth as u32, steps, chance)),
                _ => Scheduler::Random({
                    chance.next();
                    chance
                }),
            },
        }
    }

    /// The strategy that repeats `choices`.
    pub fn replay(choices: Vec<u8>) -> Self {
        Scheduler::Replay(Replay::new(choices))
    }

    /// The position of the chosen actor in `candidates.actors`, which has at least two.
    #[inline]
    pub fn choose(&mut self, candidates: &Candidates<'_>) -> usize {
        match self {
            Scheduler::Random(chance) => random::choose(chance, candidates),
            Scheduler::Pct(pct) => pct.choose(candidates),
            Scheduler::Dfs(dfs) => dfs.choose(candidates),
            Scheduler::Replay(replay) => replay.choose(candidates),
        }
    }

    /// Steps an exhaustive search to its next schedule; false if there is none. The other
    /// strategies never end.
    pub fn advance(&mut self) -> bool {
        match self {
            Scheduler::Dfs(dfs) => dfs.advance(),
            _ => true,
        }
    }

    /// Whether a replay met a choice it could not make.
    pub fn diverged(&self) -> bool {
        matches!(self, Scheduler::Replay(replay) if replay.diverged())
    }
}
