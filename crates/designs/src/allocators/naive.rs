//! The naive allocator: each thread cuts blocks off its chunk, and nothing is recorded, so that
//! nothing that was freed is used again and a crash loses what it had cut off.
//!
//! It is the bound that the others are held against: the destination is all that is stored. After a
//! crash a chunk goes on behind the last of its blocks that is named.
//!
//! *Source*: Zhang and others, IEEE TPDS 2024, section VI-A: "pre-allocates sufficient memory space
//! for each worker thread". Of recovery the paper does not speak.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Recovery, Session};
use everleaf_machine::{Atomic, Machine};

use super::lists::Lists;
use super::space::Space;
use super::{Allocator, Lines, Promise, Shape};

/// See the module.
pub struct Naive<M: Machine> {
    space: Space<M>,
    lists: Lists<M>,
}

impl<M: Machine> Allocator<M> for Naive<M> {
    const NAME: &'static str = "naive";
    const PROMISE: Promise = Promise::Leaks;
    const CHUNK_BYTES: usize = 256 << 10;
    const LINES: Lines = Lines { of_thread: 0, of_chunk: 0 };

    fn create(session: &mut Session<M>, shape: Shape) -> Result<Self, AllocError> {
        let space = Space::create(session, shape, Self::LINES)?;
        Ok(Naive { lists: Lists::new(&space), space })
    }

    fn root(&self) -> u64 {
        self.space.start()
    }

    fn open(
        heap: &Arc<Heap<M>>,
        recovery: &Recovery<M>,
        root: u64,
        shape: Shape,
    ) -> Result<Self, AllocError> {
        let space = Space::open(heap, recovery, root, shape, Self::LINES)?;
        // Until `keep` nobody knows what is free.
        Ok(Naive { lists: Lists::of_free(&space, |_, _| false), space })
    }

    fn keep(&mut self, used: &BTreeSet<u64>) {
        let mut ends: BTreeMap<usize, usize> = BTreeMap::new();
        for block in used {
            let (chunk, index) = self.space.place(*block);
            let end = ends.entry(chunk).or_default();
            let is_first = M::mutant("naive.behind_the_first") && *end > 0;
            *end = if is_first { *end } else { index + 1 };
        }
        if M::mutant("naive.from_the_start") {
            ends.clear();
        }
        self.lists = Lists::of_free(&self.space, |chunk, index| {
            ends.get(&chunk).is_none_or(|end| index >= *end)
        });
    }

    fn mark(&self, recovery: &Recovery<M>, _used: &BTreeSet<u64>) -> Result<(), AllocError> {
        self.space.mark(recovery)
    }

    fn is_block(&self, _recovery: &Recovery<M>, block: u64) -> bool {
        self.space.is_block(block)
    }

    fn reserve(&self, session: &mut Session<M>) -> Result<u64, AllocError> {
        let taken = self.lists.take(&self.space, self.space.thread_of(session));
        taken.ok_or_else(|| self.space.full())
    }

    fn cancel(&self, session: &mut Session<M>, block: u64) {
        self.lists.put(self.space.thread_of(session), block);
    }

    fn activate(&self, _session: &mut Session<M>, block: u64, destination: &Atomic<u64, M>) {
        self.space.link(destination, block);
        if !M::mutant("naive.no_link_flush") {
            // Persist: the destination before this returns.
            self.space.medium().persist(destination.as_ptr(), 8);
        }
    }

    fn free_from(&self, _session: &mut Session<M>, destination: &Atomic<u64, M>) {
        self.space.link(destination, 0);
        if !M::mutant("naive.no_unlink_flush") {
            // Persist: the destination before this returns.
            self.space.medium().persist(destination.as_ptr(), 8);
        }
    }

    fn check(&self, used: &BTreeSet<u64>) -> Vec<String> {
        self.lists.check(&self.space, used, true)
    }

    fn free_all(&self, session: &mut Session<M>) {
        self.space.free(session);
    }
}
