//! Pools of older versions: each is in `fixtures/`, written by the version itself, and must be read,
//! written and upgraded by this one.
//!
//! A fixture is a pool without the lines of 64 bytes that are zero: a magic of 8 bytes, the length of
//! the pool in 8, then the number of each line in 4 and its bytes; all numbers little-endian.

use std::path::Path;

use everleaf::{Options, Store, WriteBatch, Written};

fn unpack(fixture: &[u8], path: &Path) {
    let (magic, rest) = fixture.split_at(8);
    assert_eq!(magic, b"EVLFIXT1");
    let (length, lines) = rest.split_at(8);
    let length = u64::from_le_bytes(length.try_into().expect("eight bytes")) as usize;
    let mut pool = vec![0; length];
    for line in lines.chunks_exact(4 + 64) {
        let number = u32::from_le_bytes(line[..4].try_into().expect("four bytes")) as usize;
        pool[number * 64..][..64].copy_from_slice(&line[4..]);
    }
    std::fs::write(path, pool).expect("writable");
}

/// Version 1 before it knew batches and expiry: 299 pairs, and one in a second map.
const FIRST: &[u8] = include_bytes!("../fixtures/format-1.pool.sparse");

fn assert_contents(store: &Store) {
    assert_eq!(store.default_map().len(), 299);
    for number in 1..=300 {
        let value = store.default_map().get(format!("key:{number:04}").as_bytes()).expect("get");
        let expected = (number < 300).then(|| format!("value {number} of the first format"));
        assert_eq!(value, expected.map(String::into_bytes));
    }
    let second = store.existing_map("second").expect("of strings").expect("there");
    assert_eq!(second.get(b"only").expect("get"), Some(b"the second map".to_vec()));
    assert_eq!(store.check().expect("the check runs").problems, Vec::<String>::new());
}

#[test]
fn a_pool_of_the_first_format_is_read_written_and_upgraded() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    unpack(FIRST, &path);
    let before = std::fs::read(&path).expect("readable");
    let store = Options::new().read_only(true).open(&path).expect("it opens");
    assert_contents(&store);
    drop(store);
    assert_eq!(std::fs::read(&path).expect("readable"), before, "reading changes nothing");

    let store = Options::new().open(&path).expect("it opens");
    assert_contents(&store);
    store.default_map().put(b"new", b"1").expect("room");
    store.default_map().remove(b"new").expect("room");
    store.close().expect("closed");
    // The bytes that say which features are used: old versions can still open it.
    let features = |path: &Path| std::fs::read(path).expect("readable")[16];
    assert_eq!(features(&path), 0, "nothing new was used");
    assert_eq!(
        Store::upgrade(&path).expect("upgraded"),
        ["keys that expire", "batches", "expiries in words of their own"]
    );
    assert_eq!(features(&path), 7);

    let store = Options::new().open(&path).expect("it opens");
    assert_contents(&store);
    store
        .default_map()
        .put_with_expiry(b"past", b"x", everleaf::Expiry::from_unix_ms(1))
        .expect("room");
    let mut batch = WriteBatch::new();
    batch.put(store.default_map(), b"a", b"1").remove(store.default_map(), b"a");
    assert_eq!(store.write(&batch).expect("room"), Written::All);
    // It has a handle on the store.
    drop(batch);
    store.close().expect("closed");
    let store = Options::new().open(&path).expect("it opens");
    assert_eq!(
        store.default_map().get(b"key:0007").expect("get"),
        Some(b"value 7 of the first format".to_vec())
    );
}

#[test]
fn a_pool_of_the_first_format_gets_what_is_new_when_it_is_first_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    unpack(FIRST, &path);
    let store = Options::new().open(&path).expect("it opens");
    store
        .default_map()
        .put_with_expiry(b"k", b"x", everleaf::Expiry::from_unix_ms(4_000_000_000_000))
        .expect("room");
    store.close().expect("closed");
    assert_eq!(Store::upgrade(&path).expect("upgraded"), ["batches"]);
}
