//! The number of a pool, and which log is its own, read from its file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::header::{self, Header, HeaderWords, LogNote};
use crate::layout::HEADER_OFFSETS;

/// The number of the pool in the file `path`, whatever else may be wrong with it, and whatever process has it open;
/// `None` if no header of it is whole, or if it is no regular file.
pub fn uuid_of(path: &Path) -> Option<[u8; 16]> {
    uuid_in(&open(path).ok()??, path)
}

/// Which log the pool in the file `path` was opened with last, whatever else may be wrong with it; `None` if it does
/// not say.
///
/// # Errors
/// What the operating system answers if the file is there and cannot be opened or read, for instance for want of a
/// descriptor: it may say.
pub fn log_note_of(path: &Path) -> io::Result<Option<LogNote>> {
    let Some(file) = open(path)? else { return Ok(None) };
    let (header, read) = header_in(&file, path);
    read?;
    Ok(header.map(|header| header.log).filter(|note| note.log != 0))
}

/// `None` if there is none, or if it is no regular file.
fn open(path: &Path) -> io::Result<Option<File>> {
    // Nonblocking: to open a pipe waits for its writer else, which may never come.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => Ok(file.metadata()?.is_file().then_some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The number of the pool in an open file.
pub fn uuid_in(file: &File, path: &Path) -> Option<[u8; 16]> {
    header_in(file, path).0.map(|header| header.uuid)
}

/// What can be read of the header, and whether all of it could that is there.
fn header_in(file: &File, path: &Path) -> (Option<Header>, io::Result<()>) {
    let mut result = Ok(());
    let read = |offset: u64| {
        let mut words: HeaderWords = [0; _];
        for (index, word) in words.iter_mut().enumerate() {
            let mut bytes = [0; 8];
            match file.read_exact_at(&mut bytes, offset + 8 * index as u64) {
                Ok(()) => *word = u64::from_le_bytes(bytes),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(error) => result = Err(error),
            }
        }
        words
    };
    let copies = HEADER_OFFSETS.map(read);
    (header::choose(&copies, path).ok().map(|(header, _, _)| header), result)
}
