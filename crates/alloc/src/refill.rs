//! What a session does when its lists are empty: it takes from the depot, or has a chunk added to that. Where there is
//! none, it reclaims what it can, and gives all that it has free itself to the depot: what one session has freed must
//! not keep it from taking the chunk for something else.

use everleaf_machine::Machine;

use crate::error::AllocError;
use crate::heap::Heap;
use crate::session::Session;

/// Blocks or records moved from the depot at once.
const BATCH: usize = 32;

impl<M: Machine> Session<M> {
    /// Adds at least one block to the session's list.
    pub(crate) fn refill_blocks(&mut self, class: usize) -> Result<(), AllocError> {
        let heap = self.heap().clone();
        let before = self.blocks[class].len();
        // Round again while other threads empty the depot before we get there.
        while !self.take_blocks(&heap, class) {
            match heap.add_block_chunk(class) {
                Err(error) if error.lacks_space() => {
                    self.collect_all();
                    if self.blocks[class].len() > before || self.take_blocks(&heap, class) {
                        break;
                    }
                    self.release_chunks(Some(class));
                    heap.add_block_chunk(class).map_err(|_| error)?;
                }
                result => result?,
            }
        }
        Ok(())
    }

    fn take_blocks(&mut self, heap: &Heap<M>, class: usize) -> bool {
        let mut depot = heap.depot.lock();
        let keep = depot.blocks[class].len().saturating_sub(BATCH);
        let moved = depot.blocks[class].len() - keep;
        self.blocks[class].extend(depot.blocks[class].drain(keep..));
        moved > 0
    }

    /// Adds at least one record to the session's list, which is empty.
    pub(crate) fn refill_records(&mut self, class: usize) -> Result<(), AllocError> {
        let heap = self.heap().clone();
        while !self.take_records(&heap, class) {
            match heap.add_record_chunk(class) {
                Err(error) if error.lacks_space() => {
                    self.collect_all();
                    if !self.records[class].is_empty() || self.take_records(&heap, class) {
                        break;
                    }
                    self.release_chunks(None);
                    heap.add_record_chunk(class).map_err(|_| error)?;
                }
                result => result?,
            }
        }
        Ok(())
    }

    fn take_records(&mut self, heap: &Heap<M>, class: usize) -> bool {
        let mut depot = heap.depot.lock();
        let list = &mut depot.records[class];
        let keep = list.len().saturating_sub(BATCH);
        self.records[class].extend(list.drain(keep..));
        !self.records[class].is_empty()
    }

    pub(crate) fn allocate_large(&mut self, size: usize) -> Result<u64, AllocError> {
        match self.heap().allocate_large(size) {
            Err(error) if error.lacks_space() => {
                self.collect_all();
                self.release_chunks(None);
                self.heap().allocate_large(size).map_err(|_| error)
            }
            result => result,
        }
    }

    /// Gives the depot what the session has free, but for promised blocks and those of the class that is `wanted`, and
    /// then the heap all chunks that are empty.
    fn release_chunks(&mut self, wanted: Option<usize>) {
        let heap = self.heap().clone();
        let mut depot = heap.depot.lock();
        for (class, mine) in self.blocks.iter_mut().enumerate() {
            if wanted != Some(class) {
                let all = M::mutant("session.gives_promised");
                let promised = if all { 0 } else { self.promised[class] };
                let spare = mine.len().saturating_sub(promised);
                depot.blocks[class].extend(mine.drain(..spare));
            }
        }
        for (theirs, mine) in depot.records.iter_mut().zip(&mut self.records) {
            theirs.append(mine);
        }
        drop(depot);
        heap.release_empty_chunks();
    }
}
