//! The free blocks, in DRAM: a list for each thread, and the chunks that nobody has begun.
//!
//! A thread takes from its own list, then begins a chunk, then takes from the others' lists. Blocks
//! of a new chunk come in ascending order, so that their metadata are neighbours.

use std::collections::BTreeSet;

use everleaf_machine::{Machine, SpinLock};

use super::space::Space;

/// See the module.
pub(super) struct Lists<M: Machine> {
    of_threads: Box<[SpinLock<Vec<u64>, M>]>,
    /// Chunks of which no block is allocated or in a list, the next one last.
    untouched: SpinLock<Vec<usize>, M>,
}

impl<M: Machine> Lists<M> {
    /// All of a space is free.
    pub fn new(space: &Space<M>) -> Self {
        Self::of_free(space, |_, _| true)
    }

    /// The blocks are free that `is_free` says, given chunk and number.
    pub fn of_free(space: &Space<M>, is_free: impl Fn(usize, usize) -> bool) -> Self {
        let shape = space.shape();
        let mut lists = vec![vec![]; shape.threads];
        let mut untouched = vec![];
        for chunk in (0..shape.chunks).rev() {
            let all = (0..space.chunk_blocks()).rev();
            let free: Vec<usize> = all.filter(|index| is_free(chunk, *index)).collect();
            if free.len() == space.chunk_blocks() {
                untouched.push(chunk);
            } else {
                let list: &mut Vec<u64> = &mut lists[chunk % shape.threads];
                list.extend(free.into_iter().map(|index| space.block(chunk, index)));
            }
        }
        let of_threads = lists.into_iter().map(SpinLock::new).collect();
        Lists { of_threads, untouched: SpinLock::new(untouched) }
    }

    /// A free block, which is in no list any more.
    pub fn take(&self, space: &Space<M>, thread: usize) -> Option<u64> {
        let own = self.of_threads[thread].lock().pop();
        own.or_else(|| self.begin_chunk(space, thread)).or_else(|| {
            let count = self.of_threads.len();
            (1..count).find_map(|step| self.of_threads[(thread + step) % count].lock().pop())
        })
    }

    /// The first block of an untouched chunk; the others go to the thread's list.
    fn begin_chunk(&self, space: &Space<M>, thread: usize) -> Option<u64> {
        let looks_first = M::mutant("blocks.chunk_for_two");
        let seen = if looks_first { self.untouched.lock().last().copied() } else { None };
        // Held until they are there: a thread that finds no chunk then finds them in the list.
        let mut untouched = self.untouched.lock();
        let taken = untouched.pop();
        let chunk = seen.or(taken)?;
        let mut list = self.of_threads[thread].lock();
        list.extend(space.blocks_of(chunk).rev());
        list.pop()
    }

    /// Puts a free block in the thread's list.
    pub fn put(&self, thread: usize, block: u64) {
        self.of_threads[thread].lock().push(block);
    }

    /// What is wrong if these blocks are allocated and the others are free, but for those that may be
    /// lost. Nobody else is active.
    pub fn check(&self, space: &Space<M>, used: &BTreeSet<u64>, may_lose: bool) -> Vec<String> {
        let mut problems = vec![];
        let mut free = BTreeSet::new();
        let untouched = self.untouched.lock().clone();
        let lists = self.of_threads.iter().flat_map(|list| list.lock().clone());
        let listed: Vec<u64> = lists.collect();
        for block in untouched.into_iter().flat_map(|chunk| space.blocks_of(chunk)).chain(listed) {
            if !free.insert(block) {
                problems.push(format!("block {block} is free twice (A2)"));
            }
            if used.contains(&block) {
                problems.push(format!("block {block} is in use and free (A1)"));
            }
        }
        let lost = space.blocks().filter(|block| !free.contains(block) && !used.contains(block));
        let lost: Vec<u64> = lost.collect();
        if !may_lose && !lost.is_empty() {
            problems.push(format!("blocks {lost:?} are neither in use nor free (A3)"));
        }
        problems
    }
}
