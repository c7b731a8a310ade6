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

/// The orders that begin with one thread, and how far the search through them is.
struct Beginning {
    first: usize,
    path: Vec<Branch>,
}

pub struct Dfs {
    bound: u32,
    used: u32,
    /// Those of which some orders are left. They take turns: else all that begin with the first thread, which is
    /// more than there is time for, would come before any that begins with another.
    beginnings: Vec<Beginning>,
    turn: usize,
    position: usize,
}

impl Dfs {
    pub fn new(bound: u32) -> Self {
        let beginnings = vec![Beginning { first: 0, path: vec![] }];
        Dfs { bound, used: 0, beginnings, turn: 0, position: 0 }
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
        if self.position == self.beginnings[self.turn].path.len() {
            let count = (0..candidates.actors.len()).filter(allowed).count();
            self.branch(count, self.position == 0 && !candidates.current_first);
        }
        let taken = self.beginnings[self.turn].path[self.position].taken as usize;
        self.position += 1;
        let index = (0..candidates.actors.len()).filter(allowed).nth(taken).unwrap_or(0);
        if index > 0 && costly(candidates.actors[index]) {
            self.used += 1;
        }
        index
    }

    /// Comes to a scheduling point with so many choices for the first time.
    fn branch(&mut self, count: usize, is_beginning: bool) {
        let mut branch = Branch { taken: 0, count: count as u8 };
        if is_beginning {
            if self.beginnings.len() == 1 && self.beginnings[0].first == 0 {
                let other = |first| Beginning { first, path: vec![] };
                self.beginnings.extend((1..count).map(other));
            }
            let first = self.beginnings[self.turn].first as u8;
            branch = Branch { taken: first, count: first + 1 };
        }
        self.beginnings[self.turn].path.push(branch);
    }

    /// Moves to the next unexplored branch; false when all were taken.
    pub fn advance(&mut self) -> bool {
        let path = &mut self.beginnings[self.turn].path;
        path.truncate(self.position);
        while let Some(last) = path.last_mut() {
            last.taken += 1;
            if last.taken < last.count {
                break;
            }
            path.pop();
        }
        if path.is_empty() {
            self.beginnings.remove(self.turn);
        } else {
            self.turn += 1;
        }
        if self.turn >= self.beginnings.len() {
            self.turn = 0;
        }
        !self.beginnings.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads of `length` steps each: the schedules with at most `bound` preemptions, each as the threads that
    /// take its steps.
    fn schedules(length: u32, bound: u32) -> Vec<Vec<u8>> {
        let mut dfs = Dfs::new(bound);
        let mut all = vec![];
        loop {
            dfs.rewind();
            let (mut left, mut current, mut step) = ([length; 2], None::<u8>, 0);
            let mut steps = vec![];
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
                steps.push(actors[choice]);
                step += 1;
            }
            all.push(steps);
            if !dfs.advance() {
                return all;
            }
        }
    }

    #[test]
    fn the_search_is_exhaustive_and_bounded() {
        // Without preemption: either thread first.
        assert_eq!(schedules(3, 0).len(), 2);
        // Without a bound: all interleavings of 3 and 3 steps, each once.
        let mut all = schedules(3, 100);
        assert_eq!(all.len(), 20);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 20);
        let some = schedules(3, 1).len();
        assert!(some > 2 && some < 20);
    }

    /// What began with the second thread came behind all that begins with the first, and so never.
    #[test]
    fn either_thread_begins_in_turn() {
        let firsts: Vec<u8> = schedules(6, 2).iter().map(|steps| steps[0]).collect();
        assert!(firsts.len() > 50, "{firsts:?}");
        let is_fair = firsts.chunks(2).all(|pair| pair == [0, 1]);
        assert!(is_fair, "{firsts:?}");
    }
}
