//! A pool in the memory of the simulated machine.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use everleaf_machine::simulated::{self, Memory, OwnedMemory};
use everleaf_machine::{Hardware, Machine, Simulated, SpinGuard, SpinLock};

use crate::{Backing, Domain, Pool, PoolError};

/// Memory of the simulated machine, of which the pool has the first part.
pub struct SimulatedBacking {
    memory: Memory,
    length: u64,
    _owner: Option<OwnedMemory>,
    /// Numbers of the pages that may have no space, if it can return some.
    holes: Option<SpinLock<BTreeSet<u64>, Hardware>>,
    /// Whether a page that is returned reads as zero.
    clears: bool,
    /// What a store needs the space of, as [`Backing::hole_unit`] says.
    unit: u64,
    /// The disk has no space beyond so many bytes.
    disk_end: u64,
    /// Pages that the disk has for holes.
    pages: PagesLeft,
    is_read_only: bool,
}

/// Pages that a disk has for holes that are to get space, and gets from what is returned.
#[derive(Clone)]
pub struct PagesLeft(Arc<SpinLock<Option<u64>, Hardware>>);

impl Default for PagesLeft {
    fn default() -> Self {
        PagesLeft(Arc::new(SpinLock::new(None)))
    }
}

impl PagesLeft {
    /// From now on there are so many; without bound if none.
    pub fn set(&self, pages: Option<u64>) {
        *self.0.lock() = pages;
    }

    /// Whether one more was to be had.
    fn take(&self) -> bool {
        match &mut *self.0.lock() {
            None => true,
            Some(0) => false,
            Some(pages) => {
                *pages -= 1;
                true
            }
        }
    }

    fn give(&self, pages: u64) {
        if let Some(left) = &mut *self.0.lock() {
            *left += pages;
        }
    }
}

/// What a file system gives and takes at once.
const PAGE: u64 = 4096;

impl SimulatedBacking {
    /// The first `length` bytes of the memory.
    ///
    /// # Safety
    /// The memory stays in its place as long as the backing lives.
    pub unsafe fn new(memory: Memory, length: u64) -> Self {
        SimulatedBacking {
            memory,
            length,
            _owner: None,
            holes: None,
            clears: false,
            unit: PAGE,
            disk_end: u64::MAX,
            pages: PagesLeft::default(),
            is_read_only: false,
        }
    }

    /// The same as a file that can return its space, and has all of it. A page that is returned reads as zero, and
    /// after a crash as zero or as it was, line by line: nothing makes it durable that it was returned.
    #[must_use]
    pub fn returning(self) -> Self {
        let holes = Some(SpinLock::new(BTreeSet::new()));
        SimulatedBacking { holes, clears: true, ..self }
    }

    /// The same, of which nobody knows what has space: as after a copy, no page has, until it is secured. What is in a
    /// page that is returned stays, which makes far fewer crash states: nobody may look.
    #[must_use]
    pub fn sparse(self) -> Self {
        let pages = crate::layout::DATA_START.div_ceil(PAGE)..self.length.div_ceil(PAGE);
        SimulatedBacking { holes: Some(SpinLock::new(pages.collect())), ..self }
    }

    /// The same, of which these parts have no space: first byte, and the one behind the last.
    #[must_use]
    pub fn with_holes(self, holes: &[(u64, u64)]) -> Self {
        let pages = holes.iter().flat_map(|(from, to)| from / PAGE..to / PAGE);
        SimulatedBacking { holes: Some(SpinLock::new(pages.collect())), ..self }
    }

    /// The same, where a store needs the space of all of so many bytes around it: a power of two, and pages.
    #[must_use]
    pub fn in_units_of(self, unit: u64) -> Self {
        SimulatedBacking { unit, ..self }
    }

    /// The same on a disk that has no space for more than the first `end` bytes.
    #[must_use]
    pub fn on_disk_of(self, end: u64) -> Self {
        SimulatedBacking { disk_end: end, ..self }
    }

    /// The same on a disk that has so many pages for holes.
    #[must_use]
    pub fn with_pages(self, pages: &PagesLeft) -> Self {
        SimulatedBacking { pages: pages.clone(), ..self }
    }

