//! Measures how fast a pool is rebuilt from its log after a crash of the machine: `cargo run
//! --release -p everleaf --example rebuild -- FOLDER [KEYS [KEY_SIZE VALUE_SIZE]]`.
//!
//! The first run with a folder that is not there makes two stores in it, with random keys: the
//! `snapshot` of the one has all of them, in the `log` of the other they are as they were put. Each
//! further run loses both pools, rebuilds them from their logs, and prints keys per second.

#![allow(clippy::print_stdout, reason = "the figures are the result")]

use std::path::Path;
use std::time::{Duration, Instant};

use everleaf::random::mix;
use everleaf::{Durability, Options, Store};

/// Bytes that compress as badly as random ones.
fn random_bytes(number: u64, bytes: &mut [u8]) {
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        let random = mix(number ^ (index as u64) << 56).to_be_bytes();
        chunk.copy_from_slice(&random[..chunk.len()]);
    }
}

fn options() -> Options {
    let options = Options::new().max_size_bytes(64 << 30).snapshot_after_bytes(u64::MAX);
    options.durability(Durability::Interval(Duration::from_secs(1)))
}

fn make(path: &Path, keys: u64, key_size: usize, value_size: usize, snapshot: bool) {
    let store = options().create_new(true).open(path).expect("the pool can be made");
    let (mut key, mut value) = (vec![0; key_size], vec![0; value_size]);
    for number in 0..keys {
        random_bytes(number, &mut key);
        random_bytes(!number, &mut value);
        let _ = store.default_map().put(&key, &value).expect("room");
    }
    if snapshot {
        store.snapshot().expect("room");
    }
    store.close().expect("it can be closed");
}

fn open(path: &Path) -> Store {
    let store = options().open(path).expect("it opens");
    assert!(store.rebuilt().is_some(), "the pool was lost");
    store
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = Path::new(arguments.first().expect("the folder to work in"));
    let number = |index: usize, usual: u64| {
        arguments.get(index).map_or(usual, |text| text.parse().expect("a number"))
    };
    let (keys, key_size, value_size) = (number(1, 10_000_000), number(2, 16), number(3, 100));
    if !folder.exists() {
        std::fs::create_dir_all(folder).expect("the folder can be made");
        for (name, snapshot) in [("snapshot", true), ("log", false)] {
            make(&folder.join(name), keys, key_size as usize, value_size as usize, snapshot);
        }
        println!("ready: run it again to measure");
        return;
    }
    for name in ["snapshot", "log"] {
        let path = folder.join(name);
        let _ = std::fs::remove_file(&path);
        let started = Instant::now();
        let store = open(&path);
        let seconds = started.elapsed().as_secs_f64();
        let rebuilt = store.rebuilt().expect("just seen").clone();
        println!(
            "{name}: {} keys of {key_size} and {value_size} bytes in {seconds:.2} s, {:.2} M keys/s \
             ({} pairs of the snapshot, {} commits of the log)",
            store.default_map().len(),
            store.default_map().len() as f64 / seconds / 1e6,
            rebuilt.snapshot_pairs,
            rebuilt.replayed,
        );
        store.close().expect("it can be closed");
    }
}
