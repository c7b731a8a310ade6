//! The numbers of maps in the log.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Durability;
use crate::{Error, Options, Store};

fn open(path: &std::path::Path) -> Store {
    let options = Options::new().create(true).max_size_bytes(1 << 28);
    options.durability(Durability::Power).open(path).expect("it opens")
}

#[test]
fn no_number_is_given_twice_also_after_reopening_and_rebuilding() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let mut seen = BTreeSet::new();
    for round in 0..6 {
        let store = open(&path);
        let name = format!("map {round}");
        let map = store.map(&name).expect("room");
        assert!(seen.insert(map.number()), "{} was given twice", map.number());
        map.clear().expect("room");
        assert!(seen.insert(map.number()), "{} was given twice", map.number());
        drop(map);
        assert!(store.drop_map(&name).expect("writable"));
        store.close().expect("closed");
        if round == 3 {
            std::fs::remove_file(&path).expect("it was there");
        }
    }
}

#[test]
fn nothing_is_logged_under_the_number_of_the_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("pool"));
    let shared = store.shared();
    let power = shared.power.as_ref().expect("it has a log");
    let mut session = shared.session().expect("there are enough");
    let _ = store.put(b"key", b"value").expect("room");
    let number = AtomicU32::new(0);
    let last = power.lag();
    let noted = power.note(&number, store.tree(), &mut session, b"key");
    assert!(matches!(noted, Err(Error::LogFailed(_))));
    let change: (u32, &[u8], Option<&[u8]>, u64) = (0, b"key", None, 0);
    assert!(matches!(power.note_batch([change].into_iter()), Err(Error::LogFailed(_))));
    assert_eq!(power.lag(), last);
    number.store(store.number(), Ordering::Relaxed);
    assert!(power.note(&number, store.tree(), &mut session, b"key").is_ok());
}
