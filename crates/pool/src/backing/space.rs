//! The disk space of a pool file: allocated before it is used, or refused.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, IFlags, SeekFrom};
use rustix::io::Errno;

use super::shared_extents::{gaps, has_shared_extents};
use crate::PoolError;

/// Bytes of the smallest pages there are.
const PAGE: usize = 4096;

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
    is_short(file, size) || next_hole(file, 0).map_or(true, |hole| hole < size)
}

/// Whether the file has fewer blocks than its first `size` bytes need.
fn is_short(file: &File, size: u64) -> bool {
    file.metadata().map_or(true, |status| status.blocks() * 512 < size)
}

/// Where the first hole from `from` on begins, the end of the file at last.
fn next_hole(file: &File, from: u64) -> Result<u64, Errno> {
    rustix::fs::seek(file, SeekFrom::Hole(from))
}

/// The parts of the first `size` bytes that may have no space, in ascending order. What was allocated
/// and never written is among them, because it looks the same.
///
/// All of them at once: the kernel looks at every extent up to the next hole, also beyond what one asks
/// about, so that a search for each part would take the square of their number.
pub fn holes(file: &File, size: u64) -> std::io::Result<Vec<(u64, u64)>> {
    let length = file.metadata()?.len();
    let mut next = match next_hole(file, 0) {
        // A file system that knows no holes says that the first one is at the end, or nothing.
        Ok(hole) if hole >= length && is_short(file, length) => return Ok(vec![(0, size)]),
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(vec![(0, size)]),
        first => first,
    };
    let mut holes = vec![];
    loop {
        let from = match next {
            Ok(from) if from < size => from,
            // `NXIO`: the file ends there.
            Ok(_) | Err(Errno::NXIO) => return Ok(holes),
            Err(error) => return Err(error.into()),
        };
        let to = match rustix::fs::seek(file, SeekFrom::Data(from)) {
            Ok(to) => to.min(size),
            // There is no data behind it.
            Err(Errno::NXIO) => size,
            Err(error) => return Err(error.into()),
        };
        holes.push((from, to));
        next = next_hole(file, to);
    }
}

/// Allocates the bytes from `start` to `end` of the file, which are kept as they are.
pub fn secure(file: &File, path: &Path, start: u64, end: u64) -> Result<(), PoolError> {
    let flags = FallocateFlags::KEEP_SIZE;
    let allocate = |start: u64, end: u64| {
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, flags, start, end - start))
    };
    let result = match allocate(start, end) {
        // XFS wants as much space as if nothing of it were allocated.
        Err(error @ (Errno::NOSPC | Errno::DQUOT)) => gaps(file, start, end)
            .map_err(|_| error)
            .and_then(|gaps| gaps.into_iter().try_for_each(|(from, to)| allocate(from, to))),
        result => result,
    };
    match result {
        // A file system that cannot say beforehand. Holes are rare and it may have space.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        result => result.map_err(|error| refusal(path, end, error)),
    }
}

/// Gives the file blocks of its own for those of its first `size` bytes that it shares with a copy (`cp` makes such on
/// XFS). The first store to a shared block needs space, and where there is none the kernel ends the process.
///
/// Holes stay holes. Where the file system shares no blocks, or cannot be asked, nothing is done.
pub fn unshare(file: &File, path: &Path, size: u64) -> Result<(), PoolError> {
    let flags = FallocateFlags::UNSHARE_RANGE | FallocateFlags::KEEP_SIZE;
    let unshare = |start: u64, end: u64| {
        let unshare = || rustix::fs::fallocate(file, flags, start, end - start);
        match rustix::io::retry_on_intr(unshare) {
            // XFS may say so where nothing is shared, too.
            Err(Errno::NOSPC | Errno::DQUOT) if has_shared_extents(file, size) == Ok(false) => {
                Ok(())
            }
            result => result,
        }
    };
    // The first page, which has the header, tells whether this can be asked at all, before holes are looked for.
    if matches!(unshare(0, 1), Err(error) if !matches!(error, Errno::NOSPC | Errno::DQUOT)) {
        return Ok(());
    }
    let io = |source| PoolError::Io { path: path.into(), action: "look for its holes", source };
    let mut from = 0;
    for (start, end) in holes(file, size).map_err(io)?.into_iter().chain([(size, size)]) {
        if from < start {
            unshare(from, start).map_err(|error| refusal(path, size, error))?;
        }
        from = end;
    }
    Ok(())
}

/// Writes what a mapping of the file shows to the file, so that the next sync brings it to the disk: all of it that has
/// space or is not zero. (Of a page that the disk has refused some file systems say that it has none.) By calls and not
/// by stores, which a full disk would refuse by a signal.
pub fn write_anew(file: &File, shown: &[u8], holes: &[(u64, u64)]) -> io::Result<()> {
    let is_hole = |start: u64| holes.iter().any(|(hole, end)| (*hole..*end).contains(&start));
    let mut offset = 0;
    for page in shown.chunks(PAGE) {
        if !is_hole(offset) || page.iter().any(|byte| *byte != 0) {
            file.write_all_at(page, offset)?;
        }
        offset += page.len() as u64;
    }
    Ok(())
}

/// Asks a file system that writes every change to another place (Btrfs) to write those of this file, which is still
/// empty, where they belong: else each store needs space. A file system that cannot be asked does so anyway, or not.
pub fn write_in_place(file: &File) {
    if let Ok(flags) = rustix::fs::ioctl_getflags(file) {
        let _ = rustix::fs::ioctl_setflags(file, flags | IFlags::NOCOW);
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

    #[test]
    fn what_is_shown_is_written_but_for_empty_holes() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 6 * PAGE], 0).unwrap();
        let mut shown = vec![7; 5 * PAGE];
        // In a hole: nothing, and a byte that the disk may have refused. Elsewhere zeros are written, too.
        shown[PAGE..2 * PAGE].fill(0);
        shown[2 * PAGE..3 * PAGE].fill(0);
        shown[3 * PAGE - 1] = 9;
        shown[4 * PAGE..].fill(0);
        let page = PAGE as u64;
        write_anew(&file, &shown, &[(page, 3 * page)]).unwrap();
        let mut bytes = vec![0; 6 * PAGE];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes[PAGE..2 * PAGE].iter().all(|byte| *byte == 1), "an empty hole is left");
        shown[PAGE..2 * PAGE].fill(1);
        assert!(bytes[..5 * PAGE] == shown);
        assert_eq!(bytes[5 * PAGE], 1, "nothing behind it is touched");
    }

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
    fn holes_are_found_in_order_and_up_to_the_size() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        for place in [100_000, 300_000, 600_000] {
            file.write_all_at(b"leaf", place).unwrap();
        }
        let page = |offset: u64| offset / 4096 * 4096;
        let found = holes(&file, 700_000).unwrap();
        let ends = [100_000, 300_000, 600_000].map(page);
        assert_eq!(found[0], (0, ends[0]));
        assert_eq!(found[1], (ends[0] + 4096, ends[1]));
        assert_eq!(found[3], (ends[2] + 4096, 700_000));
        assert_eq!(holes(&file, ends[0] + 4096).unwrap(), [(0, ends[0])]);
        assert_eq!(holes(&file, 1 << 21).unwrap()[3].1, 1 << 21, "behind the end there is none");
    }

    /// Any error of the search was taken for "no more holes", and what comes behind for allocated.
    #[test]
    fn a_search_for_holes_that_fails_says_so() {
        let (end, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(end));
        assert_eq!(holes(&file, 1 << 20).unwrap_err().raw_os_error(), Some(29), "ESPIPE");
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
