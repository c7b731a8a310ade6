//! Fingerprints and metadata of all leaves, at places that follow from the leaf's number.
//!
//! Addresses are reserved for every block the pool may ever have; memory is taken where it is touched.

use std::alloc::Layout;

use everleaf_alloc::AllocError;
use everleaf_machine::mapping::Mapping;
use everleaf_machine::{FingerprintLine, LINE_SIZE, Machine};

use super::layout::{Cold, LeafId, LeafShape};

/// Memory for `count` times `size` bytes.
struct Area {
    start: *mut u8,
    layout: Layout,
    /// On a simulated machine there is none, and the memory is the machine's.
    mapping: Option<Mapping>,
}

impl Area {
    fn new<M: Machine>(count: usize, size: usize) -> Result<Self, AllocError> {
        let layout = Layout::from_size_align(count * size, LINE_SIZE)
            .map_err(|_| AllocError::OutOfMemory)?;
        if M::SIMULATED {
            let start = M::allocate(layout);
            if start.is_null() {
                return Err(AllocError::OutOfMemory);
            }
            return Ok(Area { start, layout, mapping: None });
        }
        let bytes = layout.size().next_multiple_of(2 << 20);
        let mapping = Mapping::of_memory(bytes, bytes).map_err(|_| AllocError::OutOfMemory)?;
        Ok(Area { start: mapping.base(), layout, mapping: Some(mapping) })
    }

    fn release<M: Machine>(&mut self) {
        if self.mapping.is_none() {
            // SAFETY: allocated with this layout; the slab goes, and with it the tree.
            unsafe { M::deallocate(self.start, self.layout) }
        }
    }
}

/// The volatile half of all leaves of a tree.
pub(super) struct Slab<M: Machine> {
    fingerprints: Area,
    cold: Area,
    count: usize,
    machine: std::marker::PhantomData<M>,
}

// SAFETY: plain memory, all of it atomic words.
unsafe impl<M: Machine> Send for Slab<M> {}
// SAFETY: as above.
unsafe impl<M: Machine> Sync for Slab<M> {}

impl<M: Machine> Slab<M> {
    /// For a pool of at most so many bytes.
    pub fn new<S: LeafShape>(pool_bytes: u64) -> Result<Self, AllocError> {
        let count = pool_bytes.div_ceil(S::BLOCK_BYTES as u64) as usize;
        let fingerprints = Area::new::<M>(count, S::CHUNKS * LINE_SIZE)?;
        let cold = match Area::new::<M>(count, size_of::<Cold<M>>()) {
            Ok(cold) => cold,
            Err(error) => {
                let mut fingerprints = fingerprints;
                fingerprints.release::<M>();
                return Err(error);
            }
        };
        Ok(Slab { fingerprints, cold, count, machine: std::marker::PhantomData })
    }

    /// A line of a leaf's fingerprints.
    #[inline(always)]
    pub fn fingerprints<S: LeafShape>(&self, leaf: LeafId, chunk: usize) -> &FingerprintLine<M> {
        debug_assert!((leaf.0 as usize) < self.count && chunk < S::CHUNKS);
        let place = (leaf.0 as usize * S::CHUNKS + chunk) * LINE_SIZE;
        // SAFETY: leaves have the numbers of blocks of the pool, for all of which there is a place; it
        // is made of atomic bytes, valid whatever they are, and stays as long as the slab.
        unsafe { &*self.fingerprints.start.wrapping_add(place).cast() }
    }

    /// A leaf's metadata.
    #[inline(always)]
    pub fn cold(&self, leaf: LeafId) -> &Cold<M> {
        debug_assert!((leaf.0 as usize) < self.count);
        let place = leaf.0 as usize * size_of::<Cold<M>>();
        // SAFETY: as above; all fields are atomic words.
        unsafe { &*self.cold.start.wrapping_add(place).cast() }
    }
}

impl<M: Machine> Drop for Slab<M> {
    fn drop(&mut self) {
        self.fingerprints.release::<M>();
        self.cold.release::<M>();
    }
}
