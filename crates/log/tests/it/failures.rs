//! What a log says and does when the disk refuses, and when its files are not what they should be.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeMap;

use everleaf_log::simulated::{Faults, Random, SimulatedDisk};
use everleaf_log::{
    Disk, DiskFile, Error, Log, LogOptions, Lsn, Record, Recovered, Result, SnapshotWriter,
};

fn options() -> LogOptions {
    LogOptions::new([5; 16]).segment_size_bytes(64 << 10)
}

fn put(log: &Log<SimulatedDisk>, number: u64) -> Result<Lsn> {
    log.append(&[Record::put(1, &number.to_be_bytes(), &[number as u8; 40])])
}

/// The keys that are there, as numbers.
fn keys(recovered: &Recovered<SimulatedDisk>) -> Result<Vec<u64>> {
    let mut pairs = BTreeMap::new();
    let start = recovered.replay_start()?;
    let mut take = |record: &Record<'_>| {
        let number = u64::from_be_bytes(record.key.try_into().unwrap());
        assert_eq!(record.value(), Some(&[number as u8; 40][..]), "the value is the key's");
        pairs.insert(number, ());
    };
    if let Some(snapshot) = &start.snapshot {
        for index in 0..snapshot.block_count() {
            snapshot.block(index)?.pairs().for_each(|pair| take(&pair));
        }
    }
    recovered.replay(start.from_lsn(), |_, records| -> Result<()> {
        records.iter().for_each(&mut take);
        Ok(())
    })?;
    Ok(pairs.into_keys().collect())
}

/// Threads write until the log fails; returns what was acknowledged.
fn write_until_failure(log: &Log<SimulatedDisk>) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                scope.spawn(move || {
                    let mut done = Vec::new();
                    for number in (thread..).step_by(4) {
                        match put(log, number).and_then(|lsn| log.wait(lsn)) {
                            Ok(()) => done.push(number),
                            Err(error) => {
                                let is_told =
                                    matches!(error, Error::Failed(_) | Error::FailedFull(_));
                                assert!(is_told, "{error}");
                                return done;
                            }
                        }
                    }
                    done
                })
            })
            .collect();
        for thread in threads {
            acknowledged.extend(thread.join().unwrap());
        }
    });
    acknowledged
}

fn after_failure(faults: Faults, seed: u64) -> (String, SimulatedDisk, Vec<u64>) {
    let disk = SimulatedDisk::new(Faults::default(), seed);
    let (log, _) = Log::open(disk.clone(), &options()).unwrap();
    disk.set_faults(faults);
    let acknowledged = write_until_failure(&log);
    let error = log.failed().unwrap().to_string();
    assert!(put(&log, 0).is_err() && SnapshotWriter::begin(&log).is_err());
    disk.set_faults(Faults::default());
    (error, disk.crashed(seed), acknowledged)
}

fn assert_all_there(disk: &SimulatedDisk, acknowledged: &[u64]) {
    let (_log, recovered) = Log::open(disk.clone(), &options()).unwrap();
    let keys = keys(&recovered).unwrap();
    for number in acknowledged {
        assert!(keys.binary_search(number).is_ok(), "{number} was acknowledged and is gone");
    }
}

#[test]
fn a_failed_sync_stops_the_log_and_loses_nothing_acknowledged() {
    for seed in 0..20 {
        let faults = Faults { sync_error_one_in: 20, ..Faults::default() };
        let (error, disk, acknowledged) = after_failure(faults, seed);
        assert!(error.contains("Input/output error"), "{error}");
        assert_all_there(&disk, &acknowledged);
    }
}

#[test]
fn a_full_disk_is_named_and_loses_nothing_acknowledged() {
    let faults = Faults { capacity: 300 << 10, ..Faults::default() };
    let (error, disk, acknowledged) = after_failure(faults, 7);
    assert!(error.contains("make room on the file system of the log"), "{error}");
    assert!(acknowledged.len() > 40, "{}", acknowledged.len());
    assert_all_there(&disk, &acknowledged);
}

#[test]
fn a_log_that_is_full_to_the_last_block_ends_on_a_full_disk() {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let (log, _) = Log::open(disk.clone(), &options()).unwrap();
    // One block for the header, and one for each.
    for number in 0..15 {
        put(&log, number).unwrap();
        log.sync().unwrap();
    }
    disk.set_faults(Faults { capacity: 64 << 10, ..Faults::default() });
    log.close().unwrap();
    disk.set_faults(Faults::default());
    let disk = disk.crashed(1);
    let (_log, recovered) = Log::open(disk.clone(), &options()).unwrap();
    assert_eq!(disk.names(), ["log-0000000000000001", "log-0000000000000002"]);
    assert_eq!(keys(&recovered).unwrap(), (0..15).collect::<Vec<u64>>());
}

