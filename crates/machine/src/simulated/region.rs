//! Zeroed, page-aligned memory of the process that stands for memory of the simulated machine.

use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::config::Domain;

/// Start of every region: a large page, so that address arithmetic on alignment holds as on a pool.
const ALIGNMENT: usize = 2 << 20;

/// An owned block of memory, zeroed at first, reached only through raw pointers.
pub(super) struct Region {
    block: *mut u8,
    block_size: usize,
    base: *mut u8,
    size: usize,
}

impl Region {
    /// # Panics
    /// If `size` is 0 or not a multiple of 64, or the system has no memory.
    pub fn new(size: usize) -> Self {
        assert!(size > 0 && size.is_multiple_of(64), "a region is a whole number of lines");
        // Pages of the system, which are zero already and cost nothing until they are touched. An allocator
        // would clear a block that it has had before, which was most of the time of a search by many
        // small programs. Aligned by hand, as the system knows small pages only.
        let block_size = size + ALIGNMENT;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, where the system likes to have it.
        let block = unsafe { mmap_anonymous(std::ptr::null_mut(), block_size, access, flags) };
        let block = block.expect("the system has memory for a region").cast::<u8>();
        let base = block.wrapping_add(block.addr().next_multiple_of(ALIGNMENT) - block.addr());
        Region { block, block_size, base, size }
    }

    pub fn base(&self) -> *mut u8 {
        self.base
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// The offset of `address`, if it lies inside.
    #[inline]
    pub fn offset(&self, address: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.base.addr());
        (offset < self.size).then_some(offset)
    }

    /// The 8-byte word of index `word`.
    #[inline]
    pub fn read(&self, word: usize) -> u64 {
        // SAFETY: `place` checks the bounds; aligned; the simulation is one OS thread.
        unsafe { self.place::<u64>(word).read_volatile() }
    }

    /// Overwrites the 8-byte word of index `word`.
    #[inline]
    pub fn write(&self, word: usize, value: u64) {
        // SAFETY: as in `read`.
        unsafe { self.place::<u64>(word).write_volatile(value) }
    }

    /// The eight words of a line.
    #[inline]
    pub fn read_line(&self, line: usize) -> [u64; 8] {
        // SAFETY: as in `read`.
        unsafe { self.place::<[u64; 8]>(line).read_volatile() }
    }

    /// Overwrites a line.
    #[inline]
    pub fn write_line(&self, line: usize, words: [u64; 8]) {
        // SAFETY: as in `read`.
        unsafe { self.place::<[u64; 8]>(line).write_volatile(words) }
    }

    /// The address of the `index`-th `T`, which lies wholly inside.
    #[inline]
    fn place<T>(&self, index: usize) -> *mut T {
        assert!(index < self.size / size_of::<T>());
        self.base.cast::<T>().wrapping_add(index)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size; nobody outlives the runner that owns it.
        let unmapped = unsafe { munmap(self.block.cast(), self.block_size) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// The persistent memory a program works on: the running pool or a crash image of it.
///
/// The memory belongs to the simulated machine and stays where it is as long as the runner that
/// passed it out. It must be read and written through the machine ([`Atomic`](crate::Atomic) and
/// its kin) only: what bypasses the machine is not seen by the crash explorer, and is reported.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub(super) base: *mut u8,
    pub(super) size: usize,
    pub(super) domain: Domain,
    pub(super) outlives_stores: bool,
}

// SAFETY: an address and two numbers; a caller that follows the address answers for that.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memory {}

impl Memory {
    /// The first byte; aligned to 2 MiB.
    pub fn base(self) -> *mut u8 {
        self.base
    }

    /// The size in bytes, a multiple of 64.
    pub fn size(self) -> usize {
        self.size
    }

    /// What a crash of this run keeps, for a program that asks its pool for it.
    pub fn domain(self) -> Domain {
        self.domain
    }

    /// Whether stores of an earlier process may still wait in the caches: so behind a death of the process
    /// without a power cut, where a power cut may follow.
    pub fn outlives_stores(self) -> bool {
        self.outlives_stores
    }
}

/// A region that many threads hold and none reads or writes but through its address.
struct Held(Region);

// SAFETY: a block of the process that does not move and is freed once, by the last holder, on
// whatever thread; a caller that follows its address answers for that.
unsafe impl Send for Held {}
// SAFETY: as for `Send`.
unsafe impl Sync for Held {}

/// [`Memory`] that lives as long as anybody holds it.
#[derive(Clone)]
pub struct OwnedMemory {
    held: Arc<Held>,
    domain: Domain,
}

impl OwnedMemory {
    /// `size` zeroed bytes, a multiple of 64 above 0.
    pub fn new(size: usize, domain: Domain) -> Self {
        OwnedMemory { held: Arc::new(Held(Region::new(size))), domain }
    }

    /// The memory, to be used no longer than `self` or a clone of it lives.
    pub fn memory(&self) -> Memory {
        let region = &self.held.0;
        let (base, size) = (region.base(), region.size());
        Memory { base, size, domain: self.domain, outlives_stores: false }
    }
}
