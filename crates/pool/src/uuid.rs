//! The number of a pool, and which log is its own, read from its file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::header::{self, Header, HeaderWords, LogNote};
use crate::layout::HEADER_OFFSETS;

/// The number of the pool in the file `path`, whatever else may be wrong with it, and whatever process has it open;
/// `None` if no header of it is whole, or if it is no regular file.
pub fn uuid_of(path: &Path) -> Option<[u8; 16]> {
    header_of(path).map(|header| header.uuid)
}

/// Which log the pool in the file `path` was opened with last, whatever else may be wrong with it; `None` if it does
/// not say.
pub fn log_note_of(path: &Path) -> Option<LogNote> {
    header_of(path).map(|header| header.log).filter(|note| note.log != 0)
}

fn header_of(path: &Path) -> Option<Header> {
    // Nonblocking: to open a pipe waits for its writer else, which may never come.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    header_in(&file, path)
}

/// The number of the pool in an open file.
pub fn uuid_in(file: &File, path: &Path) -> Option<[u8; 16]> {
    header_in(file, path).map(|header| header.uuid)
}

fn header_in(file: &File, path: &Path) -> Option<Header> {
    let read = |offset: u64| {
        let mut words: HeaderWords = [0; _];
        for (index, word) in words.iter_mut().enumerate() {
            let mut bytes = [0; 8];
            if file.read_exact_at(&mut bytes, offset + 8 * index as u64).is_ok() {
                *word = u64::from_le_bytes(bytes);
            }
        }
        words
    };
    header::choose(&HEADER_OFFSETS.map(read), path).ok().map(|(header, _, _)| header)
}
