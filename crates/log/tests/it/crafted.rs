//! Files that no log made, and whose checksums are right all the same: they are refused, and nothing
//! panics or takes memory because they say so.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use everleaf_log::simulated::{Faults, SimulatedDisk};
use everleaf_log::{
    Disk, DiskFile, Error, Log, LogOptions, Record, ReplayStart, Result, SnapshotWriter,
};

const UUID: [u8; 16] = [5; 16];
const SNAPSHOT: &str = "snapshot-0000000000000001";

fn options() -> LogOptions {
    LogOptions::new(UUID).segment_size_bytes(16 << 10)
}

/// A log with a snapshot of two pairs: one block, the index (32 bytes) and the footer (64).
fn written() -> SimulatedDisk {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let (log, _) = Log::open(disk.clone(), &options()).unwrap();
    log.append(&[Record::put(1, b"elm", &[7; 900]), Record::put(1, b"oak", b"")]).unwrap();
    let mut snapshot = SnapshotWriter::begin(&log).unwrap();
    snapshot.add(&Record::put(1, b"elm", &[7; 900])).unwrap();
    snapshot.add(&Record::put(1, b"oak", b"")).unwrap();
    snapshot.finish().unwrap();
    log.close().unwrap();
    disk
}

/// Changes numbers in a file (offset and bytes), and makes its checksums right again.
fn craft(disk: &SimulatedDisk, name: &str, changes: &[(usize, &[u8])]) {
    let file = disk.open(name).unwrap();
    let size = file.size().unwrap() as usize;
    let mut bytes = vec![0; size];
    file.read_at(&mut bytes, 0).unwrap();
    for (at, number) in changes {
        bytes[*at..at + number.len()].copy_from_slice(number);
    }
    if name == SNAPSHOT {
        let index = crc32c::crc32c(&bytes[size - 96..size - 64]);
        bytes[size - 8..size - 4].copy_from_slice(&index.to_le_bytes());
        let footer = crc32c::crc32c_append(crc32c::crc32c(&UUID), &bytes[size - 64..size - 4]);
        bytes[size - 4..].copy_from_slice(&footer.to_le_bytes());
    }
    let header = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&header.to_le_bytes());
    file.write_at(&bytes, 0).unwrap();
}

/// Opens the log and reads the snapshot, if it is taken for good; returns its number of pairs.
fn read_snapshot(disk: &SimulatedDisk) -> Result<Option<usize>> {
    let (_log, recovered) = Log::open(disk.clone(), &options())?;
    let ReplayStart { snapshot, skipped, .. } = recovered.replay_start()?;
    let Some(snapshot) = snapshot else {
        assert!(skipped[0].contains("though its checksum is right"), "{skipped:?}");
        return Ok(None);
    };
    let mut count = 0;
    for index in 0..snapshot.block_count() {
        count += snapshot.block(index)?.pairs().count();
    }
    assert_eq!(count as u64, snapshot.pair_count());
    Ok(Some(count))
}

#[test]
fn a_snapshot_whose_index_is_made_up_is_passed_over() {
    let size = written().open(SNAPSHOT).unwrap().size().unwrap() as usize;
    let (index, footer) = (size - 96, size - 64);
    assert_eq!(read_snapshot(&written()).unwrap(), Some(2));
    let huge = u32::MAX.to_le_bytes();
    let cases: [&[(usize, &[u8])]; 5] = [
        // The offset, the bytes in the file, and the bytes of its records.
        &[(index, &65u64.to_le_bytes())],
        &[(index + 8, &huge)],
        &[(index + 12, &huge)],
        &[(index + 8, &huge), (index + 12, &huge)],
        // The number of pairs, there and in the footer.
        &[(footer + 24, &3u64.to_le_bytes())],
    ];
    for (number, changes) in cases.into_iter().enumerate() {
        let disk = written();
        craft(&disk, SNAPSHOT, changes);
        assert_eq!(read_snapshot(&disk).unwrap(), None, "case {number}");
    }
}

#[test]
fn a_block_without_the_bytes_and_pairs_of_its_index_is_an_error() {
    let disk = written();
    let size = disk.open(SNAPSHOT).unwrap().size().unwrap() as usize;
    let (index, footer) = (size - 96, size - 64);
    let mut raw_size = [0; 4];
    disk.open(SNAPSHOT).unwrap().read_at(&mut raw_size, index as u64 + 12).unwrap();
    let more = (u32::from_le_bytes(raw_size) + 1).to_le_bytes();
    let cases: [&[(usize, &[u8])]; 3] = [
        &[(index + 16, &3u32.to_le_bytes()), (footer + 24, &3u64.to_le_bytes())],
        &[(index + 16, &1u32.to_le_bytes()), (footer + 24, &1u64.to_le_bytes())],
        &[(index + 12, &more)],
    ];
    for (number, changes) in cases.into_iter().enumerate() {
        let disk = written();
        craft(&disk, SNAPSHOT, changes);
        let error = read_snapshot(&disk).unwrap_err();
        assert!(matches!(error, Error::Damaged(_)), "case {number}: {error}");
    }
}

#[test]
fn lsns_higher_than_any_are_damage() {
    let size = written().open(SNAPSHOT).unwrap().size().unwrap() as usize;
    for lsn in [u64::MAX, 1 << 63] {
        let disk = written();
        let to_lsn = (size - 64 + 16, &lsn.to_le_bytes()[..]);
        craft(&disk, SNAPSHOT, &[(size - 64 + 8, &lsn.to_le_bytes()), to_lsn]);
        let (_log, recovered) = Log::open(disk.clone(), &options()).unwrap();
        assert!(recovered.replay_start().unwrap().skipped[0].contains("its end"), "{lsn}");
        let disk = written();
        craft(&disk, "log-0000000000000001", &[(40, &lsn.to_le_bytes())]);
        for salvage in [false, true] {
            let opened = Log::open(disk.copied(1), &options().salvage(salvage));
            assert!(matches!(opened, Err(Error::Damaged(_))), "{lsn}");
        }
    }
}

#[test]
fn a_name_with_the_highest_number_is_not_of_the_log() {
    for salvage in [false, true] {
        let disk = written();
        for name in ["log-ffffffffffffffff", "snapshot-ffffffffffffffff"] {
            disk.create(name).unwrap().write_at(b"anything", 0).unwrap();
        }
        let (log, _) = Log::open(disk.clone(), &options().salvage(salvage)).unwrap();
        let snapshot = SnapshotWriter::begin(&log).unwrap();
        assert_eq!(snapshot.finish().unwrap().sequence, 2);
        assert!(disk.names().contains(&"log-0000000000000002".into()));
    }
}

#[test]
fn where_no_number_is_left_nothing_is_made() {
    let disk = written();
    let (log, _) = Log::open(disk.clone(), &options()).unwrap();
    // Behind the opening, which puts aside what is no snapshot.
    disk.create("snapshot-4000000000000000").unwrap();
    let error = SnapshotWriter::begin(&log).unwrap_err();
    assert!(error.to_string().contains("the highest number there is"), "{error}");
    disk.remove("snapshot-4000000000000000").unwrap();
    SnapshotWriter::begin(&log).unwrap().finish().unwrap();
}
