//! A map could not be emptied in a full pool, nor could its new number be taken back there.
//!
//! The pool then said a number of the map that the log did not know. It was closed cleanly, so the next life took that
//! number, and logged under it. When the pool was lost, its rebuilding passed over everything that was logged under a
//! number without a name. The same was lost where a process died between the two, the next life wrote its snapshot, and
//! that one was damaged.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use everleaf_index::Change;
use everleaf_log::simulated::{Faults, Random, SimulatedDisk};

use super::super::super::metadata_keys::{LAST, map_key};
use super::world::{folder, options};
use crate::{DEFAULT_MAP, Error};

#[test]
fn what_is_written_after_a_failed_emptying_is_not_lost() {
    let (folder, disk) = (folder(), SimulatedDisk::new(Faults::default(), 1));
    let path = folder.path().join("pool");
    let open = || options(&disk).open(&path).expect("it opens");
    let store = open();
    let map = store.default_map();
    let _ = map.put(b"old", b"1").expect("room");
    {
        // What is left where neither the emptying nor the taking back had the space.
        let log = store.shared().log.as_ref().expect("it has a log");
        let mut session = store.shared().session().expect("there are enough");
        let number = (map.number() + 1).to_le_bytes();
        for key in [LAST.to_vec(), map_key(DEFAULT_MAP)] {
            log.metadata.change(&mut session, &Change::upsert(&key, &number)).expect("room");
        }
        *log.last_number.lock() += 1;
        // Relaxed: one thread.
        log.is_pool_misnumbered.store(true, Ordering::Relaxed);
    }
    let _ = map.put(b"older", b"2").expect("room");
    let number = map.number();
    store.close().expect("there is room now");

    let store = open();
    assert_eq!(store.default_map().number(), number, "the one that the log knows");
    let _ = store.default_map().put(b"new", b"3").expect("room");
    let left = options(&disk.crashed(3)).open(folder.path().join("left")).expect("it opens");
    for key in [&b"old"[..], b"older", b"new"] {
        assert!(left.default_map().contains(key).expect("readable"), "{}", key.escape_ascii());
    }
}

#[test]
fn a_number_that_the_log_lacks_never_loses_what_it_had() {
    let (folder, disk) = (folder(), SimulatedDisk::new(Faults::default(), 1));
    let (path, killed) = (folder.path().join("pool"), folder.path().join("killed"));
    let store = options(&disk).open(&path).expect("it opens");
    let _ = store.default_map().put(b"old", b"1").expect("room");
    let _pairs = store.snapshot().expect("room");
    // The process dies while a map is emptied: the pool has its number, and nobody will ask the log for it.
    let left = std::sync::Arc::new(Mutex::new(None));
    let (taken, lives, copy, moment) = (left.clone(), path.clone(), killed.clone(), disk.clone());
    disk.set_point_hook(move |point| {
        if point == "store.number_entered" {
            std::fs::copy(&lives, &copy).expect("room");
            *taken.lock().expect("no panic") = Some(moment.copied(1));
        }
    });
    store.default_map().clear().expect("room");
    disk.clear_hook();
    let disk = left.lock().expect("no panic").take().expect("it came there");

    let store = options(&disk).open(&killed).expect("the pool has everything");
    assert_eq!(store.default_map().len(), 0);
    let _ = store.default_map().put(b"new", b"2").expect("room");
    let mut refused = 0;
    for seed in 0..20 {
        let disk = disk.crashed(seed);
        let names = disk.names();
        let newest = names.iter().rfind(|name| name.starts_with("snapshot-")).expect("there is");
        disk.rot(newest, &mut Random::new(seed));
        let path = folder.path().join(format!("left-{seed}"));
        match options(&disk).open(&path) {
            // All that is lost is told: which snapshot was damaged, also the next time, and what can be done.
            Err(error) => {
                refused += 1;
                let again = options(&disk).open(&path).expect_err("it is damaged still");
                let aside = newest.replace("snapshot-", "damaged-");
                for error in [error, again] {
                    assert!(matches!(error, Error::Corrupt(_)), "{error}");
                    let text = error.to_string();
                    assert!(text.contains("counts only with a snapshot"), "{text}");
                    assert!(text.contains(&aside) && text.contains("--salvage-log"), "{text}");
                }
            }
            Ok(left) => {
                assert_eq!(left.default_map().get(b"new").expect("get"), Some(b"2".to_vec()));
                assert_eq!(left.default_map().get(b"old").expect("get"), None);
            }
        }
    }
    assert!(refused > 0, "no damage counted");
}
