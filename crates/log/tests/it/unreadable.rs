//! Snapshots and segments that cannot be read while a log is opened: for a moment, or any more.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeMap;

use everleaf_log::simulated::{Faults, SimulatedDisk};
use everleaf_log::{Disk, DiskFile, Error, Log, LogOptions, Record, Recovered, SnapshotWriter};

const EIO: i32 = 5;
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

fn options() -> LogOptions {
    LogOptions::new([5; 16]).segment_size_bytes(64 << 10)
}

/// As a pool opens its log that has all that was ever logged.
fn owned() -> LogOptions {
    options().starts_empty(false).owner_has_all(true)
}

fn put(log: &Log<SimulatedDisk>, key: u8, value: &str) {
    log.append(&[Record::put(1, &[key], value.as_bytes())]).unwrap();
}

fn snapshot(log: &Log<SimulatedDisk>, keys: std::ops::Range<u8>, value: &str) {
    let mut snapshot = SnapshotWriter::begin(log).unwrap();
    for key in keys {
        snapshot.add(&Record::put(1, &[key], value.as_bytes())).unwrap();
    }
    snapshot.finish().unwrap();
}

/// What is rebuilt of a log, and why snapshots were passed over.
fn rebuilt(recovered: &Recovered<SimulatedDisk>) -> (BTreeMap<u8, String>, Vec<String>) {
    let mut pairs = BTreeMap::new();
    let start = recovered.replay_start().unwrap();
    let mut take = |record: &Record<'_>| {
        let value = String::from_utf8(record.value().unwrap().to_vec()).unwrap();
        pairs.insert(record.key[0], value);
    };
    if let Some(snapshot) = &start.snapshot {
        for index in 0..snapshot.block_count() {
            snapshot.block(index).unwrap().pairs().for_each(|pair| take(&pair));
        }
    }
    let replayed = recovered.replay(start.from_lsn(), |_, records| -> Result<(), Error> {
        records.iter().for_each(&mut take);
        Ok(())
    });
    replayed.unwrap();
    (pairs, start.skipped)
}

/// A disk with ten keys and a snapshot of them.
fn short() -> SimulatedDisk {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let (log, _) = Log::open(disk.clone(), &options()).unwrap();
    (0..10).for_each(|key| put(&log, key, "first"));
    snapshot(&log, 0..10, "first");
    log.close().unwrap();
    disk
}

/// The same after a life that wrote ten more and another snapshot, of which the disk has lost all but that: it said
/// that more was durable than it was.
fn lost() -> (SimulatedDisk, String) {
    let (disk, longer) = (short(), short());
    let (log, _) = Log::open(longer.clone(), &owned()).unwrap();
    (10..20).for_each(|key| put(&log, key, "lost"));
    snapshot(&log, 0..20, "lost");
    let name = longer.names().into_iter().rfind(|name| name.starts_with("snapshot-")).unwrap();
    let (from, to) = (longer.open(&name).unwrap(), disk.create(&name).unwrap());
    let mut bytes = vec![0; from.size().unwrap() as usize];
    assert_eq!(from.read_at(&mut bytes, 0).unwrap(), bytes.len());
    assert_eq!(to.write_at(&bytes, 0).unwrap(), bytes.len());
    to.sync_data().unwrap();
    disk.sync_folder().unwrap();
    (disk, name)
}

/// What was lost: keys. A snapshot from behind the end that could not be read was taken for one from before it. Behind
/// as many writes as the disk had lost, a pool was made of it that never was.
#[test]
fn a_snapshot_of_a_lost_life_that_cannot_be_read_is_not_used() {
    for (times, kind) in [(0, "stale"), (1, "stale"), (2, "stale"), (usize::MAX, "damaged")] {
        let (disk, name) = lost();
        disk.refuse(&name, EIO, times);
        let (log, recovered) = Log::open(disk.clone(), &owned()).unwrap();
        assert!(!disk.names().contains(&name), "{times}");
        if recovered.report().is_cut {
            // Its owner knows then that the log lacks something.
            snapshot(&log, 0..10, "first");
        }
        assert!(disk.names().iter().any(|name| name.starts_with(kind)), "{:?}", disk.names());
        // The disk is mended, and the LSNs that it had lost are given again.
        disk.refuse(&name, EIO, 0);
        (30..60).for_each(|key| put(&log, key, "second"));
        log.close().unwrap();
        let (_, recovered) = Log::open(disk, &options()).unwrap();
        let (pairs, _) = rebuilt(&recovered);
        assert_eq!(pairs.len(), 40, "{times}: {pairs:?}");
        assert!(pairs.values().all(|value| value != "lost"), "{times}: {pairs:?}");
    }
}