/// What was lost: a log that another store was opened with by mistake was refused behind the removal of what its own
/// store had been killed in the middle of.
#[test]
fn the_log_of_another_store_is_left_as_it_is() {
    let disk = ended();
    let name = "unfinished-0000000000000009";
    disk.create(name).unwrap();
    let before = disk.names();
    let other = LogOptions::new([6; 16]).segment_size_bytes(64 << 10);
    assert!(matches!(Log::open(disk.clone(), &other), Err(Error::Foreign(_))));
    assert_eq!(disk.names(), before);
    drop(Log::open(disk.clone(), &options()).unwrap());
    assert!(!disk.names().contains(&name.to_string()), "its own store removes it");
}

/// A log of some segments and two snapshots that was ended cleanly; the groups are 0 .. 120.
fn ended() -> SimulatedDisk {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let (log, _) = Log::open(disk.clone(), &options()).unwrap();
    for number in 0..120 {
        put(&log, number).unwrap();
        log.sync().unwrap();
        if number == 20 || number == 80 {
            let mut snapshot = SnapshotWriter::begin(&log).unwrap();
            for number in 0..=number {
                let key = number.to_be_bytes();
                snapshot.add(&Record::put(1, &key, &[number as u8; 40])).unwrap();
            }
            snapshot.finish().unwrap();
        }
    }
    log.close().unwrap();
    disk
}

