//! What a view costs its readers: gets and a scan of a map, and of the oldest and the newest of so many views, between
//! each two of which all keys were written again.
//!
//! ```text
//! cargo run --release -p everleaf --example views [KEYS]
//! ```
//!
//! And what overlapping views hold: two threads write to 0.8 MB of data for so long while views are opened and closed,
//! two of which are open at most, and one always. What was kept of old values as long as any view was open once grew to
//! 3.8 GB in 40 seconds, and gets of a view took twenty times as long in the end.
//!
//! ```text
//! cargo run --release -p everleaf --example views overlapping SECONDS
//! ```

#![allow(clippy::print_stdout, reason = "the numbers are the result")]

use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

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

/// Keys of the writers behind whose backs views are opened: 0.8 MB of values.
const OVERLAPPING_KEYS: u64 = 8_000;
const WRITERS: u64 = 2;
/// How long a view is the newest one; it is open twice as long.
const TURN: Duration = Duration::from_millis(20);

/// Memory of this process in bytes: what it has now (`VmRSS`), or had at most (`VmHWM`).
fn memory(which: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(which));
    let kib = line.and_then(|rest| rest.trim_matches([':', ' ', '\t']).strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Writes all keys again and again, each thread its part.
fn write_on(store: &Store, writer: u64, is_over: &AtomicBool, writes: &AtomicU64) -> Result<()> {
    for round in (0..=u8::MAX).cycle() {
        for number in (writer..OVERLAPPING_KEYS).step_by(WRITERS as usize) {
            let _ = store.default_map().put(key(number), [round; VALUE_SIZE])?;
        }
        // Relaxed, twice: nothing else is read by them.
        writes.fetch_add(OVERLAPPING_KEYS / WRITERS, Ordering::Relaxed);
        if is_over.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

/// Opens and closes views for so long.
fn overlap(folder: &Path, length: Duration) -> Result<()> {
    let options = Options::new().create(true).max_size_bytes(1 << 32).sweep(false);
    let store = options.open(folder.join("pool"))?;
    write_all(&store, OVERLAPPING_KEYS, 0)?;
    let before = memory("VmRSS");
    let (is_over, writes) = (AtomicBool::new(false), AtomicU64::new(0));
    let began = Instant::now();
    let (mut count, mut highest) = (0, 0);
    // Gets, and the nanoseconds of this thread that they took: in the first second, and in the last.
    let mut gets = [(0_u64, 0_u64); 2];
    std::thread::scope(|scope| {
        let (store, is_over, writes) = (&store, &is_over, &writes);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write_on(store, writer, is_over, writes)))
            .collect();
        let watched = (|| {
            let mut older = store.view()?;
            while began.elapsed() < length {
                let newer = store.view()?;
                count += 1;
                let opened = Instant::now();
                while opened.elapsed() < TURN {
                    let second = match began.elapsed() {
                        elapsed if elapsed < Duration::from_secs(1) => Some(0),
                        elapsed if elapsed + Duration::from_secs(1) >= length => Some(1),
                        _ => None,
                    };
                    // Of both, the older one with more old values.
                    let from = cpu_ns();
                    for number in (0..OVERLAPPING_KEYS).step_by(16) {
                        for view in [&older, &newer] {
                            drop(black_box(view.default_map().get(key(number))?));
                        }
                    }
                    if let Some(second) = second {
                        gets[second].0 += 2 * OVERLAPPING_KEYS.div_ceil(16);
                        gets[second].1 += cpu_ns() - from;
                    }
                    highest = highest.max(store.statistics().view_bytes);
                }
                // Closes the one before.
                older = newer;
            }
            Ok(())
        })();
        is_over.store(true, Ordering::Relaxed);
        let written = writers.into_iter().map(|writer| writer.join().expect("it does not panic"));
        written.fold(watched, Result::and)
    })?;
    let at_most = memory("VmHWM");
    let left = store.statistics().view_bytes;
    // What nobody needs is given back to the system when nothing more comes.
    std::thread::sleep(Duration::from_secs(1));
    let behind = memory("VmRSS");
    println!("{} views one behind the other, {} writes", count, writes.into_inner());
    println!("view_bytes, highest      {:>9.1} MB", highest as f64 / 1e6);
    println!("view_bytes, in the end   {:>9.1} MB", left as f64 / 1e6);
    println!("resident, before         {:>9.1} MB", before as f64 / 1e6);
    println!("resident, highest        {:>9.1} MB", at_most as f64 / 1e6);
    println!("resident, 1 s behind     {:>9.1} MB", behind as f64 / 1e6);
    for (which, (count, ns)) in ["first", "last"].into_iter().zip(gets) {
        println!("a get of a view, {which:<5}   {:>9.0} ns", ns as f64 / count.max(1) as f64);
    }
    Ok(())
}

fn main() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, seconds] = &arguments[..]
        && mode == "overlapping"
    {
        let seconds = seconds.parse().expect("a number of seconds");
        return overlap(folder.path(), Duration::from_secs(seconds));
    }
    let keys = arguments.first().map_or(100_000, |keys| keys.parse().expect("a number"));
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
