//! A heap on a file that can return its space, and what there is to be seen of it.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_machine::Hardware;
use everleaf_machine::mapping::Mapping;
use everleaf_pool::{Backing, Domain, Pool, PoolError};

const SIZE: u64 = 1 << 20;
pub(super) const PAGE: u64 = 4096;
/// Bytes of a chunk.
pub(super) const CHUNK: u64 = 1 << 14;
/// What a store needs the space of: four chunks.
pub(super) const UNIT: u64 = 4 * CHUNK;

/// Which pages have no space, and whether there is any to be had.
#[derive(Default)]
pub(super) struct Disk {
    pub(super) holes: BTreeSet<u64>,
    pub(super) is_full: bool,
    /// Pages that can be filled before it is full.
    pub(super) pages_left: Option<usize>,
    /// Whether holes cannot be filled, though files may grow.
    pub(super) fills_nothing: bool,
    /// How often it was asked for its holes, and whether it cannot tell.
    pub(super) searches: usize,
    pub(super) cannot_search: bool,
    /// Whether it takes nothing back.
    pub(super) keeps_all: bool,
    /// What a store needs the space of, if it is not [`UNIT`].
    pub(super) unit: Option<u64>,
}

/// Memory with holes: what is released is zeroed and noted.
struct Holey {
    pub(super) memory: Arc<Mapping>,
    pub(super) disk: Arc<Mutex<Disk>>,
}

fn pages(start: u64, end: u64) -> Range<u64> {
    start / PAGE..end.div_ceil(PAGE)
}

// SAFETY: a mapping of plain memory never moves, and nothing else reaches it.
unsafe impl Backing for Holey {
    fn base(&self) -> *mut u8 {
        self.memory.base()
    }

    fn size(&self) -> u64 {
        self.memory.length() as u64
    }

    fn capacity(&self) -> u64 {
        self.memory.reserved() as u64
    }

    fn extend(&self, old: u64, new: u64) -> Result<(), PoolError> {
        let full = |source| PoolError::DiskFull { path: "holey".into(), needed: new, source };
        let disk = self.disk.lock().expect("nobody panics with it");
        if disk.is_full || disk.pages_left.is_some_and(|left| left < pages(old, new).count()) {
            return Err(full(io::ErrorKind::StorageFull.into()));
        }
        self.memory.extend(new as usize).map_err(full)
    }

    fn hole_unit(&self) -> u64 {
        self.disk.lock().expect("nobody panics with it").unit.unwrap_or(UNIT)
    }

    fn release(&self, start: u64, end: u64) -> io::Result<bool> {
        let disk = &mut *self.disk.lock().expect("nobody panics with it");
        if disk.keeps_all {
            return Ok(false);
        }
        let freed = pages(start, end).filter(|page| disk.holes.insert(*page)).count();
        disk.pages_left = disk.pages_left.map(|left| left + freed);
        for offset in start..end {
            // SAFETY: within the memory, which nobody else touches there (or the test has found a bug).
            unsafe { self.base().wrapping_add(offset as usize).write_volatile(0) };
        }
        Ok(true)
    }

    fn secure(&self, start: u64, end: u64) -> Result<(), PoolError> {
        let mut disk = self.disk.lock().expect("nobody panics with it");
        let holes: Vec<u64> = disk.holes.range(pages(start, end)).copied().collect();
        let left = match disk.is_full || disk.fills_nothing {
            true => 0,
            false => disk.pages_left.unwrap_or(usize::MAX),
        };
        // As file systems do: what there is is given, and then the error.
        let filled = holes.len().min(left);
        for page in &holes[..filled] {
            disk.holes.remove(page);
        }
        disk.pages_left = disk.pages_left.map(|left| left - filled.min(left));
        if filled == holes.len() {
            return Ok(());
        }
        let source = io::ErrorKind::StorageFull.into();
        Err(PoolError::DiskFull { path: "holey".into(), needed: end, source })
    }

    fn has_holes(&self) -> bool {
        !self.disk.lock().expect("nobody panics with it").holes.is_empty()
    }

    fn holes(&self) -> io::Result<Vec<(u64, u64)>> {
        let mut disk = self.disk.lock().expect("nobody panics with it");
        disk.searches += 1;
        if disk.cannot_search {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let holes: Vec<u64> = disk.holes.iter().copied().collect();
        let parts = holes.chunk_by(|a, b| a + 1 == *b);
        Ok(parts.map(|part| (part[0] * PAGE, (part[part.len() - 1] + 1) * PAGE)).collect())
    }
}

pub(super) struct World {
    pub(super) heap: Arc<Heap<Hardware>>,
    pub(super) memory: Arc<Mapping>,
    pub(super) disk: Arc<Mutex<Disk>>,
}

impl World {
    pub(super) fn new() -> World {
        Self::of_size(1 << 26)
    }

