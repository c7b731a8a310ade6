//! A salvaged log goes on: what is written to it later is there when it is opened again, and needs no
//! salvage. Segments rot, lose their headers and vanish; the power fails before every operation of a
//! salvage.
//!
//! The group with LSN n puts key n, and its value tells the life in which it was written.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use everleaf_log::simulated::{Faults, Random, SimulatedDisk};
use everleaf_log::{Disk, DiskFile, Error, Log, LogOptions, Lsn, Record, Result, SnapshotWriter};

fn options() -> LogOptions {
    LogOptions::new([5; 16]).segment_size_bytes(16 << 10)
}

/// An open log, and the life of each LSN.
struct OpenLog {
    log: Log<SimulatedDisk>,
    lives: Vec<u8>,
    damages: Vec<String>,
}

fn open(disk: &SimulatedDisk, salvage: bool) -> Result<OpenLog> {
    let (log, recovered) = Log::open(disk.clone(), &options().salvage(salvage))?;
    let mut pairs = BTreeMap::new();
    let mut take = |record: &Record<'_>| {
        pairs
            .insert(Lsn::from_be_bytes(record.key.try_into().unwrap()), record.value().unwrap()[0]);
    };
    let start = recovered.replay_start()?;
    if let Some(snapshot) = &start.snapshot {
        for index in 0..snapshot.block_count() {
            snapshot.block(index)?.pairs().for_each(|pair| take(&pair));
        }
    }
    let end = recovered.replay(start.from_lsn(), |_, records| -> Result<()> {
        records.iter().for_each(&mut take);
        Ok(())
    })?;
    assert_eq!(end, recovered.report().end);
    let (lsns, lives): (Vec<Lsn>, Vec<u8>) = pairs.into_iter().unzip();
    assert!(lsns.into_iter().eq(1..=end), "every group up to the end is there, and no other");
    Ok(OpenLog { log, lives, damages: recovered.report().damages.clone() })
}

/// Appends groups of a life, durably, and sometimes makes a snapshot.
fn write(opened: &mut OpenLog, life: u8, count: usize, random: &mut Random) {
    for _ in 0..count {
        let key = (opened.lives.len() as Lsn + 1).to_be_bytes();
        opened.log.append(&[Record::put(1, &key, &vec![life; 1 + random.below(5000)])]).unwrap();
        opened.lives.push(life);
        if random.one_in(2) {
            opened.log.sync().unwrap();
        }
        if random.one_in(25) {
            let mut snapshot = SnapshotWriter::begin(&opened.log).unwrap();
            for (lsn, life) in (1..).zip(&opened.lives) {
                let lsn: Lsn = lsn;
                snapshot.add(&Record::put(1, &lsn.to_be_bytes(), &[*life])).unwrap();
            }
            snapshot.finish().unwrap();
        }
    }
    opened.log.sync().unwrap();
}

/// A log of some segments and perhaps snapshots, and perhaps of two lives with one between them that owed in vain.
fn written(random: &mut Random, mutants: Vec<&'static str>) -> SimulatedDisk {
    let disk = SimulatedDisk::new(Faults { mutants, ..Faults::default() }, 1);
    let mut opened = open(&disk, false).unwrap();
    write(&mut opened, 1, 20 + random.below(30), random);
    if !random.one_in(2) {
        opened.log.close().unwrap();
        return disk.copied(random.bits());
    }
    let disk = owing_in_vain(&disk, random);
    let mut opened = open(&disk, false).unwrap();
    write(&mut opened, 1, 1 + random.below(20), random);
    if random.one_in(2) {
        opened.log.close().unwrap();
    }
    disk.copied(random.bits())
}

/// The process dies, the next one owes a snapshot, and dies before that is there: what it wrote does not count, and the
/// segments that have it stay, with LSNs that are given again.
fn owing_in_vain(disk: &SimulatedDisk, random: &mut Random) -> SimulatedDisk {
    let disk = disk.copied(random.bits());
    let owing = options().owes_snapshot(true).owner_has_all(true);
    let (log, _) = Log::open(disk.clone(), &owing).unwrap();
    for _ in 0..1 + random.below(4) {
        log.append(&[Record::put(1, &u64::MAX.to_be_bytes(), &[9; 5000])]).unwrap();
        log.write_out().unwrap();
    }
    disk.crashed(random.bits())
}

