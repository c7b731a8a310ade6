//! Pools of older versions: each is in `fixtures/`, written by the version itself, and must be read,
//! written and upgraded by this one.
//!
//! A fixture is a pool without the lines of 64 bytes that are zero: a magic of 8 bytes, the length of
//! the pool in 8, then the number of each line in 4 and its bytes; all numbers little-endian.

use std::path::Path;

use everleaf::{Durability, Options, Store, WriteBatch, Written};

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
        [
            "keys that expire",
            "batches",
            "expiries in words of their own",
            "batches that change expiries alone",
            "runs of elements in lists",
        ]
    );
    assert_eq!(features(&path), 1 | 2 | 4 | 16 | 32);

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
fn a_pool_of_the_first_format_gets_what_is_new_at_first_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    unpack(FIRST, &path);
    let store = Options::new().open(&path).expect("it opens");
    store
        .default_map()
        .put_with_expiry(b"k", b"x", everleaf::Expiry::from_unix_ms(4_000_000_000_000))
        .expect("room");
    store.close().expect("closed");
    let new = ["batches", "batches that change expiries alone", "runs of elements in lists"];
    assert_eq!(Store::upgrade(&path).expect("upgraded"), new);
}

/// What a store leaves in `from` if its process is killed now, in `to`.
fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("readable") {
        let (entry, place) =
            entry.map(|entry| (entry.path(), to.join(entry.file_name()))).expect("readable");
        if entry.is_dir() {
            std::fs::create_dir(&place).expect("writable");
            copy_files(&entry, &place);
        } else {
            std::fs::copy(&entry, &place).expect("writable");
        }
    }
}

/// Makes the empty pair of a pool one that a program has written whose empty pairs had the check sum 0,
/// and the header one of such a program.
fn forget_sum_of_empty(path: &Path) {
    let mut pool = std::fs::read(path).expect("readable");
    let header = (0x1_FFFF_u64 << 47).to_le_bytes();
    let records: Vec<usize> =
        (0..pool.len()).step_by(16).filter(|at| pool[*at..*at + 8] == header).collect();
    assert_eq!(records.len(), 1, "it has one empty pair");
    pool[records[0]..][..8].fill(0);
    for copy in [0, 4096] {
        pool[copy + 24..][..8].fill(0);
        let sum = everleaf_log::checksum(&pool[copy..copy + 120]);
        pool[copy + 120..][..4].copy_from_slice(&sum.to_le_bytes());
    }
    std::fs::write(path, pool).expect("writable");
}

/// An empty key with an empty value had the check sum 0 once, and has another now, so that zeros are no
/// record. The snapshot that a pool with a log owes after its process died met such a pair and found it
/// damaged: the pool could not be opened.
#[test]
fn an_empty_pair_is_mended_where_a_snapshot_is_owed() {
    for is_killed in [true, false] {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let [from, to] = [&folders[0], &folders[1]].map(|folder| folder.path().join("pool"));
        let options = || Options::new().create(true).durability(Durability::Power);
        let store = options().open(&from).expect("it opens");
        for map in [store.default_map(), &store.map("second").expect("room")] {
            let _ = map.put(b"key", b"value").expect("room");
        }
        let _ = store.default_map().put(b"", b"").expect("room");
        if is_killed {
            copy_files(folders[0].path(), folders[1].path());
            drop(store);
        } else {
            store.close().expect("closed");
            copy_files(folders[0].path(), folders[1].path());
        }
        forget_sum_of_empty(&to);
        for _ in 0..2 {
            let store = options().verify_reads(true).open(&to).expect("it opens");
            assert_eq!(store.default_map().get(b"").expect("whole"), Some(vec![]));
            assert_eq!(store.default_map().get(b"key").expect("whole"), Some(b"value".to_vec()));
            assert_eq!(store.check().expect("it runs").problems, Vec::<String>::new());
            store.close().expect("closed");
        }
        // From then on zeros are damage again.
        let mut pool = std::fs::read(&to).expect("readable");
        let header = (0x1_FFFF_u64 << 47).to_le_bytes();
        let is_header = |at: &usize| pool[*at..*at + 8] == header;
        let record = (0..pool.len()).step_by(16).find(is_header).expect("it was mended");
        pool[record..][..8].fill(0);
        std::fs::write(&to, pool).expect("writable");
        let store = options().verify_reads(true).open(&to).expect("it opens");
        assert!(store.default_map().get(b"").is_err());
    }
}
