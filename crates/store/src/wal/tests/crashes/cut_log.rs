//! A log whose end is gone or damaged beside a pool that is whole, and copies of one of the two that are older.
//!
//! What was lost: a store whose log was repaired by a new snapshot, and whose machine crashed before the
//! note of how far the log had reached was written anew, could not be opened any more. A log that was cut
//! before its newest snapshot was refused though the pool had everything. An older copy of the log's folder
//! had an older note with it, so that nobody noticed; and nobody noticed an older copy of the pool.

use std::path::Path;
use std::sync::{Arc, Mutex};

use everleaf_log::simulated::{Faults, SimulatedDisk};
use everleaf_log::{Disk, DiskFile};

use super::world::{folder, options};
use crate::{Error, Store};

const KEYS: u32 = 54;

fn put(store: &Store, keys: std::ops::Range<u32>) {
    for number in keys {
        let _ = store.default_map().put(number.to_be_bytes(), number.to_le_bytes()).expect("room");
    }
}

fn is_whole(store: &Store) -> bool {
    let has = |number: u32| {
        let value = store.default_map().get(number.to_be_bytes()).expect("readable");
        value.as_deref() == Some(&number.to_le_bytes()[..])
    };
    store.default_map().len() == u64::from(KEYS) && (0..KEYS).all(has)
}

/// A store that is closed, with a snapshot in the middle.
fn make(disk: &SimulatedDisk, pool: &Path) {
    let store = options(disk).open(pool).expect("it opens");
    put(&store, 0..KEYS / 2);
    let _ = store.snapshot().expect("the disk works");
    put(&store, KEYS / 2..KEYS);
    store.close().expect("it closes");
}

/// What becomes of the end of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cut {
    /// The last segment has lost its last chunks.
    Chunks,
    /// Everything but the first block of the last segment, so that the newest snapshot needs more.
    ToHeader,
    /// The last segment is empty.
    ToNothing,
    /// The last segment is gone.
    Segment,
    /// All segments are gone.
    Segments,
    /// A byte of a chunk in the middle of the last segment is another.
    Byte,
    /// A block in the middle of the last segment is zero.
    Block,
    /// A byte of the header of the last segment is another.
    Header,
}

const CUTS: [Cut; 8] = [
    Cut::Chunks,
    Cut::ToHeader,
    Cut::ToNothing,
    Cut::Segment,
    Cut::Segments,
    Cut::Byte,
    Cut::Block,
    Cut::Header,
];

fn cut(disk: &SimulatedDisk, how: Cut) {
    let segments: Vec<String> =
        disk.names().into_iter().filter(|name| name.starts_with("log-")).collect();
    let last = segments.last().expect("there is one");
    let keep = |size: u64| {
        let file = Disk::open(disk, last).expect("there");
        assert!(file.size().expect("open") > size);
        file.truncate(size).expect("it works");
        file.sync_data().expect("it works");
    };
    let overwrite = |offset: u64, bytes: &[u8]| {
        let file = Disk::open(disk, last).expect("there");
        assert!(file.size().expect("open") > offset + 2 * 4096);
        assert_eq!(file.write_at(bytes, offset).expect("it works"), bytes.len());
        file.sync_data().expect("it works");
    };
    match how {
        Cut::Byte => overwrite(3 * 4096 + 60, &[0xA5]),
        Cut::Block => overwrite(4 * 4096, &[0; 4096]),
        Cut::Header => overwrite(40, &[0xA5]),
        Cut::Chunks => {
            let file = Disk::open(disk, last).expect("there");
            let chunks = file.size().expect("open") / 4096 - 1;
            assert!(chunks > 4, "{chunks}");
            keep((chunks - 2) * 4096);
        }
        Cut::ToHeader => keep(4096),
        Cut::ToNothing => keep(0),
        Cut::Segment => disk.remove(last).expect("there"),
        Cut::Segments => segments.iter().for_each(|name| disk.remove(name).expect("there")),
    }
    disk.sync_folder().expect("it works");
}

