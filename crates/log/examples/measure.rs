//! Measures the log and the snapshots on a folder of this machine.
//!
//! `cargo run --release -p everleaf-log --example measure -- <folder>` makes a folder below it, prints
//! commits, groups, pairs and bytes per second, and removes the folder.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everleaf_log::{Log, LogOptions, RealDisk, Record, Result, SnapshotWriter, SyncMode};

const TIME: Duration = Duration::from_secs(2);
const PAIRS: u64 = 1_000_000;

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let folder = Path::new(&folder).join("everleaf-log-measure");
    drop(std::fs::remove_dir_all(&folder));
    for threads in [1, 2, 4, 16] {
        commits(&folder, threads, SyncMode::Sync)?;
    }
    for threads in [1, 2] {
        commits(&folder, threads, SyncMode::Interval(Duration::from_secs(1)))?;
    }
    replay(&folder)?;
    let random = |number: u64| {
        let mut value = [0; 100];
        let mut state = number;
        for byte in &mut value {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        value.to_vec()
    };
    let text = |number: u64| {
        let name = format!("customer {number}");
        format!(r#"{{"id":{number},"name":"{name:<20}","city":"Karlsruhe","active":true,"n":{number:08}}}"#)
            .into_bytes()
    };
    snapshot(&folder, "random bytes", &random)?;
    snapshot(&folder, "JSON", &text)?;
    drop(std::fs::remove_dir_all(&folder));
    Ok(())
}

/// Makes a new log.
fn fresh(folder: &Path, mode: SyncMode) -> Result<Log> {
    drop(std::fs::remove_dir_all(folder));
    Ok(Log::open(RealDisk::open(folder)?, &LogOptions::new([1; 16]).sync_mode(mode))?.0)
}

/// Threads that append a record of 16 and 100 bytes and wait for it.
fn commits(folder: &Path, threads: u32, mode: SyncMode) -> Result<()> {
    let log = fresh(folder, mode)?;
    for turn in ["new segments", "recycled segments"] {
        let (is_over, count) = (AtomicBool::new(false), AtomicU64::new(0));
        let start = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (log, is_over, count) = (&log, &is_over, &count);
                scope.spawn(move || {
                    let (mut done, mut key) = (0u64, [0; 16]);
                    // Relaxed throughout: the end of the scope orders what is counted.
                    while !is_over.load(Ordering::Relaxed) {
                        key[..8].copy_from_slice(&done.to_le_bytes());
                        let lsn = log.append(&[Record::put(thread, &key, &[7; 100])]);
                        lsn.and_then(|lsn| log.wait(lsn)).expect("the disk works");
                        done += 1;
                    }
                    count.fetch_add(done, Ordering::Relaxed);
                });
            }
            std::thread::sleep(TIME);
            is_over.store(true, Ordering::Relaxed);
        });
        let rate = count.into_inner() as f64 / start.elapsed().as_secs_f64();
        println!("{mode:?}, {threads} threads, {turn}: {rate:.0} commits/s");
        for _ in 0..2 {
            SnapshotWriter::begin(&log)?.finish()?;
        }
    }
    Ok(())
}

/// Reads a log of many small groups.
fn replay(folder: &Path) -> Result<()> {
    let log = fresh(folder, SyncMode::Interval(Duration::from_secs(1)))?;
    for number in 0..PAIRS {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&number.to_le_bytes());
        let lsn = log.append(&[Record::put(1, &key, &[7; 100])])?;
        log.wait(lsn)?;
    }
    log.close()?;
    let start = Instant::now();
    let options = LogOptions::new([1; 16]);
    let (_log, recovered) = Log::open(RealDisk::open(folder)?, &options)?;
    let opened = start.elapsed();
    let start = Instant::now();
    let mut bytes = 0;
    recovered.replay(0, |_, records| -> Result<()> {
        bytes += records.iter().map(|record| record.key.len()).sum::<usize>();
        Ok(())
    })?;
    let rate = PAIRS as f64 / start.elapsed().as_secs_f64();
    println!(
        "opened in {opened:?}; replay of {PAIRS} groups, {bytes} bytes of keys: {rate:.0} groups/s"
    );
    Ok(())
}

/// Writes a snapshot and reads it.
fn snapshot(folder: &Path, what: &str, value: &dyn Fn(u64) -> Vec<u8>) -> Result<()> {
    let log = fresh(folder, SyncMode::Sync)?;
    let values: Vec<Vec<u8>> = (0..PAIRS).map(value).collect();
    let start = Instant::now();
    let mut writer = SnapshotWriter::begin(&log)?;
    for (number, value) in (0u64..).zip(&values) {
        let mut key = [0; 16];
        key[8..].copy_from_slice(&number.to_be_bytes());
        writer.add(&Record::put(1, &key, value))?;
    }
    let info = writer.finish()?;
    let rate = PAIRS as f64 / start.elapsed().as_secs_f64();
    let (size, raw) = (info.size >> 10, info.raw_size >> 10);
    println!("snapshot of {what}: {rate:.0} pairs/s, {size} KiB of {raw} KiB");
    drop(log);
    let (_log, recovered) = Log::open(RealDisk::open(folder)?, &LogOptions::new([1; 16]))?;
    let start = Instant::now();
    let replay = recovered.replay_start()?;
    let verified = start.elapsed();
    let snapshot = replay.snapshot.expect("one was made");
    let mut count = 0;
    let start = Instant::now();
    for index in 0..snapshot.block_count() {
        count += snapshot.block(index)?.pairs().count() as u64;
    }
    let rate = count as f64 / start.elapsed().as_secs_f64();
    println!("  checked in {verified:?}, read at {rate:.0} pairs/s by one thread");
    Ok(())
}
