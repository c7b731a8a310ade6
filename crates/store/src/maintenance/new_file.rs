//! A file that is there as a whole or not at all: made beside its place, and named when it is complete
//! and on the disk.
//!
//! ```text
//!   words.pool                          its place
//!   .words.pool.everleaf-new/           a folder of its own while it is made, held by a lock
//!   .words.pool.everleaf-new/words.pool the file
//! ```
//!
//! A process that is killed while it makes a file leaves the folder, and nothing that could be taken for the
//! file. The next that makes a file for the same place removes it: the lock says that nobody uses it, and
//! its name, its owner and what is in it, that it is ours. (A name too long for that is cut in the name of the folder,
//! and its check sum follows.) Folder and file are for their owner alone. A file that
//! replaces another has its permissions, and a symbolic link keeps its place: what it leads to is
//! replaced, or made if it leads to nothing yet.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Result as IoResult};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use everleaf_index::{OwnerProcess, above_standard_streams};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, StatxAttributes, StatxFlags, openat, renameat_with,
    statx,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::conversion::io;
use crate::{Error, Result};

const ENDING: &str = ".everleaf-new";
/// The longest name of a file, and what a longer one is cut to, in bytes.
const NAME_SIZE_MAX: usize = 255;
const SHORT_NAME_SIZE: usize = 200;
/// How often a folder that somebody else removes meanwhile is rebuilt.
const ATTEMPTS: usize = 100;

/// A file that is being made. Dropped before it has its name, it leaves nothing behind.
#[derive(Debug)]
pub struct NewFile {
    target: PathBuf,
    folder: PathBuf,
    /// The folder, locked.
    handle: File,
    owner: OwnerProcess,
}

/// The folder that a name is in.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Where what is written to `path` has to be made: the path itself, or behind a symbolic link what that
/// leads to, whether there is something or not.
///
/// # Errors
/// What the file system answers; links that lead to each other; one that the system lets nobody follow.
pub fn followed(path: &Path) -> IoResult<PathBuf> {
    match fs::metadata(path) {
        Ok(_) => return fs::canonicalize(path),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    // The kernel has followed it to its end, so there is one.
    let mut file = path.to_path_buf();
    while fs::symlink_metadata(&file).is_ok_and(|found| found.is_symlink()) {
        let to = fs::read_link(&file)?;
        file = folder_of(&file).join(to);
    }
    Ok(file)
}

/// Whether a name ends in a way in which only folders are found: `x/`, which makes `x`, is not there behind that.
fn names_folder(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    !path.as_os_str().as_encoded_bytes().ends_with(name.as_encoded_bytes())
}

/// Whether a file is mounted there, as containers do it; false where the system does not say.
fn is_mounted(file: &Path) -> bool {
    let (flags, mounted) = (AtFlags::SYMLINK_NOFOLLOW, StatxAttributes::MOUNT_ROOT);
    statx(CWD, file, flags, StatxFlags::empty())
        .is_ok_and(|found| (found.stx_attributes & found.stx_attributes_mask).contains(mounted))
}

/// The path from the root of a file that may be missing, in a folder that is there.
fn place_of(file: &Path) -> IoResult<PathBuf> {
    let name = file.file_name().ok_or(ErrorKind::InvalidFilename)?;
    Ok(fs::canonicalize(folder_of(file))?.join(name))
}

/// Makes the name of a file durable.
pub(crate) fn sync_name(path: &Path) -> IoResult<()> {
    sync_folder(&File::open(folder_of(path))?)
}

/// Makes the names in a folder durable. Some file systems cannot.
fn sync_folder(folder: &File) -> IoResult<()> {
    match folder.sync_all() {
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
            Ok(())
        }
        done => done,
    }
}

/// The name of the folder for a file of this name. File systems take no more than 255 bytes, of which a
/// long name leaves too few: then it is shortened, and told from others by its check sum.
fn folder_name(name: &OsStr) -> OsString {
    let mut folder = OsString::from(".");
    match name.len() + 1 + ENDING.len() <= NAME_SIZE_MAX {
        true => folder.push(name),
        false => {
            let bytes = name.as_encoded_bytes();
            folder.push(OsStr::from_bytes(&bytes[..SHORT_NAME_SIZE]));
            folder.push(format!("-{:08x}", everleaf_log::checksum(bytes)));
        }
    }
    folder.push(ENDING);
    folder
}

