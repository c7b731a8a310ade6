//! A killed pool with a log, whose directory has lost the entry of a map other than the default one.
//!
//! What was lost: the map was gone without a word, and the snapshot that is due behind a kill made that durable. If
//! it was the journal of batches, the half of a batch was served.

use std::fs;
use std::path::{Path, PathBuf};

use everleaf::{Durability, Error, Options, Store, WriteBatch};

fn options() -> Options {
    let options = Options::new().create(true).max_size_bytes(1 << 26).sweep(false);
    options.durability(Durability::Power).recovery_threads(1)
}

/// What a killed process leaves of the store in `open`.
fn killed(open: &Path, left: &Path) -> PathBuf {
    let log = left.join("pool.log");
    fs::create_dir_all(&log).expect("writable");
    let _ = fs::copy(open.join("pool"), left.join("pool")).expect("readable");
    for file in fs::read_dir(open.join("pool.log")).expect("readable") {
        let file = file.expect("readable");
        let _ = fs::copy(file.path(), log.join(file.file_name())).expect("readable");
    }
    left.join("pool")
}

/// Makes the first word of the directory's entry of a map zero.
fn lose(pool: &Path, name: &str) {
    let mut image = fs::read(pool).expect("readable");
    let name = format!("{name}\0");
    let at = image.windows(name.len()).position(|bytes| bytes == name.as_bytes());
    image[at.expect("it has a name") - 8..][..8].fill(0);
    fs::write(pool, image).expect("writable");
}

fn filled(folder: &Path) -> Store {
    let store = options().open(folder.join("pool")).expect("it opens");
    let users = store.map("users").expect("room");
    let _ = users.put("key", "value").expect("room");
    let mut batch = WriteBatch::new();
    batch.put(store.default_map(), "one", "1");
    batch.put(&users, "two", "2");
    let _ = store.write(&batch).expect("room");
    store
}

#[test]
fn a_lost_map_or_journal_is_told_and_rebuilt() {
    for (number, name) in ["users", "\u{1}batches"].into_iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = filled(folder.path());
        let pool = killed(folder.path(), &folder.path().join(format!("left-{number}")));
        drop(store);
        lose(&pool, name);
        let named = format!("{name:?}");
        for reading in [true, false] {
            match options().read_only(reading).open(&pool).map(drop) {
                Err(Error::Corrupt(text)) => assert!(text.contains(&named), "{text}"),
                other => panic!("{name:?}, {reading}: {other:?}"),
            }
        }
        let repaired = Store::repair(&pool, folder.path().join(format!("repaired-{number}")));
        // The records of the journal, too.
        assert!(repaired.expect("readable").kept >= 3);
        fs::remove_file(&pool).expect("there");
        let store = options().open(&pool).expect("it is rebuilt from its log");
        let users = store.existing_map("users").expect("readable").expect("there");
        assert_eq!((users.len(), store.default_map().len()), (2, 1));
    }
}

#[test]
fn a_map_that_was_dropped_is_not_missed() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = filled(folder.path());
    assert!(store.drop_map("users").expect("there"));
    let pool = killed(folder.path(), &folder.path().join("left"));
    drop(store);
    let store = options().open(&pool).expect("nothing is lost");
    assert_eq!(store.map_names(), ["default"]);
    // Made again, compacted, killed: it is there, and so it can be missed.
    let _ = store.map("users").expect("room").put("key", "value").expect("room");
    store.close().expect("it closes");
    let _ = options().compact(&pool, |_| {}).expect("it is whole");
    let store = options().open(&pool).expect("it opens");
    let _ = store.default_map().put("three", "3").expect("room");
    let again = killed(pool.parent().expect("a folder"), &folder.path().join("again"));
    drop(store);
    let whole = folder.path().join("whole");
    fs::create_dir(&whole).expect("room");
    let whole = killed(again.parent().expect("a folder"), &whole);
    assert_eq!(options().open(&whole).expect("it opens").map_names(), ["default", "users"]);
    lose(&again, "users");
    assert!(matches!(options().open(&again).map(drop), Err(Error::Corrupt(_))));
}

