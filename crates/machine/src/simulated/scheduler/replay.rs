//! Repeats recorded choices.

use super::Candidates;

pub struct Replay {
    choices: Vec<u8>,
    position: usize,
    diverged: bool,
}

impl Replay {
    pub fn new(choices: Vec<u8>) -> Self {
        Replay { choices, position: 0, diverged: false }
    }

    /// The recorded actor. When it cannot act, or the record has ended, the running thread goes on
    /// and the replay counts as diverged (a shrinker lives with that).
    pub fn choose(&mut self, candidates: &Candidates<'_>) -> usize {
        let wanted = self.choices.get(self.position);
        self.position += 1;
        let found = wanted.and_then(|actor| candidates.actors.iter().position(|a| a == actor));
        self.diverged |= found.is_none();
        found.unwrap_or(0)
    }

    pub fn diverged(&self) -> bool {
        self.diverged
    }
}
