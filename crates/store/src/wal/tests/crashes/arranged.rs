//! Sequences of threads that are rare, arranged: each holds with the safeguard, and not without it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;

use everleaf_log::simulated::{Faults, SimulatedDisk};
use everleaf_log::{Record, SnapshotWriter};

use super::super::super::NAMES;
use super::super::super::log_folder::LogDisk;
use super::super::super::simulated::read_start;
use super::world::{folder, options};
use crate::{Durability, Map, Store, WriteBatch};

fn disk(mutant: Option<&'static str>) -> SimulatedDisk {
    let faults = Faults { mutants: mutant.into_iter().collect(), ..Faults::default() };
    SimulatedDisk::new(faults, 1)
}

/// What a machine finds whose power fails now: without the pool.
fn after_crash(disk: &SimulatedDisk, seed: u64, see: impl FnOnce(&Store)) {
    let folder = folder();
    let left = disk.crashed(seed);
    left.set_faults(Faults::default());
    see(&options(&left).open(folder.path().join("left")).expect("it opens"));
}

/// A batch that is made, but not logged, between the reading of two maps by a snapshot; then the
/// power fails. Whether the batch is there as a whole or not at all.
fn snapshot_beside_a_batch(mutant: Option<&'static str>) -> bool {
    let (folder, disk) = (folder(), disk(mutant));
    let store = options(&disk).open(folder.path().join("pool")).expect("it opens");
    let second = store.map("second").expect("room");
    let _ = (
        store.default_map().put(b"k", b"old").expect("room"),
        second.put(b"k", b"old").expect("room"),
    );
    let (begin, begun) = sync_channel(1);
    let (make, made) = sync_channel(1);
    let (release, released) = sync_channel::<()>(1);
    let (made, released) = (Mutex::new(made), Mutex::new(released));
    let maps = AtomicU32::new(0);
    let to_release = release.clone();
    disk.set_point_hook(move |point| match point {
        // Relaxed: one thread counts.
        "store.snapshot_map" if maps.fetch_add(1, Ordering::Relaxed) == 1 => {
            begin.send(()).expect("the writer listens");
            made.lock().expect("nobody panicked").recv().expect("the writer says so");
        }
        "store.batch_made" => {
            make.send(()).expect("the snapshot listens");
            let _ = released.lock().expect("nobody panicked").recv();
        }
        _ => {}
    });
    disk.set_wait_hook(move |point| {
        let is_batch = point == "log.awaits_places";
        if is_batch {
            let _ = to_release.try_send(());
        }
        is_batch
    });
    let (to_store, to_second) = (&store, &second);
    let is_whole = std::thread::scope(|scope| {
        scope.spawn(move || {
            begun.recv().expect("the snapshot says so");
            let mut batch = WriteBatch::new();
            batch.put(to_store.default_map(), b"k", b"new").put(to_second, b"k", b"new");
            assert!(to_store.write(&batch).expect("room").is_done());
        });
        let _ = store.snapshot().expect("the disk works");
        let mut is_whole = false;
        after_crash(&disk, 7, |left| {
            let value = |map: &Map| map.get(b"k").expect("get");
            let second = left.existing_map("second").expect("of strings").expect("there");
            is_whole = value(left.default_map()) == value(&second);
        });
        let _ = release.try_send(());
        is_whole
    });
    disk.clear_hook();
    is_whole
}

#[test]
fn a_snapshot_waits_for_batches_that_it_has_seen_a_part_of() {
    assert!(snapshot_beside_a_batch(None));
    assert!(!snapshot_beside_a_batch(Some("store.takes_place_late")), "the bug is not found");
}

