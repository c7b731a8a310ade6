//! A pool in a file, which is locked from before it is read until after it is unmapped.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use everleaf_machine::above_standard_streams;
use everleaf_machine::mapping::{Access, Mapping, largest_folio};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::holder::{self, Held, Lock};
use super::space::{
    allocate, fill_holes, has_holes, holes, secure, unshare, write_anew, write_in_place,
};
use super::unnamed::Unnamed;
use super::{file_name, kept_inode, probe};
use crate::header::{self, HeaderWords};
use crate::layout::{DATA_START, HEADER_OFFSETS, SESSION_OFFSETS};
use crate::session_record::{self, SessionWords};
use crate::{Backing, Domain, Environment, FileName, PoolError};

/// A mapped, locked file.
pub struct FileBacking {
    path: PathBuf,
    /// From the root, without links, so that it stays the same place; `None` if that cannot be told.
    place: Option<PathBuf>,
    /// Whether it had a name when it was opened.
    had_name: bool,
    mapping: Mapping,
    // Behind the mapping: the file is unmapped before others can have it.
    _held: Held,
    capacity: u64,
    read_only: bool,
    environment: Environment,
}

impl FileBacking {
    /// Opens and locks an existing pool file, for which addresses up to `max` bytes, or the maximum
    /// in its header if that is larger, are reserved.
    pub fn open(path: &Path, read_only: bool, max: u64) -> Result<Self, PoolError> {
        let io = |action| move |source| PoolError::Io { path: path.into(), action, source };
        let (file, held) = open_locked(path, read_only)?;
        // The length counts from here on: nobody else changes it now.
        let length = file.metadata().map_err(io("read the length"))?.len();
        let extent = peek(&file, path, length)?;
        if !read_only {
            // The rest is up to the layer that knows what is in use there.
            let unit = largest_folio();
            fill_holes(&file, path, extent.size.min(DATA_START.next_multiple_of(unit)))?;
            // What an interrupted growth left behind the end of the pool, and a copy made a hole of, would be filled by
            // a store to the end.
            let behind = extent.size.next_multiple_of(unit).min(length);
            if extent.size < behind {
                secure(&file, path, extent.size, behind)?;
            }
            holder::leave_record(&file);
        }
        let capacity = max.max(extent.max_size).max(length);
        Self::map(path, (file, held), extent.size, capacity, read_only)
    }

    /// Creates a file of `size` bytes, all allocated, that has no name yet; the second result gives
    /// it one.
    pub fn create(path: &Path, size: u64, max: u64) -> Result<(Self, Unnamed), PoolError> {
        if path.symlink_metadata().is_ok() {
            return Err(PoolError::Exists { path: path.into() });
        }
        let (unnamed, file) = Unnamed::new(path)?;
        let held = take_lock(&file, path, false)?;
        write_in_place(&file);
        allocate(&file, path, 0, size)?;
        holder::leave_record(&file);
        let backing = Self::map(path, (file, held), size, max.max(size), false)?;
        Ok((backing, unnamed))
    }

    fn map(
        path: &Path,
        (file, held): (File, Held),
        length: u64,
        capacity: u64,
        read_only: bool,
    ) -> Result<Self, PoolError> {
        let access = if read_only { Access::Read } else { Access::ReadWrite };
        let error =
            |source| PoolError::AddressSpace { path: path.into(), reserved: capacity, source };
        let (Ok(length), Ok(reserved)) = (usize::try_from(length), usize::try_from(capacity))
        else {
            return Err(error(io::ErrorKind::InvalidInput.into()));
        };
        let had_name = file_name::has_name(&file);
        let environment = Environment::of_this_machine().map_err(|source| PoolError::Io {
            path: path.into(),
            action: "compare the boot of the system with that",
            source,
        })?;
        let environment = Environment {
            place: kept_inode::place(&file),
            is_kept: kept_inode::has_mark(&file),
            ..environment
        };
        let mapping = Mapping::of_file(file, length, reserved, access).map_err(error)?;
        Ok(FileBacking {
            path: path.into(),
            // A new file has no name yet.
            place: std::fs::canonicalize(path).or_else(|_| std::path::absolute(path)).ok(),
            had_name,
            mapping,
            _held: held,
            capacity,
            read_only,
            environment,
        })
    }

