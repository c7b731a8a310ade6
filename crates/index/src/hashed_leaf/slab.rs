//! Fingerprints, metadata and orders of all leaves that share a slab, at places that follow from the leaf's
//! number. The trees of a pool have one together; one of the catalogue of designs has a slab of its own.
//!
//! ```text
//!   segments      | * | 0 | * | 0 | ..       a pointer for every 8192 leaves that the pool may ever have
//!                   |
//!   segment       | fingerprints, 64 bytes a line | metadata, 64 | orders, 320 |   of 8192 leaves
//! ```
//!
//! Leaves are blocks of the pool, which other trees share: many of the numbers are those of others. So a
//! segment is allocated when the first leaf in it is built, and stays as long as the slab: also when the leaf
//! goes, and its tree, since the next leaf of the number needs it again.

use std::alloc::Layout;
use std::marker::PhantomData;

use everleaf_alloc::AllocError;
use everleaf_alloc::layout::POOL_SIZE_MAX;
use everleaf_machine::{AtomicPointer, FingerprintLine, LINE_SIZE, Machine, Ordering};

use super::layout::{Cold, LeafId, LeafShape, OrderPlace};

/// Binary logarithm of the leaves of a segment, where the pool is so large. On a simulated machine small, so that
/// trees of a few leaves have several.
const fn segment_shift<M: Machine>() -> u32 {
    if M::SIMULATED { 2 } else { 13 }
}
/// Alignment and least size of segments that get huge pages.
const HUGE_PAGE_SIZE: usize = 2 << 20;

/// The volatile half of all leaves, of shape `S`, of a tree or of several.
pub(crate) struct Slab<S: LeafShape, M: Machine> {
    /// Null until a leaf needs it.
    segments: Vec<AtomicPointer<u8, M>>,
    /// Of each segment.
    layout: Layout,
    /// Where the metadata begin in a segment.
    cold_start: usize,
    /// Where the orders begin: their memory is touched when a leaf is scanned.
    order_start: usize,
    /// Whether segments are zero at first (HL10).
    is_zeroed: bool,
    shape: PhantomData<S>,
}

// SAFETY: the segments are plain memory, all of it atomic words.
unsafe impl<S: LeafShape, M: Machine> Send for Slab<S, M> {}
// SAFETY: as for `Send`.
unsafe impl<S: LeafShape, M: Machine> Sync for Slab<S, M> {}

impl<S: LeafShape, M: Machine> Slab<S, M> {
    const SEGMENT_SHIFT: u32 = segment_shift::<M>();

    /// For a pool of at most so many bytes.
    pub fn new(pool_bytes: u64) -> Result<Self, AllocError> {
        let leaves = pool_bytes.min(POOL_SIZE_MAX).div_ceil(S::BLOCK_BYTES as u64) as usize;
        let in_segment = leaves.min(1 << Self::SEGMENT_SHIFT);
        let cold_start = in_segment * S::CHUNKS * LINE_SIZE;
        let order_start = cold_start + in_segment * size_of::<Cold<M>>();
        let size = order_start + in_segment * size_of::<OrderPlace<M>>();
        let align = if size >= HUGE_PAGE_SIZE { HUGE_PAGE_SIZE } else { LINE_SIZE };
        let layout = Layout::from_size_align(size, align).map_err(|_| AllocError::OutOfMemory)?;
        let count = leaves.div_ceil(1 << Self::SEGMENT_SHIFT);
        let mut segments = Vec::new();
        segments.try_reserve_exact(count).map_err(|_| AllocError::OutOfMemory)?;
        segments.extend((0..count).map(|_| AtomicPointer::new(std::ptr::null_mut())));
        let (is_zeroed, shape) = (false, PhantomData);
        Ok(Slab { segments, layout, cold_start, order_start, is_zeroed, shape })
    }

    /// As [`Self::new`], for a tree whose leaves are restored later: what was not stored to is zero (HL10).
    pub fn zeroed(pool_bytes: u64) -> Result<Self, AllocError> {
        let mut slab = Self::new(pool_bytes)?;
        slab.is_zeroed = true;
        Ok(slab)
    }

    /// Bytes that lead to the segments.
    pub fn directory_size(&self) -> usize {
        std::mem::size_of_val(&self.segments[..])
    }

