//! What file systems do to pools: one that is full, and one that goes away and comes back.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{create, open};
use everleaf_machine::{Hardware, Ordering};
use everleaf_pool::{DATA_START, Pool, PoolError, PoolOptions};

/// A file system on a loop device, which is taken away when this is dropped.
struct Disk {
    image: PathBuf,
    place: PathBuf,
}

impl Disk {
    fn new(folder: &Path) -> Self {
        let (image, place) = (folder.join("image"), folder.join("disk"));
        fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
        fs::create_dir(&place).unwrap();
        run(Command::new("mkfs.xfs").args(["-q", "-m", "reflink=1"]).arg(&image));
        let disk = Disk { image, place };
        disk.mount();
        disk
    }

    fn mount(&self) {
        run(Command::new("mount").args(["-o", "loop"]).args([&self.image, &self.place]));
    }

    fn unmount(&self) {
        run(Command::new("umount").arg(&self.place));
    }

    /// What is not on the disk is lost, as when it is unplugged.
    fn go_away(&self) {
        run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(&self.place));
        self.unmount();
    }

    /// Writes until nothing more fits.
    fn fill(&self) -> PathBuf {
        let path = self.place.join("filler");
        let zeros = vec![0; 1 << 12];
        let mut file = fs::File::create(&path).unwrap();
        while file.write_all(&zeros).is_ok() {}
        let _ = file.sync_all();
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.place).status();
    }
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

fn write_each_page(pool: &Pool<Hardware>) {
    for offset in (DATA_START..pool.size()).step_by(4096) {
        // Relaxed: nobody reads it.
        pool.word(offset).store(offset, Ordering::Relaxed);
    }
}

/// The first store to a block that a copy shares needs space. On a full disk the kernel ended the process, with every
/// opening for writing anew.
#[test]
#[ignore = "by hand: needs root and mkfs.xfs"]
fn by_hand_a_copy_that_shares_blocks_is_refused_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::new(folder.path());
    let (path, copy) = (disk.place.join("pool"), disk.place.join("copy"));
    let pool = create(&path).unwrap();
    pool.grow(64 << 20).unwrap();
    write_each_page(&pool);
    pool.set_clean().unwrap();
    drop(pool);
    run(Command::new("cp").arg("--reflink=always").args([&path, &copy]));
    let filler = disk.fill();
    assert!(matches!(open(&copy), Err(PoolError::DiskFull { .. })));
    // With room it gets its own, and needs none any more.
    fs::remove_file(filler).unwrap();
    run(Command::new("sync").arg("-f").arg(&disk.place));
    drop(open(&copy).unwrap());
    disk.fill();
    let pool = open(&copy).unwrap();
    write_each_page(&pool);
}

/// Only the boot of the kernel was compared. What had not been written back was gone with the file system, and the pool
/// was taken for sound, before its log.
#[test]
#[ignore = "by hand: needs root, mkfs.xfs and xfs_io"]
fn by_hand_a_pool_whose_file_system_went_away_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::new(folder.path());
    let path = disk.place.join("pool");
    let pool = create(&path).unwrap();
    write_each_page(&pool);
    drop(pool);
    // The process died, and nothing else: by whatever mount it is opened.
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    run(Command::new("mount").arg("--bind").args([&disk.place, &other]));
    drop(open(&other.join("pool")).unwrap());
    run(Command::new("umount").arg(&other));
    drop(open(&path).unwrap());
    disk.go_away();
    disk.mount();
    for _ in 0..2 {
        let refused = open(&path).unwrap_err();
        assert!(
            matches!(refused, PoolError::MachineCrashed { is_certain: false, .. }),
            "{refused}"
        );
    }
    let trusting = PoolOptions { trust_after_machine_crash: true, ..PoolOptions::default() };
    Pool::open(&path, &trusting).unwrap().set_clean().unwrap();
    // Closed, it may come and go.
    disk.unmount();
    disk.mount();
    drop(open(&path).unwrap());
}
