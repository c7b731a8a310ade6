//! A disk that is nearly full: what there is can be read, and removed.
//!
//! The disk is a file system in memory, which only root may mount.

#![allow(clippy::print_stdout, reason = "it says what it skips")]

use crate::common::PoolFolder;
use crate::serving::Serving;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// A small file system in a folder, gone when dropped.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// `None` where nothing may be mounted.
    fn mount(folder: PathBuf, size: &str) -> Option<Self> {
        fs::create_dir(&folder).expect("room");
        let size = format!("size={size}");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&folder).output();
        match mount {
            Ok(done) if done.status.success() => Some(SmallDisk { folder }),
            refused => {
                println!("skipped: nothing can be mounted here: {refused:?}");
                None
            }
        }
    }

    /// Takes all space but so many KiB.
    fn fill_but(&self, left: u64) {
        let mut filler = File::create(self.folder.join(format!("filler-{left}"))).expect("room");
        while filler.write_all(&[1; 4096]).is_ok() {}
        let size = filler.metadata().expect("it is open").len();
        filler
            .set_len(size.checked_sub(left << 10).expect("there was as much"))
            .expect("it is ours");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.folder).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "the small disk stays mounted");
    }
}

/// What was refused: to open a pool, and so to remove anything from it or to serve it, on a disk that had less room
/// than a whole segment of the log, of which next to nothing is written then. Nobody was told how much room it takes.
#[test]
fn a_nearly_full_disk_lets_keys_be_read_and_removed() {
    let place = PoolFolder::empty();
    let Some(disk) = SmallDisk::mount(place.path("disk"), "16m") else { return };
    for durability in ["power", "interval"] {
        let pool = format!("disk/{durability}");
        place.run(["create", &pool, "--durability", durability, "--quiet"]).succeeded();
        for key in ["first", "second", "third"] {
            place.run(["put", &pool, key, "value", "--quiet"]).succeeded();
        }
    }
    disk.fill_but(300);
    for durability in ["power", "interval"] {
        let pool = format!("disk/{durability}");
        place.run(["del", &pool, "first", "--quiet"]).succeeded();
        assert_eq!(place.run(["get", &pool, "second"]).succeeded(), "value");
        let serving = Serving::start(&place, &[&pool]);
        serving.ask("GET second\r\n", "$5\r\nvalue\r\n");
        serving.ask("DEL second\r\n", ":1\r\n");
        serving.signal("TERM");
        let ended = serving.end();
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert_eq!(place.run(["get", &pool, "third"]).succeeded(), "value");
        place.run(["get", &pool, "second"]).failed(1);
        place.run(["check", &pool]).succeeded();
    }
    disk.fill_but(0);
    let told = place.run(["del", "disk/power", "third"]).failed(6);
    let is_told =
        told.contains("cannot take 4 KiB for the segment log-") && told.contains("make room");
    assert!(is_told, "{told}");
    assert_eq!(place.run(["get", "disk/power", "third"]).succeeded(), "value");
}

/// What was refused: to serve a pool that had been killed twice, since there was no room for the snapshot that is owed
/// then.
#[test]
fn a_server_comes_up_for_reads_where_no_snapshot_fits() {
    let place = PoolFolder::empty();
    let Some(disk) = SmallDisk::mount(place.path("disk"), "48m") else { return };
    place.run(["create", "disk/pool", "--durability", "interval", "--quiet"]).succeeded();
    let text: String = (0..100_000)
        .map(|n: u64| format!("{n}\t{:x}\n", n.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
        .collect();
    place.write("pairs.tsv", text);
    place.run(["load", "disk/pool", "pairs.tsv", "--quiet"]).succeeded();
    let start = || Serving::start(&place, &["disk/pool"]);
    let kill = |serving: Serving| {
        serving.signal("KILL");
        serving.end();
    };
    let serving = start();
    disk.fill_but(100);
    serving.ask("GET 1\r\n", "$16\r\n9e3779b97f4a7c15\r\n");
    kill(serving);
    for _ in 0..3 {
        let serving = start();
        serving.ask("GET 1\r\n", "$16\r\n9e3779b97f4a7c15\r\n");
        kill(serving);
    }
    fs::remove_file(place.path("disk/filler-100")).expect("it is there");
    let serving = start();
    serving.ask("SET 1 new\r\n", "+OK\r\n");
    serving.signal("TERM");
    assert_eq!(serving.end().code, 0);
    assert_eq!(place.run(["get", "disk/pool", "1"]).succeeded(), "new");
    assert!(place.run(["check", "disk/pool"]).succeeded().starts_with("sound: "));
}