/// A map is emptied while a snapshot begins, and written to; then the power fails. Whether what was
/// written behind is there.
fn snapshot_beside_an_emptying(mutant: Option<&'static str>) -> bool {
    let (folder, disk) = (folder(), disk(mutant));
    let store = options(&disk).open(folder.path().join("pool")).expect("it opens");
    let _ = store.default_map().put(b"old", b"1").expect("room");
    let (enter, entering) = sync_channel(1);
    let (release, released) = sync_channel::<()>(1);
    let released = Mutex::new(released);
    let to_release = release.clone();
    disk.set_point_hook(move |point| {
        if point == "store.number_entered" {
            enter.send(()).expect("the snapshot listens");
            let _ = released.lock().expect("nobody panicked").recv();
        }
    });
    disk.set_wait_hook(move |point| {
        let is_number = point == "log.awaits_places";
        if is_number {
            let _ = to_release.try_send(());
        }
        is_number
    });
    std::thread::scope(|scope| {
        scope.spawn(|| store.default_map().clear().expect("room"));
        entering.recv().expect("the other thread is about to");
        // What is written to the files before the snapshot begins does not have to be replayed.
        let power = store.shared().log.as_ref().expect("it has a log");
        power.log.write_out().expect("the disk works");
        let _ = store.snapshot().expect("the disk works");
        let _ = release.try_send(());
    });
    disk.clear_hook();
    let _ = store.default_map().put(b"new", b"2").expect("room");
    let mut is_there = false;
    after_crash(&disk, 7, |left| {
        is_there =
            left.default_map().get(b"new").expect("get").is_some() && left.default_map().len() == 1;
    });
    is_there
}

#[test]
fn a_map_has_its_new_number_before_the_log_says_so() {
    assert!(snapshot_beside_an_emptying(None));
    assert!(!snapshot_beside_an_emptying(Some("store.fills_number_first")), "not found");
}

/// A snapshot of fewer keys than the pool has, beside which the log is kept: what was lost was found out
/// only when the pool was, by which time the log that had it was gone.
#[test]
fn a_snapshot_that_lacks_a_key_is_refused_and_the_log_stays() {
    let (folder, sound) = (folder(), disk(None));
    let path = folder.path().join("pool");
    let store = options(&sound).open(&path).expect("it opens");
    for number in 0..50u8 {
        let _ = store.default_map().put([number], b"value").expect("room");
    }
    assert_eq!(store.snapshot().expect("nobody writes"), 50);
    let _ = store.default_map().put(b"behind it", b"value").expect("room");
    store.close().expect("it can be closed");

    let (folder, skipping) = (self::folder(), disk(Some("store.snapshot_skips")));
    let path = folder.path().join("pool");
    let store = options(&skipping).open(&path).expect("it opens");
    for number in 0..50u8 {
        let _ = store.default_map().put([number], b"value").expect("room");
    }
    let before = skipping.names();
    let error = store.snapshot().expect_err("one is missing").to_string();
    assert!(error.contains("49 keys") && error.contains("has 50"), "{error}");
    let is_kept = |name: &String| before.contains(name) || !name.starts_with("snapshot");
    assert!(skipping.names().iter().all(is_kept), "{:?}", skipping.names());
    let _ = store.default_map().put(b"behind it", b"value").expect("the store goes on");
    after_crash(&skipping, 3, |left| assert_eq!(left.default_map().len(), 51));
}

/// Keys that expire while a snapshot is written are removed without a record: they are no damage, and were
/// once told as such.
#[test]
fn a_snapshot_beside_keys_that_expire_is_no_damage() {
    let (folder, disk) = (folder(), disk(None));
    let path = folder.path().join("pool");
    let store = options(&disk).open(&path).expect("it opens");
    let soon = std::time::Duration::from_millis(1);
    for number in 0..20u8 {
        let _ = store.default_map().put([number], b"stays").expect("room");
        let _ = store.default_map().put_with_expiry([100, number], b"goes", soon).expect("room");
    }
    let (enter, entering) = sync_channel(1);
    let (release, released) = sync_channel::<()>(1);
    let released = Mutex::new(released);
    disk.set_point_hook(move |point| {
        if point == "store.snapshot_map_read" && enter.try_send(()).is_ok() {
            let _ = released.lock().expect("nobody panicked").recv();
        }
    });
    std::thread::scope(|scope| {
        let snapshot = scope.spawn(|| store.snapshot().expect("nothing is damaged"));
        entering.recv().expect("the snapshot has read the map");
        // Until all have expired; the map is small enough for one slice.
        while store.default_map().len() > 20 {
            let mut seen = Default::default();
            let (tree, from) = (store.default_map().tree(), std::ops::Bound::Unbounded);
            let _ = store.shared().sweep_slice(tree, from, &mut seen).expect("readable");
        }
        release.send(()).expect("the snapshot waits");
        assert_eq!(snapshot.join().expect("it does not panic"), 40);
    });
    disk.clear_hook();
    assert_eq!(store.default_map().len(), 20, "they were removed meanwhile");
}

