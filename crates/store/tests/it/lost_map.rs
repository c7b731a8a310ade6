//! A pool whose directory has lost the entry of the default map, after the process was killed.
//!
//! What was lost: one word that became zero made the map look as if its making had been cut short. The pool
//! was opened as an empty one, `compact` wrote an empty one in its place and ended with success, and reading
//! said that nothing was ever stored in it. With a log, all of it was still there beside it.

use std::fs;
use std::path::{Path, PathBuf};

use everleaf::{Durability, Error, Options, Store};

fn options(durability: Durability) -> Options {
    let options = Options::new().create(true).max_size_bytes(1 << 26).sweep(false);
    options.durability(durability).recovery_threads(1)
}

/// What a killed process leaves of a store with so many keys.
fn killed(folder: &Path, durability: Durability, keys: u32) -> PathBuf {
    let (open, left) = (folder.join("open"), folder.join("left"));
    fs::create_dir_all(&open).expect("writable");
    fs::create_dir_all(&left).expect("writable");
    let store = options(durability).open(open.join("pool")).expect("it opens");
    for number in 0..keys {
        let _ = store.default_map().put(number.to_be_bytes(), b"value").expect("room");
    }
    for part in ["pool", "pool.log"] {
        let (from, to) = (open.join(part), left.join(part));
        match fs::read_dir(&from) {
            Ok(files) => {
                fs::create_dir_all(&to).expect("writable");
                for file in files {
                    let file = file.expect("readable");
                    fs::copy(file.path(), to.join(file.file_name())).expect("readable");
                }
            }
            Err(_) => drop(fs::copy(&from, &to)),
        }
    }
    drop(store);
    left.join("pool")
}

/// As [`killed`], with a second map, which was dropped if that `is_dropped`.
fn killed_with_another(folder: &Path, is_dropped: bool) -> PathBuf {
    let pool = killed(folder, Durability::Process, 100);
    let store = options(Durability::Process).open(&pool).expect("it opens");
    let _ = store.map("users").expect("room").put("key", "value").expect("room");
    if is_dropped {
        assert!(store.drop_map("users").expect("it is there"));
    }
    let left = folder.join("another");
    fs::copy(&pool, &left).expect("readable");
    left
}

#[test]
fn other_maps_show_that_the_default_map_was_there() {
    for (zeros, is_dropped) in [(8, false), (64, false), (8, true), (64, true)] {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = killed_with_another(folder.path(), is_dropped);
        lose(&pool, zeros);
        let opened = options(Durability::Process).open(&pool).map(drop);
        let Err(Error::Corrupt(text)) = opened else {
            panic!("{zeros}, {is_dropped}: {opened:?}");
        };
        assert!(text.contains("'default'"), "{text}");
    }
}

/// Makes the first `zeros` bytes of the directory's entry of the default map zero.
fn lose(pool: &Path, zeros: usize) {
    let mut image = fs::read(pool).expect("readable");
    let name = image.windows(8).position(|bytes| bytes == b"default\0").expect("it has a name");
    image[name - 8..][..zeros].fill(0);
    fs::write(pool, image).expect("writable");
}

#[test]
fn a_pool_that_has_lost_its_default_map_is_refused() {
    for durability in [Durability::Process, Durability::Power] {
        for zeros in [8, 64] {
            let folder = tempfile::tempdir().expect("a folder");
            let pool = killed(folder.path(), durability, 100);
            lose(&pool, zeros);
            let before = fs::read(&pool).expect("readable");
            let is_refused = |result: everleaf::Result<()>, what: &str| match result {
                Err(Error::Corrupt(text)) => assert!(text.contains("'default'"), "{what}: {text}"),
                other => panic!("{what}, {durability:?}, {zeros}: {other:?}"),
            };
            let reading = Options::new().read_only(true);
            is_refused(reading.open(&pool).map(drop), "reading");
            is_refused(options(durability).open(&pool).map(drop), "writing");
            is_refused(options(durability).compact(&pool, |_| {}).map(drop), "compact");
            // But for the note, in the first pages, of the opening that was refused.
            let after = fs::read(&pool).expect("readable");
            assert!(after[8192..] == before[8192..], "it is left as it was");
            let repaired = Store::repair(&pool, folder.path().join("repaired"));
            assert_eq!(repaired.expect("readable").kept, 100);
            if durability == Durability::Power {
                fs::remove_file(&pool).expect("it is there");
                let store = options(durability).open(&pool).expect("it is made from its log");
                assert_eq!(store.default_map().len(), 100);
            }
        }
    }
}

#[test]
fn a_pool_whose_making_was_cut_short_is_opened() {
    for zeros in [8, 64] {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = killed(folder.path(), Durability::Process, 0);
        lose(&pool, zeros);
        let store = options(Durability::Process).open(&pool).expect("nothing was in it");
        let _ = store.default_map().put(b"key", b"value").expect("room");
        store.close().expect("it closes");
        assert_eq!(Options::new().open(&pool).expect("it opens").default_map().len(), 1);
    }
}
