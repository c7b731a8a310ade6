//! The log of the store: what is logged, and under which numbers; and its crashes.

mod crashes;
mod put_aside;
mod replayed;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use everleaf_log::simulated::{Faults, SimulatedDisk};
use everleaf_log::{Record, SnapshotWriter};

use super::metadata_keys::NAMES;
use crate::{Action, Durability, Error, Exchange, Expiry, Options, Store, WriteBatch};

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
    let log = store.shared().log.as_ref().expect("it has a log");
    let _ = store.default_map().put(b"key", b"value").expect("room");
    let cell = log.number_of(store.default_map().tree_arc());
    // Relaxed: one thread.
    let number = cell.swap(0, Ordering::Relaxed);
    let last = log.log.last_lsn();
    assert!(matches!(store.default_map().put(b"key", b"other"), Err(Error::LogFailed(_))));
    let mut batch = WriteBatch::new();
    batch.put(store.default_map(), b"key", b"other");
    assert!(matches!(store.write(&batch), Err(Error::LogFailed(_))));
    assert_eq!(log.log.last_lsn(), last);
    // Relaxed: one thread, as where it was taken out.
    cell.store(number, Ordering::Relaxed);
    assert_eq!(
        store.default_map().get(b"key").expect("get"),
        Some(b"value".to_vec()),
        "nothing was changed"
    );
    assert!(store.write(&batch).expect("room").is_done());
}

#[test]
fn a_snapshot_with_a_pair_of_no_map_is_not_taken_as_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let store = open(&path);
    let number = store.default_map().number();
    {
        let log = store.shared().log.as_ref().expect("it has a log");
        let mut writer = SnapshotWriter::begin(&log.log).expect("room");
        for record in [
            Record::put(NAMES, b"default", &number.to_le_bytes()),
            Record::put(number, b"key", b"value"),
            Record::put(number + 1, b"key", b"value"),
        ] {
            writer.add(&record).expect("room");
        }
        let _ = writer.finish().expect("room");
    }
    store.close().expect("closed");
    std::fs::remove_file(&path).expect("it was there");
    let opened = Options::new().durability(Durability::Power).open(&path);
    let Err(Error::Corrupt(text)) = opened else { panic!("it passed for whole") };
    assert!(text.contains("has 3 pairs, and 1 of them are names"), "{text}");
}

#[test]
fn what_changes_nothing_is_not_logged() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("pool"));
    assert!(store.default_map().insert(b"key", b"value").expect("room"));
    let last = || store.shared().log.as_ref().expect("it has a log").log.last_lsn();
    let before = last();
    assert!(!store.default_map().insert(b"key", b"other").expect("room"));
    assert!(!store.default_map().update(b"none", b"value").expect("room"));
    assert!(!store.default_map().remove(b"none").expect("writable"));
    assert_eq!(store.default_map().take(b"none").expect("writable"), None);
    let found = store.default_map().compare_exchange(b"key", None, Some(b"other")).expect("room");
    assert_eq!(found, Exchange::Mismatch(Some(b"value".to_vec())));
    let kept = store.default_map().update_with(b"key", |_| Action::Keep).expect("room");
    assert_eq!(kept, Some(b"value".to_vec()));
    assert!(
        !store.default_map().expire(b"none", crate::Expiry::from_unix_ms(1 << 45)).expect("room")
    );
    assert_eq!(
        store.default_map().get_with_expiry(b"key", |_, expiry| expiry).expect("get"),
        Some(Expiry::Never)
    );
    assert_eq!(last(), before);
    assert!(store.default_map().update(b"key", b"other").expect("room"));
    assert!(store.default_map().remove(b"key").expect("writable"));
    assert_eq!(last(), before + 2);
}

