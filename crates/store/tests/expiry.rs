//! Keys that expire: absent from the millisecond on, to every operation, after a restart, and swept.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use everleaf::{Action, Exchange, Expiry, Options, Store, WriteBatch};

fn open(folder: &Path, sweep: bool) -> Store {
    let options = Options::new().create(true).max_size_bytes(1 << 28).sweep(sweep);
    options.open(folder.join("pool")).expect("the pool opens")
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

/// Long enough to be in the future until the end of a test.
const LATER: u64 = 4_000_000_000_000;

#[test]
fn an_expired_key_is_absent_to_every_operation() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), false);
    let expired = || store.put_with_expiry(b"k", b"old", 1).expect("room");
    assert!(!expired());
    assert!(!expired(), "nothing was there to be replaced");
    assert_eq!(store.get(b"k").expect("get"), None);
    assert!(!store.contains(b"k").expect("get"));
    assert_eq!(store.expiry(b"k").expect("get"), None);
    store.get_many(&[b"k"], |_, value| assert_eq!(value, None)).expect("get");
    assert_eq!(store.iter().count() + store.iter().rev().count(), 0);
    assert!(!store.update(b"k", b"new").expect("room"));
    assert!(!store.expire_at(b"k", LATER).expect("room"));
    assert!(!store.persist(b"k").expect("room"));
    assert_eq!(store.take(b"k").expect("room"), None);
    expired();
    assert!(!store.remove(b"k").expect("room"));
    expired();
    assert_eq!(store.replace(b"k", b"new").expect("room"), None);
    expired();
    assert!(store.insert(b"k", b"new").expect("room"));
    assert_eq!(store.get(b"k").expect("get"), Some(b"new".to_vec()));
    assert_eq!(store.expiry(b"k").expect("get"), Some(Expiry::Never));
    expired();
    let found = store.compare_exchange(b"k", Some(b"old"), Some(b"x")).expect("room");
    assert_eq!(found, Exchange::Mismatch(None));
    assert_eq!(store.compare_exchange(b"k", None, Some(b"x")).expect("room"), Exchange::Done);
    expired();
    let before = store.update_with(b"k", |value| {
        assert_eq!(value, None);
        Action::Put(b"y".to_vec())
    });
    assert_eq!(before.expect("room"), None);
    assert_eq!(store.expiry(b"k").expect("get"), Some(Expiry::Never), "the old time is gone");
    expired();
    let mut batch = WriteBatch::new();
    batch.expect(&store, b"k", None).put_with_expiry(&store, b"k", b"z", LATER);
    assert!(store.write(&batch).expect("room").is_done());
    assert_eq!(store.expiry(b"k").expect("get"), Some(Expiry::At(LATER)));
    let problems = store.check().expect("the check runs").problems;
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn times_stay_with_a_value_that_is_updated_and_go_with_one_that_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), false);
    let expiry = || store.expiry(b"k").expect("get");
    store.put_with_expiry(b"k", b"1", LATER).expect("room");
    store.update_with(b"k", |_| Action::Put(b"2".to_vec())).expect("room");
    assert_eq!(expiry(), Some(Expiry::At(LATER)));
    store.compare_exchange(b"k", Some(b"2"), Some(b"3")).expect("room");
    assert_eq!(expiry(), Some(Expiry::At(LATER)));
    store.update_with(b"k", |_| Action::Expire(LATER + 1)).expect("room");
    assert_eq!(expiry(), Some(Expiry::At(LATER + 1)));
    assert!(store.expire_at(b"k", LATER + 2).expect("room"));
    assert_eq!(expiry(), Some(Expiry::At(LATER + 2)));
    store
        .update_with_expiry(b"k", |found| {
            assert_eq!(found, Some((&b"3"[..], Expiry::At(LATER + 2))));
            Action::PutWithExpiry(b"4".to_vec(), LATER + 3)
        })
        .expect("room");
    assert_eq!(expiry(), Some(Expiry::At(LATER + 3)));
    assert!(store.persist(b"k").expect("room") && !store.persist(b"k").expect("room"));
    assert_eq!(expiry(), Some(Expiry::Never));
    store.expire_at(b"k", LATER).expect("room");
    store.put(b"k", b"5").expect("room");
    assert_eq!(expiry(), Some(Expiry::Never));
    assert_eq!(store.get(b"k").expect("get"), Some(b"5".to_vec()));
}

#[test]
fn a_key_expires_at_its_millisecond_also_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), false);
    let at = now_ms() + 300;
    store.put_with_expiry(b"k", b"v", at).expect("room");
    store.put_with_expiry(b"later", b"v", LATER).expect("room");
    drop(store);
    let store = open(folder.path(), false);
    assert_eq!(store.expiry(b"later").expect("get"), Some(Expiry::At(LATER)));
    loop {
        let before = now_ms();
        let found = store.contains(b"k").expect("get");
        let after = now_ms();
        // It is there before its time and not from then on; between the two looks at the clock both
        // may be.
        assert!(!found || before < at, "{} ms late", before - at);
        assert!(found || after >= at, "{} ms early", at - after);
        if !found {
            break;
        }
    }
    drop(store);
    assert_eq!(open(folder.path(), false).get(b"k").expect("get"), None);
}

#[test]
fn the_sweep_frees_what_has_expired_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), true);
    let other = store.map("other").expect("room");
    for number in 0..6000u32 {
        let expiry_ms = [1, LATER, 0][number as usize % 3];
        store.put_with_expiry(&number.to_be_bytes(), b"value", expiry_ms).expect("room");
        other.put_with_expiry(&number.to_be_bytes(), b"value", expiry_ms).expect("room");
    }
    let started = Instant::now();
    while store.len() + other.len() > 8000 {
        assert!(started.elapsed() < Duration::from_secs(60), "{} keys are left", store.len());
        std::thread::yield_now();
    }
    assert_eq!((store.iter().count(), other.iter().count()), (4000, 4000));
    assert_eq!(store.statistics().swept_keys, 4000);
    let problems = store.check().expect("the check runs").problems;
    assert_eq!(problems, Vec::<String>::new());
}

/// The longest value could not expire, because its length and the mark of a time did not fit into one
/// field: `EXPIRE` of it failed.
#[test]
fn the_longest_value_can_expire() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new().create(true).max_size_bytes(2 << 30);
    let store = options.open(folder.path().join("pool")).expect("the pool opens");
    let value = vec![0; everleaf::VALUE_SIZE_MAX];
    store.put(b"k", &value).expect("room");
    assert!(store.expire_at(b"k", LATER).expect("room"));
    assert_eq!(store.expiry(b"k").expect("get"), Some(Expiry::At(LATER)));
    assert_eq!(store.get_with(b"k", <[u8]>::len).expect("get"), Some(value.len()));
    assert!(store.persist(b"k").expect("room"));
    assert_eq!(store.get_with(b"k", |found| found == value).expect("get"), Some(true));
    let beyond = vec![0; everleaf::VALUE_SIZE_MAX + 1];
    assert!(matches!(store.put(b"k", &beyond), Err(everleaf::Error::ValueTooLarge(_))));
}
