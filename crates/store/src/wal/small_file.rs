//! The small files in the folder of a log: each is written as a whole or not at all.

use std::io::{ErrorKind, Result as IoResult};

use everleaf_log::{Disk, DiskFile};

use super::log_folder::LogDisk;

/// What is written under before it gets its name.
pub(super) const NEW: &str = ".new";

/// Removes a file, if it is there.
pub(super) fn remove(disk: &LogDisk, name: &str) -> IoResult<()> {
    match disk.remove(name) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes durable how far a log is discarded.
pub(super) fn sync_discarding(disk: &LogDisk) -> IoResult<()> {
    match disk.mutant("store.no_sync_of_forgetting") {
        true => Ok(()),
        false => disk.sync_folder(),
    }
}

/// Removes a file, if it is there, and makes that durable.
pub(super) fn remove_durably(disk: &LogDisk, name: &str) -> IoResult<()> {
    remove(disk, name)?;
    disk.sync_folder()
}

/// Writes a small file as a whole or not at all, and makes that durable.
pub(super) fn write_small(disk: &LogDisk, name: &str, bytes: &[u8]) -> IoResult<()> {
    let new = format!("{name}{NEW}");
    write_new(disk, &new, bytes)?.sync_data()?;
    disk.rename(&new, name)?;
    disk.sync_folder()
}

/// As [`write_small`], and survives the death of the process, not the loss of power.
pub(super) fn write_unsynced(disk: &LogDisk, name: &str, bytes: &[u8]) -> IoResult<()> {
    let new = format!("{name}{NEW}");
    write_new(disk, &new, bytes)?;
    disk.rename(&new, name)
}

/// Makes a file with these bytes, in place of what a killed process left under the name.
fn write_new(disk: &LogDisk, name: &str, bytes: &[u8]) -> IoResult<<LogDisk as Disk>::File> {
    remove(disk, name)?;
    let file = disk.create(name)?;
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], done as u64) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(file)
}
