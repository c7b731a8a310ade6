//! The seam to the disk: one folder of files, and the few operations that log and snapshots need.
//!
//! `RealDisk` passes them on to the operating system. `SimulatedDisk` keeps everything in memory
//! and does what the assumptions of `docs/log.md` allow a disk to do, by a seed. No other part of
//! this crate touches a file.

use std::collections::BTreeMap;
use std::time::Duration;
use std::{fmt, io, thread};

use rustix::io::Errno;

use crate::layout::BLOCK_SIZE;

/// How often a disk is asked that says that it cannot read.
pub(crate) const READ_TRIES: u32 = 3;
/// How often it is waited for a disk in one reading of a file: a bad one would be waited for in each of its parts.
const PAUSES_MAX: u32 = 10;
/// Where so many parts of a file cannot be read, the next ones are not looked for block by block: a disk may need
/// seconds for each of them.
const PARTS_SOUGHT_MAX: usize = 32;

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
    /// How long is waited before a disk is asked again that says that it cannot read: it may be away for a moment.
    const READ_PAUSE: Duration = Duration::from_millis(100);

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

/// Whether a disk, or the check sums of its file system, say that what is there cannot be read.
pub(crate) fn is_bad_medium(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::IO | Errno::BADMSG | Errno::UCLEAN | Errno::NODATA)
    )
}

/// What a disk cannot read of a file, as far as it was asked.
#[derive(Debug, Default)]
pub(crate) struct Unreadable {
    /// Where each part begins and ends.
    parts: BTreeMap<u64, u64>,
    /// What the disk said of the last one.
    answer: String,
    /// How often it was waited for.
    pauses: u32,
}

impl Unreadable {
    /// Reads as [`read_up_to`] does, and leaves zeros where the disk cannot read its medium though it is asked again:
    /// what is on both sides of a bad sector is read.
    ///
    /// # Errors
    /// Any other answer of the disk: it is about this moment.
    pub(crate) fn read_around<F: DiskFile>(
        &mut self,
        file: &F,
        buffer: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        let (mut done, mut wanted, mut tries) = (0, buffer.len(), 1);
        while done < buffer.len() {
            let (at, left) = (offset + done as u64, buffer.len() - done);
            if let Some(end) = self.end_of_part(at) {
                let skipped = (end - at).min(left as u64) as usize;
                buffer[done..done + skipped].fill(0);
                done += skipped;
                (wanted, tries) = (buffer.len(), 1);
                continue;
            }
            let size = wanted.min(left).min(self.readable_from(at));
            match file.read_at(&mut buffer[done..done + size], at) {
                Ok(0) => break,
                Ok(count) => (done, tries) = (done + count, 1),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if !is_bad_medium(&error) => return Err(error),
                Err(_) if self.parts.len() < PARTS_SOUGHT_MAX && size > left_of_block(at) => {
                    wanted = (size / 2).next_multiple_of(BLOCK_SIZE as usize).min(size - 1);
                    wanted = wanted.max(left_of_block(at));
                }
                Err(_) if tries < READ_TRIES => {
                    tries += 1;
                    self.wait(F::READ_PAUSE);
                }
                Err(error) => {
                    self.parts.insert(at, at + size.max(left_of_block(at)) as u64);
                    self.answer = error.to_string();
                }
            }
        }
        Ok(done)
    }

    /// Opens a file, and says how many bytes it has; `None` if its disk cannot read even that, though it is asked
    /// again.
    ///
    /// # Errors
    /// As [`Self::read_around`].
    pub(crate) fn open<D: Disk>(
        &mut self,
        disk: &D,
        name: &str,
    ) -> io::Result<Option<(D::File, u64)>> {
        let open = || disk.open(name).and_then(|file| file.size().map(|size| (file, size)));
        let mut tries = 1;
        loop {
            match open() {
                Ok(opened) => return Ok(Some(opened)),
                Err(error) if !is_bad_medium(&error) => return Err(error),
                Err(_) if tries < READ_TRIES => {
                    tries += 1;
                    self.wait(D::File::READ_PAUSE);
                }
                Err(error) => {
                    // It may have any size: its header, and something behind that.
                    self.parts.insert(0, 2 * BLOCK_SIZE);
                    self.answer = error.to_string();
                    return Ok(None);
                }
            }
        }
    }

    fn wait(&mut self, pause: Duration) {
        if self.pauses < PAUSES_MAX {
            self.pauses += 1;
            thread::sleep(pause);
        }
    }

    /// Where the first part begins that is at `offset` or behind, and what the disk says of it.
    pub(crate) fn first_from(&self, offset: u64) -> Option<(u64, &str)> {
        let (begin, _) = self.parts.iter().find(|(_, end)| **end > offset)?;
        Some((offset.max(*begin), &self.answer))
    }

    /// Bytes in the parts behind `offset`.
    pub(crate) fn size_from(&self, offset: u64) -> u64 {
        self.parts.iter().map(|(begin, end)| end.saturating_sub(offset.max(*begin))).sum()
    }

    /// Where the part ends in which `offset` is.
    fn end_of_part(&self, offset: u64) -> Option<u64> {
        self.parts.range(..=offset).next_back().map(|(_, end)| *end).filter(|end| *end > offset)
    }

    /// Bytes up to the next part.
    fn readable_from(&self, offset: u64) -> usize {
        let next = self.parts.range(offset..).next();
        next.map_or(usize::MAX, |(begin, _)| (begin - offset) as usize)
    }
}

/// Bytes up to the end of the block.
fn left_of_block(offset: u64) -> usize {
    (BLOCK_SIZE - offset % BLOCK_SIZE) as usize
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
