//! Growth: in place, up to the maximum, and what a full disk does.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::common::{Scratch, alone, child_path, create, open, start_child};
use everleaf_machine::mapping::Mapping;
use everleaf_machine::{Hardware, Ordering};
use everleaf_pool::{Backing, CreateMode, DATA_START, Domain, Pool, PoolError, PoolOptions};

const MIB: u64 = 1 << 20;

#[test]
fn a_pool_grows_in_place_and_new_space_is_allocated_and_zero() {
    let scratch = Scratch::new();
    let pool = create(&scratch.path).unwrap();
    let base = pool.base();
    let word = pool.word(DATA_START);
    word.store(7, Ordering::Relaxed);
    assert_eq!(pool.grow(1000).unwrap(), MIB, "it is that large already");
    assert_eq!(pool.grow(MIB + 1).unwrap(), 2 * MIB);
    assert_eq!(pool.grow(40 * MIB).unwrap(), 40 * MIB);
    assert_eq!((pool.size(), pool.base()), (40 * MIB, base));
    assert_eq!(word.load(Ordering::Relaxed), 7);
    for offset in (MIB..40 * MIB).step_by(4096) {
        assert_eq!(pool.word(offset).load(Ordering::Relaxed), 0);
    }
    pool.word(40 * MIB - 8).store(9, Ordering::Relaxed);
    let status = fs::metadata(&scratch.path).unwrap();
    assert_eq!(status.len(), 40 * MIB);
    assert!(status.blocks() * 512 >= 40 * MIB, "space is not allocated");
    drop(pool);
    let pool = open(&scratch.path).unwrap();
    assert_eq!(pool.size(), 40 * MIB);
    assert_eq!(pool.word(40 * MIB - 8).load(Ordering::Relaxed), 9);
}

#[test]
fn a_pool_at_its_maximum_says_so_and_stays_whole() {
    let scratch = Scratch::new();
    let options = PoolOptions {
        create: CreateMode::New,
        max_size_bytes: 2 * MIB + 65536,
        ..PoolOptions::default()
    };
    let pool = Pool::open(&scratch.path, &options).unwrap();
    assert_eq!(pool.grow(2 * MIB + 1).unwrap(), 2 * MIB + 65536);
    for at_least in [2 * MIB + 65537, u64::MAX] {
        let error = pool.grow(at_least).unwrap_err();
        assert!(
            matches!(error, PoolError::PoolFull { needed, max, .. }
                if needed == at_least && max == 2 * MIB + 65536),
            "{error}"
        );
    }
    assert_eq!(pool.size(), 2 * MIB + 65536);
    drop(pool);
    let larger = PoolOptions { max_size_bytes: 8 * MIB, ..PoolOptions::default() };
    let pool = Pool::open(&scratch.path, &larger).unwrap();
    assert_eq!(pool.grow(3 * MIB).unwrap(), 3 * MIB + 65536);
}

#[test]
fn what_lies_behind_the_end_of_the_pool_is_gone_when_it_grows() {
    let scratch = Scratch::with_pool();
    let mut bytes = fs::read(&scratch.path).unwrap();
    bytes.extend(vec![0xEE; 3_000_000]);
    fs::write(&scratch.path, &bytes).unwrap();
    let pool = open(&scratch.path).unwrap();
    assert_eq!(pool.size(), MIB);
    pool.grow(4 * MIB).unwrap();
    for offset in (MIB..4 * MIB).step_by(8) {
        assert_eq!(pool.word(offset).load(Ordering::Relaxed), 0, "at {offset}");
    }
}

#[test]
fn holes_of_a_copied_file_are_filled_when_asked() {
    let scratch = Scratch::new();
    let pool = create(&scratch.path).unwrap();
    pool.grow(5 * MIB).unwrap();
    let size = pool.size();
    pool.set_clean().unwrap();
    drop(pool);
    let sparse = scratch.directory.path().join("sparse.pool");
    let file = fs::File::create(&sparse).unwrap();
    file.set_len(size + 3 * MIB).unwrap();
    let bytes = fs::read(&scratch.path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes[..DATA_START as usize], 0).unwrap();
    let allocated = || file.metadata().unwrap().blocks() * 512;
    assert!(allocated() < MIB);
    let pool = open(&sparse).unwrap();
    assert!(pool.has_holes());
    let unit = pool.hole_unit();
    // A store to its own records, or to its end, needs the space of all of the unit.
    let ends = unit + size.next_multiple_of(unit) - size;
    assert!((ends..ends + MIB).contains(&allocated()), "{} of {ends}", allocated());
    pool.secure(unit, size).unwrap();
    assert!(allocated() >= size);
    let place = 2 * unit - 4096;
    pool.word(place).store(7, Ordering::Relaxed);
    if pool.release(unit, 2 * unit).unwrap() {
        assert!(allocated() < size + ends - unit && pool.has_holes());
        assert_eq!(pool.word(place).load(Ordering::Relaxed), 0);
    }
}

