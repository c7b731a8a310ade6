//! Whether the kernel still has a file as the process that died left it.
//!
//! What that process stored is in the kernel's page cache, and outlives it. The page cache goes with the kernel, and with
//! the file system: one that is taken away (a disk that is unplugged, a volume that is detached by force, a file system
//! that was shut down after an error) and mounted again has what was written back by then, any mixture of old and new
//! pages, under the same boot of the kernel.
//!
//! Two things tell. The *mount* by which a file is reached has a number that the kernel gives once (Linux 6.8 and
//! newer). Another number alone means little: a container or a service has mounts of its own at each start, of a file
//! system that never went away. So a session leaves a *mark* on the inode, which is only in the kernel's memory and never
//! on the disk: the hint for how long what is written will live. An inode leaves the memory when the file system does, or when
//! nobody uses it and its pages are on the disk. If mount and mark are both gone, the pages may be lost.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{AtFlags, StatxFlags};

/// Asks for the number of the mount that no other one ever has.
const UNIQUE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);
/// Of overlays, whose inodes leave the memory with each container while the pages stay.
const OVERLAY: u64 = 0x794C_7630;
/// The commands of `fcntl` for the hint of an inode, and the hint that is the mark: `RWH_WRITE_LIFE_LONG`.
const GET_HINT: libc::c_int = 1024 + 11;
const SET_HINT: libc::c_int = 1024 + 12;
const MARK: u64 = 4;

/// The mount and the device by which a file is reached, in the upper half, and its inode, in the lower one; 0 if that is
/// not known. The device too, since a snapshot of a part of Btrfs is reached by the same mount, has the same inodes, and
/// does not have what was stored in mapped pages meanwhile.
pub fn place(file: &File) -> u64 {
    let is_overlay = rustix::fs::fstatfs(file).is_ok_and(|status| status.f_type as u64 == OVERLAY);
    let found = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, UNIQUE_MOUNT);
    match (found, file.metadata()) {
        (Ok(found), Ok(status)) if found.stx_mask & UNIQUE_MOUNT.bits() != 0 && !is_overlay => {
            let file_system = found.stx_mnt_id ^ status.dev().rotate_left(16);
            u64::from(folded(file_system)) << 32 | u64::from(folded(status.ino()))
        }
        _ => 0,
    }
}

/// A number in 32 bits, never 0.
fn folded(number: u64) -> u32 {
    ((number ^ number >> 32) as u32).max(1)
}

/// Whether the inode has the mark. `None` if that cannot be told.
pub fn has_mark(file: &File) -> Option<bool> {
    let mut hint = 0_u64;
    // SAFETY: the command writes the eight bytes of `hint`, and nothing else.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), GET_HINT, &raw mut hint) };
    (done == 0).then_some(hint == MARK)
}

/// Marks the inode. Returns whether it has the mark now.
pub fn mark(file: &File) -> bool {
    let hint = MARK;
    // SAFETY: the command reads the eight bytes of `hint`, and nothing else.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), SET_HINT, &raw const hint) };
    done == 0 && has_mark(file) == Some(true)
}
