//! Keys that expire: absent from the millisecond on, to every operation, after a restart, and swept.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use everleaf::{Action, Domain, Durability, Exchange, Expiry, Options, Store, WriteBatch};

fn open(folder: &Path, sweep: bool) -> Store {
    let options = Options::new().create(true).max_size_bytes(1 << 28).sweep(sweep);
    options.open(folder.join("pool")).expect("the pool opens")
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

/// A time in milliseconds since 1970.
fn at(time_ms: u64) -> Expiry {
    Expiry::from_unix_ms(time_ms)
}

/// Long enough to be in the future until the end of a test.
const LATER: u64 = 4_000_000_000_000;

#[test]
fn an_expired_key_is_absent_to_every_operation() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), false);
    let expired = || store.default_map().put_with_expiry(b"k", b"old", at(1)).expect("room");
    assert!(!expired());
    assert!(!expired(), "nothing was there to be replaced");
    assert_eq!(store.default_map().get(b"k").expect("get"), None);
    assert!(!store.default_map().contains(b"k").expect("get"));
    assert_eq!(store.default_map().expiry(b"k").expect("get"), None);
    store.default_map().get_many(&[b"k"], |_, value| assert_eq!(value, None)).expect("get");
    assert_eq!(store.default_map().iter().count() + store.default_map().iter().rev().count(), 0);
    assert!(!store.default_map().update(b"k", b"new").expect("room"));
    assert!(!store.default_map().expire(b"k", at(LATER)).expect("room"));
    assert!(!store.default_map().persist(b"k").expect("room"));
    assert_eq!(store.default_map().take(b"k").expect("room"), None);
    expired();
    assert!(!store.default_map().remove(b"k").expect("room"));
    expired();
    assert_eq!(store.default_map().replace(b"k", b"new").expect("room"), None);
    expired();
    assert!(store.default_map().insert(b"k", b"new").expect("room"));
    assert_eq!(store.default_map().get(b"k").expect("get"), Some(b"new".to_vec()));
    assert_eq!(store.default_map().expiry(b"k").expect("get"), Some(Expiry::Never));
    expired();
    let found = store.default_map().compare_exchange(b"k", Some(b"old"), Some(b"x")).expect("room");
    assert_eq!(found, Exchange::Mismatch(None));
    assert_eq!(
        store.default_map().compare_exchange(b"k", None, Some(b"x")).expect("room"),
        Exchange::Done
    );
    expired();
    let before = store.default_map().update_with(b"k", |value| {
        assert_eq!(value, None);
        Action::Put(b"y".to_vec())
    });
    assert_eq!(before.expect("room"), None);
    assert_eq!(
        store.default_map().expiry(b"k").expect("get"),
        Some(Expiry::Never),
        "the old time is gone"
    );
    expired();
    let mut batch = WriteBatch::new();
    batch.expect(store.default_map(), b"k", None).put_with_expiry(
        store.default_map(),
        b"k",
        b"z",
        at(LATER),
    );
    assert!(store.write(&batch).expect("room").is_done());
    assert_eq!(store.default_map().expiry(b"k").expect("get"), Some(at(LATER)));
    let problems = store.check().expect("the check runs").problems;
    assert_eq!(problems, Vec::<String>::new());
}

/// With a log, what was not there was not removed, and so went on to count.
#[test]
fn an_expired_key_that_is_removed_counts_no_more() {
    for durability in [Durability::Process, Durability::Power] {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options::new().create(true).max_size_bytes(1 << 28).sweep(false);
        let store = options.durability(durability).open(folder.path().join("pool"));
        let store = store.expect("the pool opens");
        let map = store.default_map();
        map.put("kept", "1").expect("room");
        map.put_with_expiry("gone", "1", at(1)).expect("room");
        assert_eq!(map.len(), 2);
        assert!(!map.remove("gone").expect("room"));
        assert!(!map.remove("absent").expect("room"));
        assert_eq!(map.len(), 1, "{durability:?}");
        assert!(map.contains("kept").expect("get"));
    }
}

#[test]
fn times_stay_with_an_updated_value_and_go_with_a_replaced_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), false);
    let expiry = || store.default_map().expiry(b"k").expect("get");
    store.default_map().put_with_expiry(b"k", b"1", at(LATER)).expect("room");
    store.default_map().update_with(b"k", |_| Action::Put(b"2".to_vec())).expect("room");
    assert_eq!(expiry(), Some(at(LATER)));
    store.default_map().compare_exchange(b"k", Some(b"2"), Some(b"3")).expect("room");
    assert_eq!(expiry(), Some(at(LATER)));
    store.default_map().update_with(b"k", |_| Action::Expire(at(LATER + 1))).expect("room");
    assert_eq!(expiry(), Some(at(LATER + 1)));
    assert!(store.default_map().expire(b"k", at(LATER + 2)).expect("room"));
    assert_eq!(expiry(), Some(at(LATER + 2)));
    store
        .default_map()
        .update_with_expiry(b"k", |found| {
            assert_eq!(found, Some((&b"3"[..], at(LATER + 2))));
            Action::PutWithExpiry(b"4".to_vec(), at(LATER + 3))
        })
        .expect("room");
    assert_eq!(expiry(), Some(at(LATER + 3)));
    assert!(
        store.default_map().persist(b"k").expect("room")
            && !store.default_map().persist(b"k").expect("room")
    );
    assert_eq!(expiry(), Some(Expiry::Never));
    store.default_map().expire(b"k", at(LATER)).expect("room");
    store.default_map().put(b"k", b"5").expect("room");
    assert_eq!(expiry(), Some(Expiry::Never));
    assert_eq!(store.default_map().get(b"k").expect("get"), Some(b"5".to_vec()));
}