/// What an interrupted growth left behind the end, and the blocks that the file system needs for itself,
/// made up for holes in the number of blocks: then nothing was allocated, and a store to a full disk
/// ended the process.
#[test]
fn holes_are_seen_whatever_else_the_file_has() {
    for (hole, tail) in [(MIB / 4, MIB), (4096, 0)] {
        let scratch = Scratch::new();
        let pool = create(&scratch.path).unwrap();
        pool.grow(4 * MIB).unwrap();
        for offset in (DATA_START..pool.size()).step_by(4096) {
            pool.word(offset).store(7, Ordering::Relaxed);
        }
        // Behind the unit of its own records, which is always filled.
        let (size, from) = (pool.size(), pool.hole_unit() + 8192);
        if !pool.release(from, from + hole).unwrap() {
            return;
        }
        drop(pool);
        let file = fs::OpenOptions::new().write(true).open(&scratch.path).unwrap();
        if tail > 0 {
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), size, tail).unwrap();
        }
        let pool = open(&scratch.path).unwrap();
        assert!(pool.has_holes(), "{hole} bytes have no space");
        assert_eq!(pool.holes().unwrap(), [(from, from + hole)]);
        let before = file.metadata().unwrap().blocks();
        pool.secure(from, from + hole).unwrap();
        assert!(file.metadata().unwrap().blocks() * 512 >= before * 512 + hole);
    }
}

#[test]
fn threads_that_grow_together_agree_and_each_has_its_space() {
    let pool = Pool::<Hardware>::in_memory(MIB, 512 * MIB, Domain::Process).unwrap();
    let frontier = AtomicU64::new(MIB);
    std::thread::scope(|scope| {
        for thread in 1..=4_u64 {
            let (pool, frontier) = (&pool, &frontier);
            scope.spawn(move || {
                for _ in 0..100 {
                    let start = frontier.fetch_add(MIB, Relaxed);
                    assert!(pool.grow(start + MIB).unwrap() >= start + MIB);
                    for offset in (start..start + MIB).step_by(65536) {
                        let old = pool.word(offset).swap(thread, Ordering::Relaxed);
                        assert_eq!(old, 0);
                    }
                }
            });
        }
    });
    assert!(pool.size() >= 401 * MIB);
}

/// Memory that has space for `allowance` bytes only.
struct Scarce {
    mapping: Mapping,
    allowance: u64,
    attempts: AtomicU64,
}

impl Scarce {
    fn pool(allowance: u64) -> Pool<Hardware> {
        let mapping = Mapping::of_memory(MIB as usize, 64 << 20).unwrap();
        let backing = Scarce { mapping, allowance, attempts: AtomicU64::new(0) };
        Pool::with_backing(Box::new(backing), Domain::Adr, 0, true).unwrap()
    }
}

// SAFETY: plain memory that never moves and is reached through its base only.
unsafe impl Backing for Scarce {
    fn base(&self) -> *mut u8 {
        self.mapping.base()
    }
    fn size(&self) -> u64 {
        self.mapping.length() as u64
    }
    fn capacity(&self) -> u64 {
        self.mapping.reserved() as u64
    }
    fn extend(&self, old: u64, new: u64) -> Result<(), PoolError> {
        assert!(old < new && new <= self.capacity());
        self.attempts.fetch_add(1, Relaxed);
        if new > self.allowance {
            let source = std::io::ErrorKind::StorageFull.into();
            return Err(PoolError::DiskFull { path: "scarce".into(), needed: new, source });
        }
        self.mapping.extend(new as usize).unwrap();
        Ok(())
    }
}

