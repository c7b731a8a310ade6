//! Pools on the memory of the simulated machine.

use everleaf_machine::Simulated;
use everleaf_machine::simulated::Memory;
use everleaf_pool::{PagesLeft, Pool, PoolError, SimulatedBacking, domain_of};

/// The smallest pool, in bytes.
pub const SIZE_MIN: u64 = everleaf_pool::layout::SIZE_MIN;

/// The first `length` bytes of the memory as a backing.
fn backing(memory: Memory, length: u64) -> Box<SimulatedBacking> {
    // SAFETY: the runner keeps the memory in its place, longer than any pool on it.
    Box::new(unsafe { SimulatedBacking::new(memory, length) })
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
    Pool::with_backing(backing(memory, SIZE_MIN), domain_of(memory), max, true)
}

/// The pool that `memory` holds, which may grow to all of it.
///
/// # Errors
/// Damage.
pub fn open_pool(memory: Memory) -> Result<Pool<Simulated>, PoolError> {
    open_pool_up_to(memory, memory.size() as u64)
}

/// The pool that `memory` holds, on a file that can return its space, of which no free page has any, and a disk that
/// has so many pages. A store needs the space of `unit` bytes around it.
///
/// # Errors
/// Damage.
pub fn open_sparse_pool(
    memory: Memory,
    unit: u64,
    pages: &PagesLeft,
) -> Result<Pool<Simulated>, PoolError> {
    let length = memory.size() as u64;
    let sparse = backing(memory, length).sparse().in_units_of(unit).with_pages(pages);
    Pool::with_backing(Box::new(sparse), domain_of(memory), length, false)
}

/// The pool that `memory` holds, on a file that can return its space, and has all of it but in these holes, and a disk
/// that has so many pages when some are wanted again. A store needs the space of `unit` bytes around it.
///
/// # Errors
/// Damage.
pub fn open_returning_pool(
    memory: Memory,
    unit: u64,
    holes: &[(u64, u64)],
    pages: &PagesLeft,
) -> Result<Pool<Simulated>, PoolError> {
    let length = memory.size() as u64;
    let returning = backing(memory, length).returning().in_units_of(unit);
    let returning = returning.with_holes(holes).with_pages(pages);
    Pool::with_backing(Box::new(returning), domain_of(memory), length, false)
}

/// The pool that `memory` holds, which may grow to `max` bytes, or as far as before if that is more.
///
/// # Errors
/// Damage.
pub fn open_pool_up_to(memory: Memory, max: u64) -> Result<Pool<Simulated>, PoolError> {
    Pool::with_backing(backing(memory, memory.size() as u64), domain_of(memory), max, false)
}

/// The pool that `memory` holds, for reading only.
///
/// # Errors
/// Damage.
pub fn read_pool(memory: Memory) -> Result<Pool<Simulated>, PoolError> {
    let length = memory.size() as u64;
    let reading = backing(memory, length).reading();
    Pool::with_backing(Box::new(reading), domain_of(memory), length, false)
}

/// The same, on a file of which no free page has any space.
///
/// # Errors
/// Damage.
pub fn read_sparse_pool(memory: Memory) -> Result<Pool<Simulated>, PoolError> {
    let length = memory.size() as u64;
    let reading = backing(memory, length).sparse().reading();
    Pool::with_backing(Box::new(reading), domain_of(memory), length, false)
}

/// As [`open_pool_up_to`], on a disk that has no space for more than the first `end` bytes.
///
/// # Errors
/// Damage.
pub fn open_pool_on_disk_of(
    memory: Memory,
    max: u64,
    end: u64,
) -> Result<Pool<Simulated>, PoolError> {
    let backing = backing(memory, memory.size() as u64).on_disk_of(end);
    Pool::with_backing(Box::new(backing), domain_of(memory), max, false)
}
