//! The end of recovery: what it found free is given to the heap.

use everleaf_machine::Machine;

use crate::heap::Heap;
use crate::layout::{CHUNK_HEADER_SIZE, ChunkKind, blocks_of_chunk};
use crate::recover::{Marked, Recovery};
use crate::size_class::{class_size, slots_per_chunk};

impl<M: Machine> Recovery<M> {
    /// Makes `heap` usable without knowing what is in use: chunks that were free can be taken, all
    /// others are left alone until [`Audit::sweep`](crate::Audit::sweep) finds out.
    pub fn finish_unmarked(self, heap: &Heap<M>) {
        self.give(heap, true, &[], |_| false);
    }

    /// Makes everything unmarked free, so that `heap` can be allocated from.
    pub fn finish(self, heap: &Heap<M>) {
        self.give(heap, true, &self.chunks, |_| true);
    }

    /// Gives to the heap what is free in those of some chunks whose kind is wanted, and the free runs before, if they
    /// are. What is free of a chunk comes under one lock: a chunk is never taken for empty in between.
    pub(crate) fn give(
        &self,
        heap: &Heap<M>,
        runs: bool,
        chunks: &[Marked<M>],
        wants: impl Fn(ChunkKind) -> bool,
    ) {
        let mut space = heap.space.lock();
        let mut depot = heap.depot.lock();
        if runs && !M::mutant("recovery.forgets_free_runs") {
            for (chunk, run) in &self.free_runs {
                space.add_free::<M>(*chunk, *run);
            }
            // Of a pool of which nobody knows yet what is in use, no chunk is given.
            if !(chunks.is_empty() && M::mutant("recovery.unmarked_no_holes")) {
                space.note_holes(heap.pool(), &self.free_runs, &self.holes);
            }
        }
        for marked in chunks.iter().filter(|marked| wants(marked.header.kind)) {
            if marked.is_empty() {
                if !heap.pool().is_read_only() {
                    let one = M::mutant("recovery.returns_one_chunk");
                    let run = if one { 1 } else { u64::from(marked.header.run) };
                    space.give_back(heap.pool(), marked.chunk, run);
                }
                continue;
            }
            let start = marked.chunk << self.shift;
            match marked.header.kind {
                ChunkKind::Leaves => {
                    let class = usize::from(marked.header.class);
                    let blocks = blocks_of_chunk(class, marked.chunk, self.shift);
                    let first = usize::from(!M::mutant("recovery.slots_off_by_one"));
                    let free = blocks.zip(first..).filter(|(_, slot)| !marked.is_set(*slot));
                    let free: Vec<u32> = free.map(|(block, _)| block).collect();
                    depot.blocks[class].extend(free.into_iter().rev());
                }
                ChunkKind::Records => {
                    let class = usize::from(marked.header.class);
                    let free = (0..slots_per_chunk(class, 1 << self.shift))
                        .rev()
                        .filter(|slot| !marked.is_set(*slot) || M::mutant("recovery.no_marks"));
                    let first = start + CHUNK_HEADER_SIZE as u64;
                    let size = class_size(class) as u64;
                    depot.records[class].extend(free.map(|slot| first + slot as u64 * size));
                }
                _ => {}
            }
        }
    }
}
