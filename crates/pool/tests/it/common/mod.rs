//! What the tests of the pool share.

#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use everleaf_machine::Hardware;
use everleaf_pool::layout::{HEADER_OFFSETS, HEADER_SIZE, SESSION_OFFSETS, SESSION_SIZE};
use everleaf_pool::{CreateMode, Pool, PoolError, PoolOptions};

/// A directory with the path of a pool in it.
pub struct Scratch {
    pub directory: tempfile::TempDir,
    pub path: PathBuf,
}

impl Scratch {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.pool");
        Scratch { directory, path }
    }

    /// One with a pool in it that was closed cleanly.
    pub fn with_pool() -> Self {
        let scratch = Self::new();
        create(&scratch.path).unwrap().set_clean().unwrap();
        scratch
    }

    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

pub fn create(path: &Path) -> Result<Pool<Hardware>, PoolError> {
    Pool::open(path, &PoolOptions { create: CreateMode::New, ..PoolOptions::default() })
}

pub fn open(path: &Path) -> Result<Pool<Hardware>, PoolError> {
    Pool::open(path, &PoolOptions::default())
}

pub fn open_read_only(path: &Path) -> Result<Pool<Hardware>, PoolError> {
    Pool::open(path, &PoolOptions { read_only: true, ..PoolOptions::default() })
}

/// Changes both copies of the header and seals them again.
pub fn edit_header(path: &Path, edit: impl Fn(&mut [u8])) {
    for offset in HEADER_OFFSETS {
        edit_sealed(path, offset, HEADER_SIZE as usize, 120, &edit);
    }
}

/// Changes both copies of the session and seals them again.
pub fn edit_session(path: &Path, edit: impl Fn(&mut [u8])) {
    for offset in SESSION_OFFSETS {
        edit_sealed(path, offset, SESSION_SIZE as usize, 56, &edit);
    }
}

fn edit_sealed(path: &Path, offset: u64, size: usize, covered: usize, edit: impl Fn(&mut [u8])) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, offset).unwrap();
    edit(&mut bytes);
    let checksum = crc32c::crc32c(&bytes[..covered]);
    bytes[covered..covered + 4].copy_from_slice(&checksum.to_le_bytes());
    file.write_all_at(&bytes, offset).unwrap();
}

/// Keeps the tests of one binary apart that start processes or depend on a closed file being gone:
/// a process has copies of all descriptors from its start until it runs its program.
pub fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The variable that makes an ignored test of this binary act as a child of another.
pub const CHILD_PATH: &str = "EVERLEAF_TEST_CHILD_PATH";

/// Starts the ignored test `name` of this binary as another process, told `path`; what it prints
/// can be read.
pub fn start_child(name: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
        .env(CHILD_PATH, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The path that a child was told; `None` if this process is no child.
pub fn child_path() -> Option<PathBuf> {
    std::env::var_os(CHILD_PATH).map(PathBuf::from)
}
