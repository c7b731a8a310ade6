//! The allocator's own check: every block and record is in use or free, exactly once.
//!
//! Run while nobody allocates: the caller marks what its trees use, and the audit compares that
//! with all free lists. A slot that is neither is leaked; one that is both, or free twice, would be
//! handed out twice.

use std::collections::BTreeSet;

use everleaf_machine::Machine;

use crate::bag::Retired;
use crate::error::AllocError;
use crate::heap::Heap;
use crate::layout::{
    BLOCK_SIZE, CHUNK_HEADER_SIZE, ChunkKind, block_size, blocks_of_chunk, blocks_per_chunk,
};
use crate::recover::Recovery;
use crate::session::Session;
use crate::size_class::{class_size, slots_per_chunk};

/// An audit in progress: marks of what is in use, then of what is free.
pub struct Audit<M: Machine> {
    used: Recovery<M>,
    free: Recovery<M>,
    /// Volatile nodes that wait to be freed.
    nodes: BTreeSet<usize>,
    /// Whether records that are neither in use nor free are no problem.
    lacks_marks: bool,
    problems: Vec<String>,
}

impl<M: Machine> Audit<M> {
    /// Starts an audit of `heap`.
    ///
    /// # Errors
    /// A chunk header is damaged.
    pub fn new(heap: &Heap<M>) -> Result<Self, AllocError> {
        let first =
            (heap.pool().data_start() + BLOCK_SIZE as u64).div_ceil(1 << heap.chunk_shift());
        // Nobody writes a header meanwhile.
        let space = heap.space.lock();
        let used = Recovery::walk(heap.pool(), heap.chunk_shift(), first)?;
        let free = Recovery::walk(heap.pool(), heap.chunk_shift(), first)?;
        let mut problems = vec![];
        // Behind the last header that a walk finds there are only chunks that nobody has.
        let (known, found) = (space.free_chunks(), used.free_chunks());
        let behind = space.frontier().checked_sub(used.frontier());
        if behind.is_none_or(|behind| behind + found != known) {
            problems.push(format!(
                "{known} chunks are known to be free, and by their headers {found} are"
            ));
        }
        drop(space);
        Ok(Audit { used, free, nodes: BTreeSet::new(), lacks_marks: false, problems })
    }

    /// Where trees mark what they use.
    pub fn used(&self) -> &Recovery<M> {
        &self.used
    }

    /// Says that records which are neither in use nor free are no problem: opening has left them, and their marks
    /// cannot be made ([`LateMarks`](crate::LateMarks)), for a leaf is damaged.
    pub fn lacks_marks(&mut self) {
        self.lacks_marks = true;
    }

    /// What a session keeps that it should have given to others, or freed, in words: it has reserved nothing, or less
    /// than it keeps anyway.
    pub fn overfull(session: &Session<M>) -> Option<String> {
        let lists = session.blocks.iter().map(Vec::len).chain(session.records.iter().map(Vec::len));
        let (free, retired) = (lists.max().unwrap_or(0), session.open_bag.len());
        let is_overfull = free > Session::<M>::KEEP_MAX || retired >= session.bag_size();
        is_overfull.then(|| format!("a session keeps {free} free things and {retired} in a bag"))
    }

    /// Notes what a session has free or retired.
    pub fn add_session(&mut self, session: &Session<M>) {
        let heap = session.heap().clone();
        for (class, list) in session.blocks.iter().enumerate() {
            self.add_free_blocks(class, list);
        }
        for (class, list) in session.records.iter().enumerate() {
            self.add_free_records(class, list);
        }
        let sealed = session.sealed.iter().flat_map(|bag| &bag.items);
        for item in sealed.chain(&session.open_bag) {
            self.add_retired(&heap, item);
        }
    }

    /// Notes what the heap has free.
    fn add_depot(&mut self, heap: &Heap<M>) {
        let depot = heap.depot.lock();
        for (class, list) in depot.blocks.iter().enumerate() {
            self.add_free_blocks(class, list);
        }
        for (class, list) in depot.records.iter().enumerate() {
            self.add_free_records(class, list);
        }
        for item in depot.orphans.iter().flat_map(|bag| &bag.items) {
            self.add_retired(heap, item);
        }
    }

