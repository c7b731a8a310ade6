//! Pools on the memory of the simulated machine.

use everleaf_machine::Simulated;
use everleaf_machine::simulated::{Domain, Memory};
use everleaf_pool::{Backing, Pool, PoolError};

/// The smallest pool, in bytes.
pub const SIZE_MIN: u64 = everleaf_pool::layout::SIZE_MIN;

/// The memory of the simulated machine, of which a new pool gets the first part.
struct SimulatedBacking {
    memory: Memory,
    length: u64,
}

// SAFETY: the backing owns its memory as long as it lives: the runner keeps it in its place, longer
// than any pool on it, and all of it is readable and writable from the start.
unsafe impl Backing for SimulatedBacking {
    fn base(&self) -> *mut u8 {
        self.memory.base()
    }
    fn size(&self) -> u64 {
        self.length
    }
    fn capacity(&self) -> u64 {
        self.memory.size() as u64
    }
    fn extend(&self, _old: u64, new: u64) -> Result<(), PoolError> {
        assert!(new <= self.capacity(), "the pool grows beyond its backing");
        Ok(())
    }
}

fn domain_of(memory: Memory) -> everleaf_pool::Domain {
    match memory.domain() {
        Domain::Line => everleaf_pool::Domain::Line,
        Domain::Visible => everleaf_pool::Domain::Visible,
        Domain::Process => everleaf_pool::Domain::Process,
    }
}

/// A new pool of the smallest size, which it keeps until it is opened again.
///
/// # Errors
/// The memory is too small.
pub fn new_pool(memory: Memory) -> Result<Pool<Simulated>, PoolError> {
    new_pool_up_to(memory, SIZE_MIN)
}

/// A new pool of the smallest size that may grow to `max` bytes.
///
/// # Errors
/// The memory is too small.
pub fn new_pool_up_to(memory: Memory, max: u64) -> Result<Pool<Simulated>, PoolError> {
    let backing = Box::new(SimulatedBacking { memory, length: SIZE_MIN });
    Pool::with_backing(backing, domain_of(memory), max, true)
}

/// The pool that `memory` holds, which may grow to all of it.
///
/// # Errors
/// Damage.
pub fn open_pool(memory: Memory) -> Result<Pool<Simulated>, PoolError> {
    open_pool_up_to(memory, memory.size() as u64)
}

/// The pool that `memory` holds, which may grow to `max` bytes, or as far as before if that is more.
///
/// # Errors
/// Damage.
pub fn open_pool_up_to(memory: Memory, max: u64) -> Result<Pool<Simulated>, PoolError> {
    let backing = Box::new(SimulatedBacking { memory, length: memory.size() as u64 });
    Pool::with_backing(backing, domain_of(memory), max, false)
}
