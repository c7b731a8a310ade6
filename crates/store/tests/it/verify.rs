//! Scans tell of a value whose bytes have changed, forwards and backwards, unless they are not to look.

use everleaf::{Error, Options};

const MARK: &[u8] = b"a value of which one byte is going to change";

fn value(number: u32, size: usize) -> Vec<u8> {
    match number {
        123 => [MARK, &vec![b'.'; size]].concat(),
        _ => vec![number as u8; size],
    }
}

/// What was lost: a value of which a byte had changed was shown and exported as if nothing were wrong.
#[test]
fn a_changed_byte_is_told_by_scans_unless_they_do_not_verify() {
    // Sums of one stream, of three, and of many times three.
    for size in [0, 400, 9000] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let store = Options::new().create(true).open(&path).expect("it opens");
        for number in 0..300u32 {
            store.default_map().put(number.to_be_bytes(), value(number, size)).expect("room");
        }
        store.close().expect("closed");
        let mut bytes = std::fs::read(&path).expect("readable");
        let place = bytes.windows(MARK.len()).position(|bytes| bytes == MARK).expect("it is there");
        bytes[place + MARK.len() + size - 1] ^= 1;
        std::fs::write(&path, &bytes).expect("writable");

        let store = Options::new().read_only(true).open(&path).expect("it opens");
        let map = store.default_map();
        // Everything before the damage, then the error, then nothing.
        let forward = map.iter().collect::<Vec<_>>();
        assert_eq!(forward.len(), 124);
        assert!(forward[..123].iter().all(Result::is_ok));
        assert!(matches!(forward[123], Err(Error::Corrupt(_))));
        let mut back = map.iter().rev().collect::<Vec<_>>();
        assert!(matches!(back.pop(), Some(Err(Error::Corrupt(_)))));
        assert!(back.len() == 300 - 124 && back.iter().all(Result::is_ok));
        let mut range = map.iter();
        assert!(matches!(range.by_ref().last(), Some(Err(Error::Corrupt(_)))));
        range.seek(124u32.to_be_bytes());
        assert_eq!(range.map(Result::unwrap).count(), 300 - 124, "it goes on behind the damage");
        let mut seen = 0;
        let scanned = map.scan(..).for_each(|_, _| seen += 1);
        assert!(matches!(scanned, Err(Error::Corrupt(_))) && seen == 123);
        drop(store);

        let store =
            Options::new().read_only(true).verify_scans(false).open(&path).expect("it opens");
        assert_eq!(store.default_map().iter().count(), 300);
        assert_eq!(store.default_map().iter().rev().count(), 300);
        let mut count = 0;
        let scanned = store.default_map().scan(..).for_each(|_, _| count += 1);
        scanned.expect("nobody looked");
        assert_eq!(count, 300);
    }
}

/// What was lost: of a store whose scans do not verify, a backup and a compaction had the changed byte with a fresh
/// check sum, so that nothing told of it any more.
#[test]
fn no_copy_of_what_is_damaged_is_made_whatever_scans_verify() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("pool");
    let store = Options::new().create(true).open(&path).expect("it opens");
    for number in 0..300u32 {
        store.default_map().put(number.to_be_bytes(), value(number, 0)).expect("room");
    }
    store.close().expect("closed");
    let mut bytes = std::fs::read(&path).expect("readable");
    let place = bytes.windows(MARK.len()).position(|bytes| bytes == MARK).expect("it is there");
    bytes[place] ^= 1;
    std::fs::write(&path, &bytes).expect("writable");

    let options = || Options::new().verify_scans(false);
    let store = options().open(&path).expect("it opens");
    assert_eq!(store.default_map().iter().filter(Result::is_ok).count(), 300, "nobody looked");
    let copy = folder.path().join("copy");
    let refused = |made: Result<everleaf::Copied, Error>| {
        let error = made.expect_err("a value has changed");
        assert!(matches!(error, Error::Corrupt(_)), "{error}");
        assert!(!copy.exists());
    };
    refused(store.backup(&copy, |_| {}));
    store.close().expect("closed");
    refused(options().compact(&path, |_| {}));
    let checked = Options::new().open(&path).expect("it opens").check().expect("it can be read");
    assert!(!checked.problems.is_empty(), "it is still told");
}

/// A damaged value, and then still a damaged key, ended each round of the sweep at the same place: what had expired
/// behind it kept its space for ever.
#[test]
fn the_sweep_goes_on_behind_a_damaged_value_or_key() {
    // The last byte of the key is directly before the value. Keys of one leaf are the same in all that entries have of
    // them, or are not.
    for (prefix, before) in
        [("", 0), ("", 1), ("all keys begin so: ", 0), ("all keys begin so: ", 1)]
    {
        sweep_around_damage(prefix, before);
    }
}

fn sweep_around_damage(prefix: &str, before: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let options = || Options::new().create(true);
    let store = options().sweep(false).open(&path).expect("it opens");
    let map = store.default_map();
    let key = |number: u32| [prefix.as_bytes(), &number.to_be_bytes()].concat();
    for number in 0..300u32 {
        map.put(key(number), value(number, 0)).expect("room");
    }
    for number in [7u32, 122, 124, 299] {
        let long_ago = everleaf::Expiry::from_unix_ms(1);
        assert!(map.expire(key(number), long_ago).expect("room"));
    }
    assert_eq!(map.len(), 300);
    store.close().expect("closed");
    let mut bytes = std::fs::read(&path).expect("readable");
    let place = bytes.windows(MARK.len()).position(|bytes| bytes == MARK).expect("it is there");
    bytes[place - before] ^= 1;
    std::fs::write(&path, &bytes).expect("writable");

    let store = options().open(&path).expect("it opens");
    let start = std::time::Instant::now();
    while store.statistics().swept_keys < 4 {
        let waited = start.elapsed().as_secs();
        assert!(waited < 60, "{} were swept: {prefix} {before}", store.statistics().swept_keys);
        std::thread::yield_now();
    }
    assert_eq!(store.default_map().len(), 296);
    let found = store.default_map().iter().find_map(Result::err);
    assert!(matches!(found, Some(Error::Corrupt(_))), "it is still there");
}
