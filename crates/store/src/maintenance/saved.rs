//! What [`Store::save`](crate::Store::save) may replace: the backup that it has written before, and nothing else.
//!
//! The name of the backup may be a link, and another program may have put a file there. Without a look at it, a link to
//! the pool itself had the pool replaced under its own store, which then lost all that it acknowledged, and one
//! to a device had that replaced. And the backup of a pool that was lost was replaced by one of the empty pool that was
//! made in its place.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use everleaf_index::uuid_of;

use crate::maintenance::kept_file::keep_other;
use crate::maintenance::new_file::followed;
use crate::maintenance::origin;
use crate::maintenance::regular_file::{is_pool, open_regular};
use crate::opening::refuse_log_beside;
use crate::{Error, Result};

/// A pool that lies where a backup is to go.
#[derive(Debug)]
pub struct OldBackup {
    /// Behind links.
    place: PathBuf,
    /// Locked against programs that would write to it, as long as this lives.
    _file: File,
}

impl OldBackup {
    /// Keeps it under another name as well, unless it is a copy of the pool with the number `pool`: it may be all
    /// there is of another.
    ///
    /// # Errors
    /// What the file system answers; a thousand have been kept.
    pub fn keep_if_of_another(&self, pool: [u8; 16]) -> Result<()> {
        if uuid_of(&self.place).is_some_and(|copy| origin::is_copy_of(copy, pool)) {
            return Ok(());
        }
        keep_other(&self.place, ".replaced").map(drop)
    }
}

/// Looks at what is where a backup is to go. Returns it, locked against programs that would write to it, if there
/// is one.
///
/// # Errors
/// It is not a pool; it is open for writing, or has a log; what the file system answers.
pub fn admit(place: &Path) -> Result<Option<OldBackup>> {
    let cannot = |error| Error::Io(format!("cannot save to {}", place.display()), error);
    let refuse = |what: &str| {
        Error::Unsupported(format!(
            "cannot save to {}: {what}; move it away and save again, or close the store (stop the server) and use \
             `everleaf backup`",
            place.display()
        ))
    };
    // Behind links, as the new one will be put there.
    let resolved = followed(place).map_err(cannot)?;
    refuse_log_beside(&resolved)?;
    // And where an opening by that name would look: older versions kept the log beside a link.
    refuse_log_beside(place)?;
    let file = match open_regular(&resolved) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            return Err(refuse("it is not a regular file"));
        }
        opened => opened.map_err(cannot)?,
    };
    if !is_pool(&file).map_err(cannot)? {
        return Err(refuse("it is not an Everleaf pool"));
    }
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(OldBackup { place: resolved, _file: file })),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(refuse("it is a pool that is open for writing"))
        }
        Err(std::fs::TryLockError::Error(error)) => Err(cannot(error)),
    }
}
