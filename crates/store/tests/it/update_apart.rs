//! An update by a function that does not use the store: it runs behind the stripe, once, and views, watches and the log
//! are served as by any write.

use std::time::Duration;

use everleaf::{Action, Durability, Exchange, Expiry, Options, Store, WriteBatch};

const LATER: u64 = 4_000_000_000_000;

fn open(folder: &std::path::Path, durability: Durability) -> Store {
    let options = Options::new().create(true).max_size_bytes(1 << 28).durability(durability);
    options.open(folder.join("pool")).expect("the pool opens")
}

/// An exchange of nothing for nothing changes nothing, as the removal of an absent key.
#[test]
fn an_exchange_of_nothing_breaks_no_watch() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new().create(true).durability(Durability::Power);
    let store = options.open(folder.path().join("pool")).expect("it opens");
    let map = store.default_map();
    let watch = map.watch("k").expect("a watch");
    let written = store.statistics().log_bytes;
    assert_eq!(map.compare_exchange("k", None, None).expect("room"), Exchange::Done);
    assert!(!watch.is_broken());
    assert_eq!(store.statistics().log_bytes, written);
    assert_eq!(map.compare_exchange("k", None, Some(b"v")).expect("room"), Exchange::Done);
    assert!(watch.is_broken());
    assert!(store.statistics().log_bytes > written);
}

#[test]
fn it_is_one_write_to_everybody() {
    for durability in [Durability::Process, Durability::Interval(Duration::from_millis(5))] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path(), durability);
        let map = store.default_map();
        map.put_with_expiry("k", "5", Expiry::from_unix_ms(LATER)).expect("room");
        let add = |expected: Option<&[u8]>, new: &[u8]| {
            let mut calls = 0;
            map.update_apart("k", |found| {
                calls += 1;
                assert_eq!(found.map(|(value, _)| value), expected);
                Action::Put(new.to_vec())
            })
            .expect("room");
            assert_eq!(calls, 1);
        };
        add(Some(b"5"), b"6");
        let view = store.view().expect("a view");
        let watch = map.watch("k").expect("a watch");
        let is_unwritten = || {
            let mut batch = WriteBatch::new();
            batch.expect_unwritten(&watch).put(map, "other", "value");
            store.write(&batch).expect("room").is_done()
        };
        map.update_apart("k", |_| Action::Keep).expect("room");
        assert!(is_unwritten(), "what is kept was not written");
        add(Some(b"6"), b"7");
        assert!(!is_unwritten());
        assert_eq!(view.default_map().get("k").expect("a value"), Some(b"6".to_vec()));
        assert_eq!(map.expiry("k").expect("a time"), Some(Expiry::from_unix_ms(LATER)));
        // What was kept has left its place in the log: nobody waits for it.
        map.update_apart("k", |_| Action::Keep).expect("room");
        store.sync().expect("the log is written");
        map.update_apart("k", |_| Action::Remove).expect("room");
        map.update_apart("k", |found| {
            assert!(found.is_none());
            Action::Keep
        })
        .expect("room");
        add(None, b"8");
        store.sync().expect("the log is written");
        drop(view);
        drop(watch);
        drop(store);
        let store = open(folder.path(), durability);
        assert_eq!(store.default_map().get("k").expect("a value"), Some(b"8".to_vec()));
    }
}

/// What never ended: a write of a long value, whose expiry another thread changed again and again while it was read,
/// changed and compared. Here the function itself stands for that thread, as long as nobody makes it wait.
#[cfg(debug_assertions)]
#[test]
fn a_long_value_is_written_though_its_expiry_keeps_changing() {
    for durability in [Durability::Process, Durability::Interval(Duration::from_millis(5))] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path(), durability);
        let map = store.default_map();
        // Writes keep an order.
        let _view = store.view().expect("a view");
        for (action, length) in
            [(Action::Put(vec![2; 9000]), 9000), (Action::Expire(Expiry::Never), 5000)]
        {
            map.put_with_expiry("k", [1; 5000], Expiry::from_unix_ms(LATER)).expect("room");
            let (mut calls, mut changes) = (0, 0);
            let _ = map.update_at_last("k", |found| {
                calls += 1;
                assert_eq!(found.map(|(value, _)| value.len()), Some(5000));
                let change = || map.expire("k", Expiry::from_unix_ms(LATER + calls));
                let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(change));
                // It panics where the others have to wait.
                changes += u64::from(matches!(changed, Ok(Ok(true))));
                if calls < 1000 { action.clone() } else { Action::Keep }
            });
            assert!((8..12).contains(&calls), "it was asked {calls} times");
            assert_eq!(changes, 8);
            assert_eq!(map.get("k").expect("a value").map(|value| value.len()), Some(length));
            let time = if length == 5000 { Expiry::Never } else { Expiry::from_unix_ms(LATER + 8) };
            assert_eq!(map.expiry("k").expect("a time"), Some(time));
        }
    }
}

/// It would wait for itself, or see half of the write.
#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "uses that store")]
fn a_function_that_uses_the_store_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), Durability::Process);
    let map = store.default_map();
    map.update_apart("k", |_| {
        map.put("l", "1").expect("it panics before");
        Action::Keep
    })
    .expect("it panics before");
}
