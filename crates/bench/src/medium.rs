//! Where the pool of a measurement is.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use everleaf::{Domain, Options, Store};
use everleaf_index::{CreateMode, Pool, PoolOptions};
use tempfile::TempDir;

use crate::error::BenchError;

/// Where the pool of a measurement is. It is always a new one, and gone afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// Ordinary memory; for the store, which needs a file, a file in `/dev/shm`.
    #[default]
    Memory,
    /// A file in the system's directory for temporary files.
    Temporary,
    /// A file at this path, which must not exist yet.
    File(PathBuf),
}

/// `memory`, `temp`, or the path.
impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Medium::Memory => f.write_str("memory"),
            Medium::Temporary => f.write_str("temp"),
            Medium::File(path) => path.display().fmt(f),
        }
    }
}

/// The file system that is memory, on Linux.
const MEMORY_FILES: &str = "/dev/shm";

/// The pools of measurements under way, or their directories.
static UNDER_WAY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn under_way() -> MutexGuard<'static, Vec<PathBuf>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the pools of measurements under way, which must not go on: for a program that is ended by a signal, which no
/// value outlives that would remove them.
pub fn remove_pools() {
    let paths = under_way();
    for path in &*paths {
        // What cannot be removed stays; there is nobody to tell.
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    // Kept locked, so that no other is made.
    std::mem::forget(paths);
}

/// A pool file that goes away.
pub(crate) struct Home {
    /// Removed with everything in it.
    directory: Option<TempDir>,
    path: PathBuf,
    /// Whether the file is ours to remove.
    is_made: bool,
}

impl Home {
    fn in_directory(parent: &Path) -> Result<Self, BenchError> {
        let directory = tempfile::Builder::new().prefix("everleaf-bench-").tempdir_in(parent);
        let directory = directory.map_err(|error| cannot_make(parent, error))?;
        under_way().push(directory.path().to_owned());
        let path = directory.path().join("bench.pool");
        Ok(Home { directory: Some(directory), path, is_made: false })
    }

    /// The pool is there now.
    fn set_made(&mut self) {
        self.is_made = true;
        if self.directory.is_none() {
            under_way().push(self.path.clone());
        }
    }

    /// The place of the pool file; `None` if it is plain memory.
    fn of(medium: &Medium, needs_file: bool) -> Result<Option<Self>, BenchError> {
        let memory = Path::new(MEMORY_FILES);
        match medium {
            Medium::Memory if !needs_file => Ok(None),
            Medium::Memory if memory.is_dir() => Self::in_directory(memory).map(Some),
            Medium::Memory | Medium::Temporary => {
                Self::in_directory(&std::env::temp_dir()).map(Some)
            }
            Medium::File(path) => {
                Ok(Some(Home { directory: None, path: path.clone(), is_made: false }))
            }
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let made = self.directory.as_ref().map_or(&*self.path, TempDir::path);
        under_way().retain(|path| path != made);
        if self.is_made && self.directory.is_none() {
            // What cannot be removed stays, as any file of the user; there is nobody to tell.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn cannot_make(parent: &Path, error: io::Error) -> BenchError {
    BenchError::Io(format!("cannot make a directory for the pool in {}", parent.display()), error)
}

/// A new pool for the integer tree.
pub(crate) fn new_pool(
    medium: &Medium,
    domain: Option<Domain>,
    max_size: u64,
) -> Result<(Pool<everleaf_index::Hardware>, Option<Home>), BenchError> {
    let Some(mut home) = Home::of(medium, false)? else {
        let domain = domain.unwrap_or(Domain::Process);
        return Ok((Pool::in_memory(1 << 20, max_size, domain)?, None));
    };
    let options = PoolOptions {
        create: CreateMode::New,
        max_size_bytes: max_size,
        domain,
        ..PoolOptions::default()
    };
    let pool = Pool::open(&home.path, &options)?;
    home.set_made();
    Ok((pool, Some(home)))
}

/// A new store.
pub(crate) fn new_store(
    medium: &Medium,
    domain: Option<Domain>,
    max_size: u64,
) -> Result<(Store, Option<Home>), BenchError> {
    let mut home = Home::of(medium, true)?;
    let path = home.as_ref().map_or_else(PathBuf::new, |home| home.path.clone());
    let mut options = Options::new().create_new(true).max_size_bytes(max_size);
    if let Some(domain) = domain {
        options = options.domain(domain);
    }
    let store = options.open(path)?;
    if let Some(home) = &mut home {
        home.set_made();
    }
    Ok((store, home))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_at_a_given_path_is_new_and_gone_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pool");
        let medium = Medium::File(path.clone());
        let (pool, home) = new_pool(&medium, None, 1 << 30).unwrap();
        assert!(path.exists() && home.is_some());
        let error = new_store(&medium, None, 1 << 30).err().unwrap().to_string();
        assert!(error.contains("exists"), "{error}");
        assert!(path.exists(), "a file that was there is not removed");
        drop((pool, home));
        assert!(!path.exists());
    }

    #[test]
    fn temporary_pools_leave_nothing() {
        for medium in [Medium::Memory, Medium::Temporary] {
            let (store, home) = new_store(&medium, Some(Domain::Adr), 1 << 30).unwrap();
            let path = home.as_ref().unwrap().path.clone();
            assert!(path.exists());
            assert_eq!(store.statistics().domain, Domain::Adr);
            drop((store, home));
            assert!(!path.exists() && !path.parent().unwrap().exists());
        }
        assert!(new_pool(&Medium::Memory, None, 1 << 30).unwrap().1.is_none());
    }
}
