//! The disk of the log in tests and in the prover: the real one, or one that is simulated.

pub mod crashes;

use std::fs::File;
use std::io::Result as IoResult;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everleaf_log::simulated::{SimulatedDisk, SimulatedFile};
use everleaf_log::{Disk, DiskFile, RealDisk};

use super::log_folder::{Folder, RealFolder};

/// One of the two.
#[derive(Debug)]
pub(crate) enum EitherDisk {
    Real(RealDisk),
    Simulated(SimulatedDisk),
}

/// A file on one of the two.
#[derive(Debug)]
pub(crate) enum EitherFile {
    Real(File),
    Simulated(SimulatedFile),
}

/// A folder whose disk is the real one unless the options of the store have another.
#[derive(Clone, Debug)]
pub(crate) struct EitherFolder {
    real: RealFolder,
    simulated: Option<SimulatedDisk>,
}

impl Folder for EitherFolder {
    type Disk = EitherDisk;
    type Choice = Option<SimulatedDisk>;

    fn at(path: PathBuf, choice: &Self::Choice) -> Self {
        EitherFolder { real: RealFolder::at(path, &()), simulated: choice.clone() }
    }

    fn path(&self) -> &Path {
        self.real.path()
    }

    fn exists(&self) -> IoResult<bool> {
        if self.simulated.is_some() { Ok(true) } else { self.real.exists() }
    }

    fn open(&self) -> everleaf_log::Result<EitherDisk> {
        match &self.simulated {
            Some(disk) => Ok(EitherDisk::Simulated(disk.clone())),
            None => Ok(EitherDisk::Real(self.real.open()?)),
        }
    }

    fn list(&self) -> IoResult<Vec<String>> {
        self.simulated.as_ref().map_or_else(|| self.real.list(), Disk::list)
    }

    fn read(&self, name: &str, most: u64) -> IoResult<Option<Vec<u8>>> {
        match &self.simulated {
            Some(disk) => Ok(read_start(disk, name, most)),
            None => self.real.read(name, most),
        }
    }

    fn remove(&self) -> IoResult<()> {
        self.simulated.as_ref().map_or_else(|| self.real.remove(), |_| Ok(()))
    }

    fn is_simulated(choice: &Self::Choice) -> bool {
        choice.is_some()
    }
}

macro_rules! on_either {
    ($type:ident, $value:expr, $inner:ident => $do:expr) => {
        match $value {
            $type::Real($inner) => $do,
            $type::Simulated($inner) => $do,
        }
    };
}

impl Disk for EitherDisk {
    type File = EitherFile;

    fn create(&self, name: &str) -> IoResult<EitherFile> {
        match self {
            EitherDisk::Real(disk) => disk.create(name).map(EitherFile::Real),
            EitherDisk::Simulated(disk) => disk.create(name).map(EitherFile::Simulated),
        }
    }

    fn open(&self, name: &str) -> IoResult<EitherFile> {
        match self {
            EitherDisk::Real(disk) => Disk::open(disk, name).map(EitherFile::Real),
            EitherDisk::Simulated(disk) => disk.open(name).map(EitherFile::Simulated),
        }
    }

    fn rename(&self, from: &str, to: &str) -> IoResult<()> {
        on_either!(EitherDisk, self, disk => disk.rename(from, to))
    }

    fn remove(&self, name: &str) -> IoResult<()> {
        on_either!(EitherDisk, self, disk => disk.remove(name))
    }

    fn list(&self) -> IoResult<Vec<String>> {
        on_either!(EitherDisk, self, disk => disk.list())
    }

    fn sync_folder(&self) -> IoResult<()> {
        on_either!(EitherDisk, self, disk => disk.sync_folder())
    }

    fn has_name(&self) -> IoResult<bool> {
        on_either!(EitherDisk, self, disk => disk.has_name())
    }

    fn leads_to(&self, name: &str, file: &EitherFile) -> IoResult<bool> {
        match (self, file) {
            (EitherDisk::Real(disk), EitherFile::Real(file)) => disk.leads_to(name, file),
            (EitherDisk::Simulated(disk), EitherFile::Simulated(file)) => disk.leads_to(name, file),
            // A file is of the disk that opened it.
            _ => Ok(false),
        }
    }

    fn give_descriptor(&self) -> bool {
        on_either!(EitherDisk, self, disk => disk.give_descriptor())
    }

    fn mutant(&self, name: &'static str) -> bool {
        on_either!(EitherDisk, self, disk => disk.mutant(name))
    }

    fn reached(&self, point: &'static str) {
        on_either!(EitherDisk, self, disk => disk.reached(point));
    }

    fn waits(&self, point: &'static str) -> bool {
        on_either!(EitherDisk, self, disk => disk.waits(point))
    }
}

impl DiskFile for EitherFile {
    const READ_PAUSE: Duration = Duration::ZERO;

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> IoResult<usize> {
        on_either!(EitherFile, self, file => DiskFile::read_at(file, buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> IoResult<usize> {
        on_either!(EitherFile, self, file => DiskFile::write_at(file, bytes, offset))
    }

    fn sync_data(&self) -> IoResult<()> {
        on_either!(EitherFile, self, file => DiskFile::sync_data(file))
    }

    fn preallocate(&self, size: u64) -> IoResult<()> {
        on_either!(EitherFile, self, file => DiskFile::preallocate(file, size))
    }

    fn truncate(&self, size: u64) -> IoResult<()> {
        on_either!(EitherFile, self, file => DiskFile::truncate(file, size))
    }

    fn size(&self) -> IoResult<u64> {
        on_either!(EitherFile, self, file => DiskFile::size(file))
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