/// Opens the store with its pool beside a log that was cut, and loses the power before every operation of
/// the disk. Whether what is left can be opened without the pool whenever the new snapshot is there, and
/// is never an earlier state.
fn repaired(how: Cut, mutant: Option<&'static str>) -> bool {
    let folder = folder();
    let faults = Faults { mutants: mutant.into_iter().collect(), ..Faults::default() };
    let disk = SimulatedDisk::new(faults, 1);
    let pool = folder.path().join("pool");
    make(&disk, &pool);
    cut(&disk, how);
    let snapshots = |disk: &SimulatedDisk| {
        disk.names().into_iter().filter(|name| name.starts_with("snapshot-")).max()
    };
    let before = snapshots(&disk);
    let images = Arc::new(Mutex::new(vec![]));
    let taken = images.clone();
    disk.set_hook(move |disk| {
        taken.lock().expect("nobody panicked").extend((0..3).map(|seed| disk.crashed(seed)));
    });
    let store = options(&disk).open(&pool).expect("the pool is whole");
    assert!(is_whole(&store), "{how:?}");
    disk.clear_hook();
    let mut images = std::mem::take(&mut *images.lock().expect("nobody panicked"));
    assert!(images.len() > 20, "{how:?}: {}", images.len());
    let last = images.len();
    images.extend((0..3).map(|seed| disk.crashed(seed)));
    let mut is_right = true;
    for (number, image) in images.into_iter().enumerate() {
        image.set_faults(Faults::default());
        let is_there = snapshots(&image) > before || number >= last;
        let opened = options(&image).open(folder.path().join(format!("left-{number}")));
        is_right &= match opened {
            Ok(left) => is_whole(&left),
            Err(_) => !is_there,
        };
    }
    is_right
}

/// Life 1 is closed, with a snapshot, and life 2 is killed: the log that is left, with its pool in `killed`. Life 2 has
/// written another snapshot, with one pair behind it or as the last thing it did.
fn make_killed(folder: &Path, killed: &Path, how: Cut, is_snapshot_last: bool) -> SimulatedDisk {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let pool = folder.join("pool");
    let store = options(&disk).open(&pool).expect("it opens");
    put(&store, 0..KEYS / 3);
    let _ = store.snapshot().expect("the disk works");
    store.close().expect("it closes");
    let store = options(&disk).open(&pool).expect("it opens");
    put(&store, KEYS / 3..KEYS - 1);
    if is_snapshot_last {
        put(&store, KEYS - 1..KEYS);
    }
    // What was lost without this one, too: a segment that is cut to nothing has no snapshot behind its end.
    if how != Cut::ToNothing {
        let _ = store.snapshot().expect("the disk works");
    }
    if !is_snapshot_last {
        put(&store, KEYS - 1..KEYS);
    }
    keep_copy(&pool, killed);
    let left = disk.copied(1);
    cut(&left, how);
    left
}

/// The snapshot from behind the cut was put aside before a segment said that there is a gap. With it went all that told
/// of the cut: after a crash in between, the state of life 1 was served without a word.
#[test]
fn a_repair_of_a_cut_log_that_loses_the_power_is_told() {
    let cuts = [Cut::ToHeader, Cut::ToNothing, Cut::Segment].into_iter();
    for (how, is_last) in cuts.flat_map(|how| [(how, false), (how, true)]) {
        let folder = folder();
        let killed = folder.path().join("killed");
        let disk = make_killed(folder.path(), &killed, how, is_last);
        let refused = options(&disk.crashed(9)).open(folder.path().join("none"));
        assert!(refused.is_err(), "{how:?} {is_last}: it was told before the repair");
        let images = Arc::new(Mutex::new(vec![]));
        let taken = images.clone();
        disk.set_hook(move |disk| {
            taken.lock().expect("nobody panicked").extend((0..8).map(|seed| disk.crashed(seed)));
        });
        let store = options(&disk).open(&killed).expect("the pool has everything");
        assert!(is_whole(&store), "{how:?}");
        disk.clear_hook();
        let images = std::mem::take(&mut *images.lock().expect("nobody panicked"));
        assert!(images.len() > 50, "{how:?}: {}", images.len());
        for (number, image) in images.into_iter().enumerate() {
            let left = folder.path().join(format!("left-{number}"));
            if let Ok(left) = options(&image).open(left) {
                assert!(
                    is_whole(&left),
                    "{how:?} {is_last} {number}: {}",
                    left.default_map().len()
                );
            }
        }
        let whole = options(&disk.crashed(3)).open(folder.path().join("left"));
        assert!(is_whole(&whole.expect("the log was made whole")), "{how:?}");
    }
}