    /// Makes free what is neither in use nor free: what recovery left alone
    /// ([`Recovery::finish_unmarked`]), or leaked. Returns how many blocks and records that were.
    ///
    /// All sessions of the heap must have been added, and everything in use marked.
    pub fn sweep(mut self, heap: &Heap<M>) -> u64 {
        self.add_depot(heap);
        let mut count = 0;
        let mut space = heap.space.lock();
        let mut depot = heap.depot.lock();
        for (used, free) in self.used.chunks.iter().zip(&self.free.chunks) {
            let start = used.chunk << self.used.shift;
            let is_lost = |slot: &usize| !used.is_set(*slot) && !free.is_set(*slot);
            match used.header.kind {
                ChunkKind::Leaves => {
                    let class = usize::from(used.header.class);
                    let blocks = blocks_of_chunk(class, used.chunk, self.used.shift).zip(1..);
                    let lost = blocks.filter(|(_, slot)| is_lost(slot)).map(|(block, _)| block);
                    let lost: Vec<u32> = lost.collect();
                    count += lost.len() as u64;
                    depot.blocks[class].extend(lost.into_iter().rev());
                }
                ChunkKind::Records => {
                    let class = usize::from(used.header.class);
                    let slots = slots_per_chunk(class, 1 << self.used.shift);
                    let place =
                        |slot| start + (CHUNK_HEADER_SIZE + slot * class_size(class)) as u64;
                    let list = &mut depot.records[class];
                    let before = list.len();
                    list.extend((0..slots).rev().filter(is_lost).map(place));
                    count += (list.len() - before) as u64;
                }
                ChunkKind::Large if is_lost(&0) => {
                    space.give_back(heap.pool(), used.chunk, u64::from(used.header.run));
                    count += 1;
                }
                _ => {}
            }
        }
        drop(depot);
        drop(space);
        heap.release_empty_chunks();
        count
    }

    /// Notes what the heap has free, and reports what does not add up: in sentences, empty if all
    /// is well.
    pub fn finish(mut self, heap: &Heap<M>) -> Vec<String> {
        self.add_depot(heap);
        for (used, free) in self.used.chunks.iter().zip(&self.free.chunks) {
            if used.is_empty() && heap.pool().is_read_only() {
                // Nobody uses the chunk, but only a writer can say so in its header.
                continue;
            }
            let shift = self.used.shift;
            let (first, count, size) = match used.header.kind {
                ChunkKind::Leaves => {
                    let class = usize::from(used.header.class);
                    (1, blocks_per_chunk(class, shift), block_size(class))
                }
                ChunkKind::Records => {
                    let class = usize::from(used.header.class);
                    (0, slots_per_chunk(class, 1 << shift), class_size(class))
                }
                _ => (0, 1, 0),
            };
            for slot in first..count {
                let problem = match (used.is_set(slot), free.is_set(slot)) {
                    (false, false) if self.lacks_marks && used.header.kind != ChunkKind::Leaves => {
                        continue;
                    }
                    (false, false) => "leaked",
                    (true, true) => "in use and free",
                    _ => continue,
                };
                let chunk = used.chunk;
                self.problems
                    .push(format!("{problem}: slot {slot} ({size} bytes) of chunk {chunk}"));
            }
        }
        self.problems
    }

    fn add_free_blocks(&mut self, class: usize, blocks: &[u32]) {
        for block in blocks {
            if let Err(error) = self.free.mark_block(class, *block) {
                self.problems.push(format!("free list: {error}"));
            }
        }
    }

    fn add_free_records(&mut self, class: usize, offsets: &[u64]) {
        for offset in offsets {
            if let Err(error) = self.free.mark_record(*offset, class_size(class)) {
                self.problems.push(format!("free list: {error}"));
            }
        }
    }

    fn add_retired(&mut self, heap: &Heap<M>, item: &Retired) {
        match item {
            Retired::Node(node, _) => {
                if !self.nodes.insert(node.addr()) {
                    self.problems.push("a volatile node is retired twice".to_string());
                }
            }
            Retired::Block(block, class) => self.add_free_blocks(*class, &[*block]),
            Retired::Record(offset, size) => {
                let size = heap.class_for(*size).map_or(*size, class_size);
                if let Err(error) = self.free.mark_record(*offset, size) {
                    self.problems.push(format!("retired: {error}"));
                }
            }
        }
    }
}