#[test]
fn a_key_expires_at_its_millisecond_also_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), false);
    let then = now_ms() + 300;
    store.default_map().put_with_expiry(b"k", b"v", Expiry::from_unix_ms(then)).expect("room");
    store.default_map().put_with_expiry(b"later", b"v", at(LATER)).expect("room");
    drop(store);
    let store = open(folder.path(), false);
    assert_eq!(store.default_map().expiry(b"later").expect("get"), Some(at(LATER)));
    loop {
        let before = now_ms();
        let found = store.default_map().contains(b"k").expect("get");
        let after = now_ms();
        // It is there before its time and not from then on; between the two looks at the clock both
        // may be.
        assert!(!found || before < then, "{} ms late", before - then);
        assert!(found || after >= then, "{} ms early", then - after);
        if !found {
            break;
        }
    }
    drop(store);
    assert_eq!(open(folder.path(), false).default_map().get(b"k").expect("get"), None);
}

#[test]
fn the_sweep_frees_what_has_expired_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), true);
    let other = store.map("other").expect("room");
    for number in 0..6000u32 {
        let expiry_ms = [1, LATER, 0][number as usize % 3];
        store
            .default_map()
            .put_with_expiry(number.to_be_bytes(), b"value", Expiry::from_unix_ms(expiry_ms))
            .expect("room");
        other
            .put_with_expiry(number.to_be_bytes(), b"value", Expiry::from_unix_ms(expiry_ms))
            .expect("room");
    }
    let started = Instant::now();
    while store.default_map().len() + other.len() > 8000 {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{} keys are left",
            store.default_map().len()
        );
        std::thread::yield_now();
    }
    assert_eq!((store.default_map().iter().count(), other.iter().count()), (4000, 4000));
    assert_eq!(store.statistics().swept_keys, 4000);
    let problems = store.check().expect("the check runs").problems;
    assert_eq!(problems, Vec::<String>::new());
}

/// The longest value could not expire, because its length and the mark of a time did not fit into one
/// field: `EXPIRE` of it failed.
/// Every change of the expiry wrote the record again, with its value: in a pool that has room for one
/// it was refused.
#[test]
fn the_longest_value_expires_without_being_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    // Room for one such value.
    let options = Options::new().create(true).max_size_bytes(600 << 20);
    let store = options.open(folder.path().join("pool")).expect("the pool opens");
    let value = vec![0; everleaf::VALUE_SIZE_MAX];
    store.default_map().put(b"k", &value).expect("room");
    assert!(store.default_map().expire(b"k", at(LATER)).expect("room"));
    assert_eq!(store.default_map().expiry(b"k").expect("get"), Some(at(LATER)));
    assert_eq!(store.default_map().get_with(b"k", <[u8]>::len).expect("get"), Some(value.len()));
    assert!(store.default_map().persist(b"k").expect("room"));
    assert!(!store.default_map().persist(b"k").expect("room"));
    // Nor when it is shown.
    let shown = |expiry| {
        let mut size = None;
        let decide = |found: Option<(&[u8], Expiry)>| {
            size = found.map(|(value, _)| value.len());
            Action::Expire(expiry)
        };
        store.default_map().update_with_expiry(b"k", decide).expect("room");
        size
    };
    assert_eq!(shown(at(LATER)), Some(value.len()));
    assert_eq!(store.default_map().expiry(b"k").expect("get"), Some(at(LATER)));
    assert!(store.default_map().expire(b"k", at(1)).expect("room"));
    assert_eq!(store.default_map().get_with(b"k", |_| ()).expect("get"), None);
    assert_eq!(shown(at(LATER)), None);
    let beyond = vec![0; everleaf::VALUE_SIZE_MAX + 1];
    assert!(matches!(
        store.default_map().put(b"k", &beyond),
        Err(everleaf::Error::ValueTooLarge(_))
    ));
}

