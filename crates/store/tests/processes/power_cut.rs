//! The loss of power on a real file system: what was not synced is gone, for good.
//!
//! A file system of its own, on a loop device, is aborted at a random moment while a child process
//! writes a store with a log in it: nothing that only the page cache has reaches the device any more.
//! The child is killed, the file system is mounted again, which replays its journal, and the store is
//! rebuilt from the log that is left. The child has reported to another file system what was
//! acknowledged.
//!
//! Root, `losetup` and `mkfs.ext4` are needed: `cargo test --release -p everleaf --test processes
//! by_hand_ -- --ignored --nocapture`; `CUTS=<number>` says how often the power is cut.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use everleaf::{Durability, Options, Store, WriteBatch};

const CHILD: &str = "EVERLEAF_POWER_CUT_CHILD";
/// Set if the child is not to wait for the disk.
const INTERVAL: &str = "EVERLEAF_POWER_CUT_INTERVAL";
const WRITERS: u64 = 4;
const KEYS: u64 = 4;

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("the program is there");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// A file system on a loop device.
struct Disk {
    device: String,
    at: PathBuf,
}

impl Disk {
    fn new(folder: &Path) -> Disk {
        let image = folder.join("image");
        let file = File::create(&image).expect("room");
        file.set_len(1 << 30).expect("room");
        let image = image.to_str().expect("a plain path");
        run("mkfs.ext4", &["-q", "-F", image]);
        let at = folder.join("mounted");
        std::fs::create_dir(&at).expect("room");
        let disk = Disk { device: run("losetup", &["-f", "--show", image]), at };
        disk.mount();
        disk
    }

    fn path(&self) -> &str {
        self.at.to_str().expect("a plain path")
    }

    fn mount(&self) {
        run("mount", &[&self.device, self.path()]);
    }

    /// From now on nothing reaches the device.
    fn abort(&self) {
        run("mount", &["-o", "remount,abort", self.path()]);
    }

    fn unmount(&self) {
        run("umount", &[self.path()]);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-q", "-l", self.path()]).status();
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}

fn open(folder: &Path, durability: Durability) -> Store {
    let options = Options::new().create(true).max_size_bytes(1 << 28);
    options.durability(durability).open(folder.join("pool")).expect("it opens")
}

fn key(writer: u64, number: u64) -> Vec<u8> {
    format!("{number:04}:{writer}").into_bytes()
}

fn stamp(store: &Store, writer: u64, number: u64) -> u64 {
    let value = store.default_map().get(key(writer, number)).expect("get");
    value.map_or(0, |value| u64::from_le_bytes(value.try_into().expect("eight bytes")))
}

/// Writes batches in several threads, and reports a byte for each.
#[test]
fn child_process() {
    let Ok(folders) = std::env::var(CHILD) else { return };
    let (disk, reports) = folders.split_once(':').expect("two folders");
    let durability = match std::env::var(INTERVAL) {
        Ok(_) => Durability::Interval(Duration::from_secs(60)),
        Err(_) => Durability::Power,
    };
    let store = open(Path::new(disk), durability);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            let report = Path::new(reports).join(format!("report.{writer}"));
            scope.spawn(move || {
                let mut report = File::create(report).expect("room");
                let mut batch = WriteBatch::new();
                for n in stamp(store, writer, 0) + 1.. {
                    batch.clear();
                    for number in 0..KEYS {
                        batch.put(store.default_map(), key(writer, number), n.to_le_bytes());
                    }
                    if store.write(&batch).is_err() {
                        return;
                    }
                    report.write_all(b".").expect("room");
                }
            });
        }
        // Until the disk is gone.
        if durability == Durability::Power {
            scope.spawn(|| while store.snapshot().is_ok() {});
        }
    });
    // It cannot be closed: it is about to be killed.
    std::mem::forget(store);
    loop {
        std::thread::park();
    }
}

/// What came of some cuts.
#[derive(Debug, Default)]
struct CutCounts {
    acknowledged: u64,
    /// Acknowledged, and not found.
    lost: u64,
    /// Found as a whole though not acknowledged.
    beyond: u64,
    from_snapshots: u64,
}

/// Cuts the power so often; no batch may be there by half.
fn cut(cuts: u64, durability: Durability) -> CutCounts {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::new(folder.path());
    let (mut last, mut outcome) = (vec![0; WRITERS as usize], CutCounts::default());
    for cut in 0..cuts {
        for writer in 0..WRITERS {
            let _ = std::fs::remove_file(folder.path().join(format!("report.{writer}")));
        }
        let mut child = Command::new(std::env::current_exe().expect("the test has a path"));
        child.args(["--exact", "power_cut::child_process", "--test-threads=1"]);
        child.env(CHILD, format!("{}:{}", disk.path(), folder.path().display()));
        if durability != Durability::Power {
            child.env(INTERVAL, "");
        }
        child.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.spawn().expect("the child starts");
        // Not to synchronise: the moment of the cut is to be a random one.
        std::thread::sleep(Duration::from_millis(150 + cut * 97 % 700));
        // First it is stopped: a sync on a file system that was just aborted may say that it
        // succeeded, and the child would report what no machine without power would.
        run("kill", &["-STOP", &child.id().to_string()]);
        disk.abort();
        child.kill().expect("the child can be killed");
        child.wait().expect("the child can be awaited");
        disk.unmount();
        disk.mount();
        // This kernel has not been started anew, so that the pool would be trusted.
        let _ = std::fs::remove_file(disk.at.join("pool"));
        let store = open(&disk.at, durability);
        let from_snapshot = store.rebuilt().is_some_and(|rebuilt| rebuilt.snapshot_pairs > 0);
        outcome.from_snapshots += u64::from(from_snapshot);
        for writer in 0..WRITERS {
            let report = std::fs::metadata(folder.path().join(format!("report.{writer}")));
            let reported = report.map_or(0, |report| report.len());
            outcome.acknowledged += reported;
            let expected = last[writer as usize] + reported;
            let stamps: Vec<u64> = (0..KEYS).map(|number| stamp(&store, writer, number)).collect();
            let found = stamps[0];
            assert!(stamps.iter().all(|stamp| *stamp == found), "half a batch: {stamps:?}");
            assert!(found <= expected + 1, "{found}, but {expected} were acknowledged");
            outcome.lost += expected.saturating_sub(found);
            outcome.beyond += found.saturating_sub(expected);
            last[writer as usize] = found;
        }
        assert!(store.check().expect("a check").is_clean());
        store.close().expect("it can be closed");
    }
    outcome
}

fn cuts() -> u64 {
    std::env::var("CUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

#[test]
#[ignore = "by hand: needs root, losetup and mkfs.ext4"]
fn by_hand_what_was_acknowledged_survives_the_loss_of_power() {
    let outcome = cut(cuts(), Durability::Power);
    println!("{} cuts: {outcome:?}", cuts());
    assert_eq!(outcome.lost, 0);
    assert!(outcome.acknowledged > cuts() * WRITERS, "the children hardly wrote");
}

/// Otherwise the cuts would show nothing.
#[test]
#[ignore = "by hand: needs root, losetup and mkfs.ext4"]
fn by_hand_what_nobody_waited_for_is_lost_and_never_torn() {
    let outcome = cut(cuts(), Durability::Interval(Duration::from_secs(60)));
    println!("{} cuts: {outcome:?}", cuts());
    assert!(outcome.lost > 0);
}
