//! Keeps a file under another name before its place is given to a new one.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use everleaf_index::uuid_of;

use crate::conversion::io;
use crate::maintenance::new_file::{followed, sync_name};
use crate::maintenance::regular_file::{next_data, open_regular};
use crate::{Error, Result};

/// Keeps a pool as [`keep_other`] does, in the place of what was kept of the same pool before, if anything was: else
/// each crash of the machine would leave one more.
pub(crate) fn keep_newest(path: &Path, ending: &str) -> Result<Option<PathBuf>> {
    let path = &file_of(path)?;
    let mut kept = path.as_os_str().to_owned();
    kept.push(ending);
    let of_same = uuid_of(path).is_some_and(|uuid| uuid_of(Path::new(&kept)) == Some(uuid));
    if of_same && !is_same(path, &kept) {
        // Should this process die now, the newer one is still there.
        std::fs::remove_file(&kept).map_err(|error| {
            Error::Io(format!("cannot replace {}", Path::new(&kept).display()), error)
        })?;
    }
    keep_other(path, ending)
}

/// Keeps the file at `path` also as `path` with this ending (and a number behind it, if there is such a file already),
/// unless there is nothing in it. Returns that name, which is durable. Of a symbolic link, what it leads to is kept,
/// beside its own place: a second link would lead to what comes to that place.
///
/// # Errors
/// What the file system answers; a thousand such files are there.
pub(crate) fn keep_other(path: &Path, ending: &str) -> Result<Option<PathBuf>> {
    let path = &file_of(path)?;
    let cannot = || cannot_keep(path);
    if open_regular(path).and_then(|file| is_blank(&file)).map_err(cannot())? {
        return Ok(None);
    }
    for kept in names_of(path, ending) {
        // A link is refused if there is such a name; both names are the file until it is replaced.
        match std::fs::hard_link(path, &kept) {
            // Durable before the other name is given away.
            Ok(()) => {
                sync_name(path).map_err(cannot())?;
                return Ok(Some(kept.into()));
            }
            // The process that was to replace it did not come so far.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && is_same(path, &kept) => {
                return Ok(Some(kept.into()));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            // Without hard links: it goes, and what was to replace it comes to its place.
            Err(_) if !Path::new(&kept).exists() => {
                std::fs::rename(path, &kept).map_err(cannot())?;
                return Ok(Some(kept.into()));
            }
            Err(error) => return Err(cannot()(error)),
        }
    }
    let name = path.display();
    let why = format!("there are too many `{name}{ending}`: remove those that nobody needs");
    Err(cannot()(std::io::Error::new(ErrorKind::AlreadyExists, why)))
}

/// The names under which a file can be kept, in the order in which they are taken.
fn names_of(path: &Path, ending: &str) -> impl Iterator<Item = OsString> + use<> {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    (1..1000).map(move |number| {
        let mut name = name.clone();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        name
    })
}

/// The names under which the file at `path` is kept already, by a process that did not come to replace it.
pub(crate) fn kept_already(path: &Path, ending: &str) -> impl Iterator<Item = PathBuf> {
    names_of(path, ending).filter(|name| is_same(path, name)).map(PathBuf::from)
}

/// The file that a new one replaces which is put at `path`.
fn file_of(path: &Path) -> Result<PathBuf> {
    let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
    if is_link { followed(path).map_err(cannot_keep(path)) } else { Ok(path.into()) }
}

fn cannot_keep(path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
    io(format!("cannot keep {} under another name", path.display()))
}

/// Whether both are names of one file.
fn is_same(one: &Path, other: &OsStr) -> bool {
    let file =
        |path: &Path| std::fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((file(one), file(Path::new(other))), (Ok(one), Ok(other)) if one == other)
}

/// Whether a file has nothing but zeros: all of it is read, but for its holes.
fn is_blank(file: &File) -> std::io::Result<bool> {
    let (size, mut at, mut bytes) = (file.metadata()?.len(), 0, vec![0; 1 << 20]);
    loop {
        at = next_data(file, size, at);
        match file.read_at(&mut bytes, at) {
            Ok(0) => return Ok(true),
            Ok(count) if bytes[..count].iter().any(|byte| *byte != 0) => return Ok(false),
            Ok(count) => at += count as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
