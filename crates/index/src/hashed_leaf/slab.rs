//! Fingerprints, metadata and orders of all leaves that share a slab, at places that follow from the leaf's
//! number. The trees of a pool have one together; one of the catalogue of designs has a slab of its own.
//!
//! ```text
//!   segments      | * | 0 | * | 0 | ..       a pointer for every 8192 leaves that the pool may ever have
//!                   |
//!   segment       | fingerprints, 64 bytes a line | metadata, 64 | orders, 320 | use |   of 8192 leaves
//! ```
//!
//! Leaves are blocks of the pool, which other trees share: many of the numbers are those of others. So a
//! segment is allocated when the first leaf in it is built, and stays as long as the slab: also when the leaf
//! goes, and its tree, since the next leaf of the number needs it again.
//!
//! With huge pages the first leaf would make most of a segment resident. So a segment begins with small ones, notes
//! which of those that have fingerprints were used, and gets huge pages when half of them were; then segments that come
//! later have them from the first leaf on. Of a small tree, and of leaves that all lie far from each other, only what
//! they use takes memory.

use std::alloc::Layout;
use std::marker::PhantomData;

use everleaf_alloc::AllocError;
use everleaf_alloc::layout::POOL_SIZE_MAX;
use everleaf_machine::{Atomic, AtomicPointer, FingerprintLine, LINE_SIZE, Machine, Ordering};

use super::layout::{Cold, LeafId, LeafShape, OrderPlace};

/// Binary logarithm of the leaves of a segment, where the pool is so large. On a simulated machine small, so that
/// trees of a few leaves have several.
const fn segment_shift<M: Machine>() -> u32 {
    if M::SIMULATED { 2 } else { 13 }
}
/// Alignment and least size of segments that get huge pages.
const HUGE_PAGE_SIZE: usize = 2 << 20;
/// Bytes of a small page: its size where it is least.
const PAGE_SIZE: usize = 4 << 10;

