//! A log whose owner owes it a snapshot: what is logged counts only when that is there.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use everleaf_log::simulated::{Faults, SimulatedDisk};
use everleaf_log::{Disk, DiskFile, Error, Log, LogOptions, Lsn, RealDisk, Record, SnapshotWriter};

/// Far more than any of the tests needs on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> LogOptions {
    LogOptions::new([9; 16]).segment_size_bytes(16 << 10)
}

fn owing() -> LogOptions {
    options().owes_snapshot(true).owner_has_all(true)
}

fn put(log: &Log<SimulatedDisk>, key: &[u8]) -> Lsn {
    log.append(&[Record::put(1, key, &[7; 3000])]).unwrap()
}

/// A log with one durable group, opened by an owner that owes a snapshot, with more groups than a segment takes.
fn begun(mutants: Vec<&'static str>) -> (SimulatedDisk, Log<SimulatedDisk>) {
    let disk = SimulatedDisk::new(Faults { mutants, ..Faults::default() }, 1);
    let (log, _) = Log::open(disk.clone(), &options()).unwrap();
    assert_eq!(put(&log, b"first"), 1);
    log.close().unwrap();
    let (log, _) = Log::open(disk.clone(), &owing()).unwrap();
    assert!(log.owes_snapshot());
    for number in 0..9u8 {
        // One LSN is nobody's.
        assert_eq!(put(&log, &[number]), Lsn::from(number) + 3);
        log.write_out().unwrap();
    }
    (disk, log)
}

fn end(disk: &SimulatedDisk) -> Lsn {
    let (_, recovered) = Log::open(disk.copied(1), &options()).unwrap();
    recovered.replay_start().unwrap();
    recovered.replay(0, |_, _| Ok::<(), Error>(())).unwrap_or(recovered.report().end)
}

fn snapshot(log: &Log<SimulatedDisk>) {
    let mut writer = SnapshotWriter::begin(log).unwrap();
    for number in 0..9u8 {
        writer.add(&Record::put(1, &[number], &[7; 3000])).unwrap();
    }
    writer.add(&Record::put(1, b"first", &[7; 3000])).unwrap();
    let info = writer.finish().unwrap();
    assert!(info.from >= 2 && info.to >= info.from, "{info:?}");
}

#[test]
fn what_is_logged_before_the_snapshot_does_not_count() {
    let (disk, log) = begun(vec![]);
    assert_eq!(log.durable_lsn(), 1);
    assert_eq!(end(&disk), 1);
    log.close().unwrap();
    assert_eq!(end(&disk), 1, "an end without the snapshot says nothing");
    let (disk, log) = begun(vec!["log.ends_what_is_owed"]);
    log.close().unwrap();
    assert_ne!(Log::open(disk, &options()).unwrap().1.report().end, 1, "the bug is not found");
}

#[test]
fn with_the_snapshot_all_of_it_counts_and_later_openings_go_on() {
    let (disk, log) = begun(vec![]);
    snapshot(&log);
    assert!(!log.owes_snapshot());
    assert_eq!(log.durable_lsn(), 11);
    assert_eq!(put(&log, b"last"), 12);
    log.sync().unwrap();
    let crashed = disk.crashed(3);
    log.close().unwrap();
    for disk in [crashed, disk] {
        for round in 0..3 {
            let (log, recovered) = Log::open(disk.clone(), &options()).unwrap();
            assert_eq!(recovered.report().end, 12 + round);
            assert!(!recovered.report().was_owing, "its snapshot is there");
            let start = recovered.replay_start().unwrap();
            assert!(start.from_lsn() >= 2);
            recovered.replay(start.from_lsn(), |_, _| Ok::<(), Error>(())).unwrap();
            assert_eq!(put(&log, b"more"), 13 + round);
            log.close().unwrap();
        }
    }
}

/// A process that dies again before the snapshot is there owes it again, and nothing that did not count comes back.
#[test]
fn a_second_debt_takes_the_place_of_the_first() {
    let (disk, log) = begun(vec![]);
    let disk = {
        let copy = disk.copied(2);
        drop(log);
        copy
    };
    let (log, recovered) = Log::open(disk.clone(), &owing()).unwrap();
    assert_eq!(recovered.report().end, 1);
    assert!(recovered.report().was_owing);
    assert_eq!(put(&log, b"second"), 3);
    log.write_out().unwrap();
    assert_eq!(end(&disk), 1);
    snapshot(&log);
    log.close().unwrap();
    let (_, recovered) = Log::open(disk.clone(), &options()).unwrap();
    assert_eq!(recovered.report().end, 3);
    recovered.replay_start().unwrap();
}