impl NewFile {
    /// Begins a file that is to lie at `target`, which stays as it is until the new one is complete.
    ///
    /// # Errors
    /// [`Error::Locked`] if somebody is making a file for this place; what the file system answers.
    pub fn beside(target: &Path) -> Result<NewFile> {
        let what = format!("cannot write {}", target.display());
        let Some(name) = target.file_name() else {
            return Err(io(what)(ErrorKind::InvalidFilename.into()));
        };
        let followed = followed(target).map_err(io(what.clone()))?;
        if [target, &followed].into_iter().any(names_folder) {
            let why = "its name ends as that of a folder: leave what follows the name away";
            return Err(io(what)(std::io::Error::new(ErrorKind::InvalidFilename, why)));
        }
        let target = match place_of(&followed) {
            Ok(place) => place,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let folder = folder_of(&followed).display();
                return Err(io(format!("{what}: create the folder {folder} first"))(error));
            }
            Err(error) => return Err(io(what)(error)),
        };
        if is_mounted(&target) && !target.is_dir() {
            // The system would refuse the name when all is done.
            let why = "a file that is mounted by itself cannot be replaced: mount the folder that it is in";
            return Err(io(what)(std::io::Error::new(ErrorKind::CrossesDevices, why)));
        }
        let folder = target.with_file_name(folder_name(target.file_name().unwrap_or(name)));
        for _ in 0..ATTEMPTS {
            if let Some(handle) = hold(&folder, &target).map_err(|error| match error.kind() {
                ErrorKind::WouldBlock => Error::Locked(format!(
                    "another process is making {}: wait until it has ended",
                    target.display()
                )),
                _ => io(what.clone())(error),
            })? {
                return Ok(NewFile { target, folder, handle, owner: OwnerProcess::current() });
            }
        }
        Err(Error::Locked(format!("other processes keep making {}", target.display())))
    }

    /// Where the file is to be made; nothing is there yet.
    pub fn path(&self) -> PathBuf {
        self.folder.join(self.target.file_name().unwrap_or_default())
    }

    /// Makes the file, empty, to be written.
    ///
    /// # Errors
    /// What the file system answers.
    pub fn create(&self) -> IoResult<File> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(self.path())?;
        // As of the folder, a umask may have taken what its owner needs.
        if file.metadata()?.mode() & 0o600 != 0o600 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        above_standard_streams(file.into()).map(File::from)
    }

    /// Brings the file to the disk and gives it its name, in place of what has that name.
    ///
    /// # Errors
    /// What the file system answers.
    pub fn replace(self) -> Result<()> {
        self.complete(|file, target| {
            if let Ok(old) = fs::metadata(target) {
                inherit(file, &old)?;
            }
            fs::rename(self.path(), target)
        })
    }

    /// As [`Self::replace`]; with nothing to replace, it belongs to the owner of `kin`, if we may give it away. So a
    /// pool that root makes from a user's log is the user's.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub(crate) fn replace_beside(self, kin: &Path) -> Result<()> {
        let kin = fs::metadata(kin);
        self.complete(|file, target| {
            match (fs::metadata(target), kin) {
                (Ok(old), _) => inherit(file, &old)?,
                (Err(_), Ok(kin)) => drop(fchown(file, Some(kin.uid()), Some(kin.gid()))),
                (Err(_), Err(_)) => {}
            }
            fs::rename(self.path(), target)
        })
    }

    /// Brings the file to the disk and gives it its name, which must be free.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`]; what the file system answers.
    pub fn place(self) -> Result<()> {
        self.place_with(|_, _| ())
    }

    /// As [`Self::place`]; it belongs to the owner of the folder that it is in, if we may give it away, and nobody else
    /// may write there. So a pool that root makes in the folder of a service's user can be opened by that user.
    ///
    /// # Errors
    /// As [`Self::place`].
    pub fn place_for_owner(self) -> Result<()> {
        self.place_with(give_to_owner)
    }

    /// As [`Self::place`], once something was done with the file and the folder around.
    fn place_with(self, prepare: impl FnOnce(&File, &File)) -> Result<()> {
        let placed = self.complete(|file, target| {
            prepare(file, &File::open(folder_of(target))?);
            match fs::hard_link(self.path(), target) {
                Err(error) if cannot_link(&error) => rename_to_free(&self.path(), target),
                done => done,
            }
        });
        match placed {
            Err(Error::Io(_, error)) if error.kind() == ErrorKind::AlreadyExists => {
                Err(Error::AlreadyExists(self.target.clone()))
            }
            placed => placed,
        }
    }

    /// Whether the folder is still where it was made. If the one around it was moved away, another may lie there, in
    /// which somebody else makes a file of this name.
    fn is_in_place(&self) -> bool {
        let held = self.handle.metadata().map(|held| identity(&held));
        let found = fs::symlink_metadata(&self.folder).map(|found| identity(&found));
        matches!((held, found), (Ok(held), Ok(found)) if held == found)
    }

    fn complete(&self, name: impl FnOnce(&File, &Path) -> IoResult<()>) -> Result<()> {
        let complete = || {
            if !self.is_in_place() {
                let why = "the folder in which it is made was moved or removed meanwhile";
                return Err(std::io::Error::new(ErrorKind::NotFound, why));
            }
            // Not by its path: the owner of the folder around may put another file there, which is not to be given.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let own_name = self.target.file_name().unwrap_or_default();
            let file = File::from(openat(&self.handle, own_name, flags, Mode::empty())?);
            file.sync_all()?;
            // Before: a caller that is told that the file could not be made is not to find it.
            let folder = File::open(folder_of(&self.target))?;
            name(&file, &self.target)?;
            sync_folder(&folder)
        };
        complete().map_err(io(format!("cannot write {}", self.target.display())))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            // Inherited by a fork: another process makes the file.
            return;
        }
        if self.is_in_place() {
            // What cannot be removed is removed by the next call that makes this file.
            let _ = clear(&self.folder, &self.target);
        }
        let _ = self.handle.unlock();
    }
}