/// Damages a segment.
fn damage(disk: &SimulatedDisk, random: &mut Random) {
    let mut segments = disk.names();
    segments.retain(|name| name.starts_with("log-"));
    let name = &segments[random.below(segments.len())];
    let file = disk.open(name).unwrap();
    match random.below(3) {
        0 => file.write_at(&[0xEE], random.below(64) as u64).map(drop).unwrap(),
        1 => (0..4).for_each(|_| disk.rot(name, random)),
        _ => disk.remove(name).unwrap(),
    }
    // Damage is on the medium.
    file.sync_data().unwrap();
    disk.sync_folder().unwrap();
}

/// What was told: to restore a backup, where a segment without a sound header is between an older snapshot, which is
/// good, and a newer one, which is not.
#[test]
fn who_has_an_older_snapshot_before_damage_is_told_of_it() {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let append = |opened: &mut OpenLog, life: u8, count: usize| {
        for _ in 0..count {
            let key = (opened.lives.len() as Lsn + 1).to_be_bytes();
            opened.log.append(&[Record::put(1, &key, &[life])]).unwrap();
            opened.lives.push(life);
        }
        opened.log.sync().unwrap();
    };
    let snapshot = |opened: &OpenLog| {
        let mut snapshot = SnapshotWriter::begin(&opened.log).unwrap();
        for (lsn, life) in (1..).zip(&opened.lives) {
            let lsn: Lsn = lsn;
            snapshot.add(&Record::put(1, &lsn.to_be_bytes(), &[*life])).unwrap();
        }
        snapshot.finish().unwrap();
    };
    for life in 1..=3 {
        let mut opened = open(&disk, false).unwrap();
        append(&mut opened, life, 5);
        if life != 2 {
            snapshot(&opened);
            append(&mut opened, life, 5);
        }
        opened.log.close().unwrap();
    }
    for name in ["log-0000000000000002", "snapshot-0000000000000002"] {
        let file = disk.open(name).unwrap();
        file.write_at(&[0xEE; 64], 0).unwrap();
        file.sync_data().unwrap();
    }
    for _ in 0..2 {
        let error = open(&disk, false).map(drop).unwrap_err().to_string();
        assert!(error.contains("everleaf snapshot POOL --salvage-log"), "{error}");
    }
    let opened = open(&disk, true).unwrap();
    assert_eq!(opened.lives, [1; 10]);
    assert!(!opened.damages.is_empty());
}

/// What segments had that were owed in vain came back where the segment that was begun behind them had a damaged
/// header: a later snapshot was taken for the one that was owed. Where that segment was missing, they were read without
/// a word.
#[test]
fn what_is_written_after_a_salvage_is_there_without_another() {
    let [salvaged, put_aside, hopeless] = salvage_all(800, Vec::new());
    println!("{salvaged} salvaged, {put_aside} put aside, {hopeless} hopeless");
    assert!(salvaged > 200 && put_aside > 100 && hopeless < salvaged / 2);
}

#[test]
fn a_snapshot_of_another_life_is_found_where_it_is_planted() {
    let planted = || salvage_all(800, vec!["log.owed_by_any_snapshot"]);
    assert!(std::panic::catch_unwind(planted).is_err());
}

/// Damages and salvages logs of so many seeds: how many were salvaged, with how many something was put aside, and how
/// many could not be.
fn salvage_all(seeds: u64, mutants: Vec<&'static str>) -> [u64; 3] {
    let (mut salvaged, mut hopeless, mut put_aside) = (0, 0, 0);
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let disk = written(&mut random, mutants.clone());
        damage(&disk, &mut random);
        if open(&disk.copied(seed), false).is_ok() {
            continue;
        }
        let names = disk.names();
        let mut opened = match open(&disk, true) {
            Ok(opened) => opened,
            Err(error) => {
                assert!(matches!(error, Error::Damaged(_)), "seed {seed}: {error}");
                let has_snapshots = names.iter().any(|name| name.starts_with("snapshot-"));
                assert!(!has_snapshots || disk.names() == names, "seed {seed}: {error}");
                hopeless += 1;
                continue;
            }
        };
        assert!(!opened.damages.is_empty(), "seed {seed}");
        assert!(opened.lives.iter().all(|life| *life == 1), "seed {seed}");
        salvaged += 1;
        put_aside += u64::from(disk.names().iter().any(|name| name.starts_with("damaged-log-")));
        let mut disk = disk.clone();
        for life in 2..4 {
            let count = 1 + random.below(15);
            write(&mut opened, life, count, &mut random);
            let expected = std::mem::take(&mut opened.lives);
            disk = disk.crashed(random.bits());
            opened = open(&disk, false).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(opened.lives, expected, "seed {seed}");
        }
    }
    [salvaged, put_aside, hopeless]
}

