//! Whether a file shares blocks with another one, which only the list of its extents tells (FIEMAP).

use std::fs::File;
use std::mem::size_of;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// Extents that are asked for at once.
const COUNT: usize = 64;
/// `FIEMAP_FLAG_SYNC`: what is not yet written has its place first.
const SYNC: u32 = 1;
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

/// Whether one of the first `size` bytes is in a block that another file has, too.
///
/// # Errors
/// That of the file system, `OPNOTSUPP` if it has no such list.
pub fn has_shared_extents(file: &File, size: u64) -> Result<bool, Errno> {
    let mut start = 0;
    while start < size {
        let mut request = Request {
            start,
            length: size - start,
            flags: SYNC,
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
        if found.iter().any(|extent| extent.flags & SHARED != 0) {
            return Ok(true);
        }
        match found.last() {
            Some(last) if last.flags & LAST == 0 && last.logical + last.length > start => {
                start = last.logical + last.length;
            }
            _ => return Ok(false),
        }
    }
    Ok(false)
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
}