/// A process dies, the next writes again what was not proven durable, and the machine stops before the snapshot that is
/// owed is there. Of a file of that log a byte is changed.
fn damaged_before(mutants: Vec<&'static str>, name: &str, at: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(Faults { mutants, ..Faults::default() }, 1);
    let (log, _) = Log::open(disk.clone(), &options()).unwrap();
    assert_eq!(put(&log, b"first"), 1);
    log.write_out().unwrap();
    let disk = disk.copied(1);
    let (log, recovered) = Log::open(disk.clone(), &owing()).unwrap();
    assert_eq!(recovered.report().rewritten, 1);
    for number in 0..4u8 {
        assert_eq!(put(&log, &[number]), Lsn::from(number) + 3);
        log.write_out().unwrap();
    }
    let disk = disk.crashed(1);
    assert_eq!((end(&disk), disk.names().len()), (1, 4));
    disk.open(name).unwrap().write_at(&[0xA5], at).unwrap();
    disk
}

/// What was written again was durable then, as the segments behind it say: its damage passed for the end.
#[test]
fn damage_of_what_was_durable_before_what_is_owed_is_told() {
    let damaged = |mutants| damaged_before(mutants, "log-0000000000000002", 4096 + 100);
    let disk = damaged(vec![]);
    let refused = Log::open(disk.clone(), &options());
    assert!(matches!(refused, Err(Error::Damaged(_))), "{refused:?}");
    let (log, recovered) = Log::open(disk.clone(), &options().salvage(true)).unwrap();
    assert_eq!((recovered.report().end, recovered.report().damages.len()), (0, 1));
    assert_eq!(put(&log, b"behind"), 1);
    log.close().unwrap();
    assert_eq!(end(&disk), 1);
    let disk = damaged(vec!["log.owed_proves_nothing"]);
    assert_eq!(Log::open(disk, &options()).unwrap().1.report().end, 0, "the bug is not found");
}

/// The opening that found nothing before it failed, and the next one opened an empty log.
#[test]
fn a_log_is_refused_of_which_only_what_is_owed_is_found() {
    for name in ["log-0000000000000002", "log-0000000000000003"] {
        let disk = damaged_before(vec![], name, 20);
        for _ in 0..2 {
            let refused = Log::open(disk.clone(), &options());
            assert!(matches!(refused, Err(Error::Damaged(_))), "{name}: {refused:?}");
        }
        let (log, recovered) = Log::open(disk.clone(), &options().salvage(true)).unwrap();
        assert_eq!(recovered.report().end, 1);
        log.close().unwrap();
        assert_eq!(end(&disk), 1);
    }
}

/// Damage of the only snapshot behind the gap is told, and the log from before it does not pass for all.
#[test]
fn a_log_whose_owed_snapshot_is_damaged_later_is_refused() {
    let (disk, log) = begun(vec![]);
    snapshot(&log);
    log.close().unwrap();
    let file = disk.open("snapshot-0000000000000001").unwrap();
    let at = file.size().unwrap() - 20;
    file.write_at(&[0xA5], at).unwrap();
    let (_, recovered) = Log::open(disk, &options()).unwrap();
    let replayed = recovered
        .replay_start()
        .and_then(|start| recovered.replay(start.from_lsn(), |_, _| Ok::<(), Error>(())));
    assert!(matches!(replayed, Err(Error::Damaged(_))), "{replayed:?}");
}

