//! Sequences of threads that are rare, arranged: each holds with the safeguard, and not without it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;

use everleaf_log::simulated::{Faults, SimulatedDisk};

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
        let power = store.shared().power.as_ref().expect("it has a log");
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
