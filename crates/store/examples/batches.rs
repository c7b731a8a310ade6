//! Measures puts in batches beside single puts and lookups: `cargo run --release -p everleaf --example
//! batches -- [KEYS [BATCH]]`.
//!
//! One thread, fresh pools, keys in random order; each line is the median of five rounds with the
//! lowest and highest, in millions of operations per second.

#![allow(clippy::print_stdout, reason = "the figures are the result")]

use std::time::Instant;

use everleaf::random::mix;
use everleaf::{Durability, Options, Store, WriteBatch};

const ROUNDS: usize = 5;

/// The key of a number, `length` bytes.
fn key(number: u64, length: usize) -> Vec<u8> {
    let mut key = mix(number).to_be_bytes().to_vec();
    key.resize(length, b'k');
    key
}

/// What is measured.
type Run<'a> = &'a dyn Fn(&Store, &[Vec<u8>], &[u8]);

/// Seconds of one round.
fn round(keys: &[Vec<u8>], value: &[u8], run: Run<'_>) -> f64 {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options::new().create(true).durability(Durability::Process);
    let store = options.open(folder.path().join("pool")).expect("the pool opens");
    let started = Instant::now();
    run(&store, keys, value);
    started.elapsed().as_secs_f64()
}

fn report(what: &str, keys: &[Vec<u8>], value: &[u8], run: Run<'_>) {
    let mut rates: Vec<f64> =
        (0..ROUNDS).map(|_| keys.len() as f64 / round(keys, value, run) / 1e6).collect();
    rates.sort_by(f64::total_cmp);
    println!(
        "{what:<40} {:>6.2} M/s  ({:.2} .. {:.2})",
        rates[ROUNDS / 2],
        rates[0],
        rates[ROUNDS - 1]
    );
}

fn in_batches(size: usize) -> impl Fn(&Store, &[Vec<u8>], &[u8]) {
    move |store, keys, value| {
        let mut batch = WriteBatch::new();
        for some in keys.chunks(size) {
            batch.clear();
            for key in some {
                batch.put(store.default_map(), key, value);
            }
            store.write(&batch).expect("room");
        }
    }
}

fn one_by_one(store: &Store, keys: &[Vec<u8>], value: &[u8]) {
    for key in keys {
        store.default_map().put(key, value).expect("room");
    }
}

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|text| text.parse::<usize>().ok());
    let count = args.next().unwrap_or(1_000_000);
    let batch = args.next().unwrap_or(100);
    for (key_length, value_length) in [(8, 8), (16, 100)] {
        let keys: Vec<Vec<u8>> = (0..count as u64).map(|number| key(number, key_length)).collect();
        let value = vec![b'v'; value_length];
        let what = format!("{key_length}/{value_length} bytes, {count} keys");
        report(&format!("{what}, put by put"), &keys, &value, &one_by_one);
        report(&format!("{what}, batches of {batch}"), &keys, &value, &in_batches(batch));
    }
}
