//! A disk without space: an error that says so, nothing lost, and removals make room.
//!
//! The disk is a limit on the size of files, so the test runs itself in a shell that sets one.

use std::path::PathBuf;
use std::process::Command;

use everleaf::{Error, Options};

/// Names the folder for the pool, and tells the victim that the limit is set.
const FOLDER: &str = "EVERLEAF_FULL_DISK_FOLDER";

/// Only does something when started under a limit by the test below.
#[test]
fn victim_of_a_full_disk() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let path = folder.join("p");
    let store = Options::new().create(true).open(&path).expect("a small pool fits");
    let key = |number: u32| number.wrapping_mul(0x9E37_79B9).to_be_bytes();
    let value = |number: u32| vec![number as u8; (number % 500) as usize];
    let mut counts = vec![];
    for _ in 0..3 {
        let full = loop {
            let number = store.default_map().len() as u32;
            if let Err(error) = store.default_map().put(key(number), value(number)) {
                break error;
            }
        };
        assert!(matches!(full, Error::DiskFull(_)), "{full}");
        let count = store.default_map().len() as u32;
        counts.push(count);
        for number in 0..count {
            assert_eq!(store.default_map().get(key(number)).expect("get"), Some(value(number)));
        }
        assert!(store.check().expect("a check").is_clean());
        for number in 0..count {
            assert!(store.default_map().remove(key(number)).expect("removals need no space"));
        }
    }
    assert!(counts[0] > 1000 && counts[2] * 10 > counts[0] * 8, "pairs that fit: {counts:?}");
    store.default_map().put(b"last", b"word").expect("room");
    store.close().expect("closed");
    let store = Options::new().open(&path).expect("it opens on a full disk");
    assert_eq!(store.default_map().get(b"last").expect("get"), Some(b"word".to_vec()));
    assert!(store.check().expect("a check").is_clean());
}

#[test]
fn a_full_disk_loses_nothing_and_is_emptied_by_removals() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = std::env::current_exe().expect("this program");
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -f 12288 && exec \"$0\" --exact full_disk::victim_of_a_full_disk --nocapture",
        ])
        .arg(program)
        .env(FOLDER, folder.path())
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", output.status);
    assert!(folder.path().join("p").exists(), "the victim did nothing: {text}");
}