/// Whether one is from behind the end nobody knows then: nothing is opened, and nothing changed.
#[test]
fn what_cannot_be_read_now_is_an_error_that_changes_nothing() {
    let (disk, name) = lost();
    let names = disk.names();
    for errno in [EMFILE, ENFILE, ENOMEM] {
        disk.refuse(&name, errno, 1);
        let error = Log::open(disk.clone(), &owned()).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Io { .. }) && text.contains(&name), "{text}");
        assert_eq!(disk.names(), names);
    }
    drop(Log::open(disk.clone(), &owned()).unwrap());
    assert!(!disk.names().contains(&name));
}

/// A bad sector of a snapshot keeps nobody from a pool that is whole, nor from one that the snapshot before can make
/// again.
#[test]
fn a_snapshot_that_its_disk_cannot_read_is_put_aside() {
    let disk = short();
    let (log, _) = Log::open(disk.clone(), &options()).unwrap();
    (10..20).for_each(|key| put(&log, key, "first"));
    snapshot(&log, 0..20, "first");
    put(&log, 20, "first");
    log.close().unwrap();
    let name = disk.names().into_iter().rfind(|name| name.starts_with("snapshot-")).unwrap();
    for options in [owned(), options()] {
        let disk = disk.copied(1);
        disk.refuse(&name, EIO, usize::MAX);
        let (log, recovered) = Log::open(disk.clone(), &options).unwrap();
        let (pairs, skipped) = rebuilt(&recovered);
        assert_eq!(pairs.len(), 21);
        assert!(
            skipped.len() == 1
                && skipped[0].contains("its disk cannot read it")
                && skipped[0].contains(&format!("(it is kept as {})", aside(&name))),
            "{skipped:?}"
        );
        assert!(!disk.names().contains(&name) && disk.names().contains(&aside(&name)));
        put(&log, 21, "first");
        log.close().unwrap();
        let (_, recovered) = Log::open(disk, &options).unwrap();
        assert_eq!(rebuilt(&recovered).0.len(), 22);
    }
    // What is read only when a pool is rebuilt: a lack of this moment does not put aside what is whole.
    let (_, recovered) = Log::open(disk.clone(), &options()).unwrap();
    disk.refuse(&name, EMFILE, 1);
    let error = recovered.replay_start().unwrap_err();
    assert!(
        matches!(error, Error::Io { .. }) && error.to_string().contains("ulimit -n"),
        "{error}"
    );
    assert!(disk.names().contains(&name));
    let (pairs, skipped) = rebuilt(&recovered);
    assert!(pairs.len() == 21 && skipped.is_empty(), "{skipped:?}");
}

fn aside(name: &str) -> String {
    name.replace("snapshot-", "damaged-")
}

/// The name of the newest segment.
fn last_segment(disk: &SimulatedDisk) -> String {
    disk.names().into_iter().rfind(|name| name.starts_with("log-")).unwrap()
}

/// Ten keys in a snapshot, and ten behind it in a segment, in a chunk each, whose process was killed: the last of them
/// has no chunk behind it that says that it was durable.
fn logged() -> SimulatedDisk {
    let disk = short();
    let (log, _) = Log::open(disk.clone(), &options()).unwrap();
    for key in 10..20 {
        put(&log, key, "second");
        log.sync().unwrap();
    }
    disk.copied(1)
}

/// The block of the segment with the chunk of this one of the keys behind the snapshot.
fn block_of(key: u8) -> std::ops::Range<u64> {
    let at = 4096 * (1 + u64::from(key - 10));
    at..at + 512
}