#[test]
fn writes_held_of_one_store_do_not_hold_those_of_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    for round in 0..8u8 {
        let store = open(&path);
        let lag = || store.shared().log.as_ref().expect("it has a log").lag().1;
        // Most likely it lies where the one before was.
        store.default_map().put([round], b"waited for").expect("room");
        assert_eq!(lag(), 0, "round {round}");
        store.defer_sync();
        store.default_map().put([round], b"held").expect("room");
        assert_eq!(lag(), 1, "round {round}");
        store.wait_deferred().expect("the disk works");
        assert_eq!(lag(), 0, "round {round}");
    }
}

/// Nobody waits for the disk with `Interval` but one who writes faster than it takes: then a wait for what was deferred
/// writes what is in memory.
#[test]
fn deferred_writes_of_an_interval_wait_when_they_are_many() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let interval = Durability::Interval(std::time::Duration::from_secs(3600));
    let options = crashes::world::options(&disk).durability(interval);
    let store = options.open(folder.path().join("pool")).expect("it opens");
    let changes = std::sync::Arc::new(AtomicUsize::new(0));
    let seen = changes.clone();
    // Relaxed: one thread.
    disk.set_hook(move |_| {
        let _ = seen.fetch_add(1, Ordering::Relaxed);
    });
    for (count, must_write) in [(1, false), (6, true), (1, false)] {
        let before = changes.load(Ordering::Relaxed);
        store.defer_sync();
        for number in 0..count {
            store.default_map().put([number], vec![number; 1 << 20]).expect("room");
        }
        assert_eq!(changes.load(Ordering::Relaxed), before, "a write writes to memory");
        store.wait_deferred().expect("the disk works");
        assert_eq!(changes.load(Ordering::Relaxed) > before, must_write, "{count} MiB");
    }
    disk.clear_hook();
}

/// The second call forgot what nobody had waited for: it was told as durable, and only in memory.
#[test]
fn deferring_again_does_not_forget_what_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let stores = ["first", "second"].map(|name| open(&folder.path().join(name)));
    let [store, other] = &stores;
    let lag = || store.shared().log.as_ref().expect("it has a log").lag().1;
    for is_other_asked in [false, true] {
        store.defer_sync();
        store.default_map().put([u8::from(is_other_asked)], b"held").expect("room");
        if is_other_asked {
            other.defer_sync();
        }
        store.defer_sync();
        assert_eq!(lag(), 1);
        store.wait_deferred().expect("the disk works");
        assert_eq!(lag(), 0);
    }
}

/// A thread that was told that what it wrote may be lost goes on; one that was not told is, also when it defers again.
#[test]
fn a_wait_that_fails_is_told_once_also_when_deferred_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let store = crashes::world::options(&disk).open(folder.path().join("pool")).expect("it opens");
    store.defer_sync();
    store.default_map().put(b"key", b"held").expect("room");
    disk.set_faults(Faults { sync_error_one_in: 1, ..disk.faults() });
    assert!(matches!(store.sync(), Err(Error::LogFailed(_))));
    store.defer_sync();
    for _ in 0..2 {
        assert!(matches!(store.wait_deferred(), Err(Error::LogFailed(_))));
    }
    store.defer_sync();
    store.wait_deferred().expect("nothing was written since");
}

/// The process died behind the record of the drop: a map of that name got the number that the log had given up.
#[test]
fn a_number_that_a_drop_has_left_is_not_given_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let store = open(&path);
    let key = super::metadata_keys::map_key("dropped");
    let number = {
        let log = store.shared().log.as_ref().expect("it has a log");
        let mut session = store.shared().session().expect("there are enough");
        let mut last = log.last_number.lock();
        *last += 1;
        let bytes = last.to_le_bytes();
        let put = everleaf_index::Change::upsert(&key, &bytes);
        log.metadata.change(&mut session, &put).expect("room");
        *last
    };
    store.close().expect("closed");
    let store = open(&path);
    {
        let log = store.shared().log.as_ref().expect("it has a log");
        let mut session = store.shared().session().expect("there are enough");
        let found = log.metadata.get_with(&mut session, &key, |_| ()).expect("get");
        assert_eq!(found, None, "it is removed");
    }
    assert!(store.map("dropped").expect("room").number() > number);
}