/// Whether a log that was given up stays so, however the power fails.
fn forgetting(mutant: Option<&'static str>) -> bool {
    let (folder, disk) = (folder(), disk(mutant));
    let path = folder.path().join("pool");
    let store = options(&disk).open(&path).expect("it opens");
    let _ = store.default_map().put(b"k", b"1").expect("room");
    store.close().expect("it can be closed");
    let store = options(&disk).durability(Durability::Process).open(&path).expect("it opens");
    let _ = store.default_map().put(b"k", b"2").expect("room");
    (0..64).all(|seed| !disk.crashed(seed).names().contains(&"identity".to_string()))
}

#[test]
fn a_log_that_was_given_up_does_not_come_back() {
    assert!(forgetting(None));
    assert!(!forgetting(Some("store.no_sync_of_forgetting")), "the bug is not found");
}

/// A log is given up, and an operation of the disk fails, as the sync of the mark that it is of no use. The next
/// opening removed files of the log behind that mark, which was not durable: after a crash the log had its name again,
/// and lacked some of them.
#[test]
fn no_part_of_a_log_goes_before_its_mark_is_durable() {
    let mut failed = 0;
    for refused in 0..40 {
        let (folder, disk) = (folder(), disk(None));
        let path = folder.path().join("pool");
        let store = options(&disk).open(&path).expect("it opens");
        let _ = store.default_map().put(b"k", b"1").expect("room");
        store.close().expect("it can be closed");
        let (before, mut operations) = (disk.names(), 0);
        disk.set_hook(move |disk| {
            let error_one_in = u32::from(operations == refused);
            disk.set_faults(Faults { error_one_in, ..Faults::default() });
            operations += 1;
        });
        let given_up = || options(&disk).durability(Durability::Process).open(&path);
        let opened = given_up();
        disk.clear_hook();
        disk.set_faults(Faults::default());
        if opened.is_ok() {
            continue;
        }
        failed += 1;
        disk.set_hook(move |disk| {
            for seed in 0..16 {
                let names = disk.crashed(seed).names();
                let is_whole = before.iter().all(|name| names.contains(name));
                assert!(is_whole || !names.contains(&"identity".into()), "{refused}: {names:?}");
            }
        });
        drop(given_up().expect("the disk works"));
        disk.clear_hook();
    }
    assert!(failed > 2, "{failed}");
}

/// Counts the places that are taken in the log from here on.
fn counted_places(disk: &SimulatedDisk) -> std::sync::Arc<AtomicU32> {
    let places = std::sync::Arc::new(AtomicU32::new(0));
    let taken = places.clone();
    disk.set_point_hook(move |point| {
        // Relaxed: one thread.
        taken.fetch_add(u32::from(point == "store.place_taken"), Ordering::Relaxed);
    });
    places
}

/// Adds all pairs of two maps to a snapshot, and one that was rolled back, as if it had been read before.
fn add_all(store: &Store, snapshot: &mut SnapshotWriter<LogDisk>, half: &[u8]) {
    let filler = store.existing_map("filler").expect("of strings").expect("there");
    let mut names = [("default", store.default_map().number()), ("filler", filler.number())];
    for (name, number) in &names {
        snapshot.add(&Record::put(NAMES, name.as_bytes(), &number.to_le_bytes())).expect("room");
    }
    names.sort_by_key(|(_, number)| *number);
    for (name, number) in names {
        let map = store.existing_map(name).expect("of strings").expect("there");
        let mut pairs: BTreeMap<_, _> = map.iter().map(Result::unwrap).collect();
        if name == "default" {
            pairs.insert(half.to_vec(), b"half".to_vec());
        }
        for (key, value) in pairs {
            snapshot.add(&Record::put(number, &key, &value)).expect("room");
        }
    }
}

