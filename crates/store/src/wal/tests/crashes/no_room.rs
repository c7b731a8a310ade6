//! A pool that is rebuilt from its log beside the file that is there, on a disk that has no room for both: a limit on
//! the size of files, so that the test runs itself in a process of its own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use everleaf_log::simulated::{Faults, SimulatedDisk};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::world::{folder, options};
use crate::{Durability, Error};

/// Tells the child that it is one.
const CHILD: &str = "EVERLEAF_NO_ROOM_CHILD";
const PAIRS: u32 = 6000;

/// Makes a pool and its log, closed, and cuts it short.
fn make_and_cut(path: &Path, disk: &SimulatedDisk, durability: Durability) {
    let store = options(disk).durability(durability).open(path).expect("room");
    store.defer_sync();
    for number in 0..PAIRS {
        store.default_map().put(number.to_be_bytes(), [7; 1000]).expect("room");
    }
    store.wait_deferred().expect("the disk works");
    store.close().expect("it closes");
    let file = std::fs::File::options().write(true).open(path).expect("there");
    file.set_len(file.metadata().expect("there").len() - 4096).expect("room");
}

/// What is answered when files of more than 2 MiB are refused.
fn refused(path: &Path, disk: &SimulatedDisk, durability: Durability) -> String {
    let before = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(2 << 20), ..before }).expect("allowed");
    let opened = options(disk).durability(durability).open(path).map(drop);
    setrlimit(Resource::Fsize, before).expect("allowed");
    let error = opened.expect_err("it has no room");
    assert!(matches!(error, Error::DiskFull(_)), "{error}");
    error.to_string()
}

/// Only does something when it is started by the test below.
#[test]
#[ignore = "a part of the next test, which runs it as a process of its own"]
fn child_without_room_for_another_pool() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let interval = Durability::Interval(Duration::from_secs(1));
    for (durability, has_all) in [(Durability::Power, true), (interval, false)] {
        let folder = folder();
        let disk = SimulatedDisk::new(Faults::default(), 1);
        let path = folder.path().join("it's");
        make_and_cut(&path, &disk, durability);
        let before = std::fs::read(&path).expect("there");
        let text = refused(&path, &disk, durability);
        let quoted = format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
        assert!(text.contains(&format!("`mv -- {quoted} FOLDER`")), "{text}");
        assert!(
            text.contains(" MiB must be free") && text.contains(" MiB, and the next"),
            "{text}"
        );
        assert_eq!(text.contains(&format!("`rm -- {quoted}`")), has_all, "{text}");
        assert_eq!(text.contains("do not remove it"), !has_all, "{text}");
        assert!(std::fs::read(&path).expect("there") == before, "nothing was changed");
        // As it was told.
        std::fs::rename(&path, folder.path().join("elsewhere")).expect("there");
        let store = options(&disk).durability(durability).open(&path).expect("it is rebuilt");
        assert_eq!(store.default_map().len(), u64::from(PAIRS));
    }
}

/// A pool was not rebuilt where its damaged file took the room for it, and the refusal did not say that this file is
/// in the way, nor whether anybody needs it.
#[test]
fn a_pool_in_the_way_of_its_successor_is_told() {
    let program = std::env::current_exe().expect("this program");
    let name = concat!(module_path!(), "::child_without_room_for_another_pool");
    let name = name.split_once("::").expect("behind the crate").1;
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" --exact \"$1\" --ignored --nocapture"])
        .arg(program)
        .arg(name)
        .env(CHILD, "")
        .output()
        .expect("a shell");
    let told = String::from_utf8_lossy(&output.stdout);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}{text}");
}