#[test]
fn a_nearly_full_disk_gives_what_is_needed_a_full_one_an_error() {
    let pool = Scarce::pool(MIB + 2 * 65536);
    let root = pool.create_root("users", 1, 1).unwrap();
    assert_eq!(pool.grow(MIB + 65536).unwrap(), MIB + 65536, "the comfortable step did not fit");
    assert_eq!(pool.grow(MIB + 65537).unwrap(), MIB + 2 * 65536);
    for _ in 0..3 {
        let error = pool.grow(MIB + 3 * 65536).unwrap_err();
        assert!(matches!(error, PoolError::DiskFull { .. }), "{error}");
        assert!(error.to_string().contains("nothing was lost"), "{error}");
        assert_eq!(pool.size(), MIB + 2 * 65536);
    }
    // Everything else goes on.
    pool.set_root_value(root.index, 1, 2).unwrap();
    assert_eq!(pool.next_id().unwrap(), 1);
    pool.set_clean().unwrap();
}

/// A file system in memory of 2 MiB, gone when dropped.
struct SmallDisk {
    directory: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
            .arg(directory.path())
            .output();
        match output {
            Ok(output) if output.status.success() => Some(SmallDisk { directory }),
            Ok(output) => {
                let reason = String::from_utf8_lossy(&output.stderr).into_owned();
                println!("skipped: mounting is not permitted here: {}", reason.trim());
                None
            }
            Err(error) => {
                println!("skipped: there is no mount command: {error}");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(self.directory.path()).status();
        assert!(status.is_ok_and(|status| status.success()), "the small disk stays mounted");
    }
}

#[test]
fn a_full_disk_is_an_error_until_there_is_space_again() {
    let _alone = alone();
    let Some(disk) = SmallDisk::mount() else { return };
    let path = disk.directory.path().join("test.pool");
    let filler = disk.directory.path().join("filler");
    let pool = create(&path).unwrap();
    fs::write(&filler, vec![1; 700_000]).unwrap();
    // 2 MiB less the pool and the filler leave room for four granules, not for a step of 1 MiB.
    assert_eq!(pool.grow(MIB + 65536).unwrap(), MIB + 65536);
    let error = pool.grow(2 * MIB - 65536).unwrap_err();
    assert!(matches!(error, PoolError::DiskFull { .. }), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), pool.size(), "a failure leaves the file as is");
    for offset in (DATA_START..pool.size()).step_by(8) {
        pool.word(offset).store(offset, Ordering::Relaxed);
    }
    fs::remove_file(&filler).unwrap();
    assert!(pool.grow(2 * MIB - 65536).unwrap() >= 2 * MIB - 65536);
    drop(pool);
    drop(open(&path).unwrap());
    drop(disk);
}

#[test]
fn a_pool_that_does_not_fit_on_the_disk_is_not_created() {
    let _alone = alone();
    let Some(disk) = SmallDisk::mount() else { return };
    let path = disk.directory.path().join("test.pool");
    let options = PoolOptions {
        create: CreateMode::New,
        initial_size_bytes: 4 * MIB,
        ..PoolOptions::default()
    };
    let error = Pool::open(&path, &options).unwrap_err();
    assert!(matches!(error, PoolError::DiskFull { .. }), "{error}");
    assert_eq!(fs::read_dir(disk.directory.path()).unwrap().count(), 0);
    drop(disk);
}

/// Not a test by itself: may write files of 2 MiB at most, and tries to grow a pool beyond.
#[test]
#[ignore = "a part of the next test, which runs it as a process of its own"]
fn child_with_a_limit_on_file_sizes() {
    let Some(path) = child_path() else { return };
    let limit = rustix::process::Rlimit { current: Some(2 * MIB), maximum: Some(2 * MIB) };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    let pool = open(&path).unwrap();
    assert_eq!(pool.grow(MIB + 1).unwrap(), 2 * MIB);
    let error = pool.grow(2 * MIB + 1).unwrap_err();
    assert!(matches!(error, PoolError::DiskFull { .. }), "{error}");
    assert_eq!(pool.size(), 2 * MIB);
    pool.create_root("users", 1, 1).unwrap();
    pool.set_clean().unwrap();
}

#[test]
fn a_limit_on_file_sizes_is_an_error_and_ends_no_process() {
    let _alone = alone();
    let scratch = Scratch::with_pool();
    let child = start_child("growth::child_with_a_limit_on_file_sizes", &scratch.path);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(open(&scratch.path).unwrap().root("users").is_some());
}
