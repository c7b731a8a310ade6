//! What the page cache shows and the disk does not have: a process that is killed leaves what it stored, synced or
//! not, and the next one of the same boot cannot tell which.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use everleaf_machine::{Hardware, Ordering, mapping::Mapping};
use everleaf_pool::{
    Backing, CreateMode, DATA_START, Domain, Environment, FEATURE_BATCHES, FEATURE_LOG_NOTE,
    LogNote, Pool, PoolError, PoolOptions, Seal,
};

const SIZE: usize = 1 << 17;
const PAGE: usize = 4096;

/// What becomes of a process that asks for a sync.
#[derive(Clone, Copy, PartialEq)]
enum Sync {
    Works,
    /// It is killed: a panic.
    Dies,
    /// The disk refuses it: the kernel takes what it could not write for written.
    Refused,
}

/// A file: its pages in the kernel's memory, which all processes of a boot map, and what the disk has of them.
struct File {
    cache: Mapping,
    disk: Mutex<Vec<u8>>,
    /// What the kernel takes for written: of these pages it writes those that have changed since.
    believed: Mutex<Vec<u8>>,
    at_sync: Mutex<Sync>,
    boot: u8,
}

impl File {
    fn new(bytes: &[u8], boot: u8) -> Arc<Self> {
        let cache = Mapping::of_memory(SIZE, SIZE).unwrap();
        // SAFETY: the mapping is that long, new, and nobody else's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), cache.base(), bytes.len()) };
        let (disk, believed) = (Mutex::new(bytes.to_vec()), Mutex::new(bytes.to_vec()));
        Arc::new(File { cache, disk, believed, at_sync: Mutex::new(Sync::Works), boot })
    }

    fn set(&self, at_sync: Sync) {
        *self.at_sync.lock().unwrap() = at_sync;
    }

    /// What a process of this boot finds.
    fn open(self: &Arc<Self>, is_new: bool) -> Result<Pool<Hardware>, PoolError> {
        Pool::with_backing(Box::new(Mapped(Arc::clone(self))), Domain::Process, 0, is_new)
    }

    /// What a process finds whose operator says that the disk has all.
    fn open_trusting(self: &Arc<Self>) -> Pool<Hardware> {
        self.try_trusting().unwrap()
    }

    fn try_trusting(self: &Arc<Self>) -> Result<Pool<Hardware>, PoolError> {
        Pool::with_backing_trusted(Box::new(Mapped(Arc::clone(self))), Domain::Process)
    }

    /// What a process finds when the power is back.
    fn after_power_cut(&self) -> Result<Pool<Hardware>, PoolError> {
        File::new(&self.disk.lock().unwrap(), self.boot + 1).open(false)
    }

    /// The kernel writes pages to the disk, as it may at any time: those that it does not take for written.
    fn write_back(&self, bytes: Range<usize>) {
        self.write(bytes, true);
    }

    fn write(&self, bytes: Range<usize>, works: bool) {
        let (mut disk, mut believed) = (self.disk.lock().unwrap(), self.believed.lock().unwrap());
        // SAFETY: inside of the mapping, and no other thread has a pool on it.
        let cache = unsafe { std::slice::from_raw_parts(self.cache.base(), SIZE) };
        for start in (bytes.start / PAGE * PAGE..bytes.end).step_by(PAGE) {
            let page = start..start + PAGE;
            if believed[page.clone()] != cache[page.clone()] {
                believed[page.clone()].copy_from_slice(&cache[page.clone()]);
                if works {
                    disk[page.clone()].copy_from_slice(&cache[page]);
                }
            }
        }
    }

