//! Making segments, of files that wait to become some.

use std::io;
use std::time::Duration;

use rustix::io::Errno;

use super::Current;
use crate::disk::write_whole;
use crate::layout::{BLOCK_SIZE, SEGMENT, SPARE, file_name, parse_name};
use crate::scan::{SegmentHeader, encode_header};
use crate::{Disk, DiskFile, Error, Result};

/// How often, and how long, a descriptor is waited for: ten seconds.
const DESCRIPTOR_TRIES: u32 = 500;
const DESCRIPTOR_REST: Duration = Duration::from_millis(20);
/// What a segment takes ahead, at most, where the file system has less than it should have.
pub(super) const SMALL_SEGMENT: u64 = 1 << 20;

/// Removes the files that wait in the folder, and so may have chunks of a segment that was begun and
/// never got its name: its number is given again, and they would pass for chunks of the new one.
pub(super) fn leftovers<D: Disk>(disk: &D) -> Result<Vec<String>> {
    let mut names =
        disk.list().map_err(|error| Error::io("cannot list the log's folder", &error))?;
    names.retain(|name| parse_name(SPARE, name).is_some());
    if disk.mutant("log.keeps_leftovers") {
        return Ok(names);
    }
    for name in names {
        disk.remove(&name).map_err(|error| Error::io(format!("cannot remove {name}"), &error))?;
    }
    Ok(Vec::new())
}

fn lacks_descriptor(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

fn lacks_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Makes segments.
pub(super) struct Maker<'a, D> {
    pub(super) disk: &'a D,
    pub(super) uuid: &'a [u8; 16],
    pub(super) spares: Vec<String>,
    /// Whether a missing descriptor is waited for: an error would end a log that is written to for good, and what has
    /// them may give one back a moment later. A log that is being opened says so at once.
    pub(super) waits: bool,
}

impl<D: Disk> Maker<'_, D> {
    /// Opens a file. Where no descriptor is left, by the one that the disk keeps for this; if another thread was
    /// faster, or it could not get one since the last time, by waiting.
    fn with_descriptor<F>(&self, open: impl Fn() -> io::Result<F>) -> io::Result<F> {
        match open() {
            Err(error) if lacks_descriptor(&error) => drop(self.disk.give_descriptor()),
            opened => return opened,
        }
        for _ in 0..if self.waits { DESCRIPTOR_TRIES } else { 0 } {
            match open() {
                Err(error) if lacks_descriptor(&error) => std::thread::sleep(DESCRIPTOR_REST),
                opened => return opened,
            }
        }
        open()
    }

    /// Makes a segment that has `chunks` in it, from a spare file if there is one. It is smaller than its header says,
    /// and at least of size `needed`, where the file system has not as much space.
    pub(super) fn make(
        &mut self,
        mut header: SegmentHeader,
        needed: u64,
        chunks: &[Vec<u8>],
    ) -> Result<Current<D::File>> {
        let name = file_name(SEGMENT, header.sequence);
        let failed = |verb: &str, error: &io::Error| {
            Error::io(format!("cannot {verb} the segment {name} of the log"), error)
        };
        let (spare, file) = self.take_file(&header).map_err(|error| failed("make", &error))?;
        let prepared = take_space(&file, header.size, needed).and_then(|size| {
            header.size = size;
            self.prepare(&file, &header, chunks)
        });
        if let Err(error) = prepared {
            // Best effort: the space of a file that did not become a segment is of use to others.
            drop(self.disk.remove(&spare));
            return Err(match lacks_space(&error) {
                true => failed(&format!("take {} for", told_size(needed)), &error),
                false => failed("prepare", &error),
            });
        }
        self.disk.rename(&spare, &name).map_err(|error| failed("name", &error))?;
        if !self.disk.mutant("log.no_folder_sync") {
            self.disk.sync_folder().map_err(|error| failed("name", &error))?;
        }
        let size: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Ok(Current { file, header, position: BLOCK_SIZE + size })
    }

    /// A file that is not a segment yet: its name, and the file.
    fn take_file(&mut self, header: &SegmentHeader) -> io::Result<(String, D::File)> {
        while let Some(spare) = self.spares.last() {
            let file = self.with_descriptor(|| self.disk.open(spare))?;
            let is_fit = file.size()? == header.size;
            let spare = self.spares.pop().unwrap_or_default();
            if is_fit {
                return Ok((spare, file));
            }
            drop(file);
            self.disk.remove(&spare)?;
        }
        let spare = file_name(SPARE, header.sequence);
        let file = self.with_descriptor(|| self.disk.create(&spare))?;
        Ok((spare, file))
    }

    fn prepare(
        &self,
        file: &D::File,
        header: &SegmentHeader,
        chunks: &[Vec<u8>],
    ) -> io::Result<()> {
        let mut block = vec![0; BLOCK_SIZE as usize];
        let bytes = encode_header(self.uuid, header);
        block[..bytes.len()].copy_from_slice(&bytes);
        write_whole(file, &block, 0)?;
        let mut position = BLOCK_SIZE;
        for chunk in chunks {
            write_whole(file, chunk, position)?;
            position += chunk.len() as u64;
        }
        if self.disk.mutant("log.no_header_sync") {
            return Ok(());
        }
        file.sync_data()
    }
}