/// The repair is refused at some step, and then the machine crashes: what is left is whole, or refused. The next one
/// with the pool makes the log whole.
#[test]
fn a_repair_of_a_cut_log_that_is_refused_is_told() {
    for (how, is_last) in [(Cut::ToHeader, false), (Cut::Segment, true), (Cut::ToNothing, true)] {
        let mut failed = 0;
        for refused in 0.. {
            let folder = folder();
            let killed = folder.path().join("killed");
            let disk = make_killed(folder.path(), &killed, how, is_last);
            let (mut operations, pool) = (0, folder.path().join("tried"));
            keep_copy(&killed, &pool);
            disk.set_hook(move |disk| {
                operations += 1;
                if operations > refused {
                    disk.set_faults(Faults { error_one_in: 1, ..Faults::default() });
                }
            });
            let opened = options(&disk).open(&pool);
            disk.clear_hook();
            disk.set_faults(Faults::default());
            if opened.is_ok() {
                break;
            }
            failed += 1;
            for seed in 0..8 {
                let left = folder.path().join(format!("left-{seed}"));
                if let Ok(left) = options(&disk.crashed(seed)).open(left) {
                    assert!(is_whole(&left), "{how:?} {refused}: {}", left.default_map().len());
                }
            }
            let store = options(&disk).open(&pool).expect("there is room again");
            assert!(is_whole(&store), "{how:?} {refused}");
            let left = options(&disk.crashed(3)).open(folder.path().join("whole"));
            assert!(is_whole(&left.expect("it was repaired")), "{how:?} {refused}");
        }
        assert!(failed > 5, "{how:?}: {failed}");
    }
}

/// A pool whose process died cannot be proven whole: damage of its log is told, and nothing is changed.
#[test]
fn a_damaged_log_beside_a_pool_that_was_not_closed_is_refused() {
    for how in [Cut::Byte, Cut::Block, Cut::Header] {
        let (folder, disk) = (folder(), SimulatedDisk::new(Faults::default(), 1));
        let (pool, killed) = (folder.path().join("pool"), folder.path().join("killed"));
        let store = options(&disk).open(&pool).expect("it opens");
        put(&store, 0..KEYS);
        keep_copy(&pool, &killed);
        let left = disk.copied(1);
        cut(&left, how);
        let error = options(&left).open(&killed).map(drop).expect_err("it is damaged");
        assert!(matches!(error, Error::Corrupt(_)), "{how:?}: {error}");
    }
}

#[test]
fn no_power_cut_in_a_repair_of_a_log_leaves_one_that_is_refused() {
    for how in CUTS {
        assert!(repaired(how, None), "{how:?}");
        assert!(!repaired(how, Some("log.cut_goes_on")), "{how:?}: the bug is not found");
    }
}

