//! A map could not be emptied in a full pool, nor could its new number be taken back there.
//!
//! The pool then said a number of the map that the log did not know. It was closed cleanly, so the next life took that
//! number, and logged under it. When the pool was lost, its rebuilding passed over everything that was logged under a
//! number without a name.

use std::sync::atomic::Ordering;

use everleaf_index::Change;
use everleaf_log::simulated::{Faults, SimulatedDisk};

use super::super::super::metadata_keys::{LAST, map_key};
use super::world::{folder, options};
use crate::DEFAULT_MAP;

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
