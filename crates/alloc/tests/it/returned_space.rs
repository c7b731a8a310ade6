//! Space that was returned to the system is allocated again before anybody gets it, and is returned
//! only when nobody looks there, also after a crash.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_machine::Hardware;
use everleaf_machine::mapping::Mapping;
use everleaf_machine::random::mix;
use everleaf_pool::{Backing, Domain, Pool, PoolError};

const SIZE: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// Which pages have no space, and whether there is any to be had.
#[derive(Default)]
struct Disk {
    holes: BTreeSet<u64>,
    is_full: bool,
    /// Pages that can be filled before it is full.
    pages_left: Option<usize>,
    /// Whether holes cannot be filled, though files may grow.
    fills_nothing: bool,
    /// How often it was asked for its holes, and whether it cannot tell.
    searches: usize,
    cannot_search: bool,
    /// Whether it takes nothing back.
    keeps_all: bool,
}

/// Memory with holes: what is released is zeroed and noted.
struct Holey {
    memory: Arc<Mapping>,
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

    fn extend(&self, old: u64, new: u64) -> Result<(), PoolError> {
        let full = |source| PoolError::DiskFull { path: "holey".into(), needed: new, source };
        let disk = self.disk.lock().expect("nobody panics with it");
        if disk.is_full || disk.pages_left.is_some_and(|left| left < pages(old, new).count()) {
            return Err(full(io::ErrorKind::StorageFull.into()));
        }
        self.memory.extend(new as usize).map_err(full)
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

struct World {
    heap: Arc<Heap<Hardware>>,
    memory: Arc<Mapping>,
    disk: Arc<Mutex<Disk>>,
}

impl World {
    fn new() -> World {
        Self::of_size(1 << 26)
    }

    fn of_size(capacity: usize) -> World {
        let disk = Arc::new(Mutex::new(Disk::default()));
        let memory = Arc::new(Mapping::of_memory(SIZE as usize, capacity).expect("room"));
        let backing = Box::new(Holey { memory: memory.clone(), disk: disk.clone() });
        let pool = Pool::with_backing(backing, Domain::Process, 0, true).expect("room");
        World { heap: Heap::create_with_chunks(pool, 14).expect("room"), memory, disk }
    }

    /// Opens the pool again. What was free is, and what was not stays taken.
    fn reopen(self) -> Result<World, AllocError> {
        let World { heap, memory, disk } = self;
        drop(heap);
        let backing = Box::new(Holey { memory: memory.clone(), disk: disk.clone() });
        let pool = Pool::with_backing(backing, Domain::Process, 0, false).expect("it is whole");
        let (heap, recovery) = Heap::open(pool)?;
        recovery.finish_unmarked(&heap);
        Ok(World { heap, memory, disk })
    }

    fn disk(&self) -> std::sync::MutexGuard<'_, Disk> {
        self.disk.lock().expect("nobody panics with it")
    }

    fn allocate(&self, session: &mut Session<Hardware>, size: usize) -> u64 {
        let offset = session.allocate_record(size).expect("there is space");
        self.has_space(offset, offset + size as u64);
        offset
    }

    /// What is counted as returned has no space, and the other way round.
    fn counts(&self) {
        assert_eq!(self.heap.returned_bytes(), self.disk().holes.len() as u64 * PAGE);
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
            world.counts();
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
    world.counts();
    // A full disk: what was returned cannot be had, and nothing is lost by asking.
    world.disk.lock().expect("nobody panics with it").is_full = true;
    assert!(session.allocate_record(3_000_000).expect_err("the disk is full").is_full());
    world.disk.lock().expect("nobody panics with it").is_full = false;
    let offset = session.allocate_record(3_000_000).expect("room");
    world.has_space(offset, offset + 3_000_000);
    world.walk();
}

/// A record of so many chunks of `World`, whole.
fn of_chunks(count: usize) -> usize {
    (count << 14) - everleaf_alloc::layout::CHUNK_HEADER_SIZE
}

/// Free space that has its space was refused, because holes lay before it in its run: no removal could
/// cure a full disk.
#[test]
fn a_full_disk_gives_what_has_space() {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let [a, b, c, _end] =
        [10, 10, 7, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    session.free_record(a, of_chunks(10));
    world.heap.return_space().expect("room");
    world.disk().is_full = true;
    // Behind a hole, and so much as there is.
    session.free_record(b, of_chunks(10));
    let again = world.allocate(&mut session, of_chunks(10));
    world.walk();
    // Before a hole: all but one chunk, which is left for the header of the rest.
    session.free_record(again, of_chunks(10));
    world.disk().is_full = false;
    world.heap.return_space().expect("room");
    let low = world.allocate(&mut session, of_chunks(20));
    session.free_record(low, of_chunks(20));
    session.free_record(c, of_chunks(7));
    world.heap.return_space().expect("room");
    world.counts();
    let _filled = world.allocate(&mut session, of_chunks(2));
    world.walk();
    world.counts();
}

/// As far as the pool reaches there is space, though holes come before it.
#[test]
fn a_full_disk_gives_the_frontier_of_the_pool() {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let [a, _end] = [10, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    session.free_record(a, of_chunks(10));
    world.heap.return_space().expect("room");
    assert!(
        world.heap.pool().size() > world.heap.used_bytes() + (25 << 14),
        "there is room behind it"
    );
    world.disk().is_full = true;
    let mut taken = 0;
    while let Ok(offset) = session.allocate_record(of_chunks(1)) {
        world.has_space(offset, offset + of_chunks(1) as u64);
        taken += 1;
    }
    assert!(taken >= 25, "{taken} chunks of a pool of 64");
    world.walk();
    world.counts();
}

/// Where holes cannot be filled the pool grows, if it can.
#[test]
fn a_pool_grows_where_holes_cannot_be_filled() {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let [a, _end] = [100, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    session.free_record(a, of_chunks(100));
    world.heap.return_space().expect("room");
    world.disk().fills_nothing = true;
    let size = world.heap.pool().size();
    world.allocate(&mut session, of_chunks(90));
    assert!(world.heap.pool().size() > size);
    world.walk();
    world.counts();
}

/// A filling that failed in the middle kept what it had got: the disk was full of space that nobody
/// counted and nobody returned.
#[test]
fn a_refused_filling_keeps_nothing() {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let [a, _end] = [100, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    session.free_record(a, of_chunks(100));
    world.heap.return_space().expect("room");
    // The frontier that the pool reaches.
    world.disk().is_full = true;
    while session.allocate_record(of_chunks(1)).is_ok() {}
    world.disk().is_full = false;
    let holes = world.disk().holes.clone();
    for count in [100, 90, 60] {
        world.disk().pages_left = Some(200);
        let error = session.allocate_record(of_chunks(count)).expect_err("only 50 chunks fit");
        assert!(error.is_full(), "{error}");
        assert_eq!(world.disk().holes, holes, "as before it was tried");
        world.counts();
        world.walk();
    }
    // What others would have missed is there.
    world.allocate(&mut session, of_chunks(49));
    world.counts();
    world.walk();
}

/// A pool in which every second chunk is free and was returned.
fn with_many_holes() -> World {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let held: Vec<u64> = (0..300).map(|_| world.allocate(&mut session, of_chunks(1))).collect();
    for offset in held.iter().step_by(2) {
        session.free_record(*offset, of_chunks(1));
    }
    session.give_back();
    drop(session);
    assert!(world.heap.return_space().expect("room") > 140 * 3 * PAGE);
    world
}

/// Each free run was searched by itself, twice, and the kernel looks at all extents before and behind
/// it: a pool with many holes took the square of their number to open.
#[test]
fn an_opening_searches_for_holes_once() {
    let world = with_many_holes();
    let holes = world.disk().holes.clone();
    world.disk().searches = 0;
    let world = world.reopen().expect("it is sound");
    assert_eq!(world.disk().searches, 1);
    assert_eq!(world.disk().holes, holes, "free runs stay as they are");
    world.counts();
    world.walk();
}

/// A search that failed was taken for one that found nothing: what has no space would have been given
/// out, and the first store to it would have ended the process.
#[test]
fn an_opening_that_cannot_search_for_holes_is_refused() {
    let world = with_many_holes();
    world.disk().cannot_search = true;
    let error = world.reopen().err().expect("it is not known what has space");
    assert!(error.to_string().contains("find out which parts of it have space"), "{error}");
}

/// What a full disk refuses at opening takes no header with it.
#[test]
fn a_chunk_that_is_half_a_hole_keeps_its_header() {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let [a, _end] = [3, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    session.free_record(a, of_chunks(3));
    drop(session);
    let first = a / (1 << 14) * 4;
    // Of three chunks a page in the middle of the first, and two of the last.
    world.disk().holes.extend([first + 2, first + 9, first + 10]);
    world.disk().is_full = true;
    let world = world.reopen().expect("it is sound");
    world.walk();
    world.counts();
    let world = world.reopen().expect("it is sound");
    world.walk();
    world.disk().is_full = false;
    let mut session = world.heap.session().expect("room");
    world.allocate(&mut session, of_chunks(3));
    world.walk();
    world.counts();
}

/// A run that is returned in several turns, and taken back in pieces from its end and as a whole.
#[test]
fn long_runs_are_returned_and_filled_piece_by_piece() {
    let world = World::of_size(1 << 28);
    let mut session = world.heap.session().expect("room");
    let chunks = (50 << 20 >> 14) + 3;
    let [long, _end] = [chunks, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    for turn in 0..3 {
        let mut at = if turn == 0 { long } else { world.allocate(&mut session, of_chunks(chunks)) };
        session.free_record(at, of_chunks(chunks));
        let returned = world.heap.return_space().expect("room");
        assert!(returned >= ((chunks as u64) << 14) - PAGE, "all but the page of the header");
        assert!(
            world.heap.returnable_bytes() < 1 << 14,
            "all is returned, also what was free before"
        );
        world.counts();
        let mut held = vec![];
        for count in [1, 2, 700, 1500, 33] {
            // What has space comes first; and nothing more is filled than is handed out.
            let holes = world.disk().holes.len();
            at = world.allocate(&mut session, of_chunks(count));
            let filled = holes - world.disk().holes.len();
            assert!(filled <= count * 4, "{filled} pages for {count} chunks");
            world.walk();
            world.counts();
            held.push((at, of_chunks(count)));
        }
        for (offset, size) in held {
            session.free_record(offset, size);
            world.walk();
            world.counts();
        }
    }
}

/// What a file system does not take back is not counted as returned, nor tried again.
#[test]
fn a_medium_that_keeps_its_space_is_asked_once() {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let [a, _end] = [100, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    session.free_record(a, of_chunks(100));
    world.disk().keeps_all = true;
    session.give_back();
    assert!(world.heap.returnable_bytes() >= 100 << 14);
    for _ in 0..3 {
        assert_eq!(world.heap.return_space().expect("room"), 0);
        assert_eq!(world.heap.returned_bytes(), 0);
        assert!(world.heap.returnable_bytes() < 100 << 14);
    }
    world.disk().is_full = true;
    world.allocate(&mut session, of_chunks(100));
    world.walk();
}

/// Some can be kept, and a caller that wants to end it can.
#[test]
fn returning_space_keeps_what_it_should_and_can_be_ended() {
    let world = World::of_size(1 << 28);
    let mut session = world.heap.session().expect("room");
    let [a, _end] = [3000, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    session.free_record(a, of_chunks(3000));
    assert_eq!(world.heap.return_space_but(0, || false).expect("room"), 0);
    let mut turns = 0..1;
    let some = world.heap.return_space_but(0, || turns.next().is_some());
    assert!(some.expect("room") < 3000 << 13, "not all in one turn");
    world.heap.return_space_but(100 << 14, || true).expect("room");
    let kept = world.heap.returnable_bytes() >> 14;
    assert!((100..110).contains(&kept), "{kept} chunks were kept");
    world.counts();
}