/// A batch for which there is no space is rolled back, while a snapshot that is being written has read a
/// part of it, with keys of `size` bytes; then the power fails. Whether the snapshot came to its end, and
/// whether nothing of the batch is there.
fn snapshot_beside_what_is_rolled_back(size: usize, mutant: Option<&'static str>) -> (bool, bool) {
    let (folder, disk) = (folder(), disk(mutant));
    let small = || options(&disk).max_size_bytes(16 << 20);
    let store = small().open(folder.path().join("pool")).expect("it opens");
    let spread = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let key = |number: u64| {
        let mut key = spread(number).to_vec();
        key.resize(size, 0);
        key
    };
    let mut batch = WriteBatch::new();
    for number in 0..60_000 {
        batch.put(store.default_map(), spread(number), b"");
        if batch.len() == 500 {
            assert!(store.write(&batch).expect("room").is_done());
            batch.clear();
        }
    }
    let filler = store.map("filler").expect("room");
    let fillers =
        (0..u32::MAX).take_while(|number| filler.put(number.to_be_bytes(), [7; 8000]).is_ok());
    let mut fillers = fillers.count() as u32;
    for number in 60_000..60_000 + 30_000 / (1 + size as u64 / 60) {
        batch.put(store.default_map(), key(number), b"half");
    }
    // So much it needs in any case.
    for _ in 0..batch.size_bytes() / 8000 {
        fillers -= 1;
        assert!(filler.remove(fillers.to_be_bytes()).expect("writable"));
    }
    let places = counted_places(&disk);
    let power = store.shared().log.as_ref().expect("it has a log");
    let mut snapshot = loop {
        let snapshot = SnapshotWriter::begin(&power.log).expect("the disk works");
        // Relaxed: one thread.
        places.store(0, Ordering::Relaxed);
        assert!(store.write(&batch).is_err(), "it would need a filler more");
        // Relaxed: one thread.
        if places.load(Ordering::Relaxed) > 0 {
            break snapshot;
        }
        // Not even what is put by before a batch begins could be had.
        for _ in 0..=size / 20 {
            fillers -= 1;
            assert!(filler.remove(fillers.to_be_bytes()).expect("writable"));
        }
    };
    disk.clear_hook();
    assert_eq!(store.default_map().len(), 60_000, "it was rolled back");
    add_all(&store, &mut snapshot, &key(60_000));
    let is_finished = snapshot.finish().is_ok();
    let mut is_right = false;
    after_crash(&disk, 7, |left| {
        let half = left.default_map().get(key(60_000)).expect("get");
        is_right = half.is_none() && left.default_map().len() == 60_000;
    });
    let _ = store.snapshot().expect("the next is not concerned");
    (is_finished, is_right)
}

/// What was read of it must not come back with the snapshot.
#[test]
fn what_a_snapshot_read_of_a_rolled_back_batch_is_not_there() {
    assert_eq!(snapshot_beside_what_is_rolled_back(8, None), (true, true));
}

/// All old values of the keys of the batch were logged, in one group: more than 1 GiB of them ended the log,
/// and took as much memory. Now the snapshot fails, and the log goes on.
#[test]
fn a_snapshot_fails_beside_a_large_batch_that_is_rolled_back() {
    assert_eq!(snapshot_beside_what_is_rolled_back(200, None), (false, true));
    let kept = snapshot_beside_what_is_rolled_back(200, Some("snapshot.keeps_rolled_back"));
    assert_eq!(kept, (true, false), "the bug is not found");
}

/// A batch for which there is no space logged what its keys are now, though nobody had read it.
#[test]
fn a_batch_rolled_back_beside_no_snapshot_is_not_in_the_log() {
    let (folder, disk) = (folder(), disk(None));
    let small = options(&disk).max_size_bytes(4 << 20);
    let store = small.open(folder.path().join("pool")).expect("it opens");
    let spread = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let filler = store.map("filler").expect("room");
    let full = (0..u64::MAX).take_while(|number| filler.put(spread(*number), [7; 900]).is_ok());
    let mut left = full.count() as u64;
    let places = counted_places(&disk);
    let mut batch = WriteBatch::new();
    for number in 0..20_000 {
        batch.put(store.default_map(), spread(number), b"");
    }
    for _ in 0..batch.size_bytes() / 900 {
        left -= 1;
        assert!(filler.remove(spread(left)).expect("writable"));
    }
    let last = || store.shared().log.as_ref().expect("it has a log").log.last_lsn();
    loop {
        // Relaxed: one thread.
        places.store(0, Ordering::Relaxed);
        let before = last();
        assert!(store.write(&batch).is_err(), "it would need a filler more");
        // Relaxed: one thread.
        if places.load(Ordering::Relaxed) > 0 {
            assert_eq!(last(), before);
            break;
        }
        left -= 1;
        assert!(filler.remove(spread(left)).expect("writable"));
    }
    disk.clear_hook();
    assert_eq!(store.default_map().len(), 0, "it was rolled back");
    after_crash(&disk, 7, |store| assert_eq!(store.default_map().len(), 0));
}