/// A thread that waited for a snapshot that could not be begun was not told: it waited until somebody used the log.
#[test]
fn a_thread_is_told_of_a_snapshot_that_cannot_be_begun() {
    for _ in 0..6 {
        let (disk, log) = begun(vec![]);
        let log = Arc::new(log);
        let (begins, begun) = channel();
        disk.set_wait_hook(move |point| {
            if point == "log.awaits_snapshot" {
                begins.send(()).unwrap();
            }
            false
        });
        let (ends, ended) = channel();
        let waiter = log.clone();
        let mut parts = Some((waiter, ends));
        disk.set_hook(move |disk| {
            let Some((waiter, ends)) = parts.take() else { return };
            // Its thread ends by itself, or the test fails.
            let _ = std::thread::spawn(move || ends.send(waiter.await_snapshot()));
            begun.recv().unwrap();
            // It is about to wait.
            (0..30).for_each(|_| std::thread::yield_now());
            disk.set_faults(Faults { error_one_in: 1, ..Faults::default() });
        });
        assert!(SnapshotWriter::begin(&log).is_err(), "its file cannot be made");
        ended.recv_timeout(PATIENCE).expect("it is told").unwrap();
        assert!(log.owes_snapshot());
        disk.clear_hook();
        disk.set_faults(Faults::default());
    }
}

/// What was told: damage, and to restore a backup, of a log that was whole, where the snapshot that was owed was there,
/// the log did not say so yet, and no descriptor was left to open it.
#[test]
fn a_snapshot_that_cannot_be_read_for_a_moment_still_counts() {
    let (disk, log) = begun(vec![]);
    let (keeps, kept) = channel();
    disk.set_hook(move |disk| {
        if disk.names().iter().any(|name| name.starts_with("snapshot-")) {
            // Only the first one is looked at.
            let _ = keeps.send(disk.copied(1));
        }
    });
    snapshot(&log);
    disk.clear_hook();
    let unsaid = kept.recv().unwrap();
    unsaid.refuse("snapshot-0000000000000001", 24, 1);
    let refused = Log::open(unsaid.clone(), &options());
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    assert_eq!(end(&unsaid), 11);
}

/// The chunk that says that the snapshot came cannot be read, and the snapshot is damaged: what was written since must
/// not pass for what was owed in vain.
#[test]
fn segments_of_which_the_mark_cannot_be_read_are_not_left_out() {
    let (disk, log) = begun(vec![]);
    snapshot(&log);
    log.close().unwrap();
    let first = disk.names().into_iter().rfind(|name| name.starts_with("log-")).unwrap();
    let name = disk.names().into_iter().rfind(|name| name.starts_with("snapshot-")).unwrap();
    let file = disk.open(&name).unwrap();
    file.write_at(&[0xEE; 64], 0).unwrap();
    file.sync_data().unwrap();
    disk.refuse_bytes(&first, 4096..u64::MAX, usize::MAX);
    let error = Log::open(disk.clone(), &options()).unwrap_err();
    assert!(error.to_string().contains("its disk cannot read it"), "{error}");
}

/// Where an owner failed, or was killed, before its snapshot was there, and began again, each time took a segment's
/// space ahead, until the disk was full.
#[test]
fn openings_in_vain_do_not_fill_the_disk() {
    for is_killed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = |life: u32| folder.path().join(life.to_string());
        let open = |life, owes| {
            let options = LogOptions::new([9; 16]).segment_size_bytes(1 << 20);
            let disk = RealDisk::open(path(life)).unwrap();
            Log::open(disk, &options.owes_snapshot(owes).owner_has_all(owes)).unwrap()
        };
        let (log, _) = open(0, false);
        assert_eq!(log.append(&[Record::put(1, b"first", &[7; 3000])]).unwrap(), 1);
        log.close().unwrap();
        let copy = |life| {
            std::fs::create_dir(path(life + 1)).unwrap();
            for file in std::fs::read_dir(path(life)).unwrap() {
                let file = file.unwrap();
                std::fs::copy(file.path(), path(life + 1).join(file.file_name())).unwrap();
            }
        };
        for life in 0..10 {
            let (log, _) = open(life, true);
            let _lsn = log.append(&[Record::put(1, b"key", &[7; 3000])]).unwrap();
            log.write_out().unwrap();
            // What a process leaves that is killed here, or one that ends.
            if is_killed {
                copy(life);
            }
            drop(log);
            if !is_killed {
                copy(life);
            }
        }
        let files = std::fs::read_dir(path(10)).unwrap();
        let sum: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert!(
            sum < (u64::from(is_killed) << 20) + (300 << 10),
            "killed: {is_killed}, {sum} bytes"
        );
        let (_, recovered) = open(10, false);
        assert_eq!(recovered.report().end, 1);
        assert!(recovered.report().was_owing);
    }
}
