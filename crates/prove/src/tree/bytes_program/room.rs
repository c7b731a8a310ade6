//! How much space a program of byte strings may take.

use std::collections::BTreeSet;

use everleaf_alloc::layout::blocks_per_chunk;
use everleaf_alloc::size_class::class_of;
use everleaf_machine::simulated::Plan;
use everleaf_pool::layout::DATA_START;

use super::BytesProgram;
use super::words::value_sizes;
use crate::machine::backing::SIZE_MIN;
use crate::tree::operation::Operation;

/// Blocks that a write makes sure of before it splits a leaf: the two that it takes, and two for others.
const BLOCKS_OF_SPLIT: usize = 4;
/// Bytes of a record in front of its key.
const RECORD_HEADER_SIZE: usize = 8;
/// Records that a write makes at most: of the key, and the fences of a split.
const RECORDS_OF_WRITE: usize = 3;

impl BytesProgram {
    /// Gives the program a pool in which it finds room for this plan, unless it may fill its pool.
    pub fn fit_pool(&mut self, plan: &Plan<Operation>) {
        if !self.space.may_fill {
            let needed = self.pool_bytes_of(plan).next_multiple_of(SIZE_MIN as usize);
            self.space.pool_bytes = self.space.pool_bytes.max(needed);
        }
    }

    /// Bytes of a pool that are enough for the plan. A chunk serves for blocks, or for records of one class, as long
    /// as one of them is in use; and a session takes all that it finds of a kind, so that others need chunks of
    /// their own.
    fn pool_bytes_of(&self, plan: &Plan<Operation>) -> usize {
        let keys = self.universe.len();
        // A record of each key, a leaf of each, since those without keys are merged away, and a fence of each leaf:
        // each of them may be all that its chunk has.
        let (records, leaves, fences) = (keys, keys + 1, keys);
        let chunks_of = |blocks: usize| {
            let in_chunk = blocks_per_chunk(self.tree.block_class, self.space.chunk_shift) - 1;
            blocks.div_ceil(in_chunk.max(1))
        };
        let at_hand = self.threads * chunks_of(self.space.blocks_at_hand);
        // What comes behind the history takes a chunk for each thing at most, and no session has more than one of
        // each class and what a split takes.
        let of_write = chunks_of(BLOCKS_OF_SPLIT) + RECORDS_OF_WRITE;
        let of_session = chunks_of(BLOCKS_OF_SPLIT) + self.classes().len();
        let taken = |operations: usize| (operations * of_write).min(self.threads * of_session);
        let planned = plan.iter().flatten().map(length_of).sum();
        let warm = self.warm_up.iter().map(length_of).sum();
        let later = taken(planned) + taken(warm);
        let chunks = records + leaves + fences + at_hand + later;
        // Before the first chunk is what the heap says of itself.
        DATA_START as usize + ((1 + chunks) << self.space.chunk_shift)
    }

    /// The classes of the records that the program may make; those of its longest keys' fences may be shorter.
    fn classes(&self) -> BTreeSet<usize> {
        let longest = self.universe.iter().map(Vec::len).max().unwrap_or(0);
        let of_key = |key: &Vec<u8>| value_sizes(key).map(|value| key.len() + value);
        let bodies = self.universe.iter().flat_map(of_key).chain(0..=longest);
        bodies.filter_map(|body| class_of(RECORD_HEADER_SIZE + body)).collect()
    }
}

/// How many writes an operation is at most.
fn length_of(operation: &Operation) -> usize {
    match operation {
        Operation::WriteMany(all) => all.len(),
        _ => 1,
    }
}