/// Removes what a process left that was killed when the file at `target` had its name already: it may be a second name
/// of that file. What somebody is making, or cannot be removed, stays.
pub(crate) fn remove_leftovers(target: &Path) {
    let folder = target.with_file_name(folder_name(target.file_name().unwrap_or_default()));
    if folder.symlink_metadata().is_ok() {
        // It takes the place of the one that was killed, and goes at once.
        drop(NewFile::beside(target));
    }
}

/// Whether a file system has no hard links.
fn cannot_link(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported)
}

/// Renames a file, unless there is one of the new name.
fn rename_to_free(from: &Path, to: &Path) -> IoResult<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system, or the kernel, does not know that: somebody else may be faster behind the look.
        Err(Errno::INVAL | Errno::NOSYS) => match to.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => fs::rename(from, to),
            Err(error) => Err(error),
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
        },
        done => Ok(done?),
    }
}

/// Gives a new file the owner and the permissions of the one that it replaces; not those of a group
/// that it cannot be given to.
fn inherit(file: &File, old: &Metadata) -> IoResult<()> {
    let new = file.metadata()?;
    let is_same = (new.uid(), new.gid()) == (old.uid(), old.gid());
    let is_given = is_same || fchown(file, Some(old.uid()), Some(old.gid())).is_ok();
    let mode = old.mode() & if is_given { 0o777 } else { 0o700 };
    file.set_permissions(Permissions::from_mode(mode))
}

/// Gives a new file to the owner of the folder around, if we may, unless others may write there, too.
fn give_to_owner(file: &File, folder: &File) {
    let (Ok(new), Ok(around)) = (file.metadata(), folder.metadata()) else { return };
    if new.uid() != around.uid() && around.mode() & 0o022 == 0 {
        // Only root may: others make files in their own folders, or in those of groups.
        let _ = fchown(file, Some(around.uid()), Some(around.gid()));
    }
}

