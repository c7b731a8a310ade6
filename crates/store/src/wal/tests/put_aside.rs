//! What was put aside, when the log goes.

use std::fs;

use crate::{Durability, Options};

/// Snapshots that were put aside, which are as long as the store, stayed for ever.
#[test]
fn of_what_was_put_aside_only_segments_outlive_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let options = Options::new().create(true).max_size_bytes(1 << 26).sweep(false);
    let open = |durability| options.clone().durability(durability).open(&pool).expect("it opens");
    open(Durability::Power).close().expect("it closes");
    let log = folder.path().join("pool.log");
    let segments = ["damaged-log-0000000000000003", "damaged-log-0000000000000003.2"];
    let snapshots = ["damaged-0000000000000007", "stale-0000000000000008.2"];
    for name in segments.iter().chain(&snapshots) {
        fs::write(log.join(name), "groups").expect("writable");
    }
    for durability in [Durability::Process, Durability::Power] {
        open(durability).close().expect("it closes");
        assert!(segments.iter().all(|name| log.join(name).exists()), "{durability:?}");
        assert!(!snapshots.iter().any(|name| log.join(name).exists()), "{durability:?}");
    }
}