#[test]
fn a_salvage_that_is_cut_off_can_be_done_again() {
    let mut crashes = 0;
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let disk = written(&mut random, Vec::new());
        damage(&disk, &mut random);
        let alone = open(&disk.copied(seed), true);
        let (Err(_), Ok(alone)) = (open(&disk.copied(seed), false), alone) else { continue };
        let images: Arc<Mutex<Vec<SimulatedDisk>>> = Arc::default();
        let inner = Arc::clone(&images);
        disk.set_hook(move |disk| inner.lock().unwrap().push(disk.crashed(random.bits())));
        drop(open(&disk, true));
        disk.clear_hook();
        for image in images.lock().unwrap().iter() {
            let again = open(image, true).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(again.lives, alone.lives, "seed {seed}");
            crashes += 1;
        }
    }
    assert!(crashes > 300, "{crashes}");
}

#[test]
fn files_from_behind_the_damage_are_kept_as_they_were() {
    let mut random = Random::new(1);
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let mut opened = open(&disk, false).unwrap();
    for _ in 0..12 {
        let key = (opened.lives.len() as Lsn + 1).to_be_bytes();
        opened.log.append(&[Record::put(1, &key, &[1; 5000])]).unwrap();
        opened.log.sync().unwrap();
        opened.lives.push(1);
    }
    let disk = disk.copied(1);
    let name = |number: u64| format!("log-{number:016x}");
    let bytes = |disk: &SimulatedDisk, name: &str| {
        let file = disk.open(name).unwrap();
        let mut bytes = vec![0; file.size().unwrap() as usize];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        bytes
    };
    // One group per segment: the second loses its only one.
    let before: Vec<_> = disk.names().iter().map(|name| bytes(&disk, name)).collect();
    disk.open(&name(2)).unwrap().write_at(&[0xEE; 8], 4096 + 100).unwrap();
    for round in 0..2 {
        let mut opened = open(&disk, true).unwrap();
        let damages = opened.damages.join("; ");
        if round == 0 {
            assert!(damages.contains("log-0000000000000002 is damaged at byte 4096: LSN 2"));
            assert!(damages.contains("log-0000000000000003 as damaged-log-0000000000000003"));
        } else {
            assert!(damages.is_empty(), "{damages}");
        }
        write(&mut opened, 2, 1, &mut random);
        assert_eq!(opened.lives.len(), 2 + round);
    }
    for (number, before) in (1..).zip(&before).skip(2) {
        assert_eq!(&bytes(&disk, &format!("damaged-{}", name(number))), before);
    }
    let damaged = bytes(&disk, &name(2));
    assert_eq!(damaged.len(), before[1].len(), "it is not cut off behind the damage");
    let kept = bytes(&disk, &format!("damaged-{}", name(2)));
    let zeros = damaged.iter().rev().take_while(|byte| **byte == 0).count();
    assert_eq!(kept, damaged[..damaged.len() - zeros]);
}