    /// The domain that the file has by itself.
    pub fn detected_domain(&self) -> Domain {
        probe::detect(self.mapping.is_synchronous())
    }

    fn file(&self) -> &File {
        self.mapping.file().expect("made of a file by `map`")
    }
}

// SAFETY: the mapping never moves, reserves the capacity and maps the size, for writing unless it
// is read-only; the lock keeps other processes out, and this one uses the base only. (A process
// that ignores the lock is beyond any defence, as the crate's documentation says.)
unsafe impl Backing for FileBacking {
    fn base(&self) -> *mut u8 {
        self.mapping.base()
    }

    fn size(&self) -> u64 {
        self.mapping.length() as u64
    }

    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn extend(&self, old: u64, new: u64) -> Result<(), PoolError> {
        allocate(self.file(), &self.path, old, new)?;
        if self.survives_machine() {
            // The file's new length before the pool's: no flush of ours makes it durable, and a pool
            // that says it is longer than its file is refused.
            let path = || self.path.clone();
            let io =
                |source| PoolError::Io { path: path(), action: "make its growth durable", source };
            self.sync().map_err(io)?;
        }
        self.mapping.extend(new as usize).map_err(|source| PoolError::AddressSpace {
            path: self.path.clone(),
            reserved: self.capacity,
            source,
        })
    }

    fn hole_unit(&self) -> u64 {
        largest_folio()
    }

    fn release(&self, start: u64, end: u64) -> io::Result<bool> {
        let result = rustix::io::retry_on_intr(|| {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(self.file(), flags, start, end - start)
        });
        match result {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn secure(&self, start: u64, end: u64) -> Result<(), PoolError> {
        secure(self.file(), &self.path, start, end)
    }

    fn has_holes(&self) -> bool {
        has_holes(self.file(), self.size())
    }

    fn holes(&self) -> io::Result<Vec<(u64, u64)>> {
        holes(self.file(), self.size())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::io::retry_on_intr(|| rustix::fs::fdatasync(self.file()))?)
    }

    fn write_anew(&self, length: u64) -> io::Result<()> {
        let length = length.min(self.size());
        // SAFETY: that many bytes are mapped for as long as `self` lives, and nobody changes them meanwhile.
        let shown = unsafe { std::slice::from_raw_parts(self.base(), length as usize) };
        write_anew(self.file(), shown, &self.holes()?)
    }

    fn survives_machine(&self) -> bool {
        self.mapping.is_synchronous()
    }

    fn outlives_stores(&self) -> bool {
        self.mapping.is_synchronous()
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn name(&self) -> FileName {
        file_name::look(self.file(), self.place.as_deref(), self.had_name)
    }

    fn begin_writing(&self) -> Result<bool, PoolError> {
        unshare(self.file(), &self.path, self.size())?;
        Ok(kept_inode::mark(self.file()))
    }

    fn sync_start(&self, length: usize) -> io::Result<()> {
        let length = length.min(self.mapping.length());
        // SAFETY: these bytes are mapped for as long as `self` lives, and nothing of them is changed.
        let written = || unsafe {
            rustix::mm::msync(self.mapping.base().cast(), length, rustix::mm::MsyncFlags::SYNC)
        };
        Ok(rustix::io::retry_on_intr(written)?)
    }

    fn environment(&self) -> Environment {
        self.environment
    }
}

/// Opens a file that must exist. `NONBLOCK`, so that a pipe of that name cannot make us wait.
fn open_file(path: &Path, read_only: bool) -> Result<File, PoolError> {
    let access = if read_only { OFlags::RDONLY } else { OFlags::RDWR };
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let result = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()));
    let opened = result.map_err(|error| match error {
        Errno::NOENT => PoolError::Missing { path: path.into() },
        Errno::ISDIR | Errno::NXIO => PoolError::NotAFile { path: path.into() },
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            PoolError::Permission { path: path.into(), read_only, source: error.into() }
        }
        error => PoolError::Io { path: path.into(), action: "open the file", source: error.into() },
    })?;
    let opened = above_standard_streams(opened).map_err(|source| PoolError::Io {
        path: path.into(),
        action: "duplicate the descriptor",
        source,
    })?;
    Ok(File::from(opened))
}

