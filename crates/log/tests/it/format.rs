//! The page about the log shows the bytes that the source says, and every planted bug is in it.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::path::Path;

use everleaf_log::simulated::{Faults, SimulatedDisk};
use everleaf_log::{Disk, DiskFile, Log, LogOptions, Record, SnapshotWriter};

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn the_page_has_the_diagram_of_the_layout() {
    let source = read("src/layout.rs");
    let lines = source.lines().filter_map(|line| line.strip_prefix("//!"));
    let header: String =
        lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect();
    let diagram = header.split("```").nth(1).unwrap();
    assert!(diagram.contains("durable LSN") && diagram.contains("footer"));
    let page = read("../../docs/log.md");
    assert!(page.contains(diagram), "copy the diagram of src/layout.rs into docs/log.md");
}

/// The files of a small log with a snapshot, as programs see them.
fn small_log() -> Vec<(String, Vec<u8>)> {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let options = LogOptions::new(*b"0123456789abcdef").segment_size_bytes(16 << 10);
    let (log, _) = Log::open(disk.clone(), &options).unwrap();
    let expiring = Record { expiry: Some(1_800_000_000_000), ..Record::put(2, b"elm", b"Ulmus") };
    log.append(&[Record::put(1, b"oak", b"Quercus"), expiring]).unwrap();
    log.sync().unwrap();
    log.append(&[Record::delete(1, b"oak")]).unwrap();
    log.append(&[Record::expire(2, b"elm", None)]).unwrap();
    let mut snapshot = SnapshotWriter::begin(&log).unwrap();
    snapshot.add(&expiring).unwrap();
    snapshot.finish().unwrap();
    log.close().unwrap();
    let read = |name: String| {
        let file = disk.open(&name).unwrap();
        let mut bytes = vec![0; file.size().unwrap() as usize];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        (name, bytes)
    };
    disk.names().into_iter().map(read).collect()
}

#[test]
fn the_bytes_are_those_of_version_2() {
    // A change of these numbers is a change of the format: it then needs a new version, and old files
    // must still be read.
    let found: Vec<(String, usize, u32)> = small_log()
        .into_iter()
        .map(|(name, bytes)| (name, bytes.len(), crc32c::crc32c(&bytes)))
        .collect();
    let expected = [
        ("log-0000000000000001".to_string(), 16384, 2_672_046_951),
        ("snapshot-0000000000000001".to_string(), 188, 2_819_701_036),
    ];
    assert_eq!(found, expected);
}

/// A segment of the version before is read, and goes on as one of this version.
#[test]
fn a_log_of_version_1_is_read() {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let options = LogOptions::new([1; 16]).segment_size_bytes(16 << 10);
    let name = "log-0000000000000001";
    let (log, _) = Log::open(disk.clone(), &options).unwrap();
    log.append(&[Record::put(1, b"oak", b"Quercus")]).unwrap();
    log.close().unwrap();
    let file = disk.open(name).unwrap();
    let mut header = [0; 64];
    file.read_at(&mut header, 0).unwrap();
    assert_eq!(header[8], 2);
    header[8] = 1;
    let sum = crc32c::crc32c(&header[..60]);
    header[60..].copy_from_slice(&sum.to_le_bytes());
    file.write_at(&header, 0).unwrap();
    let (log, _) = Log::open(disk.clone(), &options).unwrap();
    log.append(&[Record::expire(1, b"oak", Some(7))]).unwrap();
    log.close().unwrap();
    let (_, recovered) = Log::open(disk, &options).unwrap();
    let mut found = vec![];
    let replayed = recovered.replay(0, |lsn, records| {
        found.push((lsn, format!("{:?}", records[0].effect), records[0].expiry));
        Ok::<(), everleaf_log::Error>(())
    });
    assert_eq!(replayed.unwrap(), 2);
    let put = format!("{:?}", Record::put(1, b"oak", b"Quercus").effect);
    assert_eq!(found, [(1, put, None), (2, "Expire".into(), Some(7))]);
}

#[test]
fn the_page_has_every_planted_bug() {
    let hunted = read("tests/it/crashes.rs");
    let (_, list) = hunted.split_once("const MUTANTS").unwrap();
    let (list, _) = list.split_once("];").unwrap();
    let names: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    assert!(names.len() >= 12);
    let page = read("../../docs/log.md");
    for name in names {
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not in docs/log.md");
    }
}
