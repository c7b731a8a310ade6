//! What says that a salvage is under way.
//!
//! A salvage changes the log before the pool has what could be read of it, and afterwards the log does not look
//! damaged any more. Should it fail or be killed in between, for instance because the disk is full, the next
//! opening must not take what is left for everything that was acknowledged: the file `salvaging` is made before
//! the log is changed, and removed when the pool is there and the log has no need of what was lost.

use everleaf_log::Disk;

use super::log_directory::{LogDirectory, SALVAGING, sealed};
use super::log_folder::LogDisk;
use super::small_file::remove_durably;
use crate::conversion::io;
use crate::{Error, Result};

impl LogDirectory {
    /// Whether a salvage was begun and did not come to its end.
    pub fn is_salvaging(&self) -> Result<bool> {
        Ok(self.read(SALVAGING)?.is_some())
    }

    /// Begins to make a pool from the log, with or without leave to salvage. Returns what an earlier salvage
    /// did that was cut short.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if there was one, and this is none.
    pub fn begin_salvage(&self, disk: &LogDisk, salvages: bool) -> Result<Vec<String>> {
        match (self.is_salvaging()?, salvages) {
            (false, false) => Ok(vec![]),
            (false, true) => self.mark_salvage(disk).map(|()| vec![]),
            (true, false) => Err(Error::Corrupt(format!(
                "a salvage of the log in {} was cut short, so that the log may lack what was logged behind damage: \
                 use `everleaf snapshot POOL --salvage-log` to go on with what is left, or restore the folder of \
                 the log from a backup, without the file {SALVAGING}",
                self.display()
            ))),
            (true, true) => {
                let aside = self.put_aside()?;
                let aside: Vec<String> =
                    aside.iter().map(|path| path.display().to_string()).collect();
                let aside = if aside.is_empty() { "nothing".into() } else { aside.join(", ") };
                Ok(vec![format!("an earlier salvage was cut short; put aside: {aside}")])
            }
        }
    }

    /// Notes durably that the log is going to be salvaged.
    pub fn mark_salvage(&self, disk: &LogDisk) -> Result<()> {
        match disk.mutant("store.salvages_unmarked") {
            true => Ok(()),
            false => self.write(disk, SALVAGING, &sealed("salvaging")),
        }
    }

    /// Notes durably that the log needs nothing of what was salvaged.
    pub fn end_salvage(&self, disk: &LogDisk) -> Result<()> {
        match self.is_salvaging()? {
            true => remove_durably(disk, SALVAGING)
                .map_err(io(format!("cannot end the salvage of the log in {}", self.display()))),
            false => Ok(()),
        }
    }
}
