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

/// Blocks that a session may have at hand: a split takes two and leaves two, what helps takes one.
const HANDS: [usize; 6] = [0, 1, 1, 2, 4, 5];

/// What is held back.
pub(crate) struct Hoard {
    session: Session<Simulated>,
    chunks: Vec<u64>,
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
        Ok(Hoard { session, chunks, blocks })
    }

    /// As [`Self::take`], but that each session has a few blocks at hand, some of them none and some just one,
    /// as `hands` says: so one finds space where another finds none.
    pub(crate) fn take_but_for(
        heap: &Arc<Heap<Simulated>>,
        left: usize,
        hands: u64,
        sessions: &[RefCell<Option<Session<Simulated>>>],
    ) -> Result<Self, AllocError> {
        for slot in sessions {
            if let Some(session) = &mut *slot.borrow_mut() {
                session.collect_all();
                session.give_back();
            }
        }
        let mut hoard = Self::take(heap, left)?;
        for (number, slot) in sessions.iter().enumerate() {
            let count = HANDS[mix(hands ^ mix(number as u64)) as usize % HANDS.len()];
            for _ in 0..count {
                let place = hoard.blocks.iter().rposition(|(class, _)| *class == 0);
                if let (Some(place), Some(session)) = (place, &mut *slot.borrow_mut()) {
                    let (class, block) = hoard.blocks.swap_remove(place);
                    session.free_block_of(class, block);
                }
            }
        }
        Ok(hoard)
    }

    /// Gives everything back.
    pub(crate) fn give_back(mut self) {
        for chunk in self.chunks {
            self.session.free_record(chunk, CHUNK);
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