/// The removal of a map needed a session beside the one of its thread; without one it failed behind its
/// place in the log, which ended the log.
#[test]
fn a_map_that_cannot_be_dropped_does_not_end_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("pool"));
    let _ = store.map("second").expect("room").put(b"key", b"value").expect("room");
    let heap = store.shared().trees.heap();
    let mut sessions = vec![];
    while let Ok(session) = heap.session() {
        sessions.push(session);
    }
    assert!(store.drop_map("second").expect("it has the session of its thread"));
    let _ = store.default_map().put(b"key", b"value").expect("the log works");
    drop(sessions);
    let _ = store.default_map().put(b"key", b"other").expect("the log works");
    assert!(store.check().expect("it can be checked").is_clean());
}

/// Every change of an expiry logged the whole value: `EXPIRE` of 400 MB wrote 400 MB.
#[test]
fn an_expiry_is_logged_without_the_value() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let store = open(&path);
    let map = store.default_map();
    let values = [(&b"short"[..], vec![1; 30]), (b"long", vec![2; 1 << 20])];
    let late = Expiry::from_unix_ms(1 << 45);
    let logged = || store.shared().log.as_ref().expect("it has a log").lag().0;
    for (key, value) in &values {
        map.put(key, value).expect("room");
        let before = logged();
        assert!(map.expire(key, late).expect("room"));
        assert!(map.persist(key).expect("room"));
        assert!(map.expire(key, late).expect("room"));
        assert_eq!(logged() - before, 3 * key.len() as u64);
    }
    let (long, mut batch) = (&values[1].1, WriteBatch::new());
    let before = logged();
    batch.expire(map, b"long", late).put(map, b"other", b"value");
    assert!(store.write(&batch).expect("room").is_done());
    assert_eq!(logged() - before, 4 + 10);
    batch.clear();
    batch.put(map, b"with it", long).expire(map, b"with it", late).expire(map, b"absent", late);
    assert!(store.write(&batch).expect("room").is_done());
    drop(batch);
    map.put(b"kept", long).expect("room");
    assert!(map.expire(b"kept", late).expect("room") && map.persist(b"kept").expect("room"));
    store.close().expect("closed");
    std::fs::remove_file(&path).expect("it was there");
    let store = open(&path);
    assert!(store.rebuilt().is_some());
    for (key, value) in &values {
        assert_eq!(store.default_map().get(key).expect("get").as_ref(), Some(value));
        assert_eq!(store.default_map().expiry(key).expect("get"), Some(late));
    }
    assert_eq!(store.default_map().expiry(b"kept").expect("get"), Some(Expiry::Never));
    let found = store.default_map().get_with_expiry(b"with it", |value, at| (value == *long, at));
    assert_eq!(found.expect("get"), Some((true, late)));
    assert_eq!(store.default_map().expiry(b"absent").expect("get"), None);
}