    /// Makes sure that there is memory for a leaf that is about to be built. Unless all was zeroed, its bytes mean
    /// nothing yet.
    pub fn prepare(&self, leaf: LeafId) -> Result<(), AllocError> {
        let segment = &self.segments[leaf.number as usize >> Self::SEGMENT_SHIFT];
        // Acquire: the memory is there; pairs with the exchange below.
        if !segment.load(Ordering::Acquire).is_null() {
            return Ok(());
        }
        let allocate = if self.is_zeroed { M::allocate_zeroed } else { M::allocate };
        let memory = allocate(self.layout);
        if memory.is_null() {
            return Err(AllocError::OutOfMemory);
        }
        let null = std::ptr::null_mut();
        // Release: hands on the memory; pairs with the load above. A thread that finds a leaf in the tree comes
        // behind the thread that prepared and published it. Acquire on failure: the other's memory is used by the
        // caller, without a further look; pairs with the release of the exchange that came first.
        if segment.compare_exchange(null, memory, Ordering::Release, Ordering::Acquire).is_err() {
            // SAFETY: allocated above with this layout, and seen by nobody.
            unsafe { M::deallocate(memory, self.layout) }
        }
        Ok(())
    }

    /// The segment of a leaf that was prepared, and its place there.
    #[inline(always)]
    fn place(&self, leaf: LeafId) -> (*mut u8, usize) {
        // Not changed any more since the leaf was prepared, and the caller comes behind that.
        let segment = self.segments[leaf.number as usize >> Self::SEGMENT_SHIFT].read_private();
        debug_assert!(!segment.is_null(), "leaf {} was prepared", leaf.number);
        (segment, leaf.number as usize & ((1 << Self::SEGMENT_SHIFT) - 1))
    }

    /// A line of a leaf's fingerprints.
    #[inline(always)]
    pub fn fingerprints(&self, leaf: LeafId, chunk: usize) -> &FingerprintLine<M> {
        debug_assert!(chunk < S::CHUNKS);
        let (segment, at) = self.place(leaf);
        let place = (at * S::CHUNKS + chunk) * LINE_SIZE;
        // SAFETY: within the segment, which has a place for each of its leaves and stays as long as the
        // slab; the line is made of atomic bytes, valid whatever they are.
        unsafe { &*segment.wrapping_add(place).cast() }
    }

    /// A leaf's metadata.
    #[inline(always)]
    pub fn cold(&self, leaf: LeafId) -> &Cold<M> {
        let (segment, at) = self.place(leaf);
        let place = self.cold_start + at * size_of::<Cold<M>>();
        // SAFETY: within the segment, as in `fingerprints`; all fields are atomic words.
        unsafe { &*segment.wrapping_add(place).cast() }
    }

    /// The place of a leaf's order.
    #[inline(always)]
    pub fn order(&self, leaf: LeafId) -> &OrderPlace<M> {
        let (segment, at) = self.place(leaf);
        let place = self.order_start + at * size_of::<OrderPlace<M>>();
        // SAFETY: within the segment, as in `fingerprints`.
        unsafe { &*segment.wrapping_add(place).cast() }
    }
}

impl<S: LeafShape, M: Machine> Drop for Slab<S, M> {
    fn drop(&mut self) {
        for segment in &self.segments {
            let memory = segment.read_private();
            if !memory.is_null() {
                // SAFETY: allocated with this layout; the slab goes, and so all trees that had it are gone.
                unsafe { M::deallocate(memory, self.layout) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::placement::Placement;
    use super::*;
    use crate::geometry::Production;
    use everleaf_machine::Hardware;

    fn of(number: u32) -> LeafId {
        LeafId { number, placement: Placement::HASHED }
    }

    /// Each tree reserved addresses for all leaves that the pool may ever have: for a pool that may grow
    /// to 64 TiB that is 5 TiB, and a few dozen trees had used up what a process can address.
    #[test]
    fn many_trees_of_a_pool_without_bounds_have_room() {
        let slab = || Slab::<Production, Hardware>::new(64 << 40).expect("room");
        let slabs: Vec<_> = (0..100).map(|_| slab()).collect();
        for (number, slab) in slabs.iter().enumerate() {
            let leaf = of(1_000_000 * number as u32);
            slab.prepare(leaf).expect("room");
            slab.prepare(leaf).expect("it is there");
            slab.cold(leaf).low.write_private(number as u64);
            slab.fingerprints(leaf, 0).write_private(5, 7);
        }
        for (number, slab) in slabs.iter().enumerate() {
            assert_eq!(slab.cold(of(1_000_000 * number as u32)).low.read_private(), number as u64);
            let prepared = slab.segments.iter().filter(|one| !one.read_private().is_null()).count();
            assert_eq!(prepared, 1);
        }
    }

    #[test]
    fn leaves_on_both_sides_of_a_segment_have_places_of_their_own() {
        let slab = Slab::<Production, Hardware>::new(1 << 30).expect("room");
        let leaves = [
            0,
            1,
            (1 << segment_shift::<Hardware>()) - 1,
            1 << segment_shift::<Hardware>(),
            (1 << 18) - 1,
        ];
        for leaf in leaves.map(of) {
            slab.prepare(leaf).expect("room");
            slab.cold(leaf).high.write_private(u64::from(leaf.number));
        }
        for leaf in leaves {
            assert_eq!(slab.cold(of(leaf)).high.read_private(), u64::from(leaf));
        }
    }
}