/// What was lost: what was acknowledged and readable behind the damage in the last segment. It kept its name, told as a
/// file that is kept, and was used again when there were two snapshots.
#[test]
fn what_is_behind_damage_in_the_last_segment_is_kept() {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let mut opened = open(&disk, false).unwrap();
    for key in 1..4_u64 {
        opened.log.append(&[Record::put(1, &key.to_be_bytes(), &[1; 10])]).unwrap();
        opened.log.sync().unwrap();
    }
    let disk = disk.copied(1);
    let damaged = disk.open("log-0000000000000001").unwrap();
    damaged.write_at(&[0xEE; 8], 4096 + 60).unwrap();
    damaged.sync_data().unwrap();
    let mut before = vec![0; damaged.size().unwrap() as usize];
    damaged.read_at(&mut before, 0).unwrap();
    let full = disk.copied(2);
    full.set_faults(Faults { capacity: before.len() + 12 * 1024, ..Faults::default() });
    // There is room for the copy, or for the new segment, which comes first.
    let either = disk.copied(3);
    either.set_faults(Faults { capacity: 2 * before.len() + 2048, ..Faults::default() });
    let damages = open(&either, true).unwrap().damages.join("; ");
    assert!(damages.contains("there is no copy"), "{damages}");
    for (disk, has_room) in [(&disk, true), (&full, false)] {
        opened = open(disk, true).unwrap();
        assert!(opened.lives.is_empty());
        let damages = opened.damages.join("; ");
        assert_eq!(
            damages.contains("is kept as damaged-log-0000000000000001"),
            has_room,
            "{damages}"
        );
        assert_eq!(damages.contains("there is no copy"), !has_room, "{damages}");
        assert!(!disk.names().iter().any(|name| name.starts_with("unfinished")));
        disk.set_faults(Faults::default());
        for _ in 0..3 {
            opened.log.append(&[Record::put(1, b"12345678", &[2])]).unwrap();
            SnapshotWriter::begin(&opened.log).unwrap().finish().unwrap();
        }
        let names = disk.names();
        assert!(!names.contains(&"log-0000000000000001".into()), "it is not needed: {names:?}");
        if has_room {
            let kept = disk.open("damaged-log-0000000000000001").unwrap();
            let zeros = before.iter().rev().take_while(|byte| **byte == 0).count();
            let mut bytes = vec![0; before.len() - zeros];
            assert_eq!(kept.read_at(&mut bytes, 0).unwrap(), bytes.len());
            assert!(before.starts_with(&bytes) && kept.size().unwrap() == bytes.len() as u64);
        }
    }
}

/// What was lost: the copy, and two snapshots later what only it had. The process was killed when the new segment was
/// there, behind which nothing tells of the damage.
#[test]
fn a_salvage_that_is_killed_has_its_copy_in_the_end() {
    let aside = |disk: &SimulatedDisk| {
        let mut files = std::collections::BTreeMap::new();
        for name in disk.names().into_iter().filter(|name| name.starts_with("damaged-log")) {
            let file = disk.open(&name).unwrap();
            let mut bytes = vec![0; file.size().unwrap() as usize];
            assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
            files.insert(name, bytes);
        }
        files
    };
    let (mut kills, mut copies) = (0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let disk = written(&mut random, Vec::new());
        damage(&disk, &mut random);
        let alone = disk.copied(seed);
        if open(&disk.copied(seed), false).is_ok() || open(&alone, true).is_err() {
            continue;
        }
        let (expected, new) = (aside(&alone), segments(&alone).pop().unwrap());
        let images: Arc<Mutex<Vec<SimulatedDisk>>> = Arc::default();
        let inner = Arc::clone(&images);
        disk.set_hook(move |disk| inner.lock().unwrap().push(disk.copied(seed)));
        drop(open(&disk, true));
        disk.clear_hook();
        let mut images = images.lock().unwrap();
        // Those of the killed process that had begun the new segment, perhaps in the place of one that was put aside.
        let header = |disk: &SimulatedDisk| {
            let mut bytes = [0; 64];
            let read = disk.open(&new).and_then(|file| file.read_at(&mut bytes, 0));
            read.is_ok_and(|count| count == 64).then_some(bytes)
        };
        images.retain(|image| header(image) == header(&alone));
        for image in images.iter() {
            let begun = aside(image).len();
            let is_again = kills % 2 == 0;
            open(image, is_again).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(aside(image) == expected, "seed {seed}: {:?}", image.names());
            assert!(!image.names().iter().any(|name| name.starts_with("unfinished")));
            kills += 1;
            copies += usize::from(begun < expected.len());
        }
    }
    assert!(kills > 40 && copies > 20, "{copies} of {kills}");
}