/// A segment that was cut before its first chunk was damage, though the pool that its process left has everything.
#[test]
fn a_cut_log_beside_a_pool_that_was_not_closed_is_made_whole() {
    for how in [Cut::ToNothing, Cut::Segment, Cut::Segments] {
        let (folder, disk) = (folder(), SimulatedDisk::new(Faults::default(), 1));
        let (pool, killed) = (folder.path().join("pool"), folder.path().join("killed"));
        let store = options(&disk).open(&pool).expect("it opens");
        put(&store, 0..KEYS / 2);
        let _ = store.snapshot().expect("the disk works");
        put(&store, KEYS / 2..KEYS);
        keep_copy(&pool, &killed);
        let left = disk.copied(1);
        drop(store);
        cut(&left, how);
        let store = options(&left).open(&killed).expect("the pool has everything");
        assert!(is_whole(&store), "{how:?}");
        let without = options(&left.crashed(3)).open(folder.path().join("left"));
        assert!(is_whole(&without.expect("the log was made whole")), "{how:?}");
    }
}

/// A damaged last segment kept its name for good, beside segments that nobody needed.
#[test]
fn a_damaged_segment_is_put_aside_when_nothing_can_need_it() {
    let (folder, disk) = (folder(), SimulatedDisk::new(Faults::default(), 1));
    let pool = folder.path().join("pool");
    make(&disk, &pool);
    let segments = |disk: &SimulatedDisk| -> Vec<String> {
        disk.names().into_iter().filter(|name| name.starts_with("log-")).collect()
    };
    let damaged = segments(&disk).pop().expect("there is one");
    cut(&disk, Cut::Header);
    let bytes = |name: &str| {
        let file = Disk::open(&disk, name).expect("there");
        let mut bytes = vec![0; file.size().expect("open") as usize];
        assert_eq!(file.read_at(&mut bytes, 0).expect("open"), bytes.len());
        bytes
    };
    let before = bytes(&damaged);
    for round in 0..3 {
        let store = options(&disk).open(&pool).expect("the pool is whole");
        // The first since the damage is written by the opening.
        assert!(disk.names().contains(&damaged) == (round == 0), "{round}: {:?}", disk.names());
        let _ = store.snapshot().expect("the disk works");
        assert!(is_whole(&store));
        store.close().expect("it closes");
    }
    let aside = format!("damaged-{damaged}");
    assert_eq!(bytes(&aside), before, "it is kept as it was");
    assert_eq!(disk.names().iter().filter(|name| name.starts_with("damaged")).count(), 1);
    let oldest = segments(&disk).swap_remove(0);
    assert!(oldest > damaged, "what was before it went: {oldest}");
    let left = options(&disk.crashed(3)).open(folder.path().join("left")).expect("it opens");
    assert!(is_whole(&left));
}

/// The pool is copied with its store closed, so that it is whole.
fn keep_copy(from: &Path, to: &Path) {
    let _ = std::fs::copy(from, to).expect("room");
}

#[test]
fn an_older_log_beside_a_newer_pool_is_noticed_and_replaced() {
    let (folder, disk) = (folder(), SimulatedDisk::new(Faults::default(), 1));
    let pool = folder.path().join("pool");
    let store = options(&disk).open(&pool).expect("it opens");
    put(&store, 0..KEYS / 3);
    store.close().expect("it closes");
    let older = disk.copied(2);
    let store = options(&disk).open(&pool).expect("it opens");
    put(&store, KEYS / 3..KEYS);
    store.close().expect("it closes");
    assert!(is_whole(&options(&older).open(&pool).expect("the pool is whole")));
    // What is left of a crash is that, and not the older state.
    let store = options(&older.crashed(3)).open(folder.path().join("left")).expect("it opens");
    assert!(is_whole(&store));
}

