//! A pool in the memory of the simulated machine.

use everleaf_machine::Simulated;
use everleaf_machine::simulated::{self, Memory, OwnedMemory};

use crate::{Backing, Domain, Pool, PoolError};

/// Memory of the simulated machine, of which the pool has the first part.
pub struct SimulatedBacking {
    memory: Memory,
    length: u64,
    _owner: Option<OwnedMemory>,
}

impl SimulatedBacking {
    /// The first `length` bytes of the memory.
    ///
    /// # Safety
    /// The memory stays in its place as long as the backing lives.
    pub unsafe fn new(memory: Memory, length: u64) -> Self {
        SimulatedBacking { memory, length, _owner: None }
    }
}

// SAFETY: the memory lives as long as its owner, who is kept, or by the promise given to `new`; it
// never moves, all of it can be read and written from the start, and it is reached by its base.
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

/// What the pool calls the domain that the simulated machine plays.
pub fn domain_of(memory: Memory) -> Domain {
    match memory.domain() {
        simulated::Domain::Adr => Domain::Adr,
        simulated::Domain::Eadr => Domain::Eadr,
        simulated::Domain::Process => Domain::Process,
    }
}

impl Pool<Simulated> {
    /// A new pool in memory of the simulated machine, of the smallest size, that may grow to all of
    /// it. The memory must read as zero.
    ///
    /// *Errors:* `PoolFull` if the memory is too small.
    ///
    /// # Example
    /// ```
    /// use everleaf_machine::simulated::counting::{Counting, CountingConfig};
    /// use everleaf_pool::Pool;
    /// let counting = Counting::new(CountingConfig::default(), 1 << 20);
    /// let pool = Pool::new_simulated(counting.owned_memory())?;
    /// assert_eq!(pool.max_size(), 1 << 20);
    /// # Ok::<(), everleaf_pool::PoolError>(())
    /// ```
    pub fn new_simulated(memory: OwnedMemory) -> Result<Self, PoolError> {
        Self::simulated(memory, crate::layout::SIZE_MIN, true)
    }

    /// The pool that memory of the simulated machine holds, as a restart finds it.
    ///
    /// *Errors:* as [`Pool::with_backing`].
    pub fn open_simulated(memory: OwnedMemory) -> Result<Self, PoolError> {
        let length = memory.memory().size() as u64;
        Self::simulated(memory, length, false)
    }

    fn simulated(owner: OwnedMemory, length: u64, is_new: bool) -> Result<Self, PoolError> {
        let memory = owner.memory();
        let backing = SimulatedBacking { memory, length, _owner: Some(owner) };
        let max = memory.size() as u64;
        Self::with_backing(Box::new(backing), domain_of(memory), max, is_new)
    }
}
