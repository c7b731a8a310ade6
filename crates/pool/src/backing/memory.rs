//! A pool in plain memory.

use everleaf_machine::mapping::Mapping;

use crate::layout::{SIZE_GRANULE, SIZE_MIN};
use crate::{Backing, Environment, PoolError};

/// Zeroed memory of this process.
pub struct MemoryBacking {
    mapping: Mapping,
    capacity: u64,
    environment: Environment,
}

impl MemoryBacking {
    /// Memory of `size` bytes that can grow to `max`; see [`crate::Pool::in_memory`].
    pub fn new(size: u64, max: u64) -> Result<Self, PoolError> {
        let error =
            |source| PoolError::AddressSpace { path: "(memory)".into(), reserved: max, source };
        let whole = |bytes: u64| {
            let size = bytes.max(SIZE_MIN).checked_next_multiple_of(SIZE_GRANULE);
            size.ok_or_else(|| error(std::io::ErrorKind::InvalidInput.into()))
        };
        let size = whole(size)?;
        let capacity = whole(max)?.max(size);
        let mapping = Mapping::of_memory(size as usize, capacity as usize).map_err(error)?;
        Ok(MemoryBacking { mapping, capacity, environment: Environment::of_memory() })
    }
}

// SAFETY: the mapping never moves, reserves the capacity and maps the size, and is reached through
// its base only.
unsafe impl Backing for MemoryBacking {
    fn base(&self) -> *mut u8 {
        self.mapping.base()
    }

    fn size(&self) -> u64 {
        self.mapping.length() as u64
    }

    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn extend(&self, _old: u64, new: u64) -> Result<(), PoolError> {
        self.mapping.extend(new as usize).map_err(|source| PoolError::DiskFull {
            path: "(memory)".into(),
            needed: new,
            source,
        })
    }

    fn environment(&self) -> Environment {
        self.environment
    }
}
