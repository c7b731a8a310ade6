//! The disk of this machine.
//!
//! Folder and files are for their owner alone, whatever the umask: they hold the data of the store. A file belongs to
//! the owner of the folder, also if root makes it.
//! Everything is reached by the open folder and not by its path, so that a folder that is moved while it
//! is open stays the one that is used.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;
use std::sync::Mutex;

use everleaf_machine::{OwnerProcess, above_standard_streams};
use rustix::fs::{
    AtFlags, Dir, FallocateFlags, Mode, OFlags, fallocate, fstat, openat, renameat, statat,
    unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use crate::{Disk, DiskFile, Error, Result};

/// A folder of the file system, held exclusively: a second opener is refused as long as it lives.
#[derive(Debug)]
pub struct RealDisk {
    /// The folder itself: locked, and synced to make names durable.
    handle: File,
    /// A descriptor that is kept for a file that cannot wait. Nobody waits for this lock, so it has no rank.
    kept: Mutex<Option<OwnedFd>>,
    owner: OwnerProcess,
}

impl RealDisk {
    /// Opens the folder, and creates it if there is none (its parent must exist).
    ///
    /// # Errors
    /// [`Error::Locked`] if another process has it open, and the operating system's answer if it
    /// cannot be created or opened.
    pub fn open(folder: impl AsRef<Path>) -> Result<RealDisk> {
        Self::open_for(folder.as_ref(), None)
    }

    /// As [`Self::open`]; a folder that it creates belongs to the owner of `kin`, if there is such a file and we may
    /// give it away.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_beside(folder: impl AsRef<Path>, kin: impl AsRef<Path>) -> Result<RealDisk> {
        Self::open_for(folder.as_ref(), Some(kin.as_ref()))
    }

    fn open_for(folder: &Path, kin: Option<&Path>) -> Result<RealDisk> {
        let failed = |error: &io::Error| {
            Error::io(format!("cannot open the folder {} of the log", folder.display()), error)
        };
        let is_new = match DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(failed(&error)),
        };
        // The process that made it may have died before its name was durable.
        match sync_parent(folder) {
            // The process that made it could do it, or would have been refused.
            Err(error) if !is_new && error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced.map_err(|error| failed(&error))?,
        }
        // A new folder is no link, unless somebody else has put one in its place.
        let flags = if is_new { OFlags::NOFOLLOW | OFlags::DIRECTORY } else { OFlags::empty() };
        let opened =
            OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(folder);
        let handle = opened.map_err(|error| failed(&link_to_nothing(folder).unwrap_or(error)))?;
        match handle.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked(folder.into())),
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
        }
        if let (true, Some(Ok(kin))) = (is_new, kin.map(std::fs::metadata)) {
            give_folder(&handle, &kin);
        }
        Ok(RealDisk { handle, kept: Mutex::default(), owner: OwnerProcess::current() })
    }
}

/// Given up by name, not only by closing: a process that another thread forks off this one has a
/// copy of the descriptor until it runs its program, and closing ours alone would leave the folder
/// locked that long. Not so in a forked process that drops an inherited handle: the lock belongs to
/// the open folder, which it shares with its parent, and would be gone for both.
impl Drop for RealDisk {
    fn drop(&mut self) {
        if self.owner.is_current() {
            // Cannot fail on an open folder; closing follows in any case.
            let _ = self.handle.unlock();
        }
    }
}

impl RealDisk {
    fn open_file(&self, name: &str, flags: OFlags, mode: Mode) -> io::Result<File> {
        let flags = flags | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
        let opened = retry_on_intr(|| openat(&self.handle, name, flags, mode));
        Ok(File::from(above_standard_streams(opened?)?))
    }

    /// Takes a descriptor to keep, if there is none and the system has one. It is a file of its own, and no copy: the
    /// limit may be that of the whole system.
    fn keep_descriptor(&self) {
        let Ok(mut kept) = self.kept.try_lock() else { return };
        if kept.is_none() {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
            *kept = openat(&self.handle, ".", flags, Mode::empty()).ok();
        }
    }
}