    /// The same, for reading only.
    #[must_use]
    pub fn reading(self) -> Self {
        SimulatedBacking { is_read_only: true, ..self }
    }

    fn no_space(&self) -> Option<SpinGuard<'_, BTreeSet<u64>, Hardware>> {
        self.holes.as_ref().map(SpinLock::lock)
    }
}

// SAFETY: the memory lives as long as its owner, which is kept, or by the promise given to `new`; it
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

    fn extend(&self, old: u64, new: u64) -> Result<(), PoolError> {
        assert!(new <= self.capacity(), "the pool grows beyond its backing");
        if new > self.disk_end {
            let source = io::Error::from(io::ErrorKind::StorageFull);
            return Err(PoolError::DiskFull { path: "(memory)".into(), needed: new, source });
        }
        if let Some(mut holes) = self.no_space() {
            let before = holes.split_off(&old.div_ceil(PAGE));
            holes.extend(before.into_iter().filter(|page| *page >= new / PAGE));
        }
        Ok(())
    }

    fn hole_unit(&self) -> u64 {
        self.unit
    }

    fn release(&self, start: u64, end: u64) -> io::Result<bool> {
        let pages = start.div_ceil(PAGE)..end / PAGE;
        if self.holes.is_none() {
            return Ok(false);
        }
        for page in pages.clone().filter(|_| self.clears) {
            let place = self.base().wrapping_add((page * PAGE) as usize);
            Simulated::lifetime(place, PAGE as usize, true);
            // SAFETY: inside the memory; nobody reaches it, as the caller that returns it has promised.
            unsafe { Simulated::write_bytes(place, &[0; PAGE as usize]) };
            Simulated::lifetime(place, PAGE as usize, false);
        }
        // Not before: other threads may come while it is written.
        if let Some(mut holes) = self.no_space() {
            let before = holes.len();
            holes.extend(pages);
            self.pages.give((holes.len() - before) as u64);
        }
        Ok(true)
    }

    fn secure(&self, start: u64, end: u64) -> Result<(), PoolError> {
        if let Some(mut holes) = self.no_space() {
            let pages = start / PAGE..end.div_ceil(PAGE);
            for page in holes.range(pages).copied().collect::<Vec<_>>() {
                if !self.pages.take() {
                    // What it has got by then stays so.
                    let source = io::Error::from(io::ErrorKind::StorageFull);
                    return Err(PoolError::DiskFull {
                        path: "(memory)".into(),
                        needed: end,
                        source,
                    });
                }
                holes.remove(&page);
            }
        }
        Ok(())
    }

    fn outlives_stores(&self) -> bool {
        self.memory.outlives_stores()
    }

    fn has_holes(&self) -> bool {
        self.holes.is_some()
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn holes(&self) -> io::Result<Vec<(u64, u64)>> {
        let mut parts: Vec<(u64, u64)> = vec![];
        for page in self.no_space().iter().flat_map(|holes| holes.iter()) {
            match parts.last_mut() {
                Some((_, end)) if *end == page * PAGE => *end += PAGE,
                _ => parts.push((page * PAGE, (page + 1) * PAGE)),
            }
        }
        Ok(parts)
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
    /// # Errors
    /// `PoolFull` if the memory is too small.
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
    /// # Errors
    /// As [`Pool::with_backing`].
    pub fn open_simulated(memory: OwnedMemory) -> Result<Self, PoolError> {
        let length = memory.memory().size() as u64;
        Self::simulated(memory, length, false)
    }

    fn simulated(owner: OwnedMemory, length: u64, is_new: bool) -> Result<Self, PoolError> {
        let memory = owner.memory();
        let backing = SimulatedBacking {
            memory,
            length,
            _owner: Some(owner),
            holes: None,
            clears: false,
            unit: PAGE,
            disk_end: u64::MAX,
            pages: PagesLeft::default(),
            is_read_only: false,
        };
        let max = memory.size() as u64;
        Self::with_backing(Box::new(backing), domain_of(memory), max, is_new)
    }
}