/// Takes the space of a segment ahead: as much as it should have, or less where the file system has not as much, but
/// what is needed. Returns how much. What is to be written would take it in any case, and to remove keys takes little.
fn take_space(file: &impl DiskFile, wanted: u64, needed: u64) -> io::Result<u64> {
    if file.size()? == wanted {
        return Ok(wanted);
    }
    let mut size = wanted;
    loop {
        match file.preallocate(size) {
            // Some file systems keep what they could take.
            Err(error) if lacks_space(&error) && size > needed => file.truncate(0)?,
            taken => return taken.map(|()| size),
        }
        let less = if size > SMALL_SEGMENT { SMALL_SEGMENT } else { size / 4 };
        size = (less - less % BLOCK_SIZE).max(needed);
    }
}

/// A size for people: a segment has whole blocks.
fn told_size(bytes: u64) -> String {
    match bytes.is_multiple_of(1 << 20) {
        true => format!("{} MiB", bytes >> 20),
        false => format!("{} KiB", bytes.div_ceil(1 << 10)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::RealDisk;
    use crate::scan::Gap;

    /// A disk on which no file can be opened so many times, because of this error.
    #[derive(Debug)]
    struct Refusing {
        disk: RealDisk,
        error: Errno,
        left: AtomicU32,
    }

    impl Refusing {
        fn refuse(&self) -> io::Result<()> {
            // Relaxed: one thread uses it.
            match self.left.load(Ordering::Relaxed) {
                0 => Ok(()),
                left => {
                    self.left.store(left - 1, Ordering::Relaxed);
                    Err(self.error.into())
                }
            }
        }
    }

    impl Disk for Refusing {
        type File = File;

        fn create(&self, name: &str) -> io::Result<File> {
            self.refuse().and_then(|()| self.disk.create(name))
        }

        fn open(&self, name: &str) -> io::Result<File> {
            self.refuse().and_then(|()| Disk::open(&self.disk, name))
        }

        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.disk.rename(from, to)
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            self.disk.remove(name)
        }

        fn list(&self) -> io::Result<Vec<String>> {
            self.disk.list()
        }

        fn sync_folder(&self) -> io::Result<()> {
            self.disk.sync_folder()
        }
    }

    /// Makes a segment where opening its file fails three times with this error, with a spare file or without.
    fn make(
        error: Errno,
        has_spare: bool,
        waits: bool,
    ) -> (Result<Current<File>>, Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = RealDisk::open(folder.path().join("log")).expect("it opens");
        let header = SegmentHeader { sequence: 7, first: 1, size: 1 << 16, gap: Gap::None };
        let mut spares = vec![];
        if has_spare {
            let name = file_name(SPARE, 3);
            disk.create(&name).and_then(|file| file.preallocate(header.size)).expect("room");
            spares.push(name);
        }
        let disk = Refusing { disk, error, left: AtomicU32::new(3) };
        let mut maker = Maker { disk: &disk, uuid: &[1; 16], spares, waits };
        let made = maker.make(header, BLOCK_SIZE, &[]);
        (made, maker.spares, disk.list().expect("a folder"))
    }

    /// What was lost: a log for which no descriptor was free at one moment took no more writes for good.
    #[test]
    fn a_descriptor_that_is_missing_is_waited_for() {
        for error in [Errno::MFILE, Errno::NFILE] {
            for has_spare in [false, true] {
                let (made, spares, files) = make(error, has_spare, true);
                made.expect("a descriptor is free again");
                assert_eq!(files, [file_name(SEGMENT, 7)]);
                assert!(spares.is_empty());
            }
        }
        // Nothing else is tried twice, nor by a log that is being opened, and the spare file is not forgotten.
        for (error, waits) in [(Errno::IO, true), (Errno::MFILE, false)] {
            let (made, spares, files) = make(error, true, waits);
            assert!(matches!(made, Err(Error::Io { .. })));
            assert_eq!(spares, [file_name(SPARE, 3)]);
            assert_eq!(files, spares);
        }
    }
}
