//! Whether the kernel still has a file as the process that died left it.
//!
//! What that process stored is in the kernel's page cache, and outlives it. The page cache goes with the kernel, and
//! with the file system: one that is taken away (a disk that is unplugged, a volume that is detached by force, a file
//! system that was shut down after an error) and mounted again has what was written back by then, any mixture of old
//! and new pages, under the same boot of the kernel.
//!
//! Two things tell. A *file system* that is mounted has a number of its own: for ext4, XFS and F2FS that of its folder
//! in `/sys/fs`, which the kernel makes anew at each mount of the file system, and which all containers see; for others
//! that of the mount by which the file is reached, which the kernel gives once (Linux 6.8 and newer). The latter alone
//! means little: a container or a service has mounts of its own at each start, of a file system that never went away.
//! So a session leaves a *mark* on the inode, which is only in the kernel's memory and never on the disk: the hint
//! for how long what is written will live. An inode leaves the memory when the file system does, or when nobody uses
//! it and its pages are on the disk. If the number is another one and the mark is gone, pages may be lost.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags};

/// Asks for the number of the mount that no other one ever has.
const UNIQUE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);
/// Of overlays, whose inodes leave the memory with each container while the pages stay.
const OVERLAY: u64 = 0x794C_7630;
/// The commands of `fcntl` for the hint of an inode, and the hint that is the mark: `RWH_WRITE_LIFE_LONG`.
const GET_HINT: libc::c_int = 1024 + 11;
const SET_HINT: libc::c_int = 1024 + 12;
const MARK: u64 = 4;

/// The file system or the mount of a file, in the upper half, and its inode, in the lower one; 0 if that is not known.
/// With the mount its device, since a snapshot of a part of Btrfs is reached by the same mount, has the same
/// inodes, and does not have what was stored in mapped pages meanwhile.
pub fn place(file: &File) -> u64 {
    let is_overlay = rustix::fs::fstatfs(file).is_ok_and(|status| status.f_type as u64 == OVERLAY);
    let found = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, UNIQUE_MOUNT);
    match (found, file.metadata()) {
        (Ok(found), Ok(status)) if !is_overlay => {
            let by_mount = || {
                let is_unique = found.stx_mask & UNIQUE_MOUNT.bits() != 0;
                is_unique.then(|| found.stx_mnt_id ^ status.dev().rotate_left(16))
            };
            let number = number_in_sys(status.dev()).or_else(by_mount);
            number.map_or(0, |it| u64::from(folded(it)) << 32 | u64::from(folded(status.ino())))
        }
        _ => 0,
    }
}

/// The number that the kernel has given to a file system when it was mounted, if it has a folder in `/sys/fs`.
fn number_in_sys(device: u64) -> Option<u64> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let name = link.file_name()?.to_owned();
    let folder = |kind: &str| std::fs::metadata(Path::new("/sys/fs").join(kind).join(&name)).ok();
    let found = ["ext4", "xfs", "f2fs"].into_iter().find_map(folder)?;
    // Not the number of a mount by chance.
    Some(found.ino() | 1 << 63)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_there_by_whatever_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let again = File::open(&path).unwrap();
        assert_eq!(place(&file), place(&again));
        if has_mark(&file).is_none() {
            println!("not tried: nothing is told of a hint here");
            return;
        }
        assert_eq!(has_mark(&again), Some(false));
        assert!(mark(&file));
        assert_eq!(has_mark(&again), Some(true));
        let other = File::create(folder.path().join("other")).unwrap();
        assert_eq!(has_mark(&other), Some(false));
        assert!(place(&other) == 0 || place(&other) != place(&file));
    }
}
