//! What a view costs its readers: gets and a scan of a map, and of the oldest and the newest of so many views, between
//! each two of which all keys were written again.
//!
//! ```text
//! cargo run --release -p everleaf --example views [KEYS]
//! ```

#![allow(clippy::print_stdout, reason = "the numbers are the result")]

use std::hint::black_box;

use everleaf::{MapView, Options, Result, Store};

const ROUNDS: usize = 5;
const VALUE_SIZE: usize = 100;

fn key(number: u64) -> [u8; 8] {
    // Spread, so that neighbours are not asked for together.
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

fn write_all(store: &Store, keys: u64, round: u8) -> Result<()> {
    for number in 0..keys {
        let _ = store.default_map().put(key(number), [round; VALUE_SIZE])?;
    }
    Ok(())
}

/// What this thread had of the processors, in nanoseconds: other work beside it counts less than on the clock.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// The median of some rounds, in nanoseconds of one of so many.
fn median(count: u64, mut act: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = vec![];
    for _ in 0..ROUNDS {
        let started = cpu_ns();
        act()?;
        times.push((cpu_ns() - started) as f64 / count as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}

fn tell(what: &str, keys: u64, view: &MapView) -> Result<()> {
    let get = median(keys, || {
        (0..keys).try_for_each(|number| view.get(key(number)).map(|value| drop(black_box(value))))
    })?;
    let scan =
        median(keys, || view.iter().try_for_each(|pair| pair.map(|pair| drop(black_box(pair)))))?;
    println!("{what:<24} get {get:>7.0} ns   scan {scan:>7.0} ns a pair");
    Ok(())
}

fn main() -> Result<()> {
    let keys = std::env::args().nth(1).map_or(100_000, |keys| keys.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new().create(true).max_size_bytes(1 << 32).sweep(false);
    let store = options.open(folder.path().join("pool"))?;
    write_all(&store, keys, 0)?;
    let map = store.default_map();
    let get = median(keys, || {
        (0..keys).try_for_each(|number| map.get(key(number)).map(|value| drop(black_box(value))))
    })?;
    let scan =
        median(keys, || map.iter().try_for_each(|pair| pair.map(|pair| drop(black_box(pair)))))?;
    println!("{:<24} get {get:>7.0} ns   scan {scan:>7.0} ns a pair", "the map");
    for count in [1, 2, 8] {
        let mut views = vec![];
        for round in 0..count {
            views.push(store.view()?);
            write_all(&store, keys, round)?;
        }
        let (oldest, newest) = (&views[0], &views[views.len() - 1]);
        tell(&format!("oldest of {count}"), keys, oldest.default_map())?;
        if count > 1 {
            tell(&format!("newest of {count}"), keys, newest.default_map())?;
        }
        println!("{:<24} {} MiB", "", store.statistics().view_bytes >> 20);
    }
    Ok(())
}