#[test]
fn where_nothing_can_be_salvaged_nothing_is_changed() {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let (log, _) = Log::open(disk.clone(), &options().starts_empty(false)).unwrap();
    for _ in 0..3 {
        log.append(&[Record::put(1, b"key", b"value")]).unwrap();
        log.sync().unwrap();
    }
    SnapshotWriter::begin(&log).unwrap().finish().unwrap();
    let disk = disk.copied(1);
    // The log has the store's beginning neither in it nor in a snapshot before the damage.
    disk.open("log-0000000000000001").unwrap().write_at(&[0xEE], 4096 + 60).unwrap();
    let names = disk.names();
    for salvage in [false, true] {
        let error = Log::open(disk.clone(), &options().salvage(salvage)).unwrap_err();
        assert_eq!(error.to_string().contains("nothing can be salvaged"), salvage, "{error}");
        assert_eq!(disk.names(), names);
    }
}

/// Appends groups of a life, each of which is durable, and takes a segment.
fn append(opened: &mut OpenLog, life: u8, count: usize) {
    for _ in 0..count {
        let key = (opened.lives.len() as Lsn + 1).to_be_bytes();
        opened.log.append(&[Record::put(1, &key, &[life; 5000])]).unwrap();
        opened.log.sync().unwrap();
        opened.lives.push(life);
    }
}

/// The names of all segments, the oldest first.
fn segments(disk: &SimulatedDisk) -> Vec<String> {
    let mut segments = disk.names();
    segments.retain(|name| name.starts_with("log-"));
    segments.sort();
    segments
}

/// First LSNs do not ascend where a snapshot was owed and never came. A salvage that took a segment's end from the next
/// segment's beginning missed an LSN that is nobody's before the first owed segment: it took the oldest segment for
/// damaged, and put aside everything behind it, which recovery would have read.
#[test]
fn segments_that_were_owed_in_vain_cost_a_salvage_nothing() {
    let mut random = Random::new(7);
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let mut opened = open(&disk, false).unwrap();
    append(&mut opened, 1, 3);
    let disk = owing_in_vain(&disk, &mut random);
    let mut opened = open(&disk, false).unwrap();
    assert_eq!(opened.lives, [1; 3], "what was owed does not count");
    append(&mut opened, 2, 8);
    let disk = disk.copied(2);
    // One group per segment: of the last two groups the first is lost.
    let segments = segments(&disk);
    let rotten = &segments[segments.len() - 2];
    disk.open(rotten).unwrap().write_at(&[0xEE; 8], 4096 + 100).unwrap();
    assert!(matches!(open(&disk.copied(3), false), Err(Error::Damaged(_))));
    let opened = open(&disk, true).unwrap();
    assert_eq!(opened.lives, [1, 1, 1, 2, 2, 2, 2, 2, 2]);
    let aside = disk.names().iter().filter(|name| name.starts_with("damaged-log-")).count();
    assert_eq!(aside, 2, "only what is damaged, and what is behind it: {:?}", opened.damages);
}

/// Recovery took the log to begin with the first LSN of the oldest segment, and refused a snapshot that the log reaches
/// back to, where that segment was one that was owed in vain: what counts begins before it, behind it.
#[test]
fn the_log_does_not_begin_at_a_segment_owed_in_vain() {
    let mut random = Random::new(7);
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let mut opened = open(&disk, false).unwrap();
    append(&mut opened, 1, 3);
    let before = segments(&disk).len();
    let disk = owing_in_vain(&disk, &mut random);
    let mut opened = open(&disk, false).unwrap();
    let mut snapshot = SnapshotWriter::begin(&opened.log).unwrap();
    for lsn in 1..=3_u64 {
        snapshot.add(&Record::put(1, &lsn.to_be_bytes(), &[1])).unwrap();
    }
    assert_eq!(snapshot.finish().unwrap().from, 3);
    append(&mut opened, 2, 5);
    let disk = disk.copied(2);
    // What the snapshot has is lost, with the segment that the process began with that owed one.
    segments(&disk)[..=before].iter().for_each(|name| disk.remove(name).unwrap());
    let opened = open(&disk, false).unwrap();
    assert_eq!(opened.lives, [1, 1, 1, 2, 2, 2, 2, 2]);
}
