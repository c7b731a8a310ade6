//! Measures what writers lose while a snapshot is written: `cargo run --release -p everleaf --example
//! snapshot -- FOLDER [KEYS [THREADS]]`.
//!
//! A store of so many keys of 16 and 100 bytes, with durability `interval`; threads overwrite random
//! keys all the time. Their writes per second are printed, by turns, for as long as a snapshot takes
//! without one and with one.

#![allow(clippy::print_stdout, reason = "the figures are the result")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everleaf::random::mix;
use everleaf::{Durability, Options, Store};

const ROUNDS: usize = 3;

fn put(store: &Store, number: u64, value: u64) {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(number).to_be_bytes());
    key[8..].copy_from_slice(&mix(!number).to_be_bytes());
    let mut bytes = [0; 100];
    bytes
        .chunks_exact_mut(4)
        .for_each(|chunk| chunk.copy_from_slice(&(value as u32).to_be_bytes()));
    let _ = store.default_map().put(key, bytes).expect("room");
}

/// Writes per second between two counts.
fn rate(writes: &AtomicU64, wait: impl FnOnce()) -> (f64, Duration) {
    // Relaxed: a statistic.
    let (before, started) = (writes.load(Ordering::Relaxed), Instant::now());
    wait();
    let time = started.elapsed();
    ((writes.load(Ordering::Relaxed) - before) as f64 / time.as_secs_f64(), time)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = Path::new(arguments.first().expect("the folder to work in"));
    let number = |index: usize, usual: u64| {
        arguments.get(index).map_or(usual, |text| text.parse().expect("a number"))
    };
    let (keys, threads) = (number(1, 10_000_000), number(2, 1));
    let _ = std::fs::create_dir(folder);
    let options = Options::new().create(true).snapshot_after_bytes(u64::MAX);
    let options = options.durability(Durability::Interval(Duration::from_secs(1)));
    let store = options.open(folder.join("pool")).expect("it opens");
    for number in store.default_map().len()..keys {
        put(&store, number, number);
    }
    let (writes, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (store, writes, is_over) = (&store, &writes, &is_over);
            scope.spawn(move || {
                // Relaxed throughout: a statistic, and a flag that carries nothing.
                for step in 0.. {
                    if step % 64 == 0 {
                        writes.fetch_add(64, Ordering::Relaxed);
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                    put(store, mix(step ^ thread << 56) % keys, step);
                }
            });
        }
        let mut rest = Duration::from_secs(3);
        for _ in 0..ROUNDS {
            let (without, _) = rate(&writes, || std::thread::sleep(rest));
            let (with, time) = rate(&writes, || {
                let _ = store.snapshot().expect("the disk works");
            });
            println!(
                "{threads} threads: {:.3} M/s without, {:.3} M/s with a snapshot, which took {:.1} s: \
                 {:.1} % fewer",
                without / 1e6,
                with / 1e6,
                time.as_secs_f64(),
                100.0 * (1.0 - with / without)
            );
            rest = time.min(Duration::from_secs(5));
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