/// The error for a folder that is a link which leads to nothing; `None` if it is not.
#[doc(hidden)]
pub fn link_to_nothing(folder: &Path) -> Option<io::Error> {
    let to = std::fs::read_link(folder).ok()?;
    match std::fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        _ => return None,
    }
    let text = format!(
        "{} is a link to {}, and nothing is there: mount the disk that has the log, or make that folder if there never \
         was a log; without either, remove the link",
        folder.display(),
        to.display()
    );
    Some(io::Error::new(io::ErrorKind::NotFound, text))
}

/// Makes the name of a folder durable.
fn sync_parent(folder: &Path) -> io::Result<()> {
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent)?.sync_all()
}

/// Gives a new folder to the owner of the file that it is beside, if we may; by its descriptor, and only if it is
/// empty: the owner of the folder around may have put another one in its place, which is not theirs to have.
fn give_folder(folder: &File, kin: &Metadata) {
    let is_own =
        folder.metadata().is_ok_and(|own| (own.uid(), own.gid()) == (kin.uid(), kin.gid()));
    let is_empty = || Dir::read_from(folder).is_ok_and(|entries| entries.count() == 2);
    if !is_own && is_empty() {
        let _ = fchown(folder, Some(kin.uid()), Some(kin.gid()));
    }
}

/// Gives a new file to the owner of its folder, if we may: what root writes to the log of a service's user would
/// lock that user out of the log.
fn give_to_owner(file: &File, folder: &File) {
    let (Ok(file_status), Ok(folder_status)) = (fstat(file), fstat(folder)) else { return };
    let (owner, group) = (folder_status.st_uid, folder_status.st_gid);
    if (file_status.st_uid, file_status.st_gid) != (owner, group) {
        // Only root may: others write to their own log, or to one that they may not read any more anyway.
        let _ = fchown(file, Some(owner), Some(group));
    }
}

/// Whether the file system, or a system that filters or emulates calls, cannot take space ahead.
fn cannot_allocate(error: Errno) -> bool {
    matches!(error, Errno::OPNOTSUPP | Errno::NOSYS)
}

impl Disk for RealDisk {
    type File = File;

