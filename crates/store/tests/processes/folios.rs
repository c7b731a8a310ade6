//! Beside a hole of its folio, a store to what has space gets blocks for the hole: ext4 since Linux 6.16, XFS since
//! 5.18. So what was returned would be taken again by the next write beside it, and on a full disk end the process.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use everleaf::{Error, Options, Store};

use crate::space::knows_holes;

/// Names the pool of the victim below.
const POOL: &str = "EVERLEAF_FOLIOS_POOL";
/// Values that stay, each with one beside it that goes.
const PAIRS: u8 = 6;
/// Bytes of a value that stays: chunks of its own, less than a folio.
const KEPT: usize = 300_000;

fn open(pool: &Path) -> Result<Store, Error> {
    Options::new().create(true).max_size_bytes(1 << 30).sweep(false).open(pool)
}

fn allocated(pool: &Path) -> u64 {
    std::fs::metadata(pool).expect("there").blocks() * 512
}

/// A pool of values that stay beside free space, `gap` bytes each.
fn with_gaps(pool: &Path, gap: usize) -> Store {
    let store = open(pool).expect("the pool is made");
    let map = store.default_map();
    for number in 0..PAIRS {
        map.put([b'k', number], vec![number; KEPT]).expect("room");
        map.put([b'g', number], vec![0xA5; gap]).expect("room");
    }
    for number in 0..PAIRS {
        map.remove([b'g', number]).expect("writable");
    }
    store
}

/// Nothing of the pool is in the page cache.
fn empty_cache(pool: &Path) {
    let file = File::open(pool).expect("there");
    file.sync_all().expect("written");
    // SAFETY: a system call without memory, on a file of ours.
    let result = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(result, 0);
}

/// What was returned was taken again by the first stores behind the next opening, and counted as returned.
#[test]
fn what_was_returned_stays_so_when_its_neighbours_are_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let store = with_gaps(&pool, 6 << 20);
    let returned = store.return_space().expect("nothing is refused");
    store.close().expect("it closes");
    empty_cache(&pool);
    let before = allocated(&pool);
    let store = open(&pool).expect("it opens");
    store.default_map().put(b"one", b"more").expect("room");
    let opened = allocated(&pool);
    for number in 0..PAIRS {
        assert!(store.default_map().remove([b'k', number]).expect("writable"));
    }
    let after = allocated(&pool);
    if knows_holes(folder.path()) {
        assert!(returned >= 8 << 20, "only {returned} bytes were returned");
    }
    println!("{returned} returned; {before} allocated, {opened} when opened, {after} in the end");
    // Blocks that describe the others may come.
    assert!(after <= before + (64 << 10), "{before} bytes allocated, {opened}, {after}");
    assert!(store.check().expect("a check").is_clean());
}

/// Only does something when started by a test below: stores beside holes, and until nothing fits.
#[test]
fn victim_beside_holes() {
    let Some(pool) = std::env::var_os(POOL).map(PathBuf::from) else { return };
    let store = match open(&pool) {
        Ok(store) => store,
        Err(error) => {
            assert!(matches!(error, Error::DiskFull(_)), "{error}");
            return println!("refused");
        }
    };
    let map = store.default_map();
    map.put(b"one", b"more").expect("there is room in the pool");
    for number in 0..PAIRS {
        assert_eq!(map.get([b'k', number]).expect("readable"), Some(vec![number; KEPT]));
    }
    let full = (0_u32..).map(|n| map.put(n.to_be_bytes(), [7; 1000])).find_map(Result::err);
    let full = full.expect("some time it is full");
    assert!(matches!(full, Error::DiskFull(_)), "{full}");
    for number in 0..PAIRS {
        assert!(map.remove([b'k', number]).expect("removals need no space"));
    }
    map.clear().expect("removals need no space");
    assert!(store.check().expect("a check").is_clean());
    store.close().expect("closed");
    println!("done");
}

/// A file system of its own, on a loop device, which is taken away when this is dropped.
struct Disk {
    image: PathBuf,
    place: PathBuf,
}