/// A thread empties or drops a map, and stops when it is about to free what was in it, which may take long.
/// Others write meanwhile, and wait for the disk: the freeing had a place in the log, so that all of them
/// waited for it, and `Interval` lost more than its time.
#[test]
fn nobody_waits_for_a_map_that_is_freed() {
    for drops in [false, true] {
        let (folder, disk) = (folder(), disk(None));
        let store = options(&disk).open(folder.path().join("pool")).expect("it opens");
        let second = store.map("second").expect("room");
        let _ = second.put(b"k", b"v").expect("room");
        let (free, frees) = sync_channel(1);
        let (release, released) = sync_channel::<()>(1);
        let released = Mutex::new(released);
        disk.set_point_hook(move |point| {
            if point == "store.frees" {
                free.send(()).expect("the other thread listens");
                let _ = released.lock().expect("nobody panicked").recv();
            }
        });
        std::thread::scope(|scope| {
            let store = &store;
            scope.spawn(move || match drops {
                true => assert!(store.drop_map("second").expect("writable")),
                false => second.clear().expect("room"),
            });
            frees.recv().expect("what was in the map is freed");
            for number in 0..100_u32 {
                let _ = store
                    .default_map()
                    .put(number.to_be_bytes(), b"durable")
                    .expect("nobody is in the way");
            }
            drop(store.map("third").expect("room"));
            after_crash(&disk, 7, |left| {
                assert_eq!(left.default_map().len(), 100, "what was acknowledged");
                assert!(left.map_names().contains(&"third".to_string()));
                let second = left.existing_map("second").expect("of strings");
                assert_eq!(second.map(|map| map.len()), (!drops).then_some(0));
            });
            drop(release);
        });
        disk.clear_hook();
        assert!(store.check().expect("it can be checked").is_clean());
    }
}

/// A write that changes nothing had a place in the log, and left an empty group there when others had taken
/// one since.
#[test]
fn what_changes_nothing_takes_no_place() {
    let (folder, disk) = (folder(), disk(None));
    let store = options(&disk).open(folder.path().join("pool")).expect("it opens");
    let _ = store.default_map().put(b"key", b"value").expect("room");
    let places = counted_places(&disk);
    assert!(!store.default_map().insert(b"key", b"other").expect("room"));
    assert!(!store.default_map().update(b"none", b"value").expect("room"));
    assert!(!store.default_map().remove(b"none").expect("writable"));
    // Relaxed: one thread.
    assert_eq!(places.load(Ordering::Relaxed), 0);
    let too_long = vec![0; crate::KEY_SIZE_MAX + 1];
    assert!(
        store.default_map().remove(&too_long).is_err()
            && store.default_map().update(&too_long, b"").is_err()
    );
    assert!(store.default_map().update(b"key", b"other").expect("room"));
    assert!(store.default_map().remove(b"key").expect("writable"));
    assert!(store.default_map().insert(b"key", b"value").expect("room"));
    disk.clear_hook();
}

/// Opened with `interval` and killed, a pool has more than its log until there is a snapshot. The log said before that
/// each write is waited for, by which a pool counts as one that has nothing more when it is replaced.
#[test]
fn a_log_says_that_it_has_all_when_it_has() {
    let (folder, disk) = (folder(), disk(None));
    let (path, killed) = (folder.path().join("pool"), folder.path().join("killed"));
    let interval = Durability::Interval(std::time::Duration::from_secs(3600));
    let store = options(&disk).durability(interval).open(&path).expect("it opens");
    store.default_map().put("first", "1").expect("room");
    store.sync().expect("the disk works");
    store.default_map().put("last", "2").expect("room");
    let left = disk.copied(1);
    std::fs::copy(&path, &killed).expect("room");
    drop(store);
    let images = std::sync::Arc::new(Mutex::new(vec![]));
    let seen = images.clone();
    left.set_hook(move |disk| seen.lock().expect("nobody panicked").push(disk.crashed(3)));
    let store = options(&left).open(&killed).expect("it opens");
    left.clear_hook();
    drop(store);
    let images = std::mem::take(&mut *images.lock().expect("nobody panicked"));
    let says_all = |image: &SimulatedDisk| {
        let settings = read_start(image, "settings", 100).expect("it was there");
        settings.split(|byte| *byte == b' ').nth(1) == Some(b"0")
    };
    let mut counts = [0; 2];
    for image in images {
        counts[usize::from(says_all(&image))] += 1;
        if says_all(&image) {
            after_crash(&image, 7, |left| {
                assert!(left.default_map().contains("last").expect("sound"));
            });
        }
    }
    assert!(counts[0] > 3 && counts[1] > 0, "{counts:?}");
}
