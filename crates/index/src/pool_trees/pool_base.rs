//! Where the records of a pool are.

use everleaf_alloc::Heap;
use everleaf_machine::Machine;
use everleaf_pool::Pool;

/// The first byte of a pool, and how far its records can reach. A copy is used only while the heap
/// it came from is open.
pub struct PoolBase<M: Machine> {
    start: *mut u8,
    pool: *const Pool<M>,
}

impl<M: Machine> Clone for PoolBase<M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for PoolBase<M> {}

impl<M: Machine> PoolBase<M> {
    /// The base of a heap's pool.
    #[inline(always)]
    pub fn of(heap: &Heap<M>) -> Self {
        PoolBase { start: heap.base(), pool: heap.pool() }
    }

    /// The address of offset 0.
    #[inline(always)]
    pub fn start(self) -> *mut u8 {
        self.start
    }

    /// Whether `size` bytes from `offset` on lie in the pool. Lengths read from a damaged pool may
    /// say otherwise. (Where a simulated machine takes every step it checks every access itself.)
    #[inline(always)]
    pub fn holds(self, offset: u64, size: usize) -> bool {
        // SAFETY: the heap, and with it the pool, is open as long as the value is used.
        let size_now = || unsafe { &*self.pool }.size();
        M::is_stepped() || offset.checked_add(size as u64).is_some_and(|end| end <= size_now())
    }
}