/// What was told: an error of the disk, each time, also beside a pool that has everything, with `--salvage-log`, and of
/// bytes that nobody needs.
#[test]
fn a_segment_that_its_disk_cannot_read_is_damaged() {
    // Of a chunk, of the last, and of what was never written.
    for (key, left) in [(15, 15), (19, 19), (22, 20)] {
        let disk = logged();
        let (name, names) = (last_segment(&disk), disk.names());
        let spoil = |disk: &SimulatedDisk| disk.refuse_bytes(&name, block_of(key), usize::MAX);
        spoil(&disk);
        for options in [options(), owned()] {
            // It must not pass for a log that ends there.
            let error = Log::open(disk.clone(), &options).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::Damaged(_)), "{key}: {text}");
            assert!(text.contains("its disk cannot read it") && text.contains(&name), "{text}");
            assert!(text.contains("try again") && text.contains("--salvage-log"), "{text}");
            assert_eq!(disk.names(), names, "{key}");
        }
        let proven = disk.copied(2);
        spoil(&proven);
        let options_proven = owned().owner_is_proven(true).reached(20);
        let (log, recovered) = Log::open(proven.clone(), &options_proven).unwrap();
        assert!(recovered.report().is_cut && recovered.report().end >= 20, "{key}");
        drop(recovered);
        snapshot(&log, 0..20, "second");
        put(&log, 20, "third");
        log.close().unwrap();
        let (_, recovered) = Log::open(proven, &options()).unwrap();
        assert_eq!(rebuilt(&recovered).0.len(), 21, "{key}");

        let (log, recovered) = Log::open(disk.clone(), &options().salvage(true)).unwrap();
        let damages = recovered.report().damages.join("\n");
        assert!(damages.contains("cannot read it") && damages.contains("is kept as"), "{damages}");
        assert_eq!(rebuilt(&recovered).0.len(), left, "{key}");
        let copy = disk.open(&format!("damaged-{name}")).unwrap();
        let mut bytes = vec![0; 1 << 16];
        let size = copy.read_at(&mut bytes, 0).unwrap();
        let is_whole = |key: u8| {
            let start = bytes[..size].get(block_of(key).start as usize..);
            start.is_some_and(|bytes| bytes.starts_with(b"CHNK"))
        };
        assert!((10..20).all(|other| is_whole(other) == (other != key)), "{key}");
        put(&log, 20, "third");
        log.close().unwrap();
        let (_, recovered) = Log::open(disk, &options()).unwrap();
        assert_eq!(rebuilt(&recovered).0.len(), left + 1, "{key}");
    }
}

/// What was told of one that others follow: that it is damaged, and nothing of the disk.
#[test]
fn an_earlier_segment_that_cannot_be_read_is_told_as_such() {
    let disk = logged();
    let name = last_segment(&disk);
    let (log, _) = Log::open(disk.clone(), &options()).unwrap();
    put(&log, 20, "third");
    log.close().unwrap();
    disk.refuse_bytes(&name, block_of(15), usize::MAX);
    let (_, recovered) = Log::open(disk.copied(1), &options()).unwrap();
    assert_eq!(rebuilt(&recovered).0.len(), 21);
    let (_, recovered) = Log::open(disk.clone(), &options()).unwrap();
    let from = recovered.replay_start().unwrap().from_lsn();
    let error = recovered.replay(from, |_, _| Ok::<(), Error>(())).unwrap_err();
    let (_, salvaged) = Log::open(disk.clone(), &options().salvage(true)).unwrap();
    let headless = logged();
    headless.refuse_bytes(&name, 0..64, usize::MAX);
    let no_header = Log::open(headless, &options()).unwrap_err();
    let mut all = salvaged.report().damages.clone();
    all.extend([error.to_string(), no_header.to_string()]);
    for told in all {
        assert!(told.contains(&name) && told.contains("its disk cannot read it"), "{told}");
        assert!(told.contains("try again"), "{told}");
    }
}

