//! Nearly all space of a pool, held back by a session of its own: so operations find none where a number
//! says, in a program of any size.
//!
//! It is taken when the pool has been opened at full speed. What it holds is in no tree: after a crash it
//! is free again.

use std::cell::RefCell;
use std::sync::Arc;

use everleaf_alloc::layout::{BLOCK_CLASS_COUNT, blocks_per_chunk};
use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::mix;

/// A record that has a chunk of its own, where chunks have 4096 bytes.
const CHUNK: usize = 2104;

/// How many blocks of the smallest class each session has at hand, by its number.
pub type Hands = [usize; 4];

/// Blocks that a session may have at hand: a split takes two and leaves two, what helps takes one.
const AT_HAND: [usize; 6] = [0, 1, 1, 2, 4, 5];

/// Blocks at hand by chance: some sessions have none, some just one.
pub(crate) fn draw_hands(random: u64) -> Hands {
    std::array::from_fn(|number| AT_HAND[mix(random ^ mix(number as u64)) as usize % AT_HAND.len()])
}

/// What is held back.
pub(crate) struct Hoard {
    session: Session<Simulated>,
    chunks: Vec<u64>,
    /// With their sizes.
    records: Vec<(usize, u64)>,
    blocks: Vec<(usize, u32)>,
}

impl Hoard {
    /// Takes all free space of a heap but for `left` blocks of the smallest class.
    pub(crate) fn take(heap: &Arc<Heap<Simulated>>, left: usize) -> Result<Self, AllocError> {
        let mut session = heap.session()?;
        let (mut chunks, mut blocks, mut spare) = (vec![], vec![], vec![]);
        for _ in 0..left {
            spare.extend(unless_full(session.allocate_block_of(0))?);
        }
        while let Some(chunk) = unless_full(session.allocate_record(CHUNK))? {
            chunks.push(chunk);
        }
        let fits = |class: &usize| blocks_per_chunk(*class, heap.chunk_shift()) > 1;
        for class in (0..BLOCK_CLASS_COUNT).filter(fits) {
            while let Some(block) = unless_full(session.allocate_block_of(class))? {
                blocks.push((class, block));
            }
        }
        spare.into_iter().for_each(|block| session.free_block_of(0, block));
        session.give_back();
        Ok(Hoard { session, chunks, records: vec![], blocks })
    }

    /// Takes what chunks of records have free, too.
    pub(crate) fn take_records(&mut self) -> Result<(), AllocError> {
        for size in (16..CHUNK).step_by(16) {
            while let Some(record) = unless_full(self.session.allocate_record(size))? {
                self.records.push((size, record));
            }
        }
        Ok(())
    }

    /// As [`Self::take`], but that each session has as many blocks at hand as `hands` says: so one finds space
    /// where another finds none.
    pub(crate) fn take_but_for(
        heap: &Arc<Heap<Simulated>>,
        left: usize,
        hands: Hands,
        sessions: &[RefCell<Option<Session<Simulated>>>],
    ) -> Result<Self, AllocError> {
        for slot in sessions {
            if let Some(session) = &mut *slot.borrow_mut() {
                session.collect_all();
                session.give_back();
            }
        }
        // Before all else is taken: few are left of the chunks that the program has begun.
        let mut finder = heap.session()?;
        let mut promised = vec![];
        for _ in 0..hands.iter().take(sessions.len()).sum() {
            promised.extend(unless_full(finder.allocate_block_of(0))?);
        }
        drop(finder);
        let mut hoard = Self::take(heap, left)?;
        for (slot, count) in sessions.iter().zip(hands) {
            if let Some(session) = &mut *slot.borrow_mut() {
                let first = promised.len().saturating_sub(count);
                promised.drain(first..).for_each(|block| session.free_block_of(0, block));
            }
        }
        promised.into_iter().for_each(|block| hoard.session.free_block_of(0, block));
        Ok(hoard)
    }

    /// Gives everything back.
    pub(crate) fn give_back(mut self) {
        for chunk in self.chunks {
            self.session.free_record(chunk, CHUNK);
        }
        for (size, record) in self.records {
            self.session.free_record(record, size);
        }
        for (class, block) in self.blocks {
            self.session.free_block_of(class, block);
        }
    }
}

/// What was allocated, or nothing if there is no space.
fn unless_full<T>(result: Result<T, AllocError>) -> Result<Option<T>, AllocError> {
    match result {
        Err(error) if error.is_full() => Ok(None),
        result => result.map(Some),
    }
}