/// Opens the file that has this name, and locks it.
///
/// Another process may put a new file in its place (a compaction, a pool that is rebuilt) after we
/// opened the old one and before we locked it: what is written to the old one would be gone.
fn open_locked(path: &Path, read_only: bool) -> Result<(File, Held), PoolError> {
    let io = |action| move |source| PoolError::Io { path: path.into(), action, source };
    loop {
        let file = open_file(path, read_only)?;
        let status = file.metadata().map_err(io("read the length"))?;
        if !status.is_file() {
            return Err(PoolError::NotAFile { path: path.into() });
        }
        let held = take_lock(&file, path, read_only)?;
        let now = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(PoolError::Missing { path: path.into() });
            }
            found => found.map_err(io("find the file again"))?,
        };
        if (now.dev(), now.ino()) == (status.dev(), status.ino()) {
            return Ok((file, held));
        }
    }
}

fn take_lock(file: &File, path: &Path, read_only: bool) -> Result<Held, PoolError> {
    let path = path.to_path_buf();
    match holder::lock(file, !read_only) {
        Ok(Lock::Ours(held)) => Ok(held),
        Ok(Lock::Theirs(holders)) => Err(PoolError::Locked { path, holders, read_only }),
        Err(source) => Err(PoolError::Io { path, action: "lock the file", source }),
    }
}

/// How large the pool in a file is, and may become.
struct Extent {
    size: u64,
    max_size: u64,
}

/// Reads the records that are needed to map the file, and refuses what is no pool. A file of any
/// content may be given.
fn peek(file: &File, path: &Path, length: u64) -> Result<Extent, PoolError> {
    if length == 0 {
        return Err(PoolError::Empty { path: path.into() });
    }
    // A file that is too short for a copy has zeros there, and is found to be foreign, or cut short.
    let mut bytes = vec![0; DATA_START as usize];
    let present = length.min(DATA_START) as usize;
    file.read_exact_at(&mut bytes[..present], 0).map_err(|source| PoolError::Io {
        path: path.into(),
        action: "read the header",
        source,
    })?;
    let headers: [HeaderWords; 2] = HEADER_OFFSETS.map(|offset| words(&bytes, offset));
    let truncated = |needed| PoolError::Truncated { path: path.into(), length, needed };
    let header = match header::choose(&headers, path) {
        Err(PoolError::Damaged { .. }) if length < DATA_START => {
            return Err(truncated(DATA_START));
        }
        result => result?.0,
    };
    if length < DATA_START {
        return Err(truncated(DATA_START));
    }
    let sessions: [SessionWords; 2] = SESSION_OFFSETS.map(|offset| words(&bytes, offset));
    let session = session_record::choose(&sessions, path)?.0;
    if session.size > length {
        return Err(truncated(session.size));
    }
    Ok(Extent { size: session.size, max_size: header.max_size })
}

/// `N` words of the bytes from `offset` on, all within.
fn words<const N: usize>(bytes: &[u8], offset: u64) -> [u64; N] {
    let (chunks, _) = bytes[offset as usize..].as_chunks::<8>();
    std::array::from_fn(|index| u64::from_le_bytes(chunks[index]))
}