    fn write_back_synced(&self, bytes: Range<usize>) -> io::Result<()> {
        let at_sync = *self.at_sync.lock().unwrap();
        assert!(at_sync != Sync::Dies, "killed");
        self.write(bytes, at_sync == Sync::Works);
        if at_sync == Sync::Works { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
    }
}

/// The file as one process has mapped it.
struct Mapped(Arc<File>);

// SAFETY: memory that never moves and lives as long as the file; the pools on it come one after the other.
unsafe impl Backing for Mapped {
    fn base(&self) -> *mut u8 {
        self.0.cache.base()
    }
    fn size(&self) -> u64 {
        SIZE as u64
    }
    fn capacity(&self) -> u64 {
        SIZE as u64
    }
    fn extend(&self, _old: u64, new: u64) -> Result<(), PoolError> {
        Err(PoolError::PoolFull { path: "file".into(), needed: new, max: self.capacity() })
    }
    fn sync(&self) -> io::Result<()> {
        self.0.write_back_synced(0..SIZE)
    }
    fn sync_start(&self, length: usize) -> io::Result<()> {
        self.0.write_back_synced(0..length)
    }
    fn write_anew(&self, length: u64) -> io::Result<()> {
        // Other bytes than any that are there.
        for byte in &mut self.0.believed.lock().unwrap()[..length as usize] {
            *byte ^= 0xff;
        }
        Ok(())
    }
    fn survives_machine(&self) -> bool {
        false
    }
    fn environment(&self) -> Environment {
        // Of a boot that is known.
        Environment { boot_id: [self.0.boot | 0x40; 16], ..Environment::default() }
    }
}

fn value(pool: &Pool<Hardware>) -> u64 {
    // Acquire: one thread.
    pool.word(DATA_START).load(Ordering::Acquire)
}

fn store(pool: &Pool<Hardware>, value: u64) {
    // Release: one thread.
    pool.word(DATA_START).store(value, Ordering::Release);
}

/// A pool that was closed, and that a process has begun to use that was killed before its first sync had returned.
fn begun_by_a_killed_process() -> Arc<File> {
    let file = File::new(&[0; SIZE], 1);
    let pool = file.open(true).unwrap();
    store(&pool, 1);
    pool.set_clean().unwrap();
    drop(pool);
    file.set(Sync::Dies);
    let killed = catch_unwind(AssertUnwindSafe(|| file.open(false).map(drop)));
    assert!(killed.is_err());
    file.set(Sync::Works);
    file
}

/// What was lost: the session record was in the page cache, so the next process did not write it, and the disk still
/// had the mark of the close before: after a loss of power what that process had changed, torn, counted as closed.
#[test]
fn a_record_of_a_killed_process_is_durable_before_a_change() {
    let file = begun_by_a_killed_process();
    let pool = file.open(false).unwrap();
    assert!(!pool.was_clean(), "the page cache shows the record");
    store(&pool, 2);
    let data = DATA_START as usize;
    file.write_back(data..data + 8);
    drop(pool);
    let error = file.after_power_cut().unwrap_err();
    assert!(matches!(error, PoolError::MachineCrashed { is_certain: true, .. }), "{error}");
}

/// A process that cannot have the record written is refused, and so is the next one: what the killed one had stored may
/// be lost, and the sync that says so says it once.
#[test]
fn a_pool_whose_record_the_disk_refuses_is_not_opened() {
    let file = begun_by_a_killed_process();
    file.set(Sync::Refused);
    let error = file.open(false).unwrap_err();
    assert!(matches!(error, PoolError::Io { .. }), "{error}");
    for _ in 0..2 {
        assert!(is_doubtful(file.open(false)));
    }
    assert!(file.after_power_cut().unwrap().was_clean());
}

fn is_doubtful(opened: Result<Pool<Hardware>, PoolError>) -> bool {
    matches!(opened, Err(PoolError::MachineCrashed { is_certain: false, .. }))
}

/// A closed pool that was left alone counted as one whose machine had crashed, when the power was off and on again.
#[test]
fn an_opening_that_the_disk_refuses_leaves_a_closed_pool_closed() {
    let file = File::new(&[0; SIZE], 1);
    let pool = file.open(true).unwrap();
    store(&pool, 9);
    pool.set_seal(Seal { leaves: 3, ..Seal::default() }).unwrap();
    pool.set_clean().unwrap();
    drop(pool);
    file.set(Sync::Refused);
    let error = file.open(false).unwrap_err();
    assert!(matches!(error, PoolError::Io { .. }), "{error}");
    file.set(Sync::Works);
    file.write_back(0..SIZE);
    for pool in [file.after_power_cut().unwrap(), file.open(false).unwrap()] {
        assert!(pool.was_clean() && value(&pool) == 9);
        assert_eq!(pool.seal(), Some(Seal { leaves: 3, ..Seal::default() }));
    }
}

/// What was lost: a sync that failed was forgotten. The next process closed the pool, which wrote what it had changed
/// and no more: after a loss of power a pool that had been said to be closed lacked what was stored before.
#[test]
fn a_sync_that_failed_is_not_made_good_by_the_next() {
    let file = File::new(&[0; SIZE], 1);
    let pool = file.open(true).unwrap();
    pool.set_clean().unwrap();
    store(&pool, 9);
    file.set(Sync::Refused);
    pool.set_clean().unwrap_err();
    file.set(Sync::Works);
    // Neither by this process, nor by the next one, which is told.
    pool.set_clean().unwrap_err();
    drop(pool);
    assert!(is_doubtful(file.open(false)));
    // Its operator knows that nothing is lost: then all of it is written, or it is not opened.
    file.set(Sync::Refused);
    file.try_trusting().unwrap_err();
    file.set(Sync::Works);
    assert!(is_doubtful(file.open(false)), "it was not written");
    let pool = file.open_trusting();
    assert_eq!(value(&pool), 9);
    drop(pool);
    let pool = file.open(false).expect("a process that is killed loses nothing");
    pool.set_clean().unwrap();
    drop(pool);
    let found = file.after_power_cut().unwrap();
    assert!(found.was_clean() && value(&found) == 9);
    assert!(file.open(false).unwrap().was_clean());
}

/// The same where the store was refused, which syncs the file itself.
#[test]
fn a_failed_write_of_others_is_noted() {
    let file = File::new(&[0; SIZE], 1);
    let pool = file.open(true).unwrap();
    pool.note_failed_write();
    pool.note_failed_write();
    pool.grow(SIZE as u64).unwrap();
    drop(pool);
    assert!(is_doubtful(file.open(false)));
}

/// A call that writes the header.
type Call<'a> = &'a dyn Fn(&Pool<Hardware>) -> Result<(), PoolError>;

/// What held operations up: the first batch of a pool, or its first expiry, wrote all of the pool to the disk that was
/// waiting for that.
#[test]
fn to_note_a_feature_writes_the_header_alone() {
    let log = LogNote { log: 7, generation: 1 };
    let calls: [Call<'_>; 3] = [
        &|pool| pool.enable_features(FEATURE_BATCHES),
        &|pool| pool.enable_compatible(1 << 40),
        &|pool| pool.note_log(log),
    ];
    for (number, call) in calls.into_iter().enumerate() {
        let file = File::new(&[0; SIZE], 1);
        let pool = file.open(true).unwrap();
        store(&pool, 9);
        call(&pool).unwrap();
        let data = DATA_START as usize;
        assert_eq!(file.disk.lock().unwrap()[data..data + 8], [0; 8], "{number}");
        pool.set_clean().unwrap();
        assert_eq!(file.disk.lock().unwrap()[data..data + 8], 9u64.to_le_bytes(), "{number}");
    }
}

/// What was lost: a feature whose first sync the disk refused was in the header, so the next call took it for known:
/// it was answered as durable, and the process went on as if the pool had no such feature.
#[test]
fn a_feature_that_the_disk_refused_once_is_synced_and_in_force() {
    let log = LogNote { log: 7, generation: 1 };
    let calls: [Call<'_>; 3] = [
        &|pool| pool.enable_features(FEATURE_BATCHES),
        &|pool| pool.enable_compatible(1 << 40),
        &|pool| pool.note_log(log),
    ];
    for (number, call) in calls.into_iter().enumerate() {
        let file = File::new(&[0; SIZE], 1);
        let pool = file.open(true).unwrap();
        pool.set_clean().unwrap();
        let before = pool.features();
        file.set(Sync::Refused);
        for _ in 0..2 {
            let error = call(&pool).expect_err("the disk has not got it");
            assert!(matches!(error, PoolError::Io { .. }), "{number}: {error}");
            assert_eq!(pool.features(), before, "{number}");
        }
        file.set(Sync::Works);
        call(&pool).unwrap();
        // Once it is durable nothing is written again.
        let durable = file.disk.lock().unwrap().clone();
        call(&pool).unwrap();
        assert!(*file.disk.lock().unwrap() == durable, "{number}");
        let is_there = |pool: &Pool<Hardware>| match number {
            0 => pool.features() == before | FEATURE_BATCHES,
            1 => pool.has_compatible(1 << 40).unwrap(),
            _ => pool.features() == before | FEATURE_LOG_NOTE,
        };
        assert!(is_there(&pool), "{number}: it is not in force");
        drop(pool);
        // The pool was not closed, and another refusal than that of the header may have been told.
        assert!(is_doubtful(file.open(false)), "{number}");
        assert!(is_there(&file.open_trusting()), "{number}");
    }
}

/// Memory whose stores survive the machine once they are flushed, and that counts its syncs.
struct PersistentMemory {
    memory: Arc<File>,
    syncs: Arc<Mutex<u32>>,
}

// SAFETY: that of `Mapped`.
unsafe impl Backing for PersistentMemory {
    fn base(&self) -> *mut u8 {
        self.memory.cache.base()
    }
    fn size(&self) -> u64 {
        SIZE as u64
    }
    fn capacity(&self) -> u64 {
        SIZE as u64
    }
    fn extend(&self, _old: u64, new: u64) -> Result<(), PoolError> {
        Err(PoolError::PoolFull { path: "memory".into(), needed: new, max: self.capacity() })
    }
    fn sync(&self) -> io::Result<()> {
        *self.syncs.lock().unwrap() += 1;
        Ok(())
    }
    fn sync_start(&self, _length: usize) -> io::Result<()> {
        self.sync()
    }
    fn outlives_stores(&self) -> bool {
        true
    }
}

/// What was lost: the domain `Process` flushes nothing, and a close synced nothing because the memory was persistent.
/// So the mark of the close could be durable, and what it speaks of in the caches of the CPU.
#[test]
fn a_close_without_flushes_syncs_persistent_memory() {
    for (domain, expected) in [(Domain::Process, 2), (Domain::Adr, 0), (Domain::Eadr, 0)] {
        let (memory, syncs) = (File::new(&[0; SIZE], 1), Arc::default());
        let backing = PersistentMemory { memory, syncs: Arc::clone(&syncs) };
        let pool = Pool::<Hardware>::with_backing(Box::new(backing), domain, 0, true).unwrap();
        let of_opening = *syncs.lock().unwrap();
        pool.set_clean().unwrap();
        let of_close = *syncs.lock().unwrap() - of_opening;
        assert_eq!((of_opening, of_close), (expected / 2, expected), "{domain:?}");
    }
}

/// The same with a file, of which a part has no space.
#[test]
fn a_file_that_is_trusted_is_written_anew_and_keeps_its_holes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let size = 8 << 20;
    let create = CreateMode::IfMissing;
    let options = PoolOptions { create, max_size_bytes: size, ..PoolOptions::default() };
    let pool = Pool::open(&path, &options).unwrap();
    pool.grow(size).unwrap();
    store(&pool, 9);
    let has_hole = pool.release(2 << 20, 4 << 20).unwrap();
    pool.note_failed_write();
    pool.set_clean().unwrap_err();
    let (blocks, domain) = (std::fs::metadata(&path).unwrap().blocks(), pool.medium().domain());
    drop(pool);
    if domain != Domain::Process {
        return;
    }
    assert!(is_doubtful(Pool::open(&path, &options)));
    let trusting = PoolOptions { trust_after_machine_crash: true, ..options.clone() };
    let pool = Pool::open(&path, &trusting).unwrap();
    pool.set_clean().unwrap();
    drop(pool);
    let pool = Pool::open(&path, &options).unwrap();
    assert!(pool.was_clean() && value(&pool) == 9);
    // But for what the file system notes of them.
    let taken = std::fs::metadata(&path).unwrap().blocks().saturating_sub(blocks);
    assert!(!has_hole || taken * 512 < 1 << 20, "{taken} blocks");
}
