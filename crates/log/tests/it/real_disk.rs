//! The log and its snapshots on the disk of this machine, used by threads.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use everleaf_log::{
    Error, Log, LogOptions, Lsn, RealDisk, Record, Recovered, Result, SnapshotWriter, SyncMode,
};

type Pairs = BTreeMap<(u32, Vec<u8>), Vec<u8>>;

fn options() -> LogOptions {
    LogOptions::new([3; 16]).segment_size_bytes(64 << 10)
}

fn open(folder: &Path, options: &LogOptions) -> (Log, Recovered<RealDisk>) {
    Log::open(RealDisk::open(folder).unwrap(), options).unwrap()
}

/// The pairs that recovery gives.
fn rebuilt(recovered: &Recovered<RealDisk>) -> Pairs {
    let mut pairs = Pairs::new();
    let start = recovered.replay_start().unwrap();
    if let Some(snapshot) = &start.snapshot {
        for index in 0..snapshot.block_count() {
            for pair in snapshot.block(index).unwrap().pairs() {
                apply(&mut pairs, &[pair]);
            }
        }
        assert_eq!(pairs.len() as u64, snapshot.pair_count());
    }
    recovered
        .replay(start.from_lsn(), |_, records| -> Result<()> {
            apply(&mut pairs, records);
            Ok(())
        })
        .unwrap();
    pairs
}

fn apply(pairs: &mut Pairs, records: &[Record<'_>]) {
    for record in records {
        let key = (record.map, record.key.to_vec());
        match record.value() {
            Some(value) => pairs.insert(key, value.to_vec()),
            None => pairs.remove(&key),
        };
    }
}

fn segment_count(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("log-")).count()
}

/// Each of some threads appends and waits.
fn write_from_threads(log: &Log, rounds: u32) {
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            scope.spawn(move || {
                for round in 0..rounds {
                    let key = round.to_be_bytes();
                    let lsn = log.append(&[Record::put(thread, &key, &[7; 100])]).unwrap();
                    log.wait(lsn).unwrap();
                }
            });
        }
    });
}

#[test]
fn what_threads_wait_for_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = open(folder.path(), &options());
    write_from_threads(&log, 50);
    assert_eq!(log.last_lsn(), 200);
    assert_eq!(log.durable_lsn(), 200);
    drop(log);
    let (log, recovered) = open(folder.path(), &options());
    assert_eq!(recovered.report().end, 200);
    assert_eq!(rebuilt(&recovered).len(), 200);
    assert_eq!(log.append(&[]).unwrap(), 201);
}

#[test]
fn a_log_synced_at_intervals_is_durable_soon_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let options = options().sync_mode(SyncMode::Interval(Duration::from_millis(20)));
    let (log, _) = open(folder.path(), &options);
    write_from_threads(&log, 5000);
    let last = log.last_lsn();
    assert_eq!(last, 20_000);
    while log.durable_lsn() < last {
        std::thread::yield_now();
    }
    log.close().unwrap();
    let (_log, recovered) = open(folder.path(), &options);
    assert_eq!(rebuilt(&recovered).len(), 20_000);
    assert_eq!(recovered.report().torn_bytes, 0);
}

#[test]
fn snapshots_bound_the_log_and_bring_everything_back() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = open(folder.path(), &options());
    let mut model = Pairs::new();
    let mut ends: Vec<Lsn> = Vec::new();
    for round in 0..4u32 {
        for number in 0..300u32 {
            let key = (number * (round + 1)).to_be_bytes();
            let value = [round as u8; 400];
            let record = Record::put(round % 2, &key, &value);
            log.append(&[record]).unwrap();
            apply(&mut model, &[record]);
        }
        log.sync().unwrap();
        let mut snapshot = SnapshotWriter::begin(&log).unwrap();
        assert!(matches!(SnapshotWriter::begin(&log), Err(Error::Busy(_))));
        for ((map, key), value) in &model {
            snapshot.add(&Record::put(*map, key, value)).unwrap();
        }
        let info = snapshot.finish().unwrap();
        assert_eq!(info.pair_count, model.len() as u64);
        assert!(info.size < info.raw_size, "repeated bytes are compressed");
        ends.push(info.from);
    }
    let count = segment_count(folder.path());
    assert!(count <= 5, "{count} segments are left of 8 rounds of two");
    drop(log);
    let (log, recovered) = open(folder.path(), &options());
    assert_eq!(recovered.replay_start().unwrap().from_lsn(), *ends.last().unwrap());
    assert_eq!(rebuilt(&recovered), model);
    // The newest is damaged in a block: the one before serves, and the log reaches back to it.
    drop((log, recovered));
    let name = folder.path().join("snapshot-0000000000000004");
    let mut bytes = std::fs::read(&name).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&name, bytes).unwrap();
    let (_log, recovered) = open(folder.path(), &options());
    let start = recovered.replay_start().unwrap();
    assert_eq!(start.from_lsn(), ends[2]);
    assert!(start.skipped[0].contains("snapshot-0000000000000004 is damaged"));
    assert_eq!(rebuilt(&recovered), model);
}

