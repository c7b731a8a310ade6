//! What only the list of a file's extents tells (FIEMAP): whether it shares blocks with another one, and where it has
//! none, though what was allocated and never written reads as a hole.

use std::fs::File;
use std::mem::size_of;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// Extents that are asked for at once.
const COUNT: usize = 64;
/// `FIEMAP_FLAG_SYNC`: what is not yet written has its place first. All of the file is written for that.
const SYNC: u32 = 1;
/// `FIEMAP_EXTENT_UNKNOWN`: it has no place, unless that is only to be chosen when it is written
/// (`FIEMAP_EXTENT_DELALLOC`): the space is there.
const UNKNOWN: u32 = 2;
const DELAYED: u32 = 4;
/// `FIEMAP_EXTENT_LAST`, `FIEMAP_EXTENT_SHARED`.
const LAST: u32 = 1;
const SHARED: u32 = 0x2000;

/// `struct fiemap`, with room for extents behind it.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; COUNT],
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// `FS_IOC_FIEMAP`, whose number has the size of the request without extents.
const FIEMAP: Opcode = opcode::read_write::<[u64; 4]>(b'f', 11);
const _: () = assert!(size_of::<Request>() == 32 + COUNT * 56);

/// Shows the extents of the bytes from `start` to `end`, until `goes_on` says no.
///
/// # Errors
/// That of the file system, `OPNOTSUPP` if it has no such list.
fn extents(
    file: &File,
    flags: u32,
    mut start: u64,
    end: u64,
    mut goes_on: impl FnMut(&Extent) -> bool,
) -> Result<(), Errno> {
    while start < end {
        let mut request = Request {
            start,
            length: end - start,
            flags,
            mapped: 0,
            count: COUNT as u32,
            reserved: 0,
            extents: [Extent::default(); COUNT],
        };
        // SAFETY: the number is that of this request and this layout.
        let update = unsafe { Updater::<FIEMAP, Request>::new(&mut request) };
        // SAFETY: the kernel reads the first 32 bytes, and writes there and to at most `count` extents behind them, all
        // of which are in `Request`.
        unsafe { ioctl(file, update)? };
        let found = &request.extents[..(request.mapped as usize).min(COUNT)];
        if !found.iter().all(&mut goes_on) {
            return Ok(());
        }
        match found.last() {
            Some(last) if last.flags & LAST == 0 && last.logical + last.length > start => {
                start = last.logical + last.length;
            }
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// Whether one of the first `size` bytes is in a block that another file has, too.
///
/// # Errors
/// That of the file system, `OPNOTSUPP` if it has no such list.
pub fn has_shared_extents(file: &File, size: u64) -> Result<bool, Errno> {
    let mut is_shared = false;
    extents(file, SYNC, 0, size, |extent| {
        is_shared |= extent.flags & SHARED != 0;
        !is_shared
    })?;
    Ok(is_shared)
}

/// The parts of the bytes from `start` to `end` that have no blocks: not those that were allocated and never written.
/// Nothing is written for it: the calling thread may hold a lock, beside gigabytes that wait to be written.
///
/// # Errors
/// As of [`has_shared_extents`].
pub fn gaps(file: &File, start: u64, end: u64) -> Result<Vec<(u64, u64)>, Errno> {
    let (mut gaps, mut at) = (vec![], start);
    extents(file, 0, start, end, |extent| {
        if extent.flags & (UNKNOWN | DELAYED) != UNKNOWN {
            if at < extent.logical {
                gaps.push((at, extent.logical.min(end)));
            }
            at = at.max(extent.logical + extent.length);
        }
        true
    })?;
    if at < end {
        gaps.push((at, end));
    }
    Ok(gaps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_file_of_its_own_shares_nothing() {
        let file = tempfile::tempfile().unwrap();
        for place in (0..200).map(|number| number << 13) {
            file.write_all_at(b"leaf", place).unwrap();
        }
        // More extents than are asked for at once, where the file system has such a list.
        assert!(matches!(
            has_shared_extents(&file, 200 << 13),
            Ok(false) | Err(Errno::OPNOTSUPP | Errno::NOTTY)
        ));
    }

    #[test]
    fn gaps_are_what_was_not_allocated() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let allocate = |start, length| {
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, start, length)
        };
        file.write_all_at(&[7; 4096], 0).unwrap();
        if allocate(1 << 16, 1 << 16).is_err() {
            return;
        }
        match gaps(&file, 0, 1 << 20) {
            Ok(found) => assert_eq!(found, [(4096, 1 << 16), (1 << 17, 1 << 20)]),
            Err(error) => assert!(matches!(error, Errno::OPNOTSUPP | Errno::NOTTY), "{error}"),
        }
        assert_eq!(gaps(&file, 1 << 16, 3 << 15).unwrap_or_default(), []);
    }
}
