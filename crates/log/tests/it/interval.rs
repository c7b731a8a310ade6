//! Syncing at intervals, by a clock of the test's.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::sync::Arc;
use std::time::Duration;

use everleaf_log::simulated::{Faults, SimulatedDisk};
use everleaf_log::{Log, LogOptions, Lsn, Record, SyncMode};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn open(disk: &SimulatedDisk, mode: SyncMode) -> Arc<Log<SimulatedDisk>> {
    let options = LogOptions::new([5; 16])
        .segment_size_bytes(64 << 10)
        .sync_mode(mode)
        .background_thread(false);
    Arc::new(Log::open(disk.clone(), &options).unwrap().0)
}

fn put(log: &Log<SimulatedDisk>) -> Lsn {
    log.append(&[Record::put(1, b"key", b"value")]).unwrap()
}

#[test]
fn a_tick_syncs_every_half_interval() {
    let log = open(&SimulatedDisk::new(Faults::default(), 1), SyncMode::Interval(ms(10)));
    log.tick(ms(100)).unwrap();
    let mut synced = Vec::new();
    for now in 100..120 {
        let lsn = put(&log);
        log.wait(lsn).unwrap();
        log.tick(ms(now)).unwrap();
        if log.durable_lsn() == lsn {
            synced.push(now);
        }
    }
    assert_eq!(synced, [105, 110, 115]);
    let log = open(&SimulatedDisk::new(Faults::default(), 1), SyncMode::Sync);
    put(&log);
    (0..100).for_each(|now| log.tick(ms(now)).unwrap());
    assert_eq!(log.durable_lsn(), 0);
}

#[test]
fn the_next_writer_does_the_sync_that_became_due_meanwhile() {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let log = open(&disk, SyncMode::Interval(ms(10)));
    log.tick(ms(0)).unwrap();
    put(&log);
    let ticking = Arc::clone(&log);
    disk.set_hook(move |_| ticking.tick(ms(6)).unwrap());
    log.write_out().unwrap();
    disk.clear_hook();
    assert_eq!(log.durable_lsn(), 0, "the one that wrote had begun before");
    let last = put(&log);
    log.write_out().unwrap();
    assert_eq!(log.durable_lsn(), last);
    put(&log);
    log.write_out().unwrap();
    log.tick(ms(7)).unwrap();
    assert_eq!(log.durable_lsn(), last, "and that was the sync of this half");
}

#[test]
fn a_tick_tells_that_the_log_has_failed() {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let log = open(&disk, SyncMode::Interval(ms(10)));
    log.tick(ms(0)).unwrap();
    put(&log);
    disk.set_faults(Faults { sync_error_one_in: 1, ..Faults::default() });
    assert!(log.tick(ms(6)).is_err());
    assert!(log.tick(ms(7)).unwrap_err().to_string().contains("has failed"));
}

#[test]
fn the_thread_of_a_log_keeps_its_own_time() {
    let options = LogOptions::new([5; 16]).sync_mode(SyncMode::Interval(ms(2)));
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let (log, _) = Log::open(disk, &options).unwrap();
    for _ in 0..3 {
        let lsn = put(&log);
        while log.durable_lsn() < lsn {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_tick_from_outside_is_not_the_time_of_a_log_with_a_thread() {
    let an_hour = SyncMode::Interval(Duration::from_secs(3600));
    let options = LogOptions::new([5; 16]).sync_mode(an_hour);
    let (log, _) = Log::open(SimulatedDisk::new(Faults::default(), 1), &options).unwrap();
    let lsn = put(&log);
    log.tick(Duration::from_secs(1 << 40)).unwrap();
    assert!(log.durable_lsn() < lsn);
}
