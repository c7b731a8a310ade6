//! Where the log of a pool is, and what its folder says of the pool besides the log.
//!
//! ```text
//!   identity    32 hexadecimal digits: whose log this is. Without it nobody looks at the rest.
//!   settings    what a pool has to be like that is made again from the log: its maximum size in
//!               bytes, and the interval of its durability in milliseconds (0: power), in decimal
//! ```

use std::fs::File;
use std::io::{ErrorKind, Result as IoResult};
use std::path::{Path, PathBuf};
use std::time::Duration;

use everleaf_log::{Disk, DiskFile};

use super::{Durability, io};
use crate::{Options, Result};

const IDENTITY: &str = "identity";
const SETTINGS: &str = "settings";

/// The disk that the log is on. The tests of this crate can have another, which they simulate.
#[cfg(not(test))]
pub(crate) type LogDisk = everleaf_log::RealDisk;
#[cfg(test)]
pub(crate) use super::simulated::LogDisk;

/// Where the log of a pool is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    #[cfg(test)]
    simulated: Option<everleaf_log::simulated::SimulatedDisk>,
}

/// What a pool has to be like that is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub max_size_bytes: u64,
    pub durability: Durability,
}

impl Settings {
    fn encode(self) -> String {
        format!("{} {}\n", self.max_size_bytes, self.durability.interval_ms())
    }

    fn decode(text: &str) -> Option<Settings> {
        let (size, interval) = text.trim().split_once(' ')?;
        Some(Settings {
            max_size_bytes: size.parse().ok()?,
            durability: Durability::of_interval_ms(interval.parse().ok()?),
        })
    }
}

impl Durability {
    /// The interval in milliseconds; 0 if each write waits.
    pub(crate) fn interval_ms(self) -> u64 {
        match self {
            Durability::Interval(interval) => interval.as_millis().max(1) as u64,
            _ => 0,
        }
    }

    pub(crate) fn of_interval_ms(interval_ms: u64) -> Durability {
        match interval_ms {
            0 => Durability::Power,
            _ => Durability::Interval(Duration::from_millis(interval_ms)),
        }
    }
}

impl Place {
    /// Where the log of the pool at `pool` is.
    pub fn of(pool: &Path, options: &Options) -> Place {
        let _ = options;
        let mut name = pool.as_os_str().to_owned();
        name.push(".log");
        Place {
            folder: PathBuf::from(name),
            #[cfg(test)]
            simulated: options.simulated.clone(),
        }
    }

    pub fn display(&self) -> std::path::Display<'_> {
        self.folder.display()
    }

    /// The disk with the log. The folder is made if there is none.
    pub fn open(&self) -> Result<LogDisk> {
        #[cfg(test)]
        return Ok(LogDisk::open(&self.folder, self.simulated.as_ref())?);
        #[cfg(not(test))]
        return Ok(LogDisk::open(&self.folder)?);
    }

    /// The text of a small file, if there is one; without holding the folder.
    fn read(&self, name: &str) -> Option<String> {
        #[cfg(test)]
        if let Some(disk) = &self.simulated {
            return super::simulated::read(disk, name);
        }
        std::fs::read_to_string(self.folder.join(name)).ok()
    }

    /// Whose log it is, if that can be read.
    pub fn identity(&self) -> Option<[u8; 16]> {
        let text = self.read(IDENTITY)?;
        let digits = text.trim();
        let number = u128::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 32)?;
        Some(number.to_be_bytes())
    }

    /// Writes whose log it is, durably.
    pub fn write_identity(&self, disk: &LogDisk, identity: [u8; 16]) -> Result<()> {
        let text = format!("{:032x}\n", u128::from_be_bytes(identity));
        self.write(disk, IDENTITY, &text)
    }

    /// What the pool of this log has to be like, if that can be read.
    pub fn settings(&self) -> Option<Settings> {
        Settings::decode(&self.read(SETTINGS)?)
    }

    /// Writes what the pool of this log has to be like, durably.
    pub fn write_settings(&self, disk: &LogDisk, settings: Settings) -> Result<()> {
        if self.settings() == Some(settings) {
            return Ok(());
        }
        self.write(disk, SETTINGS, &settings.encode())
    }

    /// Writes a small file, durably: as a whole or not at all.
    fn write(&self, disk: &LogDisk, name: &str, text: &str) -> Result<()> {
        let what = format!("cannot write {}", self.folder.join(name).display());
        write_small(disk, name, text.as_bytes()).map_err(io(what))
    }

    /// Removes a log that is of no use any more, durably.
    pub fn forget(&self) -> Result<()> {
        let what = || format!("cannot remove the old log {}", self.display());
        if !self.is_there() {
            return Ok(());
        }
        let disk = self.open()?;
        // First the identity: what is left of the log is then nobody's. It must be gone before the
        // rest is: a part of the log with its identity would be taken for the whole.
        remove_durably(&disk, IDENTITY).map_err(io(what()))?;
        let names = disk.list().map_err(io(what()))?;
        for name in names {
            // What cannot be removed as a file goes with the folder.
            let _ = disk.remove(&name);
        }
        drop(disk);
        self.remove_folder().map_err(io(what()))
    }

    fn is_there(&self) -> bool {
        #[cfg(test)]
        if self.simulated.is_some() {
            return true;
        }
        self.folder.exists()
    }

    fn remove_folder(&self) -> IoResult<()> {
        #[cfg(test)]
        if self.simulated.is_some() {
            return Ok(());
        }
        std::fs::remove_dir_all(&self.folder)?;
        let parent = self.folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new("."))).and_then(|parent| parent.sync_all())
    }
}

/// Removes a file, if it is there, and makes that durable.
fn remove_durably(disk: &LogDisk, name: &str) -> IoResult<()> {
    match disk.remove(name) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    match disk.mutant("store.no_sync_of_forgetting") {
        true => Ok(()),
        false => disk.sync_folder(),
    }
}

fn write_small(disk: &LogDisk, name: &str, bytes: &[u8]) -> IoResult<()> {
    let new = format!("{name}.new");
    match disk.remove(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create(&new)?;
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], done as u64) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    file.sync_data()?;
    disk.rename(&new, name)?;
    disk.sync_folder()
}
