//! How much space and memory the structures of a program have.

use std::cell::Cell;

use everleaf_index::{AllocError, IndexError};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::Memory;
use everleaf_pool::Pool;

use crate::machine::backing::{SIZE_MIN, new_pool_up_to};
use crate::machine::hoard::Hands;

/// How much space the tree starts with.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// The largest size of the pool in bytes.
    pub pool_bytes: usize,
    /// Binary logarithm of the size of a chunk.
    pub chunk_shift: u32,
    /// Blocks that each session has at hand at the start.
    pub blocks_at_hand: usize,
    /// How many blocks the pool still has when the threads come, if nearly all are held back.
    pub blocks_left: Option<usize>,
    /// Whether there is no place for a record then either, in chunks that have some.
    pub no_records: bool,
    /// How many each session has at hand then; none: what it has by then.
    pub hands: Option<Hands>,
    /// Whether operations may fail because the pool or the volatile memory is full.
    pub may_fill: bool,
    /// Whether the pool may grow to its largest size before it is opened again.
    pub grows_at_once: bool,
}

/// Space for a run in which a thread stops for ever: enough at hand that nobody waits for the
/// allocator, whose locks are honest locks.
pub const SPACE_AT_HAND: Space = Space {
    pool_bytes: 256 << 10,
    chunk_shift: 12,
    blocks_at_hand: 24,
    blocks_left: None,
    no_records: false,
    hands: None,
    may_fill: false,
    grows_at_once: false,
};

impl Space {
    /// A new pool with so much of it as it begins with.
    ///
    /// # Panics
    /// If the memory is too small for any pool.
    pub fn new_pool(&self, memory: Memory) -> Pool<Simulated> {
        let max = if self.grows_at_once { memory.size() as u64 } else { SIZE_MIN };
        new_pool_up_to(memory, max).expect("new memory becomes a pool")
    }

    /// Whether an operation may answer with this error.
    pub fn may_fail(&self, error: &IndexError) -> bool {
        let no_memory = matches!(error, IndexError::Alloc(AllocError::OutOfMemory));
        self.may_fill && (no_memory || error.is_full())
    }
}

impl Default for Space {
    fn default() -> Self {
        let pool_bytes = SIZE_MIN as usize;
        Space {
            pool_bytes,
            chunk_shift: 12,
            blocks_at_hand: 0,
            blocks_left: None,
            no_records: false,
            hands: None,
            may_fill: false,
            grows_at_once: false,
        }
    }
}

/// What happened in the runs of a program.
#[derive(Debug, Default)]
pub struct Seen {
    /// Operations that found no space.
    pub refused: Cell<u64>,
    /// Pools, of runs and crash images, that were larger than at first.
    pub grown: Cell<u64>,
}