/// What was wrong: the pairs of a map whose name was lost were put into a map that happened to have the name given to
/// it.
#[test]
fn a_map_whose_name_is_lost_takes_the_name_of_no_other() {
    let repaired = |name: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = folder.path().join("pool");
        let options = Options::new().create(true).max_size_bytes(1 << 26).sweep(false);
        let store = options.open(&pool).expect("it opens");
        for (name, value) in [("users", "of users"), (name, "of the other")] {
            let _ = store.map(name).expect("room").put("key", value).expect("room");
        }
        store.close().expect("it closes");
        lose(&pool, "users");
        let fixed = folder.path().join("fixed");
        let maps = Store::repair(&pool, &fixed).expect("readable").maps;
        let store = Options::new().open(fixed).expect("it opens");
        let value = |map: &String| {
            let map = store.existing_map(map).expect("a name").expect("there");
            map.get("key").expect("get")
        };
        maps.iter().map(|map| (map.clone(), value(map))).collect::<Vec<_>>()
    };
    let lost = |maps: &[(String, Option<Vec<u8>>)], value: &str| {
        let found = maps.iter().find(|(_, found)| found.as_deref() == Some(value.as_bytes()));
        found.unwrap_or_else(|| panic!("{value} is in none of {maps:?}")).0.clone()
    };
    let name = lost(&repaired("other"), "of users");
    let maps = repaired(&name);
    assert_eq!(lost(&maps, "of the other"), name);
    assert_eq!(lost(&maps, "of users"), format!("{name}-2"));
}

/// What was served: the pairs of one map under the name of another, whose entry in the directory had one byte that was
/// damaged, and nothing was said.
#[test]
fn an_entry_with_the_number_of_another_map_gets_no_pairs() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let options = Options::new().create(true).max_size_bytes(1 << 26).sweep(false);
    let store = options.clone().open(&pool).expect("it opens");
    for name in ["accounts", "blocked"] {
        let _ = store.map(name).expect("room").put("key", name).expect("room");
    }
    store.close().expect("it closes");
    let mut image = fs::read(&pool).expect("readable");
    let entry = |image: &[u8], name: &str| {
        let name = format!("{name}\0");
        let at = image.windows(name.len()).position(|bytes| bytes == name.as_bytes());
        at.expect("it has a name") - 8
    };
    // The number of the map is in the upper half of the first word.
    let (accounts, blocked) = (entry(&image, "accounts") + 4, entry(&image, "blocked") + 4);
    assert_ne!(image[accounts], image[blocked]);
    image[blocked] = image[accounts];
    fs::write(&pool, image).expect("writable");
    let refused = options.open(&pool).map(drop);
    assert!(matches!(refused, Err(Error::NotAPool(_))), "{refused:?}");
    let fixed = folder.path().join("fixed");
    let repaired = Store::repair(&pool, &fixed).expect("readable");
    assert!(repaired.dropped.iter().any(|told| told.contains("'blocked'")), "{repaired:?}");
    let store = Options::new().open(fixed).expect("it opens");
    let value = |map: &String| {
        let map = store.existing_map(map).expect("a name").expect("there");
        map.get("key").expect("get").map(|value| String::from_utf8(value).expect("text"))
    };
    let found: Vec<_> = repaired.maps.iter().map(|map| (map.clone(), value(map))).collect();
    assert!(found.contains(&("accounts".into(), Some("accounts".into()))), "{found:?}");
    assert!(found.iter().all(|(map, _)| map != "blocked"), "{found:?}");
    let lost = found.iter().filter(|(_, value)| value.as_deref() == Some("blocked"));
    assert_eq!(lost.count(), 1, "{found:?}");
}
