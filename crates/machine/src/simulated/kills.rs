//! Deaths of the process without a power cut: all that is visible stays, and what is not durable is in the caches until
//! the power fails in the life after. Recovery sees it, and must not rely on it before it has made it durable.

use super::config::{CrashConfig, Domain, MemoryModel};
use super::images::Images;
use super::program::Program;
use super::random::mix;
use super::runner::Runner;
use super::state::State;

/// How many crash points there are for one death of the process that has a life after it, where lives are tried.
const ONE_IN: u64 = 16;

/// Above so many deaths all are forgotten, to bound memory.
const KILLS_MAX: usize = 1 << 18;

impl<P: Program + 'static> Runner<P> {
    /// The image that is left if the process dies now, if that is to be tried and was not yet.
    pub(super) fn choose_kill(
        &mut self,
        level: usize,
        state: &State,
        images: &Images,
    ) -> Option<(u64, Vec<u32>)> {
        let CrashConfig { nested_one_in, nested_depth, .. } = self.config.crash;
        let is_volatile = self.config.domain == Domain::Adr && !images.is_single();
        // Stores that wait in buffers would go on their way in any order.
        let is_tried = is_volatile && self.config.memory != MemoryModel::Tso;
        if nested_one_in == 0 || level >= nested_depth || !is_tried {
            return None;
        }
        let (hash, cut) = images.visible(state);
        // The same image may be durable to another part.
        let kill = mix(hash).wrapping_add(state.persistence.hash);
        let is_chosen =
            mix(kill ^ self.config.seed).is_multiple_of(nested_one_in.saturating_mul(ONE_IN));
        if !is_chosen || self.work() >= self.config.work_limit {
            return None;
        }
        if self.kills.len() >= KILLS_MAX {
            self.kills.clear();
        }
        self.kills.insert(kill).then_some((hash, cut))
    }
}
