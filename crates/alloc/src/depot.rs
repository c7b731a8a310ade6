//! The layer between the sessions' private lists and the chunks: free blocks and records in bulk.

use everleaf_machine::Machine;
use everleaf_pool::Pool;

use crate::bag::Bag;
use crate::layout::{
    BLOCK_CLASS_COUNT, BLOCK_SIZE, CHUNK_HEADER_SIZE, block_size, blocks_of_chunk, blocks_per_chunk,
};
use crate::node::NodeArena;
use crate::size_class::{CLASS_COUNT, class_size, slots_per_chunk};
use crate::space::Space;

/// Free blocks and records that belong to no session, and what ended sessions left.
pub struct Depot {
    /// Free leaf blocks by class, as block numbers.
    pub blocks: [Vec<u32>; BLOCK_CLASS_COUNT],
    /// Free records by class, as offsets in the pool.
    pub records: Vec<Vec<u64>>,
    /// Retired things of ended sessions.
    pub(crate) orphans: Vec<Bag>,
    /// Node memory of ended sessions.
    pub arena: NodeArena,
}

impl Default for Depot {
    fn default() -> Self {
        Depot {
            blocks: Default::default(),
            records: vec![vec![]; CLASS_COUNT],
            orphans: vec![],
            arena: NodeArena::default(),
        }
    }
}

impl Depot {
    /// Adds the blocks of `class` that a new chunk has.
    pub fn add_block_chunk(&mut self, chunk: u64, shift: u32, class: usize) {
        // Highest first, so that they are handed out in ascending order.
        self.blocks[class].extend(blocks_of_chunk(class, chunk, shift).rev());
    }

    /// Adds the records of `class` that a new chunk has.
    pub fn add_record_chunk(&mut self, chunk: u64, shift: u32, class: usize) {
        let first = (chunk << shift) + CHUNK_HEADER_SIZE as u64;
        let size = class_size(class) as u64;
        let count = slots_per_chunk(class, 1 << shift) as u64;
        self.records[class].extend((0..count).rev().map(|slot| first + slot * size));
    }

    /// Bytes of its free blocks and records.
    pub fn free_bytes(&self) -> u64 {
        let block_bytes = |(class, list): (usize, &Vec<u32>)| list.len() * block_size(class);
        let blocks: usize = self.blocks.iter().enumerate().map(block_bytes).sum();
        let bytes = |(class, list): (usize, &Vec<u64>)| list.len() * class_size(class);
        (blocks + self.records.iter().enumerate().map(bytes).sum::<usize>()) as u64
    }

    /// Gives chunks of which everything is free back to `space`. Returns how many.
    pub fn release_empty_chunks<M: Machine>(
        &mut self,
        pool: &Pool<M>,
        space: &mut Space,
        shift: u32,
    ) -> usize {
        let mut released = vec![];
        for (class, list) in self.blocks.iter_mut().enumerate() {
            let chunks = list.iter().map(|block| chunk_of_block(*block, shift));
            // A class that does not fit has no blocks.
            let per_chunk = blocks_per_chunk(class, shift).max(2) - 1;
            let full = per_chunk - usize::from(M::mutant("alloc.releases_used_block_chunk"));
            let empty = empty_chunks(chunks, full);
            list.retain(|block| empty.binary_search(&chunk_of_block(*block, shift)).is_err());
            released.extend(empty);
        }
        for (class, list) in self.records.iter_mut().enumerate() {
            let slots = slots_per_chunk(class, 1 << shift);
            let full = slots - usize::from(M::mutant("alloc.releases_used_chunk"));
            let empty = empty_chunks(list.iter().map(|offset| offset >> shift), full);
            if !M::mutant("alloc.releases_and_keeps") {
                list.retain(|offset| empty.binary_search(&(offset >> shift)).is_err());
            }
            released.extend(empty);
        }
        for chunk in &released {
            space.give_back(pool, *chunk, 1);
        }
        released.len()
    }
}

fn chunk_of_block(block: u32, shift: u32) -> u64 {
    (u64::from(block) * BLOCK_SIZE as u64) >> shift
}

/// The chunks that occur `full` times, in ascending order.
fn empty_chunks(chunks: impl Iterator<Item = u64>, full: usize) -> Vec<u64> {
    let mut counts: Vec<u32> = vec![];
    for chunk in chunks {
        let chunk = chunk as usize;
        if chunk >= counts.len() {
            counts.resize(chunk + 1, 0);
        }
        counts[chunk] += 1;
    }
    let is_full = |(_, count): &(usize, u32)| *count as usize == full;
    counts.into_iter().enumerate().filter(is_full).map(|(chunk, _)| chunk as u64).collect()
}
