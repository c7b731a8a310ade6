//! Opening of what must be a regular file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;

/// What every pool begins with, and its second header, too.
const POOL_MAGIC: &[u8; 8] = b"EVERLEAF";
/// Where the second header is.
const SECOND_HEADER: u64 = 4096;

/// Opens a regular file that must exist, to read it. Anything else is refused: to open or to read a pipe may
/// wait for ever, and a device may have no end.
///
/// # Errors
/// Those of the operating system; `InvalidInput` if it is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))?;
    let file = File::from(opened);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

/// All of a regular file that has at most `limit` bytes: a server that is told to read a file by a client, or by
/// a program that may change one, must neither wait for a pipe nor fill the memory.
///
/// # Errors
/// As [`open_regular`]; `FileTooLarge` if it has more.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_at_most(open_regular(path)?, limit)
}

/// All that can be read from somewhere, which are at most `limit` bytes.
///
/// # Errors
/// Those of the operating system; `FileTooLarge` if it has more.
pub fn read_at_most(from: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let text = format!("it has more than {}", everleaf_index::human_size(limit));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// Whether a file begins as pools do, or its second header does.
///
/// # Errors
/// Those of the operating system.
pub fn is_pool(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::FileExt;
    let begins_at = |offset| {
        let mut start = [0; POOL_MAGIC.len()];
        match file.read_exact_at(&mut start, offset) {
            Ok(()) => Ok(start == *POOL_MAGIC),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    };
    Ok(begins_at(0)? || begins_at(SECOND_HEADER)?)
}

/// The first place from `offset` on at which a file of `size` bytes may have data: what is before it is a hole, and
/// reads as zero. The offset itself, where the file system does not say.
pub fn next_data(file: &File, size: u64, offset: u64) -> u64 {
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(data) => data.max(offset),
        // There is none behind it.
        Err(Errno::NXIO) => size.max(offset),
        Err(_) => offset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_data_is_taken_for_a_hole() {
        use std::os::unix::fs::FileExt;
        let file = tempfile::tempfile().unwrap();
        let (size, places) = (64 << 20, [5 << 20, 40 << 20]);
        file.set_len(size).unwrap();
        for place in places {
            file.write_all_at(b"data", place).unwrap();
        }
        for offset in (0..size).step_by(1 << 18) {
            let next = next_data(&file, size, offset);
            assert!((offset..=size).contains(&next));
            let data = places.into_iter().find(|place| *place >= offset);
            assert!(next <= data.unwrap_or(size), "{offset}: {next}");
        }
    }

    #[test]
    fn what_has_no_end_or_is_too_long_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read_regular(&path, 4).unwrap(), b"four");
        assert_eq!(read_regular(&path, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let device = read_regular(Path::new("/dev/zero"), 4).unwrap_err();
        assert_eq!(device.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(read_at_most(io::repeat(0), 9).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