#[test]
fn after_a_clean_end_no_flipped_bit_passes_for_a_shorter_log() {
    let disk = ended();
    let names = disk.names();
    let mut random = Random::new(3);
    let (mut refused, mut whole) = (0, 0);
    for _ in 0..3000 {
        let disk = disk.copied(1);
        disk.rot(&names[random.below(names.len())], &mut random);
        let opened = Log::open(disk.clone(), &options());
        match opened.and_then(|(_log, recovered)| keys(&recovered)) {
            Ok(keys) => {
                assert_eq!(keys, (0..120).collect::<Vec<u64>>());
                whole += 1;
            }
            Err(Error::Damaged(_) | Error::Foreign(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 20 && whole > 500, "{refused} refused, {whole} whole");
}

#[test]
fn a_file_cut_off_anywhere_is_refused_or_was_not_needed() {
    let disk = ended();
    for name in disk.names() {
        let size = disk.open(&name).unwrap().size().unwrap();
        for cut in (0..size).step_by(512) {
            let disk = disk.copied(1);
            disk.open(&name).unwrap().truncate(cut).unwrap();
            let opened = Log::open(disk.clone(), &options());
            match opened.and_then(|(_log, recovered)| keys(&recovered)) {
                // Without the mark of the clean end, a cut cannot be told from what a crash does.
                Ok(keys) => assert_eq!(keys, (0..keys.len() as u64).collect::<Vec<_>>()),
                Err(Error::Damaged(_)) => {}
                Err(error) => panic!("{name} cut at {cut}: {error}"),
            }
        }
    }
}

#[test]
fn a_newer_format_is_refused_as_such() {
    let disk = ended();
    let name = disk.names().into_iter().rfind(|name| name.starts_with("log-")).unwrap();
    let file = disk.open(&name).unwrap();
    let mut header = [0; 64];
    file.read_at(&mut header, 0).unwrap();
    header[8] = 3;
    let sum = crc32c::crc32c(&header[..60]);
    header[60..].copy_from_slice(&sum.to_le_bytes());
    file.write_at(&header, 0).unwrap();
    let error = Log::open(disk.clone(), &options()).unwrap_err();
    assert!(error.to_string().contains("has format version 3"), "{error}");
}

#[test]
fn a_snapshot_that_is_dropped_leaves_nothing() {
    let disk = ended();
    let (log, _) = Log::open(disk.clone(), &options()).unwrap();
    let names = disk.names();
    let mut snapshot = SnapshotWriter::begin(&log).unwrap();
    snapshot.add(&Record::put(1, b"key", b"value")).unwrap();
    assert_ne!(disk.names(), names);
    drop(snapshot);
    assert_eq!(disk.names(), names);
}

/// They ended the process: a store with a log and a damaged pool panicked when it was opened.
#[test]
fn pairs_out_of_order_are_refused() {
    let (log, _) = Log::open(SimulatedDisk::new(Faults::default(), 1), &options()).unwrap();
    let mut snapshot = SnapshotWriter::begin(&log).unwrap();
    snapshot.add(&Record::put(1, b"b", b"")).unwrap();
    let refused = snapshot.add(&Record::put(1, b"a", b""));
    assert!(matches!(refused, Err(everleaf_log::Error::Damaged(_))), "{refused:?}");
}

/// A thread that panics between its change and its record may have shown others what is not logged.
#[test]
fn a_place_that_is_dropped_stops_the_log() {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let (log, _) = Log::open(disk, &LogOptions::new([5; 16])).unwrap();
    let before = log.append(&[Record::put(1, b"before", b"")]).unwrap();
    let dropped = log.place();
    let after = log.place().fill(&[Record::put(1, b"after", b"")]).unwrap();
    drop(dropped);
    let told = log.wait(after).unwrap_err().to_string();
    assert!(told.contains("ended between its change of the store and its record"), "{told}");
    assert!(log.append(&[Record::put(1, b"later", b"")]).is_err());
    assert!(log.durable_lsn() < before, "nothing was asked for before");
    log.place().give_up();
}

#[test]
fn a_group_too_large_for_its_place_stops_the_log() {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let (log, _) = Log::open(disk, &LogOptions::new([5; 16])).unwrap();
    let key = vec![0; everleaf_log::KEY_SIZE_MAX + 1];
    assert!(matches!(log.append(&[Record::delete(1, &key)]), Err(Error::TooLarge(_))));
    assert!(log.failed().is_none(), "no place was taken");
    assert!(matches!(log.place().fill(&[Record::delete(1, &key)]), Err(Error::TooLarge(_))));
    assert!(log.failed().is_some());
}

#[test]
fn places_that_are_given_up_do_not_pile_up_in_memory() {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let (log, _) = Log::open(disk, &LogOptions::new([5; 16])).unwrap();
    let stored = log.stored_bytes();
    for _ in 0..200_000 {
        let (place, later) = (log.place(), log.place());
        later.fill(&[]).unwrap();
        place.give_up();
        log.relieve().unwrap();
    }
    assert!(log.stored_bytes() > stored, "nobody waited, and what waits was written");
    assert_eq!(log.sync().unwrap(), log.durable_lsn());
    let last = log.last_lsn();
    log.place().give_up();
    assert_eq!(log.last_lsn(), last, "the last place is taken back");
}

/// One thread writes durably until the log fails; returns how often, and what it says.
fn put_until_failure(log: &Log<SimulatedDisk>) -> (u64, String) {
    for number in 0.. {
        if let Err(error) = put(log, number).and_then(|lsn| log.wait(lsn)) {
            assert!(matches!(error, Error::FailedFull(_)), "{error}");
            return (number, error.to_string());
        }
    }
    unreachable!("the disk has an end")
}

/// What was refused: every write, removals as well, and even to open the log, where there was no room for a whole
/// segment, though what was to be written was small. And nobody was told how much room it takes.
#[test]
fn where_space_lacks_a_segment_takes_what_there_is() {
    // Of a log of 16 blocks a segment, and of one whose segments are larger than those that are made then.
    let small = [(1, 0), (2, 0), (7, 4), (15, 10), (40, 36)];
    let large = [(1, 0), (2, 0), (256, 255), (257, 255), (2000, 1992)];
    for (size, rooms) in [(64 << 10, small), (64 << 20, large)] {
        for (blocks, expected) in rooms {
            let disk = SimulatedDisk::new(Faults::default(), 1);
            disk.set_faults(Faults { capacity: blocks * 4096, ..Faults::default() });
            let options = LogOptions::new([5; 16]).segment_size_bytes(size);
            let (log, _) = Log::open(disk.clone(), &options).unwrap();
            let (count, error) = put_until_failure(&log);
            // Each group takes a block, and so does the header of each segment.
            assert_eq!(count, expected, "{blocks} blocks");
            assert!(error.contains("cannot take 8 KiB for the segment log-"), "{error}");
            drop(log);
            disk.set_faults(Faults::default());
            assert_all_there(&disk.crashed(1), &(0..count).collect::<Vec<u64>>());
        }
    }
}

/// What was refused: to open a log whose process had been killed on a disk that was full by the space which it had
/// taken ahead itself.
#[test]
fn a_log_opens_in_the_space_that_it_has_taken_ahead() {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let (log, _) = Log::open(disk.clone(), &options()).unwrap();
    for number in 0..5 {
        put(&log, number).unwrap();
        log.sync().unwrap();
    }
    for seed in 0..20 {
        let disk = disk.crashed(seed);
        let used =
            disk.names().iter().map(|name| disk.open(name).unwrap().size().unwrap()).sum::<u64>();
        let full = Faults { capacity: used as usize, ..Faults::default() };
        disk.set_faults(full.clone());
        let (again, _) = Log::open(disk.clone(), &options()).unwrap();
        put(&again, 5).unwrap();
        again.sync().unwrap();
        drop(again);
        let disk = disk.crashed(seed);
        disk.set_faults(Faults::default());
        assert_all_there(&disk, &[0, 1, 2, 3, 4, 5]);
    }
    // Where there is no room at all, it is told how much it takes.
    let full = SimulatedDisk::new(Faults { capacity: 4095, ..Faults::default() }, 1);
    let error = Log::open(full, &options()).unwrap_err();
    assert!(matches!(error, Error::Full(_)), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("cannot take 4 KiB for the segment") && text.contains("make room"),
        "{text}"
    );
}