    pub(super) fn of_size(capacity: usize) -> World {
        Self::in_units_of(UNIT, capacity)
    }

    pub(super) fn in_units_of(unit: u64, capacity: usize) -> World {
        let disk = Arc::new(Mutex::new(Disk { unit: Some(unit), ..Disk::default() }));
        let memory = Arc::new(Mapping::of_memory(SIZE as usize, capacity).expect("room"));
        let backing = Box::new(Holey { memory: memory.clone(), disk: disk.clone() });
        let pool = Pool::with_backing(backing, Domain::Process, 0, true).expect("room");
        World { heap: Heap::create_with_chunks(pool, 14).expect("room"), memory, disk }
    }

    /// Opens the pool again. What was free is, and what was not stays taken.
    pub(super) fn reopen(self) -> Result<World, AllocError> {
        let World { heap, memory, disk } = self;
        drop(heap);
        World::open(memory, disk)
    }

    pub(super) fn open(memory: Arc<Mapping>, disk: Arc<Mutex<Disk>>) -> Result<World, AllocError> {
        let backing = Box::new(Holey { memory: memory.clone(), disk: disk.clone() });
        let pool = Pool::with_backing(backing, Domain::Process, 0, false).expect("it is whole");
        let (heap, recovery) = Heap::open(pool)?;
        recovery.finish_unmarked(&heap);
        Ok(World { heap, memory, disk })
    }

    pub(super) fn disk(&self) -> std::sync::MutexGuard<'_, Disk> {
        self.disk.lock().expect("nobody panics with it")
    }

    pub(super) fn allocate(&self, session: &mut Session<Hardware>, size: usize) -> u64 {
        let offset = session.allocate_record(size).expect("there is space");
        self.has_space(offset, offset + size as u64);
        offset
    }

    /// What is counted as returned has no space, and the other way round.
    pub(super) fn counts(&self) {
        assert_eq!(self.heap.returned_bytes(), self.disk().holes.len() as u64 * PAGE);
    }

    /// What is handed out has space, with all of its units.
    pub(super) fn has_space(&self, start: u64, end: u64) {
        let disk = self.disk.lock().expect("nobody panics with it");
        let unit = disk.unit.unwrap_or(UNIT);
        let (start, end) = (start / unit * unit, end.next_multiple_of(unit));
        let hole = pages(start, end).find(|page| disk.holes.contains(page));
        assert_eq!(hole, None, "{start} .. {end} is handed out, and has no space");
    }

    /// Where the free runs are, in bytes.
    pub(super) fn free_parts(&self) -> Vec<(u64, u64)> {
        let (pool, shift) = (self.heap.pool(), self.heap.chunk_shift());
        let mut chunk = (pool.data_start() + 1024).div_ceil(1 << shift);
        let mut parts = vec![];
        while chunk < pool.size() >> shift {
            let word = pool.word(chunk << shift).read_private();
            let header = everleaf_alloc::layout::ChunkHeader::decode(word).expect("a header");
            let end = chunk + u64::from(header.run);
            if header.kind == everleaf_alloc::layout::ChunkKind::Free {
                parts.push((chunk << shift, end << shift));
            }
            chunk = end;
        }
        parts
    }

    /// Walks from header to header as recovery does: what the allocator counts is what it finds, and each header can be
    /// stored to.
    pub(super) fn walk(&self) {
        let pool = self.heap.pool();
        let (shift, start) = (self.heap.chunk_shift(), pool.data_start());
        let mut chunk = (start + 1024).div_ceil(1 << shift);
        let mut used = chunk;
        while chunk < pool.size() >> shift {
            let word = pool.word(chunk << shift).read_private();
            let header = everleaf_alloc::layout::ChunkHeader::decode(word).expect("a header");
            use everleaf_alloc::layout::ChunkKind::{Free, Unused};
            self.has_space(chunk << shift, (chunk << shift) + 8);
            if !matches!(header.kind, Free | Unused) {
                used += u64::from(header.run);
                self.has_space(chunk << shift, (chunk + u64::from(header.run)) << shift);
            }
            chunk += u64::from(header.run);
        }
        assert_eq!(used << shift, self.heap.used_bytes());
    }
}

/// A record of so many chunks of `World`, whole.
pub(super) fn of_chunks(count: usize) -> usize {
    (count << 14) - everleaf_alloc::layout::CHUNK_HEADER_SIZE
}
