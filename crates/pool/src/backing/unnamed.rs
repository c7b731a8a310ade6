//! A file that gets its name when it is finished, so that a process that dies while it creates a
//! pool leaves nothing behind.

use std::fs::File;
use std::path::{Path, PathBuf};

use everleaf_machine::{OwnerProcess, above_standard_streams};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::space::refusal;
use crate::PoolError;
use crate::layout::SIZE_MIN;

/// A new file that is not yet to be seen at its path. Dropped without [`Unnamed::name`], it is gone.
pub struct Unnamed {
    file: File,
    path: PathBuf,
    /// The name it has instead, on a file system that wants one.
    temporary: Option<Temporary>,
}

/// A name that is removed when dropped by the process that made it.
struct Temporary(PathBuf, OwnerProcess);

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.1.is_current() {
            // A failure leaves litter and no harm.
            let _ = rustix::fs::unlink(&self.0);
        }
    }
}

impl Unnamed {
    /// Creates the file in the directory of `path`, readable and writable by its owner only; the
    /// second result is the same open file.
    pub fn new(path: &Path) -> Result<(Self, File), PoolError> {
        let mode = Mode::RUSR | Mode::WUSR;
        let nameless = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
        let named = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
        let (opened, temporary) = match rustix::fs::open(directory_of(path), nameless, mode) {
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let name = temporary_name(path);
                (rustix::fs::open(&name, named, mode), Some(name))
            }
            opened => (opened, None),
        };
        let opened = opened.map_err(|error| creation_error(path, error))?;
        let temporary = temporary.map(|name| Temporary(name, OwnerProcess::current()));
        let io = |source| PoolError::Io {
            path: path.into(),
            action: "duplicate the descriptor",
            source,
        };
        let file = File::from(above_standard_streams(opened).map_err(io)?);
        // A umask may have taken even what its owner needs, who could not open the pool again.
        let found = rustix::fs::fstat(&file).map_err(|error| creation_error(path, error))?;
        if !Mode::from_raw_mode(found.st_mode).contains(mode) {
            rustix::fs::fchmod(&file, mode).map_err(|error| creation_error(path, error))?;
        }
        let same = file.try_clone().map_err(io)?;
        Ok((Unnamed { file, path: path.into(), temporary }, same))
    }

    /// Gives the file its name, and waits until both are on the disk.
    ///
    /// # Errors
    /// `Exists` if another was faster; `Io`.
    pub fn name(self) -> Result<(), PoolError> {
        let path = self.path.as_path();
        let io = |action| {
            move |source: Errno| PoolError::Io { path: path.into(), action, source: source.into() }
        };
        rustix::fs::fsync(&self.file).map_err(io("sync the new file"))?;
        // Before it has its name: without a descriptor left it would be there, and said to have failed.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let directory = match rustix::fs::open(directory_of(path), flags, Mode::empty()) {
            Err(Errno::ACCESS) => None,
            opened => Some(opened.map_err(io("open the directory"))?),
        };
        let result = match &self.temporary {
            None => link_nameless(&self.file, path),
            Some(Temporary(name, _)) => rustix::fs::link(name, path),
        };
        result.map_err(|error| match error {
            Errno::EXIST => PoolError::Exists { path: path.into() },
            error => io("name the new file")(error),
        })?;
        let Some(directory) = directory else { return Ok(()) };
        let synced = rustix::fs::fsync(directory);
        // Some file systems cannot sync a directory; the file itself is safe.
        match synced {
            Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(io("sync the directory")(error)),
        }
    }
}

fn creation_error(path: &Path, error: Errno) -> PoolError {
    match error {
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            PoolError::Permission { path: path.into(), read_only: false, source: error.into() }
        }
        Errno::NOSPC | Errno::DQUOT => refusal(path, SIZE_MIN, error),
        error => {
            PoolError::Io { path: path.into(), action: "create the file", source: error.into() }
        }
    }
}

/// Links an open file without a name: by the kernel's name for the descriptor, or by the
/// descriptor itself where `/proc` is missing.
fn link_nameless(file: &File, path: &Path) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    match rustix::fs::linkat(CWD, descriptor, CWD, path, AtFlags::SYMLINK_FOLLOW) {
        Err(Errno::NOENT) => rustix::fs::linkat(file, "", CWD, path, AtFlags::EMPTY_PATH),
        result => result,
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".creating-{}", std::process::id()));
    path.with_file_name(name)
}
