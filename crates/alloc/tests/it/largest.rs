//! A pool as large as a heap can be, and larger.
//!
//! Growth by a comfortable step took a pool to exactly 1 TiB, of which a heap can number all but the
//! last block; its next opening called it damaged. The pools lie on files without data.

use std::fs::File;
use std::sync::Arc;

use everleaf_alloc::Heap;
use everleaf_alloc::layout::{CHUNK_HEADER_SIZE, CHUNK_SHIFT_MAX, POOL_SIZE_MAX};
use everleaf_machine::Hardware;
use everleaf_machine::mapping::{Access, Mapping};
use everleaf_pool::{Backing, Domain, Pool, PoolError};

const TIB: u64 = 1 << 40;
/// A record of one chunk, whole.
const ONE_CHUNK: usize = (1 << CHUNK_SHIFT_MAX) - CHUNK_HEADER_SIZE;

/// A file that has as much space as it is asked for, and takes none.
struct Sparse(Mapping);

impl Sparse {
    fn new(file: &File, capacity: u64) -> Box<Sparse> {
        let file = file.try_clone().expect("a descriptor");
        let length = file.metadata().expect("it is open").len() as usize;
        let access = Access::ReadWrite;
        Box::new(Sparse(
            Mapping::of_file(file, length, capacity as usize, access).expect("addresses"),
        ))
    }
}

// SAFETY: a mapping never moves; nobody else has the file.
unsafe impl Backing for Sparse {
    fn base(&self) -> *mut u8 {
        self.0.base()
    }

    fn size(&self) -> u64 {
        self.0.length() as u64
    }

    fn capacity(&self) -> u64 {
        self.0.reserved() as u64
    }

    fn extend(&self, _old: u64, new: u64) -> Result<(), PoolError> {
        let full = |source| PoolError::DiskFull { path: "sparse".into(), needed: new, source };
        self.0.file().expect("made of a file").set_len(new).map_err(full)?;
        self.0.extend(new as usize).map_err(full)
    }
}

fn create(file: &File, capacity: u64) -> Arc<Heap<Hardware>> {
    file.set_len(1 << 20).expect("room");
    let pool = Pool::with_backing(Sparse::new(file, capacity), Domain::Process, 0, true);
    Heap::create_with_chunks(pool.expect("room"), CHUNK_SHIFT_MAX).expect("room")
}

/// Takes records until there is no space: one that leaves little, then one chunk after the other.
/// Returns how many.
fn fill(heap: &Arc<Heap<Hardware>>) -> usize {
    let mut session = heap.session().expect("room");
    let mut size = (TIB - (64 << 20)) as usize;
    let mut taken = 0;
    loop {
        match session.allocate_record(size) {
            Ok(offset) => assert!(offset + size as u64 <= POOL_SIZE_MAX, "beyond the last block"),
            Err(error) => {
                assert!(error.is_full(), "{error}");
                return taken;
            }
        }
        (taken, size) = (taken + 1, ONE_CHUNK);
    }
}

/// As recovery does, of a pool in which nothing is marked: all of it is free.
fn reopen(file: &File, capacity: u64) -> Arc<Heap<Hardware>> {
    let pool = Pool::with_backing(Sparse::new(file, capacity), Domain::Process, 0, false);
    let (heap, recovery) = Heap::open(pool.expect("it is whole")).expect("it is sound");
    recovery.finish(&heap);
    heap
}

#[test]
fn a_pool_that_grew_as_far_as_it_can_opens_again() {
    for capacity in [TIB, TIB + (1 << 30)] {
        let file = tempfile::tempfile().expect("a folder for temporary files");
        let heap = create(&file, capacity);
        let taken = fill(&heap);
        assert!(taken > 1, "up to the end");
        assert!(heap.pool().size() <= POOL_SIZE_MAX, "what nobody can use is not taken");
        drop(heap);
        let heap = reopen(&file, capacity);
        assert_eq!(fill(&heap), taken, "all of it was free");
    }
}

/// Earlier versions made such, and a maker of pools may ask for it.
#[test]
fn a_pool_larger_than_its_heap_opens_and_gives_what_has_numbers() {
    for size in [TIB, TIB + (1 << 26)] {
        let file = tempfile::tempfile().expect("a folder for temporary files");
        let heap = create(&file, size);
        heap.pool().grow(size).expect("room");
        let taken = fill(&heap);
        drop(heap);
        let heap = reopen(&file, size);
        assert_eq!(fill(&heap), taken);
    }
}