#[test]
fn a_log_of_another_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path(), &options()));
    let disk = RealDisk::open(folder.path()).unwrap();
    let error = Log::open(disk, &LogOptions::new([4; 16])).unwrap_err();
    assert!(error.to_string().contains("belongs to another store"), "{error}");
}

#[test]
fn a_log_of_a_store_that_was_not_empty_needs_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let options = options().starts_empty(false);
    let (log, _) = open(folder.path(), &options);
    log.append(&[Record::put(1, b"new", b"")]).unwrap();
    log.sync().unwrap();
    drop(log);
    let (log, recovered) = open(folder.path(), &options);
    assert!(matches!(recovered.replay_start(), Err(Error::Damaged(_))));
    let mut snapshot = SnapshotWriter::begin(&log).unwrap();
    snapshot.add(&Record::put(1, b"new", b"")).unwrap();
    snapshot.add(&Record::put(1, b"old", b"")).unwrap();
    snapshot.finish().unwrap();
    drop((log, recovered));
    let (_log, recovered) = open(folder.path(), &options);
    assert_eq!(rebuilt(&recovered).len(), 2);
}

#[test]
fn damage_in_the_middle_is_an_error_and_can_be_salvaged() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = open(folder.path(), &options());
    for number in 0..10u8 {
        let lsn = log.append(&[Record::put(1, &[number], &[number; 50])]).unwrap();
        log.wait(lsn).unwrap();
    }
    drop(log);
    let name = folder.path().join("log-0000000000000001");
    let mut bytes = std::fs::read(&name).unwrap();
    bytes[4096 * 6 + 60] ^= 0x10;
    std::fs::write(&name, bytes).unwrap();
    let disk = RealDisk::open(folder.path()).unwrap();
    let error = Log::open(disk, &options()).unwrap_err();
    assert!(error.to_string().contains("LSN 6 was durable and cannot be read"), "{error}");
    let (log, recovered) = open(folder.path(), &options().salvage(true));
    assert_eq!(recovered.report().damages.len(), 1);
    assert_eq!(rebuilt(&recovered).len(), 5);
    log.append(&[Record::put(1, b"next", b"")]).unwrap();
    log.close().unwrap();
    drop(recovered);
    let (_log, recovered) = open(folder.path(), &options());
    assert_eq!(rebuilt(&recovered).len(), 6);
}

#[test]
fn values_larger_than_a_segment_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = open(folder.path(), &options());
    let value: Vec<u8> = (0..300_000u32).map(|number| number as u8).collect();
    let lsn = log.append(&[Record::put(1, b"large", &value)]).unwrap();
    log.wait(lsn).unwrap();
    drop(log);
    let (_log, recovered) = open(folder.path(), &options());
    assert_eq!(rebuilt(&recovered)[&(1, b"large".to_vec())], value);
}

fn spare_count(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("spare-")).count()
}

/// What was kept: the space of four segments, by files that the next opening removes unread.
#[test]
fn a_closed_log_has_no_files_that_wait_to_become_segments() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = open(folder.path(), &options());
    for number in 0..400u32 {
        log.append(&[Record::put(1, &number.to_be_bytes(), &[1; 1000])]).unwrap();
        log.sync().unwrap();
    }
    for _ in 0..2 {
        SnapshotWriter::begin(&log).unwrap().finish().unwrap();
    }
    assert_eq!(spare_count(folder.path()), 4);
    log.close().unwrap();
    assert_eq!(spare_count(folder.path()), 0);
    let (_log, recovered) = open(folder.path(), &options());
    assert_eq!(recovered.report().end, 400);
}

/// What was acknowledged into a file that nobody could find: NFS renames a file that is removed while it is open, and
/// it keeps its one name in the folder; and a segment can be moved away anywhere.
#[test]
fn a_segment_that_is_hidden_or_moved_takes_no_more_writes() {
    for is_hidden in [true, false] {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("log");
        let (log, _) = open(&folder, &options());
        let write =
            || log.append(&[Record::put(1, b"key", b"value")]).and_then(|lsn| log.wait(lsn));
        write().unwrap();
        let to = if is_hidden { folder.join(".nfs0001") } else { parent.path().join("away") };
        std::fs::rename(folder.join("log-0000000000000001"), to).unwrap();
        let error = write().unwrap_err().to_string();
        assert!(error.contains("has removed it while the log is open, or moved it"), "{error}");
        assert!(write().is_err() && log.failed().is_some());
    }
}
