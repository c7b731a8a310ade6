//! Exhaustive search, depth first, with a bound on preemptions.
//!
//! Choice 0 is to go on with the running thread. Taking another thread while the running one could
//! go on costs one preemption; when the budget is spent only store-buffer steps remain as choices,
//! which are free.

use super::Candidates;

/// The choice taken at one scheduling point, of so many.
#[derive(Clone, Copy)]
struct Branch {
    taken: u8,
    count: u8,
}

pub struct Dfs {
    bound: u32,
    used: u32,
    path: Vec<Branch>,
    position: usize,
}

impl Dfs {
    pub fn new(bound: u32) -> Self {
        Dfs { bound, used: 0, path: Vec::new(), position: 0 }
    }

    /// Starts the next schedule of the search.
    pub fn rewind(&mut self) {
        self.used = 0;
        self.position = 0;
    }

    pub fn choose(&mut self, candidates: &Candidates<'_>) -> usize {
        let costly = |actor: u8| candidates.current_first && (actor as usize) < candidates.threads;
        let spent = self.used >= self.bound;
        // The actors that may be chosen, by their positions in the candidate list.
        let allowed = |&index: &usize| index == 0 || !spent || !costly(candidates.actors[index]);
        if self.position == self.path.len() {
            let count = (0..candidates.actors.len()).filter(allowed).count();
            self.path.push(Branch { taken: 0, count: count as u8 });
        }
        let taken = self.path[self.position].taken as usize;
        self.position += 1;
        let index = (0..candidates.actors.len()).filter(allowed).nth(taken).unwrap_or(0);
        if index > 0 && costly(candidates.actors[index]) {
            self.used += 1;
        }
        index
    }

    /// Moves to the next unexplored branch; false when all were taken.
    pub fn advance(&mut self) -> bool {
        self.path.truncate(self.position);
        while let Some(last) = self.path.last_mut() {
            last.taken += 1;
            if last.taken < last.count {
                return true;
            }
            self.path.pop();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads of `length` steps each: the schedules with at most `bound` preemptions.
    fn schedules(length: u32, bound: u32) -> usize {
        let mut dfs = Dfs::new(bound);
        let mut count = 0;
        loop {
            dfs.rewind();
            let (mut left, mut current, mut step) = ([length; 2], None::<u8>, 0);
            while left != [0, 0] {
                let mut actors: Vec<u8> = (0..2).filter(|&t| left[t as usize] > 0).collect();
                let current_first = current.is_some_and(|t| left[t as usize] > 0);
                if current_first {
                    actors.sort_by_key(|&t| Some(t) != current);
                }
                let choice = if actors.len() == 1 {
                    0
                } else {
                    dfs.choose(&Candidates { actors: &actors, threads: 2, current_first, step })
                };
                current = Some(actors[choice]);
                left[actors[choice] as usize] -= 1;
                step += 1;
            }
            count += 1;
            if !dfs.advance() {
                return count;
            }
        }
    }

    #[test]
    fn the_search_is_exhaustive_and_bounded() {
        // Without preemption: either thread first.
        assert_eq!(schedules(3, 0), 2);
        // Without a bound: all interleavings of 3 and 3 steps.
        assert_eq!(schedules(3, 100), 20);
        assert!(schedules(3, 1) > 2 && schedules(3, 1) < 20);
    }
}