    fn create(&self, name: &str) -> io::Result<File> {
        let (flags, mode) = (OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR);
        let file = self.open_file(name, flags, mode)?;
        give_to_owner(&file, &self.handle);
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<File> {
        self.open_file(name, OFlags::empty(), Mode::empty())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(retry_on_intr(|| renameat(&self.handle, from, &self.handle, to))?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(retry_on_intr(|| unlinkat(&self.handle, name, AtFlags::empty()))?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            // A name that is no UTF-8 is none of ours.
            let name = entry?.file_name().to_str().map(str::to_owned);
            names.extend(name.ok().filter(|name| name != "." && name != ".."));
        }
        Ok(names)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn has_name(&self) -> io::Result<bool> {
        // Asked at every sync: the one that was given up last has gone into a file, and another one was closed for it.
        self.keep_descriptor();
        Ok(fstat(&self.handle)?.st_nlink > 0)
    }

    /// By the name, and not by how many the file has: NFS and FUSE hide a file that is removed while it is open under a
    /// name of their own, in the same folder. Where the folder may not be searched, for a moment or since the program
    /// has given up rights, by the number: that is no reason to end a log.
    fn leads_to(&self, name: &str, file: &File) -> io::Result<bool> {
        let found = match retry_on_intr(|| statat(&self.handle, name, AtFlags::empty())) {
            Err(Errno::NOENT | Errno::STALE) => return Ok(false),
            Err(Errno::ACCESS | Errno::PERM) => return Ok(fstat(file)?.st_nlink > 0),
            found => found?,
        };
        let own = fstat(file)?;
        // A name without a file stays where that one file is a mount of its own.
        Ok((found.st_dev, found.st_ino) == (own.st_dev, own.st_ino) && own.st_nlink > 0)
    }

    fn give_descriptor(&self) -> bool {
        self.kept.try_lock().is_ok_and(|mut kept| kept.take().is_some())
    }
}

impl DiskFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn preallocate(&self, size: u64) -> io::Result<()> {
        // A signal ends it on some file systems. An error of the log is for good, and this is none.
        match retry_on_intr(|| fallocate(self, FallocateFlags::empty(), 0, size)) {
            Ok(()) => Ok(()),
            // A full disk shows when it is written.
            Err(error) if cannot_allocate(error) => self.set_len(size),
            Err(error) => Err(error.into()),
        }
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{read_up_to, write_whole};

    #[test]
    fn a_folder_is_created_held_and_released() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("log");
        let disk = RealDisk::open(&folder).unwrap();
        assert!(matches!(RealDisk::open(&folder), Err(Error::Locked(path)) if path == folder));
        drop(disk);
        RealDisk::open(&folder).unwrap();
        assert!(RealDisk::open(parent.path().join("no/such/parent")).is_err());
    }

    /// A copy of the descriptor is what a forked process has until it runs its program.
    #[test]
    fn a_folder_is_released_while_a_copy_of_its_descriptor_lives() {
        let folder = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(folder.path()).unwrap();
        let copy = disk.handle.try_clone().unwrap();
        drop(disk);
        RealDisk::open(folder.path()).unwrap();
        drop(copy);
    }

    #[test]
    fn files_keep_what_is_written_through_all_operations() {
        let folder = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(folder.path()).unwrap();
        let file = disk.create("a").unwrap();
        file.preallocate(8192).unwrap();
        assert_eq!(file.size().unwrap(), 8192);
        write_whole(&file, b"bytes", 5000).unwrap();
        file.sync_data().unwrap();
        disk.rename("a", "b").unwrap();
        disk.sync_folder().unwrap();
        assert_eq!(disk.list().unwrap(), ["b"]);
        let mut buffer = [1; 10];
        let file = disk.open("b").unwrap();
        file.truncate(5007).unwrap();
        assert_eq!(read_up_to(&file, &mut buffer, 5000).unwrap(), 7);
        assert_eq!(&buffer[..8], b"bytes\0\0\x01");
        disk.remove("b").unwrap();
        assert_eq!(disk.open("b").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// What was refused: a log under a filter of system calls that does not know `fallocate`, beside a pool.
    #[test]
    fn space_that_cannot_be_taken_ahead_is_told_from_a_full_disk() {
        assert!([Errno::OPNOTSUPP, Errno::NOSYS].into_iter().all(cannot_allocate));
        assert!(
            ![Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::INTR].into_iter().any(cannot_allocate)
        );
    }

    #[test]
    fn a_file_is_looked_for_by_its_name_in_the_folder() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, moved) = (parent.path().join("log"), parent.path().join("moved"));
        let disk = RealDisk::open(&folder).unwrap();
        let file = disk.create("a").unwrap();
        std::fs::rename(&folder, &moved).unwrap();
        let is_there = || disk.leads_to("a", &file).unwrap();
        assert!(disk.has_name().unwrap() && is_there());
        // How NFS removes a file that is open; and what somebody may do with it anywhere.
        for to in [moved.join(".nfs0000000000000001"), parent.path().join("elsewhere")] {
            std::fs::rename(moved.join("a"), &to).unwrap();
            assert!(!is_there(), "{to:?}");
            std::fs::write(moved.join("a"), b"another").unwrap();
            assert!(!is_there(), "{to:?}");
            std::fs::rename(to, moved.join("a")).unwrap();
            assert!(is_there());
        }
        std::fs::remove_file(moved.join("a")).unwrap();
        assert!(disk.has_name().unwrap() && !is_there());
        std::fs::remove_dir(moved).unwrap();
        assert!(!disk.has_name().unwrap() && !is_there());
    }
}
