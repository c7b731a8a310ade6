//! The folder of a log as a type: what is asked of it while the log is not open, and the disk that an open log
//! has. All of the store is written against [`Folder`]. Which one it is, [`LogFolder`] says, and nothing else: with the
//! feature `simulated`, which the tests of this crate and the prover have, one whose disk may be
//! [simulated](everleaf_log::simulated).
//!
//! A type parameter would do the same, but it would be one of `Store`, `Map`, `WriteBatch`, `View` and all that a
//! user names.

use std::fmt::Debug;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result as IoResult};
use std::path::{Path, PathBuf};

use everleaf_log::{Disk, RealDisk, link_to_nothing};

use crate::maintenance::regular_file::open_regular;

/// The folder of a log, whether it is there or not.
pub(crate) trait Folder: Sized {
    /// The disk with the log.
    type Disk: Disk;
    /// What the options of a store say of it.
    type Choice: Clone + Debug + Default;

    /// The folder at `path`.
    fn at(path: PathBuf, choice: &Self::Choice) -> Self;

    /// Where it is.
    fn path(&self) -> &Path;

    /// Whether there is one.
    fn exists(&self) -> IoResult<bool>;

    /// The disk with the log. The folder is made if there is none.
    fn open(&self) -> everleaf_log::Result<Self::Disk>;

    /// The names in the folder; none if there is no folder.
    fn list(&self) -> IoResult<Vec<String>>;

    /// The first bytes of a file, if there is one; without holding the folder.
    fn read(&self, name: &str, most: u64) -> IoResult<Option<Vec<u8>>>;

    /// Removes it, if it is empty, durably.
    fn remove(&self) -> IoResult<()>;

    /// Whether nothing is to run beside the calls of the store, because a seed decides what happens when.
    fn is_simulated(choice: &Self::Choice) -> bool;
}

/// The folder that the store uses.
#[cfg(not(feature = "simulated"))]
pub(crate) type LogFolder = RealFolder;
#[cfg(feature = "simulated")]
pub(crate) type LogFolder = super::simulated::EitherFolder;

/// The disk that the store uses.
pub(crate) type LogDisk = <LogFolder as Folder>::Disk;

/// A folder of a file system.
#[derive(Clone, Debug)]
pub(crate) struct RealFolder(PathBuf);

impl Folder for RealFolder {
    type Disk = RealDisk;
    type Choice = ();

    fn at(path: PathBuf, (): &()) -> Self {
        RealFolder(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn exists(&self) -> IoResult<bool> {
        match std::fs::metadata(&self.0) {
            Ok(_) => Ok(true),
            Err(error) => absent(error, &self.0).map(|()| false),
        }
    }

    fn open(&self) -> everleaf_log::Result<RealDisk> {
        // Root would lock a service's user out of its own log.
        RealDisk::open_beside(&self.0, self.0.with_extension(""))
    }

    fn list(&self) -> IoResult<Vec<String>> {
        let entries = match std::fs::read_dir(&self.0) {
            Err(error) => return absent(error, &self.0).map(|()| vec![]),
            Ok(entries) => entries,
        };
        // A name that is no UTF-8 is none of ours.
        let name = |entry: IoResult<std::fs::DirEntry>| {
            entry.map(|entry| entry.file_name().into_string().ok()).transpose()
        };
        entries.filter_map(name).collect()
    }

    fn read(&self, name: &str, most: u64) -> IoResult<Option<Vec<u8>>> {
        let mut bytes = vec![];
        let path = self.0.join(name);
        let read = open_regular(&path).and_then(|file| file.take(most).read_to_end(&mut bytes));
        match read {
            Ok(_) => Ok(Some(bytes)),
            Err(error) => absent(error, &self.0).map(|()| None),
        }
    }

    fn remove(&self) -> IoResult<()> {
        match std::fs::remove_dir(&self.0) {
            Ok(()) => {}
            // Something else is in it, or it is a link or a mount: an empty folder is no log either.
            Err(error) if is_harmless(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        let parent = self.0.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new("."))).and_then(|parent| parent.sync_all())
    }

    fn is_simulated((): &()) -> bool {
        false
    }
}

/// Nothing, if there is no such file because there is no folder, or no file in it; nor can there be one, if the name of
/// the pool leaves no room for `.log`.
///
/// # Errors
/// Any other answer; the folder is a link that leads to nothing: the log may be on a disk that is not mounted.
fn absent(error: Error, folder: &Path) -> IoResult<()> {
    if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidFilename) {
        return Err(error);
    }
    link_to_nothing(folder).map_or(Ok(()), Err)
}

fn is_harmless(error: &std::io::Error) -> bool {
    use ErrorKind::{DirectoryNotEmpty, NotADirectory, PermissionDenied, ResourceBusy};
    matches!(error.kind(), DirectoryNotEmpty | NotADirectory | PermissionDenied | ResourceBusy)
}