/// Makes the folder and locks it; removes what a process left there that was killed. `None` if
/// somebody else was faster with that: to be tried again.
///
/// # Errors
/// `WouldBlock` if somebody has it; what the file system answers.
fn hold(folder: &Path, target: &Path) -> IoResult<Option<File>> {
    let is_made = match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => true,
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        Err(_) => false,
    };
    match take(folder, target, is_made) {
        // Nobody else may be at work there: what refuses us may be of this moment, and would refuse the next as well.
        Err(error) if is_made && error.kind() != ErrorKind::WouldBlock => {
            let _ = fs::remove_dir(folder);
            Err(error)
        }
        taken => taken,
    }
}

/// Locks the folder, which was made by us or before.
fn take(folder: &Path, target: &Path, is_made: bool) -> IoResult<Option<File>> {
    if is_made {
        // A umask may have taken even the owner's permissions, and then nobody could remove it any more.
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    if !fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir()) {
        return Err(in_the_way(folder));
    }
    let handle = match File::open(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match handle.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let found = handle.metadata()?;
    if !is_made && !is_private(&found) {
        return Err(of_another(folder));
    }
    let held = identity(&found);
    // Another may have removed it, and made it anew, before we had the lock.
    if !fs::symlink_metadata(folder).is_ok_and(|found| identity(&found) == held) {
        return Ok(None);
    }
    remove_files(folder, target)?;
    Ok(Some(handle))
}

/// What tells a file or folder from all others.
fn identity(status: &Metadata) -> (u64, u64) {
    (status.dev(), status.ino())
}

/// Whether nobody else can put another file in the place of ours in this folder: in a folder that all may write to,
/// anybody can make one of this name before us, and what gets the name of our file would be theirs.
fn is_private(folder: &Metadata) -> bool {
    folder.uid() == geteuid().as_raw() && folder.mode() & 0o022 == 0
}

fn of_another(folder: &Path) -> std::io::Error {
    let text = format!(
        "{} belongs to another user, or others may write to it, and what is made there is to be ours alone: move it \
         away",
        folder.display()
    );
    std::io::Error::new(ErrorKind::AlreadyExists, text)
}

fn in_the_way(folder: &Path) -> std::io::Error {
    let text = format!(
        "{} is in the way, and Everleaf did not make what is in it: move it away",
        folder.display()
    );
    std::io::Error::new(ErrorKind::AlreadyExists, text)
}

/// Removes what is in the folder, all of which has to be ours by its name.
fn remove_files(folder: &Path, target: &Path) -> IoResult<()> {
    let name = target.file_name().unwrap_or_default();
    let (nested, name) = (folder_name(name), name.as_encoded_bytes());
    let entries = fs::read_dir(folder)?.collect::<IoResult<Vec<_>>>()?;
    // The file itself, its log, and such a folder of the file, whose name begins with a dot.
    let is_ours = |entry: &fs::DirEntry| {
        let found = entry.file_name();
        if found == nested {
            return true;
        }
        let found = found.as_encoded_bytes();
        let is_of_name = |found: &[u8]| match found.strip_prefix(name) {
            Some(rest) => rest.is_empty() || rest.starts_with(b"."),
            None => false,
        };
        // The name itself may begin with a dot.
        is_of_name(found) || found.strip_prefix(b".").is_some_and(is_of_name)
    };
    if !entries.iter().all(is_ours) {
        return Err(in_the_way(folder));
    }
    entries.iter().try_for_each(|entry| match entry.file_type()?.is_dir() {
        true => fs::remove_dir_all(entry.path()),
        false => fs::remove_file(entry.path()),
    })
}

fn clear(folder: &Path, target: &Path) -> IoResult<()> {
    remove_files(folder, target)?;
    fs::remove_dir(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let name = |entry: IoResult<fs::DirEntry>| {
            entry.expect("readable").file_name().into_string().expect("text")
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// Makes the folder of a process that was killed.
    fn leave(folder: &Path) {
        DirBuilder::new().mode(0o700).create(folder).expect("room");
    }

    fn write(new: &NewFile, text: &[u8]) {
        new.create().expect("room").write_all(text).expect("room");
    }

    #[test]
    fn a_file_has_its_name_when_it_is_complete() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let new = NewFile::beside(&path).expect("it can be begun");
        write(&new, b"half");
        assert!(!path.exists());
        drop(new);
        assert_eq!(names(folder.path()), Vec::<String>::new(), "nothing is left");
        let new = NewFile::beside(&path).expect("it can be begun");
        write(&new, b"whole");
        new.place().expect("the name is free");
        assert_eq!(fs::read(&path).expect("there"), b"whole");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        let new = NewFile::beside(&path).expect("it can be begun");
        write(&new, b"second");
        assert!(matches!(new.place(), Err(Error::AlreadyExists(_))));
        assert_eq!(fs::read(&path).expect("there"), b"whole");
        assert_eq!(names(folder.path()), ["file"]);
    }

    /// Where there are no links the name was looked at, and then taken by what replaces a file that came in between.
    #[test]
    fn without_links_no_file_is_replaced_either() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("new"), "new").expect("room");
        rename_to_free(&path("new"), &path("file")).expect("the name is free");
        assert_eq!(names(folder.path()), ["file"]);
        fs::write(path("second"), "second").expect("room");
        let refused = rename_to_free(&path("second"), &path("file")).expect_err("it is there");
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(path("file")).expect("there"), b"new");
    }

    #[test]
    fn what_was_left_is_removed_and_what_is_in_use_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let left = folder.path().join(".file.everleaf-new");
        leave(&left);
        fs::write(left.join("file"), "half").expect("room");
        let new = NewFile::beside(&path).expect("nobody uses what was left");
        assert!(!new.path().exists());
        assert!(matches!(NewFile::beside(&path), Err(Error::Locked(_))), "somebody makes it");
        drop(new);
        leave(&left);
        fs::write(left.join("of somebody else"), "kept").expect("room");
        let error = NewFile::beside(&path).expect_err("that is not ours").to_string();
        assert!(error.contains("in the way"), "{error}");
        assert!(left.join("of somebody else").exists());
    }

    /// The dot was taken off the name of the file itself, so that it was not known as ours: a pool of such a name could
    /// not be compacted nor rebuilt, and kept a second name. And whatever began with a name was taken for its file.
    #[test]
    fn names_with_a_dot_are_ours_and_longer_names_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in [".hidden", "p", "p.q"] {
            let path = folder.path().join(name);
            let new = NewFile::beside(&path).expect("it can be begun");
            write(&new, b"whole");
            new.place().expect("the name is free");
            let left = folder.path().join(format!(".{name}.everleaf-new"));
            assert!(!left.exists(), "{name}: the folder is gone");
            leave(&left);
            fs::write(left.join(format!("{name}recious")), "kept").expect("room");
            let error = NewFile::beside(&path).expect_err("that is not ours").to_string();
            assert!(error.contains("in the way"), "{error}");
        }
    }

    /// The folder around is moved away while a file is made, and in a new one somebody else makes a file of the same
    /// name: half of that file got the name, and the rest was removed under its maker.
    #[test]
    fn who_is_moved_away_neither_names_nor_removes_what_others_make() {
        let folder = tempfile::tempdir().expect("a folder");
        let (around, moved) = (folder.path().join("around"), folder.path().join("moved"));
        fs::create_dir(&around).expect("room");
        let path = around.join("file");
        let begin = |text: &[u8]| {
            let new = NewFile::beside(&path).expect("it can be begun");
            write(&new, text);
            new
        };
        let (first, second) = (begin(b"whole"), begin_elsewhere(&around, &moved, &path));
        write(&second, b"half");
        let error = first.place().expect_err("it is not there").to_string();
        assert!(error.contains("moved"), "{error}");
        assert!(!path.exists() && second.path().exists(), "the other goes on");
        drop(second);
        let third = begin(b"third");
        fs::remove_dir_all(&around).expect("it is ours");
        drop(third);
        assert_eq!(names(folder.path()), ["moved"]);
    }

    /// Moves a folder away, and begins a file in a new one.
    fn begin_elsewhere(around: &Path, moved: &Path, path: &Path) -> NewFile {
        fs::rename(around, moved).expect("it is ours");
        fs::create_dir(around).expect("room");
        NewFile::beside(path).expect("it can be begun")
    }

    /// In a folder for all, as that for temporary files, another user can make the folder before us. Then the file that
    /// got the name was whatever that user had put in the place of ours.
    #[test]
    fn a_folder_that_others_may_write_to_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let trap = folder.path().join(".file.everleaf-new");
        let refused = |what: &str| {
            let error = NewFile::beside(&path).expect_err(what).to_string();
            assert!(error.contains("another user") && error.contains("move it away"), "{error}");
            assert!(trap.join("file").exists(), "{what}: it is not ours");
        };
        fs::create_dir(&trap).expect("room");
        fs::write(trap.join("file"), "theirs").expect("room");
        for mode in [0o777, 0o770, 0o702] {
            fs::set_permissions(&trap, Permissions::from_mode(mode)).expect("it is ours");
            refused("others may write to it");
        }
        fs::set_permissions(&trap, Permissions::from_mode(0o700)).expect("it is ours");
        // Only root can give it away.
        if std::os::unix::fs::chown(&trap, Some(12345), None).is_ok() {
            refused("it is somebody else's");
            std::os::unix::fs::chown(&trap, Some(geteuid().as_raw()), None).expect("it was ours");
        }
        let new = NewFile::beside(&path).expect("a process of ours left it");
        write(&new, b"ours");
        new.place().expect("the name is free");
        assert_eq!(fs::read(&path).expect("there"), b"ours");
    }

    /// A link that led to nothing was replaced by the file.
    #[test]
    fn what_a_link_leads_to_is_made_if_it_is_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("other")).expect("room");
        std::os::unix::fs::symlink("other/second", path("first")).expect("room");
        std::os::unix::fs::symlink(path("other/file"), path("other/second")).expect("room");
        let new = NewFile::beside(&path("first")).expect("it can be begun");
        write(&new, b"new");
        new.replace().expect("room");
        assert!(path("first").is_symlink() && path("other/second").is_symlink());
        assert_eq!(fs::read(path("other/file")).expect("there"), b"new");
        assert_eq!(names(folder.path()), ["first", "other"]);
        std::os::unix::fs::symlink("missing/file", path("nowhere")).expect("room");
        let error = NewFile::beside(&path("nowhere")).expect_err("no folder").to_string();
        assert!(error.contains("create the folder") && error.contains("missing"), "{error}");
        std::os::unix::fs::symlink("ring", path("ring")).expect("room");
        let error = NewFile::beside(&path("ring")).expect_err("it has no end").to_string();
        assert!(error.contains("ymbolic link"), "{error}");
        assert!(path("nowhere").is_symlink() && path("ring").is_symlink());
    }

    /// The name of the folder was too long for names of 242 bytes and more.
    #[test]
    fn a_file_may_have_any_name_that_the_file_system_takes() {
        let folder = tempfile::tempdir().expect("a folder");
        for size in [200, 241, 242, 251, 255] {
            let name = "n".repeat(size);
            let path = folder.path().join(&name);
            let left = folder.path().join(folder_name(OsStr::new(&name)));
            leave(&left);
            fs::write(left.join(&name), "half").expect("room");
            let new = NewFile::beside(&path).expect("it can be begun");
            write(&new, b"whole");
            let nested = NewFile::beside(&new.path()).expect("it can be begun inside");
            drop(nested);
            new.place().expect("the name is free");
            assert_eq!(fs::read(&path).expect("there"), b"whole");
            assert!(!left.exists());
        }
        let names = ["a".repeat(250) + "b", "a".repeat(250) + "c"];
        let [one, other] = names.map(|name| folder_name(OsStr::new(&name)));
        assert_ne!(one, other);
    }

    #[test]
    fn what_is_replaced_keeps_its_permissions_and_its_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&path, "old").expect("room");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("it is ours");
        std::os::unix::fs::symlink("file", &link).expect("room");
        let new = NewFile::beside(&link).expect("it can be begun");
        write(&new, b"new");
        new.replace().expect("room");
        assert_eq!(fs::read(&path).expect("there"), b"new");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o640);
        assert!(link.is_symlink());
        assert_eq!(names(folder.path()), ["file", "link"]);
    }
}