/// How much of a segment was used.
#[repr(C, align(64))]
struct Use<M: Machine> {
    /// A bit for each page of fingerprints: whether a leaf has some there.
    pages: [Atomic<u64, M>; 8],
    /// Whether the segment has huge pages, or was to get them.
    is_joined: Atomic<u64, M>,
}

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
    /// Where a segment's [`Use`] is; none if segments are too small for huge pages.
    use_start: Option<usize>,
    /// Whether a segment has become dense.
    is_dense: Atomic<u64, M>,
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
        let end = order_start + in_segment * size_of::<OrderPlace<M>>();
        let use_start = (end >= HUGE_PAGE_SIZE).then_some(end);
        let (size, align) = match use_start {
            Some(end) => (end + size_of::<Use<M>>(), HUGE_PAGE_SIZE),
            None => (end, LINE_SIZE),
        };
        let layout = Layout::from_size_align(size, align).map_err(|_| AllocError::OutOfMemory)?;
        let count = leaves.div_ceil(1 << Self::SEGMENT_SHIFT);
        let mut segments = Vec::new();
        segments.try_reserve_exact(count).map_err(|_| AllocError::OutOfMemory)?;
        segments.extend((0..count).map(|_| AtomicPointer::new(std::ptr::null_mut())));
        Ok(Slab {
            segments,
            layout,
            cold_start,
            order_start,
            use_start,
            is_dense: Atomic::new(0),
            is_zeroed: false,
            shape: PhantomData,
        })
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
        // Acquire: the memory is there; pairs with the exchange in `add_segment`.
        match segment.load(Ordering::Acquire).is_null() {
            true => self.add_segment(segment),
            false => Ok(()),
        }
    }

    /// Memory for a segment that has none yet: ours, or another thread's that was faster.
    #[cold]
    fn add_segment(&self, segment: &AtomicPointer<u8, M>) -> Result<(), AllocError> {
        // Relaxed: a hint.
        let is_dense = self.is_dense.load(Ordering::Relaxed) != 0;
        let allocate = match self.use_start {
            Some(_) if !is_dense => M::allocate_sparse,
            // Nothing of it was used.
            Some(_) => M::allocate_zeroed,
            None if self.is_zeroed => M::allocate_zeroed,
            None => M::allocate,
        };
        let memory = allocate(self.layout);
        if memory.is_null() {
            return Err(AllocError::OutOfMemory);
        }
        if let Some(used) = self.use_of(memory).filter(|_| is_dense) {
            used.is_joined.write_private(1);
        }
        let null = std::ptr::null_mut();
        // Release: hands on the memory; pairs with the load in `prepare`. A thread that finds a leaf in the tree comes
        // behind the thread that prepared and published it. Acquire on failure: the other's memory is used by the
        // caller, without a further look; pairs with the release of the exchange that came first.
        if segment.compare_exchange(null, memory, Ordering::Release, Ordering::Acquire).is_err() {
            // SAFETY: allocated above with this layout, and seen by nobody.
            unsafe { M::deallocate(memory, self.layout) }
        }
        Ok(())
    }

    /// Notes that a leaf that was prepared has fingerprints. When half of the pages of its segment have some, they are
    /// joined. Only how memory is laid out depends on it, not what is in it.
    #[inline]
    pub fn note_use(&self, leaf: LeafId) {
        let (segment, at) = self.place(leaf);
        let Some(used) = self.use_of(segment) else { return };
        let page = at * S::CHUNKS * LINE_SIZE / PAGE_SIZE;
        let (word, bit) = (&used.pages[page / 64 % used.pages.len()], 1 << (page % 64));
        // Relaxed: a hint; which thread is the first does not matter.
        if word.load(Ordering::Relaxed) & bit == 0 {
            // Relaxed: likewise.
            word.fetch_or(bit, Ordering::Relaxed);
            self.join_if_dense(segment, used);
        }
    }

    /// What is noted of a segment's use; none if segments are too small for huge pages.
    #[inline]
    fn use_of(&self, segment: *mut u8) -> Option<&Use<M>> {
        // SAFETY: within the segment, which stays as long as the slab and was zero at first; all fields are atomic
        // words.
        self.use_start.map(|start| unsafe { &*segment.wrapping_add(start).cast() })
    }

    /// Threads that come to the half at once join the pages one after the other, which changes nothing.
    #[cold]
    fn join_if_dense(&self, segment: *mut u8, used: &Use<M>) {
        // Relaxed: as in `note_use`.
        let pages = used.pages.iter().map(|word| word.load(Ordering::Relaxed).count_ones());
        let is_dense = pages.sum::<u32>() as usize >= self.cold_start.div_ceil(2 * PAGE_SIZE);
        // Relaxed: as in `note_use`.
        if !is_dense || used.is_joined.load(Ordering::Relaxed) != 0 {
            return;
        }
        // Relaxed: as in `note_use`.
        used.is_joined.store(1, Ordering::Relaxed);
        // Relaxed: as in `note_use`.
        self.is_dense.store(1, Ordering::Relaxed);
        M::join_pages(segment, self.layout.size());
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
    use std::fs::File;
    use std::os::unix::fs::FileExt;

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
            slab.note_use(leaf);
            slab.cold(leaf).low.write_private(number as u64);
            slab.fingerprints(leaf, 0).write_private(5, 7);
        }
        for (number, slab) in slabs.iter().enumerate() {
            assert_eq!(slab.cold(of(1_000_000 * number as u32)).low.read_private(), number as u64);
            let prepared = slab.segments.iter().filter(|one| !one.read_private().is_null()).count();
            assert_eq!(prepared, 1);
        }
    }

    /// Bytes of a segment that take memory, whole pages.
    fn resident(slab: &Slab<Production, Hardware>, number: usize) -> usize {
        let segment = slab.segments[number].read_private();
        let page = everleaf_machine::topology::page_size_bytes();
        let mut words = vec![0; slab.layout.size().div_ceil(page) * 8];
        let pages = File::open("/proc/self/pagemap").expect("the system tells");
        let from = (segment.addr() / page * 8) as u64;
        pages.read_exact_at(&mut words, from).expect("the system tells");
        // The highest bit of a page's word: it is in memory.
        words.as_chunks::<8>().0.iter().filter(|word| word[7] & 0x80 != 0).count() * page
    }

    fn use_leaf(slab: &Slab<Production, Hardware>, leaf: LeafId) {
        slab.prepare(leaf).expect("room");
        slab.note_use(leaf);
        slab.fingerprints(leaf, 3).write_private(5, 7);
        slab.cold(leaf).low.write_private(u64::from(leaf.number));
    }

    /// The first leaf of a segment made 4 MiB resident.
    #[test]
    fn few_leaves_take_little_memory_and_many_are_joined() {
        let slab = Slab::<Production, Hardware>::new(1 << 30).expect("room");
        let half = (1 << segment_shift::<Hardware>()) / 2;
        // The second segment has leaves far from each other.
        for number in (0..10).chain((2 * half..4 * half).step_by(100)) {
            use_leaf(&slab, of(number));
        }
        let few = [0, 1].map(|segment| resident(&slab, segment));
        assert!(few[0] <= 64 << 10 && few[1] <= 1 << 20, "{few:?}");
        let is_joined = |number: usize| {
            let used = slab.use_of(slab.segments[number].read_private());
            used.expect("segments of a large pool are large").is_joined.read_private() != 0
        };
        // One page less than half of them, each leaf twice.
        (0..half - 16).chain(0..half - 16).for_each(|number| use_leaf(&slab, of(number)));
        assert_eq!([0, 1].map(is_joined), [false, false]);
        use_leaf(&slab, of(half - 1));
        use_leaf(&slab, of(4 * half));
        assert_eq!([0, 1, 2].map(is_joined), [true, false, true]);
        for number in (0..half - 16).chain((2 * half..4 * half).step_by(100)) {
            assert_eq!(slab.fingerprints(of(number), 3).read_private(5), 7);
            assert_eq!(slab.cold(of(number)).low.read_private(), u64::from(number));
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
