//! The disk of the log in the tests of this crate: the real one, or one that is simulated.

use std::fs::File;
use std::io::Result as IoResult;
use std::path::Path;

use everleaf_log::simulated::{SimulatedDisk, SimulatedFile};
use everleaf_log::{Disk, DiskFile, RealDisk};

/// One of the two.
#[derive(Debug)]
pub(crate) enum LogDisk {
    Real(RealDisk),
    Simulated(SimulatedDisk),
}

/// A file on one of the two.
#[derive(Debug)]
pub(crate) enum LogFile {
    Real(File),
    Simulated(SimulatedFile),
}

impl LogDisk {
    pub fn open(folder: &Path, simulated: Option<&SimulatedDisk>) -> everleaf_log::Result<LogDisk> {
        match simulated {
            Some(disk) => Ok(LogDisk::Simulated(disk.clone())),
            None => Ok(LogDisk::Real(RealDisk::open(folder)?)),
        }
    }
}

/// The first bytes of a file, if there is one.
pub(crate) fn read_start(disk: &SimulatedDisk, name: &str, most: u64) -> Option<Vec<u8>> {
    let file = disk.open(name).ok()?;
    let mut bytes = vec![0; usize::try_from(file.size().ok()?.min(most)).ok()?];
    let read = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(read);
    Some(bytes)
}

macro_rules! on_either {
    ($type:ident, $value:expr, $inner:ident => $do:expr) => {
        match $value {
            $type::Real($inner) => $do,
            $type::Simulated($inner) => $do,
        }
    };
}

impl Disk for LogDisk {
    type File = LogFile;

    fn create(&self, name: &str) -> IoResult<LogFile> {
        match self {
            LogDisk::Real(disk) => disk.create(name).map(LogFile::Real),
            LogDisk::Simulated(disk) => disk.create(name).map(LogFile::Simulated),
        }
    }

    fn open(&self, name: &str) -> IoResult<LogFile> {
        match self {
            LogDisk::Real(disk) => Disk::open(disk, name).map(LogFile::Real),
            LogDisk::Simulated(disk) => disk.open(name).map(LogFile::Simulated),
        }
    }

    fn rename(&self, from: &str, to: &str) -> IoResult<()> {
        on_either!(LogDisk, self, disk => disk.rename(from, to))
    }

    fn remove(&self, name: &str) -> IoResult<()> {
        on_either!(LogDisk, self, disk => disk.remove(name))
    }

    fn list(&self) -> IoResult<Vec<String>> {
        on_either!(LogDisk, self, disk => disk.list())
    }

    fn sync_folder(&self) -> IoResult<()> {
        on_either!(LogDisk, self, disk => disk.sync_folder())
    }

    fn has_name(&self) -> IoResult<bool> {
        on_either!(LogDisk, self, disk => disk.has_name())
    }

    fn mutant(&self, name: &'static str) -> bool {
        on_either!(LogDisk, self, disk => disk.mutant(name))
    }

    fn reached(&self, point: &'static str) {
        on_either!(LogDisk, self, disk => disk.reached(point));
    }

    fn waits(&self, point: &'static str) -> bool {
        on_either!(LogDisk, self, disk => disk.waits(point))
    }
}

impl DiskFile for LogFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> IoResult<usize> {
        on_either!(LogFile, self, file => DiskFile::read_at(file, buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> IoResult<usize> {
        on_either!(LogFile, self, file => DiskFile::write_at(file, bytes, offset))
    }

    fn sync_data(&self) -> IoResult<()> {
        on_either!(LogFile, self, file => DiskFile::sync_data(file))
    }

    fn preallocate(&self, size: u64) -> IoResult<()> {
        on_either!(LogFile, self, file => DiskFile::preallocate(file, size))
    }

    fn truncate(&self, size: u64) -> IoResult<()> {
        on_either!(LogFile, self, file => DiskFile::truncate(file, size))
    }

    fn size(&self) -> IoResult<u64> {
        on_either!(LogFile, self, file => DiskFile::size(file))
    }

    fn has_name(&self) -> IoResult<bool> {
        on_either!(LogFile, self, file => DiskFile::has_name(file))
    }
}