/// A long value whose expiry is changed in place, beside everything that looks at it: an open view, a
/// watch, the log, a restart, and writers of the same key.
#[test]
fn an_expiry_in_place_is_seen_as_any_change() {
    for durability in [Durability::Process, Durability::Power] {
        let folder = tempfile::tempdir().expect("a folder");
        let options = || {
            let options = Options::new().create(true).max_size_bytes(1 << 28).sweep(false);
            options.durability(durability)
        };
        let store = options().open(folder.path().join("pool")).expect("the pool opens");
        let (map, long) = (store.default_map(), vec![7; 100_000]);
        map.put(b"k", &long).expect("room");
        let view = store.view().expect("a view");
        let watch = map.watch(b"k").expect("a watch");
        let used = || store.statistics().pool_used_bytes;
        let before = used();
        for turn in 0..50 {
            assert!(map.expire(b"k", at(LATER + turn)).expect("room"));
        }
        for turn in 50..100 {
            let shown = |found: Option<(&[u8], Expiry)>| {
                assert!(found.is_some_and(|(value, _)| value == long));
                Action::Expire(at(LATER + turn))
            };
            map.update_with_expiry(b"k", shown).expect("room");
        }
        assert_eq!(used(), before, "nothing was written again");
        assert!(watch.is_broken(), "it was touched");
        assert_eq!(map.expiry(b"k").expect("get"), Some(at(LATER + 99)));
        map.expire(b"k", at(1)).expect("room");
        assert_eq!(map.get(b"k").expect("get"), None);
        assert_eq!(
            view.default_map().get(b"k").expect("get").as_ref(),
            Some(&long),
            "it did not expire then"
        );
        drop((view, watch));
        // The value that is shown last is the one whose expiry changes.
        map.put(b"k", &long).expect("room");
        let mut last = 0;
        let replaced_meanwhile = |found: Option<(&[u8], Expiry)>| {
            last = found.expect("it is there").0[0];
            if last == 7 {
                map.put(b"k", [8; 100_000]).expect("room");
            }
            Action::Expire(at(LATER))
        };
        map.update_with_expiry(b"k", replaced_meanwhile).expect("room");
        let found = map.get_with_expiry(b"k", |value, at| (value[0], at)).expect("get");
        assert_eq!((last, found), (8, Some((8, at(LATER)))));
        map.put(b"k", &long).expect("room");
        map.expire(b"k", at(u64::MAX >> 1)).expect("room");
        assert_eq!(
            map.get(b"k").expect("get"),
            Some(long.clone()),
            "written again: it is too late"
        );
        map.expire(b"k", at(LATER)).expect("room");
        store.close().expect("it is closed");
        let store = options().open(folder.path().join("pool")).expect("the pool opens");
        let found = store.default_map().get_with_expiry(b"k", |value, at| (value == long, at));
        assert_eq!(found.expect("get"), Some((true, at(LATER))));
        drop(store);
        if durability == Durability::Power {
            std::fs::remove_file(folder.path().join("pool")).expect("it is there");
            let store = options().open(folder.path().join("pool")).expect("the log has all");
            assert_eq!(store.default_map().expiry(b"k").expect("get"), Some(at(LATER)));
        }
    }
}

/// Where lines are flushed, an expiry that was changed in place could be told before it was durable, and a crash took
/// it back: there the record is written again, as it is for short values.
#[test]
fn no_expiry_changes_in_place_where_lines_are_flushed() {
    for (domain, is_in_place) in [(Domain::Eadr, true), (Domain::Adr, false)] {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options::new().create(true).max_size_bytes(1 << 28).sweep(false);
        let store = options.domain(domain).open(folder.path().join("pool")).expect("it opens");
        let (map, long) = (store.default_map(), vec![7; 100_000]);
        map.put(b"k", &long).expect("room");
        let used = || store.statistics().pool_used_bytes;
        let before = used();
        assert!(map.expire(b"k", at(LATER)).expect("room"));
        // What was replaced waits for its readers.
        assert_eq!(used() == before, is_in_place, "{domain:?}: {before} bytes, then {}", used());
        assert_eq!(map.expiry(b"k").expect("get"), Some(at(LATER)));
        assert_eq!(map.get(b"k").expect("get"), Some(long));
    }
}

/// Writers that keep the expiry they find, and one that changes it in place: what it has changed is
/// never undone.
#[test]
fn an_expiry_in_place_is_not_lost_to_a_writer_that_keeps_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), false);
    let map = store.default_map();
    let long = |byte: u8| vec![byte; 5000];
    map.put_with_expiry(b"k", long(0), at(LATER)).expect("room");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let map = store.default_map();
            for turn in 0..3000_u32 {
                map.update_with(b"k", |_| Action::Put(long(turn as u8))).expect("room");
            }
        });
        let mut turn = 0;
        while !writer.is_finished() || turn < 100 {
            turn += 1;
            assert!(map.expire(b"k", at(LATER + turn)).expect("room"));
            let found = map.expiry(b"k").expect("get");
            assert_eq!(found, Some(at(LATER + turn)), "nobody else changes it");
        }
    });
}
