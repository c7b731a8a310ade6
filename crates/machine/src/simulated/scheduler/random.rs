//! Uniform choice.

use super::super::random::Random;
use super::Candidates;

/// Any candidate, all equally likely.
#[inline]
pub fn choose(chance: &mut Random, candidates: &Candidates<'_>) -> usize {
    chance.below(candidates.actors.len() as u64) as usize
}
