//! What sessions ask of the heap when their own lists are empty: chunks for a class, and those of large records.

use everleaf_machine::Machine;

use crate::error::AllocError;
use crate::heap::Heap;
use crate::layout::{CHUNK_HEADER_SIZE, ChunkHeader, ChunkKind, blocks_per_chunk};
use crate::size_class::{class_of, slots_per_chunk};

impl<M: Machine> Heap<M> {
    /// The size class of a record of `size` bytes; `None` if it owns chunks.
    pub(crate) fn class_for(&self, size: usize) -> Option<usize> {
        class_of(size).filter(|class| slots_per_chunk(*class, self.chunk_size()) >= 2)
    }

    /// Whether the record at `offset` can have this size, by its chunk's header: a wrong length must
    /// not free what belongs to others.
    pub(crate) fn is_place_of(&self, offset: u64, size: usize) -> bool {
        let start = offset >> self.chunk_shift() << self.chunk_shift();
        let header = ChunkHeader::decode(self.pool().word(start).read_private());
        header.is_some_and(|header| match (header.kind, self.class_for(size)) {
            (ChunkKind::Records, Some(class)) => usize::from(header.class) == class,
            (ChunkKind::Large, None) => u64::from(header.run) == self.large_run(size),
            _ => false,
        })
    }

    pub(crate) fn add_block_chunk(&self, class: usize) -> Result<(), AllocError> {
        let shift = self.chunk_shift();
        assert!(blocks_per_chunk(class, shift) > 1, "blocks of class {class} do not fit a chunk");
        // The pool may grow for the chunk, and wait for the disk: without the depot's lock, which threads spin for
        // that want or give back what is in memory. The lock of the space is kept until the chunk is in a list,
        // because an audit that has both would find it in none.
        let mut space = self.space.lock();
        if !self.depot.lock().blocks[class].is_empty() {
            // Another session's chunk, for which we have waited.
            return Ok(());
        }
        let header = ChunkHeader::single(ChunkKind::Leaves, class as u8);
        let chunk = space.take(self.pool(), header)?;
        self.depot.lock().add_block_chunk(chunk, shift, class);
        Ok(())
    }

    pub(crate) fn add_record_chunk(&self, class: usize) -> Result<(), AllocError> {
        // As in `add_block_chunk`.
        let mut space = self.space.lock();
        if !self.depot.lock().records[class].is_empty() {
            return Ok(());
        }
        let header = ChunkHeader::single(ChunkKind::Records, class as u8);
        let chunk = space.take(self.pool(), header)?;
        self.depot.lock().add_record_chunk(chunk, self.chunk_shift(), class);
        Ok(())
    }

    /// Gives chunks in which everything is free back to the free runs. Returns how many.
    pub fn release_empty_chunks(&self) -> usize {
        let mut space = self.space.lock();
        let mut depot = self.depot.lock();
        depot.release_empty_chunks(self.pool(), &mut space, self.chunk_shift())
    }

    pub(crate) fn large_run(&self, size: usize) -> u64 {
        (size + CHUNK_HEADER_SIZE).div_ceil(self.chunk_size()) as u64
    }

    pub(crate) fn allocate_large(&self, size: usize) -> Result<u64, AllocError> {
        let run = self.large_run(size) as u32;
        let header = ChunkHeader { kind: ChunkKind::Large, class: 0, run };
        let chunk = self.space.lock().take(self.pool(), header)?;
        let offset = (chunk << self.chunk_shift()) + CHUNK_HEADER_SIZE as u64;
        M::lifetime(self.base().wrapping_add(offset as usize), size, true);
        Ok(offset)
    }

    pub(crate) fn free_large(&self, offset: u64, size: usize) {
        M::lifetime(self.base().wrapping_add(offset as usize), size, false);
        let chunk = offset >> self.chunk_shift();
        let less = u64::from(M::mutant("alloc.large_run_short"));
        let run = self.large_run(size);
        self.space.lock().give_back(self.pool(), chunk, (run - less).max(1));
    }
}