/// What was told: an error of the disk, each time, and no way out, since only what was read was asked for again.
#[test]
fn a_segment_that_its_disk_cannot_open_is_damaged() {
    for (is_last, left) in [(true, 10), (false, 10)] {
        let disk = logged();
        let name = last_segment(&disk);
        if !is_last {
            let (log, _) = Log::open(disk.clone(), &options()).unwrap();
            put(&log, 20, "third");
            log.close().unwrap();
        }
        let spoil = |disk: &SimulatedDisk, times| disk.refuse(&name, EIO, times);
        spoil(&disk, 2);
        let (_, recovered) = Log::open(disk.copied(1), &options()).unwrap();
        assert_eq!(rebuilt(&recovered).0.len(), if is_last { 20 } else { 21 });
        spoil(&disk, usize::MAX);
        let names = disk.names();
        for options in [options(), owned()] {
            let copy = disk.copied(1);
            spoil(&copy, usize::MAX);
            let error = Log::open(copy.clone(), &options).and_then(|(_, recovered)| {
                let from = recovered.replay_start()?.from_lsn();
                recovered.replay(from, |_, _| Ok::<(), Error>(()))
            });
            // A pool that has everything needs nothing of one that others follow.
            let Err(error) = error else {
                assert!(!is_last);
                continue;
            };
            let text = error.to_string();
            assert!(matches!(error, Error::Damaged(_)), "{text}");
            assert!(text.contains(&name), "{text}");
            assert!(!is_last || copy.names() == names);
        }
        let proven = disk.copied(2);
        spoil(&proven, usize::MAX);
        let options_proven = owned().owner_is_proven(true).reached(20);
        let (log, recovered) = Log::open(proven.clone(), &options_proven).unwrap();
        assert!(!is_last || recovered.report().is_cut && recovered.report().end >= 20);
        drop((log, recovered));

        let (log, recovered) = Log::open(disk.clone(), &options().salvage(true)).unwrap();
        let damages = recovered.report().damages.join("\n");
        assert!(damages.contains(&format!("{name} as damaged-{name}")), "{damages}");
        assert_eq!(rebuilt(&recovered).0.len(), left);
        put(&log, 21, "third");
        log.close().unwrap();
        let (_, recovered) = Log::open(disk, &options()).unwrap();
        assert_eq!(rebuilt(&recovered).0.len(), left + 1);
    }
}

/// A disk that reads the third time has nothing damaged.
#[test]
fn a_segment_that_can_be_read_the_third_time_is_whole() {
    let disk = logged();
    let last = last_segment(&disk);
    // Up to a block, and then twice.
    disk.refuse_bytes(&last, block_of(19), 5);
    let (_, recovered) = Log::open(disk.clone(), &options()).unwrap();
    assert_eq!(rebuilt(&recovered).0.len(), 20);
}

/// A header that cannot be read of a segment that no recovery needs.
#[test]
fn an_old_segment_that_cannot_be_read_is_in_nobodys_way() {
    let disk = logged();
    let (log, _) = Log::open(disk.clone(), &options()).unwrap();
    snapshot(&log, 0..20, "third");
    put(&log, 20, "third");
    log.close().unwrap();
    let oldest = disk.names().into_iter().find(|name| name.starts_with("log-")).unwrap();
    for options in [options(), owned(), options().salvage(true)] {
        let disk = disk.copied(1);
        disk.refuse_bytes(&oldest, 0..64, usize::MAX);
        let (_, recovered) = Log::open(disk, &options).unwrap();
        assert_eq!(rebuilt(&recovered).0.len(), 21);
    }
}

/// As of a file system that answers before it looks where the file ends: the copy of the segment had no end.
#[test]
fn a_segment_is_copied_that_cannot_be_read_behind_its_end() {
    let disk = logged();
    let name = last_segment(&disk);
    disk.refuse_bytes(&name, block_of(15).start..u64::MAX, 100_000);
    let (_, recovered) = Log::open(disk.clone(), &options().salvage(true)).unwrap();
    assert_eq!(rebuilt(&recovered).0.len(), 15);
    let copy = disk.open(&format!("damaged-{name}")).unwrap();
    assert!(copy.read_at(&mut [0; 8], block_of(14).start).is_ok_and(|count| count == 8));
    // It was not asked until it answered.
    let file = disk.open(&name).unwrap();
    assert!(file.read_at(&mut [0; 8], 1 << 20).is_err());
}
