//! A pool that shares its blocks with a copy, on a disk that is full.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{create, open};
use everleaf_machine::{Hardware, Ordering};
use everleaf_pool::{DATA_START, Pool, PoolError};

/// A file system on a loop device, which is taken away when this is dropped.
struct Disk(PathBuf);

impl Disk {
    fn new(folder: &Path, make: &[&str]) -> Self {
        let (image, place) = (folder.join("image"), folder.join("disk"));
        fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
        fs::create_dir(&place).unwrap();
        run(Command::new(make[0]).args(&make[1..]).arg(&image));
        run(Command::new("mount").args(["-o", "loop"]).args([&image, &place]));
        Disk(place)
    }

    /// Writes until nothing more fits.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let zeros = vec![0; 1 << 12];
        let mut file = fs::File::create(&path).unwrap();
        while file.write_all(&zeros).is_ok() {}
        let _ = file.sync_all();
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
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
    let disk = Disk::new(folder.path(), &["mkfs.xfs", "-q", "-m", "reflink=1"]);
    let (path, copy) = (disk.0.join("pool"), disk.0.join("copy"));
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
    run(Command::new("sync").arg("-f").arg(&disk.0));
    drop(open(&copy).unwrap());
    disk.fill();
    let pool = open(&copy).unwrap();
    write_each_page(&pool);
}
