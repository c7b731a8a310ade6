//! The disk space of a pool file: allocated before it is used, or refused.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use crate::PoolError;

/// Allocates the holes that a copying program may have left in the file, so that no store to the
/// pool can fail for want of space.
pub fn fill_holes(file: &File, path: &Path, size: u64) -> Result<(), PoolError> {
    if has_holes(file, size) { secure(file, path, 0, size) } else { Ok(()) }
}

/// Whether some of the first `size` bytes of the file may have no space.
///
/// The number of its blocks can deny it only where nothing else is among them: what an interrupted growth
/// left behind the end, and what the file system needs for itself.
pub fn has_holes(file: &File, size: u64) -> bool {
    is_short(file, size) || next_hole(file, 0).is_none_or(|hole| hole < size)
}

/// Whether the file has fewer blocks than its first `size` bytes need.
fn is_short(file: &File, size: u64) -> bool {
    file.metadata().map_or(true, |status| status.blocks() * 512 < size)
}

/// Where the first hole from `from` on begins, the end of the file at last; `None` if that cannot be told.
fn next_hole(file: &File, from: u64) -> Option<u64> {
    rustix::fs::seek(file, SeekFrom::Hole(from)).ok()
}

/// The parts of the bytes from `start` to `end` that may have no space. What was allocated and never
/// written is among them, because it looks the same.
pub fn holes(file: &File, start: u64, end: u64) -> Vec<(u64, u64)> {
    let length = file.metadata().map_or(0, |status| status.len());
    // A file system that knows no holes says that the first one is at the end.
    let is_blind = next_hole(file, 0).is_none_or(|hole| hole >= length && is_short(file, length));
    if is_blind {
        return vec![(start, end)];
    }
    let (mut holes, mut at) = (vec![], start);
    while let Some(from) = next_hole(file, at).filter(|from| *from < end) {
        // `NXIO`: there is no data behind it.
        let to = rustix::fs::seek(file, SeekFrom::Data(from)).map_or(end, |to| to.min(end));
        holes.push((from, to));
        at = to;
        if at >= end {
            break;
        }
    }
    holes
}

/// Allocates the bytes from `start` to `end` of the file, which are kept as they are.
pub fn secure(file: &File, path: &Path, start: u64, end: u64) -> Result<(), PoolError> {
    let flags = FallocateFlags::KEEP_SIZE;
    let allocate = || rustix::fs::fallocate(file, flags, start, end - start);
    match rustix::io::retry_on_intr(allocate) {
        // A file system that cannot say beforehand. Holes are rare and it may have space.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        result => result.map_err(|error| refusal(path, end, error)),
    }
}

/// Makes the file `new` bytes long, the bytes from `old` on zero and allocated. On an error the
/// file ends at `old`.
pub fn allocate(file: &File, path: &Path, old: u64, new: u64) -> Result<(), PoolError> {
    let length = file.metadata().map_or(old, |status| status.len());
    let result = match length > old {
        // What an interrupted growth left behind the end of the pool is not part of it.
        true => rustix::fs::ftruncate(file, old),
        false => Ok(()),
    };
    let result = result.and_then(|()| match allocate_range(file, old, new - old) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, old, new),
        result => result,
    });
    result.map_err(|error| {
        // A failure leaves the file longer at worst, which the next growth repairs.
        let _ = rustix::fs::ftruncate(file, old);
        refusal(path, new, error)
    })
}

fn allocate_range(file: &File, start: u64, length: u64) -> Result<(), Errno> {
    // Beyond the limit on file sizes (`ulimit -f`) the kernel would not only refuse, but also send
    // a signal that ends the process.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if limit.is_some_and(|limit| start.saturating_add(length) > limit) {
        return Err(Errno::FBIG);
    }
    rustix::io::retry_on_intr(|| {
        rustix::fs::fallocate(file, FallocateFlags::empty(), start, length)
    })
}

/// Allocates by writing, for file systems that know no other way.
fn write_zeros(file: &File, start: u64, end: u64) -> Result<(), Errno> {
    let zeros = vec![0; 1 << 16];
    let mut at = start;
    while at < end {
        let length = (end - at).min(zeros.len() as u64) as usize;
        let written =
            rustix::io::retry_on_intr(|| rustix::io::pwrite(file.as_fd(), &zeros[..length], at))?;
        at += written as u64;
    }
    Ok(())
}

/// The error for space that was not to be had.
pub fn refusal(path: &Path, needed: u64, error: Errno) -> PoolError {
    let path = path.to_path_buf();
    match error {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => {
            PoolError::DiskFull { path, needed, source: error.into() }
        }
        error => PoolError::Io { path, action: "allocate the space", source: error.into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn allocated_bytes_are_zero_even_where_something_was_left() {
        for by_writing in [false, true] {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(&[7; 300_000], 0).unwrap();
            let (old, new) = (1 << 17, 1 << 19);
            if by_writing {
                file.set_len(old).unwrap();
                write_zeros(&file, old, new).unwrap();
            } else {
                allocate(&file, Path::new("p"), old, new).unwrap();
            }
            let status = file.metadata().unwrap();
            assert_eq!(status.len(), new);
            assert!(status.blocks() * 512 >= new, "not allocated");
            let mut bytes = vec![1; new as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            assert!(bytes[..old as usize].iter().all(|byte| *byte == 7));
            assert!(bytes[old as usize..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn holes_are_allocated_and_bytes_kept() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(b"leaf", 5000).unwrap();
        fill_holes(&file, Path::new("p"), 1 << 20).unwrap();
        assert!(file.metadata().unwrap().blocks() * 512 >= 1 << 20);
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, 5000).unwrap();
        assert_eq!(&bytes, b"leaf");
    }

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        let of = |error| refusal(Path::new("p"), 9, error);
        for error in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG] {
            assert!(matches!(of(error), PoolError::DiskFull { needed: 9, .. }));
        }
        assert!(matches!(of(Errno::IO), PoolError::Io { .. }));
    }
}
