//! Space that was returned to the system is allocated again before anybody gets it, and is returned
//! only when nobody looks there, also after a crash.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use everleaf_alloc::Heap;
use everleaf_machine::Hardware;
use everleaf_machine::mapping::Mapping;
use everleaf_pool::{Backing, Domain, Pool, PoolError};

const SIZE: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// Which pages have no space, and whether there is any to be had.
#[derive(Default)]
struct Disk {
    holes: BTreeSet<u64>,
    is_full: bool,
}

/// Memory with holes: what is released is zeroed and noted.
struct Holey {
    memory: Mapping,
    disk: Arc<Mutex<Disk>>,
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

    fn extend(&self, _old: u64, new: u64) -> Result<(), PoolError> {
        let full = |source| PoolError::DiskFull { path: "holey".into(), needed: new, source };
        if self.disk.lock().expect("nobody panics with it").is_full {
            return Err(full(io::ErrorKind::StorageFull.into()));
        }
        self.memory.extend(new as usize).map_err(full)
    }

    fn release(&self, start: u64, end: u64) -> io::Result<bool> {
        let mut disk = self.disk.lock().expect("nobody panics with it");
        for page in pages(start, end) {
            disk.holes.insert(page);
        }
        for offset in start..end {
            // SAFETY: within the memory, which nobody else touches there (or the test has found a bug).
            unsafe { self.base().wrapping_add(offset as usize).write_volatile(0) };
        }
        Ok(true)
    }

    fn secure(&self, start: u64, end: u64) -> Result<(), PoolError> {
        let mut disk = self.disk.lock().expect("nobody panics with it");
        let has_holes = pages(start, end).any(|page| disk.holes.contains(&page));
        if has_holes && disk.is_full {
            let source = io::ErrorKind::StorageFull.into();
            return Err(PoolError::DiskFull { path: "holey".into(), needed: end, source });
        }
        disk.holes.retain(|page| !pages(start, end).contains(page));
        Ok(())
    }
}

fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^ z >> 27
}

struct World {
    heap: Arc<Heap<Hardware>>,
    disk: Arc<Mutex<Disk>>,
}

impl World {
    fn new() -> World {
        let disk = Arc::new(Mutex::new(Disk::default()));
        let memory = Mapping::of_memory(SIZE as usize, 1 << 26).expect("room");
        let backing = Box::new(Holey { memory, disk: disk.clone() });
        let pool = Pool::with_backing(backing, Domain::Process, 0, true).expect("room");
        World { heap: Heap::create_with_chunks(pool, 14).expect("room"), disk }
    }

    /// What is handed out has space.
    fn has_space(&self, start: u64, end: u64) {
        let disk = self.disk.lock().expect("nobody panics with it");
        let hole = pages(start, end).find(|page| disk.holes.contains(page));
        assert_eq!(hole, None, "{start} .. {end} is handed out, and has no space");
    }

    /// Walks from header to header as recovery does: what the allocator counts is what it finds.
    fn walk(&self) {
        let pool = self.heap.pool();
        let (shift, start) = (self.heap.chunk_shift(), pool.data_start());
        let mut chunk = (start + 1024).div_ceil(1 << shift);
        let mut used = chunk;
        while chunk < pool.size() >> shift {
            let word = pool.word(chunk << shift).read_private();
            let header = everleaf_alloc::layout::ChunkHeader::decode(word).expect("a header");
            use everleaf_alloc::layout::ChunkKind::{Free, Unused};
            if !matches!(header.kind, Free | Unused) {
                used += u64::from(header.run);
            }
            chunk += u64::from(header.run);
        }
        assert_eq!(used << shift, self.heap.used_bytes());
    }
}

#[test]
fn returned_space_is_allocated_before_it_is_handed_out() {
    for seed in 0..40 {
        let world = World::new();
        let mut session = world.heap.session().expect("room");
        let mut held: Vec<(u64, usize)> = vec![];
        for step in 0..600u64 {
            let dice = mix(seed << 20 | step);
            match dice % 8 {
                0..4 => {
                    let size = 1 + (dice >> 8) as usize % 120_000;
                    match session.allocate_record(size) {
                        Ok(offset) => {
                            world.has_space(offset, offset + size as u64);
                            world.heap.pool().word(offset).write_private(step);
                            held.push((offset, size));
                        }
                        Err(error) => {
                            assert!(error.is_full(), "{error}");
                            world.disk.lock().expect("nobody panics with it").is_full = false;
                        }
                    }
                }
                4 if !held.is_empty() => {
                    let (offset, size) = held.swap_remove((dice >> 8) as usize % held.len());
                    session.free_record(offset, size);
                }
                5 if dice & 0x300 == 0 => {
                    for (offset, size) in held.drain(..) {
                        session.free_record(offset, size);
                    }
                }
                6 => {
                    session.give_back();
                    world.heap.return_space().expect("room");
                }
                7 => world.disk.lock().expect("nobody panics with it").is_full = dice & 0x100 == 0,
                _ => {}
            }
            world.walk();
            for (offset, size) in &held {
                world.has_space(*offset, *offset + *size as u64);
            }
        }
    }
}

#[test]
fn all_that_is_free_is_returned_but_for_headers() {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let held: Vec<u64> = (0..40).map(|_| session.allocate_record(100_000).expect("room")).collect();
    for offset in &held[1..] {
        session.free_record(*offset, 100_000);
    }
    let free = world.heap.returnable_bytes();
    let returned = world.heap.return_space().expect("room");
    assert!(returned + PAGE >= free && returned > 39 * 100_000, "{returned} of {free}");
    assert_eq!(world.heap.return_space().expect("room"), 0, "only once");
    assert_eq!(world.heap.returned_bytes(), returned + PAGE);
    // A full disk: what was returned cannot be had, and nothing is lost by asking.
    world.disk.lock().expect("nobody panics with it").is_full = true;
    assert!(session.allocate_record(3_000_000).expect_err("the disk is full").is_full());
    world.disk.lock().expect("nobody panics with it").is_full = false;
    let offset = session.allocate_record(3_000_000).expect("room");
    world.has_space(offset, offset + 3_000_000);
    world.walk();
}
