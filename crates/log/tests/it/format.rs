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
fn the_bytes_are_those_of_version_1() {
    // Whoever changes these numbers changes the format: it then needs a new version, and old files
    // must still be read.
    let found: Vec<(String, usize, u32)> = small_log()
        .into_iter()
        .map(|(name, bytes)| (name, bytes.len(), crc32c::crc32c(&bytes)))
        .collect();
    let expected = [
        ("log-0000000000000001".to_string(), 16384, 1_654_605_156),
        ("snapshot-0000000000000001".to_string(), 188, 2_819_701_036),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_page_has_every_planted_bug() {
    let hunted = read("tests/it/crashes/mod.rs");
    let (_, list) = hunted.split_once("const MUTANTS").unwrap();
    let (list, _) = list.split_once("];").unwrap();
    let names: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    assert!(names.len() >= 12);
    let page = read("../../docs/log.md");
    for name in names {
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not in docs/log.md");
    }
}