#[test]
fn an_older_copy_of_the_pool_beside_a_newer_log_is_refused() {
    let (folder, disk) = (folder(), SimulatedDisk::new(Faults::default(), 1));
    let (pool, older) = (folder.path().join("pool"), folder.path().join("older"));
    let store = options(&disk).open(&pool).expect("it opens");
    put(&store, 0..KEYS / 3);
    store.close().expect("it closes");
    keep_copy(&pool, &older);
    let store = options(&disk).open(&pool).expect("it opens");
    put(&store, KEYS / 3..KEYS);
    store.close().expect("it closes");
    keep_copy(&older, &pool);
    for _ in 0..2 {
        let error = options(&disk).open(&pool).map(drop).expect_err("it lacks what the log has");
        assert!(matches!(error, Error::Corrupt(_)), "{error}");
        assert!(error.to_string().contains("is older than its log"), "{error}");
    }
    std::fs::remove_file(&pool).expect("there");
    assert!(is_whole(&options(&disk).open(&pool).expect("the log has everything")));
}

/// An opening that begins to repair a log and fails must leave it to the next to be repaired: the segment that it
/// began says that there is a gap before it.
#[test]
fn a_repair_that_fails_is_done_by_the_next_opening() {
    for how in CUTS {
        repaired_by_the_next(how, None);
    }
    let found =
        std::panic::catch_unwind(|| repaired_by_the_next(Cut::Chunks, Some("log.cut_unmarked")));
    assert!(found.is_err(), "the bug is not found");
}

fn repaired_by_the_next(how: Cut, mutant: Option<&'static str>) {
    let faults = || Faults { mutants: mutant.into_iter().collect(), ..Faults::default() };
    let mut failed = 0;
    for refused in 0.. {
        let (folder, disk) = (folder(), SimulatedDisk::new(faults(), 1));
        let pool = folder.path().join("pool");
        make(&disk, &pool);
        cut(&disk, how);
        let mut operations = 0;
        disk.set_hook(move |disk| {
            operations += 1;
            if operations > refused {
                disk.set_faults(Faults { error_one_in: 1, ..Faults::default() });
            }
        });
        let opened = options(&disk).open(&pool);
        disk.clear_hook();
        disk.set_faults(Faults::default());
        match opened {
            Ok(store) => {
                drop(store);
                break;
            }
            Err(_) => failed += 1,
        }
        let store = options(&disk).open(&pool).expect("there is room again");
        assert!(is_whole(&store), "{how:?} {refused}");
        let left = folder.path().join("left");
        let store = options(&disk.crashed(3)).open(left).expect("it was repaired");
        assert!(is_whole(&store), "{how:?} {refused}");
    }
    assert!(failed > 2, "{how:?}: {failed}");
}

/// A log of which only `identity` was lost was removed as a whole before a snapshot took its place: a machine that lost
/// its power meanwhile had nothing left, and the next opening made an empty pool.
#[test]
fn a_log_without_its_identity_is_not_removed() {
    let (folder, disk) = (folder(), SimulatedDisk::new(Faults::default(), 1));
    let (pool, killed) = (folder.path().join("pool"), folder.path().join("killed"));
    let store = options(&disk).open(&pool).expect("it opens");
    put(&store, 0..KEYS);
    keep_copy(&pool, &killed);
    let left = disk.copied(1);
    drop(store);
    Disk::remove(&left, "identity").expect("there");
    left.sync_folder().expect("it works");
    let images = Arc::new(Mutex::new(vec![]));
    let taken = images.clone();
    left.set_hook(move |disk| {
        taken.lock().expect("nobody panicked").extend((0..3).map(|seed| disk.crashed(seed)));
    });
    let store = options(&left).open(&killed).expect("the pool is whole");
    assert!(is_whole(&store));
    left.clear_hook();
    let mut images = std::mem::take(&mut *images.lock().expect("nobody panicked"));
    images.push(left.crashed(3));
    let (mut opened, mut refused) = (0, 0);
    for (number, image) in images.into_iter().enumerate() {
        match options(&image).open(folder.path().join(format!("left-{number}"))) {
            Ok(left) => {
                assert!(is_whole(&left), "{number}");
                opened += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("identity"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(opened > 0 && refused > 0, "{opened} {refused}");
}