impl Disk {
    /// Made by a program with its arguments.
    fn new(folder: &Path, made_by: &[&str]) -> Self {
        let (image, place) = (folder.join("image"), folder.join("disk"));
        File::create(&image).expect("room").set_len(320 << 20).expect("room");
        std::fs::create_dir(&place).expect("room");
        run(Command::new(made_by[0]).args(&made_by[1..]).arg(&image));
        let disk = Disk { image, place };
        disk.mount();
        disk
    }

    fn mount(&self) {
        run(Command::new("mount").args(["-o", "loop"]).args([&self.image, &self.place]));
    }

    fn remount(&self) {
        run(Command::new("umount").arg(&self.place));
        self.mount();
    }

    /// Writes until nothing more fits.
    fn fill(&self) -> PathBuf {
        let path = self.place.join("filler");
        let mut file = File::create(&path).expect("an inode");
        for _ in 0..3 {
            while file.write_all(&[0; 1 << 12]).is_ok() {}
            let _ = file.sync_all();
        }
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.place).status();
    }
}

fn run(command: &mut Command) {
    assert!(command.status().expect("the program is there").success(), "{command:?}");
}

fn run_victim(pool: &Path) -> Output {
    let program = std::env::current_exe().expect("this program");
    let victim = ["--exact", "folios::victim_beside_holes", "--nocapture"];
    let output = Command::new(program).args(victim).env(POOL, pool).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), None, "{text}");
    assert!(output.status.success(), "{}: {text}", output.status);
    output
}

fn says(output: &Output, what: &str) -> bool {
    String::from_utf8_lossy(&output.stdout).contains(what)
}

/// With all of its space for everybody.
const EXT4: &[&str] = &["mkfs.ext4", "-q", "-m", "0"];
const XFS: &[&str] = &["mkfs.xfs", "-q"];

/// A store on a full disk was ended by `SIGBUS`, and its next opening, too.
#[test]
#[ignore = "by hand: needs root, mkfs.ext4 and mkfs.xfs"]
fn by_hand_a_full_disk_ends_no_store_beside_a_hole() {
    for made_by in [EXT4, XFS] {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Disk::new(folder.path(), made_by);
        let pool = disk.place.join("pool");
        let store = with_gaps(&pool, 6 << 20);
        assert!(store.return_space().expect("nothing is refused") > 12 << 20);
        store.close().expect("it closes");
        disk.remount();
        disk.fill();
        assert!(says(&run_victim(&pool), "done"), "{made_by:?}");
    }
}

/// An older version returned all of a free run but the page of its header, and a copying program does as it likes.
#[test]
#[ignore = "by hand: needs root, mkfs.ext4 and mkfs.xfs"]
fn by_hand_holes_beside_what_is_in_use_are_filled_or_refused() {
    for made_by in [EXT4, XFS] {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Disk::new(folder.path(), made_by);
        let pool = disk.place.join("pool");
        with_gaps(&pool, 1 << 20).close().expect("it closes");
        make_holes(&pool);
        disk.remount();
        let filler = disk.fill();
        assert!(says(&run_victim(&pool), "refused"), "{made_by:?}");
        assert!(Options::new().read_only(true).open(&pool).is_ok(), "it can be read");
        std::fs::remove_file(filler).expect("there");
        let store = open(&pool).expect("there is room");
        store.close().expect("it closes");
        disk.remount();
        disk.fill();
        assert!(says(&run_victim(&pool), "done"), "{made_by:?}");
    }
}

/// Makes holes of what the gaps held, but for their first and last pages.
fn make_holes(pool: &Path) {
    let file = File::options().read(true).write(true).open(pool).expect("there");
    let (mut page, mut begin, mut holes) = ([0; 4096], None, 0);
    for at in (0..file.metadata().expect("there").len()).step_by(page.len()) {
        file.read_exact_at(&mut page, at).expect("readable");
        let is_gap = page == [0xA5; 4096];
        let Some(from) = begin.filter(|_| !is_gap) else {
            begin = begin.or(is_gap.then_some(at));
            continue;
        };
        begin = None;
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (from, length) = (from as i64, at as i64 - from as i64);
        // SAFETY: a system call without memory, on a file of ours.
        let result = unsafe { libc::fallocate(file.as_raw_fd(), mode, from, length) };
        assert_eq!(result, 0);
        holes += 1;
    }
    assert_eq!(holes, u32::from(PAIRS));
    file.sync_all().expect("written");
}
