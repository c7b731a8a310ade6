//! The seam to the disk: one folder of files, and the few operations that log and snapshots need.
//!
//! `RealDisk` passes them on to the operating system. `SimulatedDisk` keeps everything in memory
//! and does what the assumptions of `docs/log.md` allow a disk to do, by a seed. No other part of
//! this crate touches a file.

use std::{fmt, io};

/// Bytes that are read and written at once. What is larger is read or written all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portions {
    /// Of a segment that is read.
    pub window: usize,
    /// Records of a block of a snapshot, before compression.
    pub block: usize,
    /// Of a snapshot that is written.
    pub write: usize,
}

impl Default for Portions {
    fn default() -> Self {
        Portions { window: 256 << 10, block: 256 << 10, write: 1 << 20 }
    }
}

/// A folder on a disk. All methods may be called by several threads at once.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// An open file of the folder.
    type File: DiskFile;

    /// Creates an empty file. Its name is durable after [`Disk::sync_folder`].
    ///
    /// # Errors
    /// `AlreadyExists` if there is one; the operating system's answer otherwise.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// `NotFound` if there is none; the operating system's answer otherwise.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Gives a file a new name, at once; a file that had it is gone. Durable after
    /// [`Disk::sync_folder`].
    ///
    /// # Errors
    /// The operating system's answer.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Durable after [`Disk::sync_folder`].
    ///
    /// # Errors
    /// The operating system's answer.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of all files, in any order.
    ///
    /// # Errors
    /// The operating system's answer.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes durable which names there are and which files they mean.
    ///
    /// # Errors
    /// The operating system's answer.
    fn sync_folder(&self) -> io::Result<()>;

    /// Whether the folder is still there, and not removed while it is open.
    ///
    /// # Errors
    /// The operating system's answer.
    fn has_name(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Whether this name still leads to the open file, which is not removed, moved away or replaced.
    ///
    /// # Errors
    /// The operating system's answer.
    fn leads_to(&self, _name: &str, _file: &Self::File) -> io::Result<bool> {
        Ok(true)
    }

    /// Gives up the descriptor that it keeps for a file that cannot wait, and says whether there was one.
    fn give_descriptor(&self) -> bool {
        false
    }

    /// How much is read and written at once: as much as by default, except on a simulated disk, where
    /// little is, so that small runs come to the ends of portions.
    fn portions(&self) -> Portions {
        Portions::default()
    }

    /// Whether the planted bug of this name is to be shown: never, except on a simulated disk.
    fn mutant(&self, _name: &'static str) -> bool {
        false
    }

    /// Says that a point of the program was reached at which a run on a simulated disk may want to
    /// do something else first. Nothing, except on such a disk.
    fn reached(&self, _point: &'static str) {}

    /// Says that the calling thread has to wait for others. True if they have gone on meanwhile, and
    /// it has to look again; false if it has to wait itself, as always except on a simulated disk.
    fn waits(&self, _point: &'static str) -> bool {
        false
    }
}

/// An open file. All methods may be called by several threads at once.
pub trait DiskFile: fmt::Debug + Send + Sync + 'static {
    /// Reads at `offset`, and says how many bytes: fewer than asked for if the file ends or if the
    /// operating system likes.
    ///
    /// # Errors
    /// The operating system's answer.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at `offset`, and says how many bytes: perhaps fewer than asked for. The file grows
    /// as needed.
    ///
    /// # Errors
    /// The operating system's answer.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes everything written to the file durable, and its size.
    ///
    /// # Errors
    /// The operating system's answer. What was written since the last success is then lost or not,
    /// and a second call that succeeds says nothing about it.
    fn sync_data(&self) -> io::Result<()>;

    /// Takes space for `size` bytes, so that writes within it need none. New space reads as zero.
    ///
    /// # Errors
    /// `StorageFull` if there is not as much; the operating system's answer otherwise.
    fn preallocate(&self, size: u64) -> io::Result<()>;

    /// Cuts the file off behind `size` bytes. Durable after [`DiskFile::sync_data`], or later.
    ///
    /// # Errors
    /// The operating system's answer.
    fn truncate(&self, size: u64) -> io::Result<()>;

    /// Bytes in the file.
    ///
    /// # Errors
    /// The operating system's answer.
    fn size(&self) -> io::Result<u64>;
}

/// Reads until the buffer is full or the file ends; returns how many bytes there were.
pub(crate) fn read_up_to(
    file: &impl DiskFile,
    buffer: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all of `bytes`, however many calls it takes.
pub(crate) fn write_whole(file: &impl DiskFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
