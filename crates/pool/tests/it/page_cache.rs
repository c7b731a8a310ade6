//! What the page cache shows and the disk does not have: a process that is killed leaves what it stored, synced or
//! not, and the next one of the same boot cannot tell which.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use everleaf_machine::{Hardware, Ordering, mapping::Mapping};
use everleaf_pool::{
    Backing, DATA_START, Domain, Environment, FEATURE_BATCHES, FEATURE_LOG_NOTE, LogNote, Pool,
    PoolError,
};

const SIZE: usize = 1 << 17;
const PAGE: usize = 4096;

/// A file: its pages in the kernel's memory, which all processes of a boot map, and what the disk has of them.
struct File {
    cache: Mapping,
    disk: Mutex<Vec<u8>>,
    /// Whether a process dies, or is refused, when it asks for a sync.
    dies_at_sync: Mutex<bool>,
    boot: u8,
}

impl File {
    fn new(bytes: &[u8], boot: u8) -> Arc<Self> {
        let cache = Mapping::of_memory(SIZE, SIZE).unwrap();
        // SAFETY: the mapping is that long, new, and nobody else's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), cache.base(), bytes.len()) };
        let disk = Mutex::new(bytes.to_vec());
        Arc::new(File { cache, disk, dies_at_sync: Mutex::new(false), boot })
    }

    /// What a process of this boot finds.
    fn open(self: &Arc<Self>, is_new: bool) -> Result<Pool<Hardware>, PoolError> {
        Pool::with_backing(Box::new(Mapped(Arc::clone(self))), Domain::Process, 0, is_new)
    }

    /// What a process finds when the power is back.
    fn after_power_cut(&self) -> Result<Pool<Hardware>, PoolError> {
        File::new(&self.disk.lock().unwrap(), self.boot + 1).open(false)
    }

    /// The kernel writes pages to the disk, as it may at any time.
    fn write_back(&self, bytes: Range<usize>) {
        let pages = bytes.start / PAGE * PAGE..bytes.end.next_multiple_of(PAGE).min(SIZE);
        let mut disk = self.disk.lock().unwrap();
        // SAFETY: inside of the mapping, and no other thread has a pool on it.
        let cache = unsafe { std::slice::from_raw_parts(self.cache.base(), SIZE) };
        disk[pages.clone()].copy_from_slice(&cache[pages]);
    }

    fn write_back_synced(&self, bytes: Range<usize>) -> io::Result<()> {
        if *self.dies_at_sync.lock().unwrap() {
            return Err(io::ErrorKind::Other.into());
        }
        self.write_back(bytes);
        Ok(())
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
    fn survives_machine(&self) -> bool {
        false
    }
    fn environment(&self) -> Environment {
        // Of a boot that is known.
        Environment { boot_id: [self.0.boot | 0x40; 16], ..Environment::default() }
    }
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
    *file.dies_at_sync.lock().unwrap() = true;
    assert!(file.open(false).is_err());
    *file.dies_at_sync.lock().unwrap() = false;
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

/// A process that cannot have the record written is refused, and so is the next one.
#[test]
fn a_pool_whose_record_the_disk_refuses_is_not_opened() {
    let file = begun_by_a_killed_process();
    *file.dies_at_sync.lock().unwrap() = true;
    for _ in 0..2 {
        let error = file.open(false).unwrap_err();
        assert!(matches!(error, PoolError::Io { .. }), "{error}");
    }
    assert!(file.after_power_cut().unwrap().was_clean());
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
    let refuse = |file: &File, refuses| *file.dies_at_sync.lock().unwrap() = refuses;
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
        refuse(&file, true);
        for _ in 0..2 {
            let error = call(&pool).expect_err("the disk has not got it");
            assert!(matches!(error, PoolError::Io { .. }), "{number}: {error}");
            assert_eq!(pool.features(), before, "{number}");
        }
        refuse(&file, false);
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
        // The session record is older: the pool counts as closed.
        let found = file.after_power_cut().unwrap();
        assert!(is_there(&found), "{number}: it is not durable");
    }
}