/// A change of an expiry in place waits for a writer of the key that has found the one before and keeps it: without
/// its stripe the change was lost to that writer.
#[test]
fn an_expiry_in_place_waits_for_a_writer_that_keeps_the_old() {
    use std::sync::mpsc::channel;
    let folder = tempfile::tempdir().expect("a folder");
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let options = crashes::world::options(&disk);
    let store = options.open(folder.path().join("pool")).expect("it opens");
    let map = store.default_map();
    map.put_with_expiry(b"key", [1; 5000], Expiry::from_unix_ms(1 << 45)).expect("room");
    let ((stands, is_standing), (go_on, is_to_go_on)) = (channel(), channel());
    let once = std::sync::Mutex::new(Some(is_to_go_on));
    // The writer stands behind its place in the log, with the stripe of the key.
    disk.set_point_hook(move |point| {
        let is_first = || once.lock().expect("nobody panicked").take();
        if point == "store.place_taken"
            && let Some(is_to_go_on) = is_first()
        {
            stands.send(()).expect("somebody waits");
            is_to_go_on.recv().expect("somebody lets it go on");
        }
    });
    let may_end = AtomicBool::new(false);
    let (begins, is_begun) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| map.update_with(b"key", |_| Action::Put(vec![2; 5000])).expect("room"));
        is_standing.recv().expect("it comes there");
        let expiring = scope.spawn(|| {
            begins.send(()).expect("somebody waits");
            map.expire(b"key", Expiry::from_unix_ms(1 << 46)).expect("room");
            // SeqCst: set before the writer goes on, for which this waits.
            assert!(may_end.load(Ordering::SeqCst), "the writer has the key");
        });
        is_begun.recv().expect("it begins");
        let is_early = (0..1000).any(|_| {
            std::thread::yield_now();
            map.expiry(b"key").expect("get") != Some(Expiry::from_unix_ms(1 << 45))
        });
        // SeqCst: as the load by the thread that expires the key, which goes on behind this.
        may_end.store(true, Ordering::SeqCst);
        go_on.send(()).expect("it stands there");
        expiring.join().expect("it waited");
        assert!(!is_early, "the writer has the key");
    });
    disk.clear_hook();
    assert_eq!(map.expiry(b"key").expect("get"), Some(Expiry::from_unix_ms(1 << 46)));
    assert_eq!(map.get(b"key").expect("get"), Some(vec![2; 5000]));
}

/// What was stored and had expired when it was read again for the log was logged as removed: the pool had it, and
/// showed it to a clock that was set back, and what was then done with it was lost with the pool.
#[test]
fn what_has_expired_when_it_is_logged_is_logged_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let options = || Options::new().create(true).max_size_bytes(1 << 28).sweep(false);
    let open = || options().durability(Durability::Power).open(&path).expect("it opens");
    let store = open();
    let map = store.default_map();
    map.put_with_expiry(b"put", b"value", Expiry::from_unix_ms(1)).expect("room");
    map.put_with_expiry(b"other", b"value", Expiry::from_unix_ms(1)).expect("room");
    // As it is kept in time by a clock that is set back.
    let number = map.number();
    let log = &store.shared().log.as_ref().expect("it has a log").log;
    let _ = log.append(&[Record::expire(number, b"put", None)]).expect("the log works");
    store.close().expect("closed");
    std::fs::remove_file(&path).expect("it was there");
    let store = open();
    assert!(store.rebuilt().is_some());
    assert_eq!(store.default_map().get(b"put").expect("get"), Some(b"value".to_vec()));
    assert_eq!(store.default_map().get(b"other").expect("get"), None);
}

/// Replay that took a key whose time has come for absent would lose one that was kept before that.
#[test]
fn a_key_that_was_kept_in_time_is_replayed_after_that_time() {
    for size in [10, 10_000] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let store = open(&path);
        let number = store.default_map().number();
        let value = vec![3; size];
        for between in [false, true] {
            let log = &store.shared().log.as_ref().expect("it has a log").log;
            let key = [u8::from(between)];
            let put = Record { expiry: Some(1), ..Record::put(number, &key, &value) };
            let _ = log.append(&[put]).expect("the log works");
            if between {
                // More than is replayed together.
                let other = [7; 9 << 10];
                let _ = log.append(&[Record::put(number, b"other", &other)]).expect("it works");
                let _ = log.append(&[Record::put(number, b"third", &other)]).expect("it works");
            }
            let _ = log.append(&[Record::expire(number, &key, None)]).expect("the log works");
        }
        store.close().expect("closed");
        std::fs::remove_file(&path).expect("it was there");
        let store = open(&path);
        for key in [[0], [1]] {
            assert_eq!(store.default_map().get(key).expect("get"), Some(value.clone()));
        }
        assert_eq!(store.default_map().expiry([0]).expect("get"), Some(Expiry::Never));
    }
}
