//! Attacks on the store's promises that no other test makes: files of a log that change places, notes of
//! which one bit is another, and operations inside of others while a snapshot is owed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everleaf::{Action, Durability, Error, Expiry, Options, Store, WriteBatch};

const KEYS: u32 = 60;

fn options() -> Options {
    let options = Options::new().create(true).max_size_bytes(1 << 26).sweep(false);
    options.durability(Durability::Power).recovery_threads(1)
}

fn put(store: &Store, keys: std::ops::Range<u32>) {
    for number in keys {
        let value = number.to_le_bytes().repeat(40);
        let _ = store.default_map().put(number.to_be_bytes(), value).expect("room");
    }
}

/// How many keys there are, which must be the first.
fn count(store: &Store) -> u32 {
    let count = store.default_map().len() as u32;
    for number in 0..count {
        let value = store.default_map().get(number.to_be_bytes()).expect("readable");
        assert_eq!(value, Some(number.to_le_bytes().repeat(40)), "key {number} of {count}");
    }
    count
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("writable");
    for entry in fs::read_dir(from).expect("readable") {
        let path = entry.expect("readable").path();
        let place = to.join(path.file_name().expect("it has a name"));
        match path.is_dir() {
            true => copy(&path, &place),
            false => drop(fs::copy(&path, &place).expect("writable")),
        }
    }
}

/// A store with two snapshots and several segments, closed, and what its folder was a third of it before.
fn make(folder: &Path) -> PathBuf {
    let pool = folder.join("whole/pool");
    fs::create_dir_all(folder.join("whole")).expect("writable");
    for (life, keys) in [0..KEYS / 3, KEYS / 3..KEYS / 2, KEYS / 2..KEYS].into_iter().enumerate() {
        let store = options().open(&pool).expect("it opens");
        put(&store, keys);
        if life < 2 {
            let _ = store.snapshot().expect("room");
            put(&store, 0..1);
        }
        store.close().expect("it closes");
        if life == 0 {
            copy(&folder.join("whole"), &folder.join("older"));
        }
    }
    pool
}

fn files(folder: &Path, start: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("pool.log")).expect("readable");
    let mut names: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    names.retain(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
    });
    names.sort();
    names
}

fn swap(a: &Path, b: &Path) {
    let aside = a.with_extension("aside");
    fs::rename(a, &aside).expect("writable");
    fs::rename(b, a).expect("writable");
    fs::rename(&aside, b).expect("writable");
}

/// Does something to a copy of the folder, with and without the pool, and opens it: what is found must be
/// everything, or an error.
fn attack(folder: &Path, name: &str, spoil: impl Fn(&Path)) -> [Result<u32, Error>; 2] {
    [true, false].map(|has_pool| {
        let left = folder.join(format!("{name}-{has_pool}"));
        copy(&folder.join("whole"), &left);
        if !has_pool {
            fs::remove_file(left.join("pool")).expect("there");
        }
        spoil(&left);
        let found = options().open(left.join("pool")).map(|store| count(&store));
        assert!(!matches!(found, Ok(keys) if keys != KEYS), "{name}, pool: {has_pool}: {found:?}");
        fs::remove_dir_all(&left).expect("writable");
        found
    })
}

#[test]
fn log_files_that_change_places_are_never_mistaken() {
    let folder = tempfile::tempdir().expect("a folder");
    let _ = make(folder.path());
    let folder = folder.path();
    for kind in ["log-", "snapshot-"] {
        let all = files(&folder.join("whole"), kind).len();
        assert!(all >= 2, "{kind}: {all}");
        for (one, other) in [(0, 1), (all - 2, all - 1), (0, all - 1)] {
            let found = attack(folder, &format!("{kind}{one}-{other}"), |left| {
                let names = files(left, kind);
                swap(&names[one], &names[other]);
            });
            println!("{kind} {one} {other}: {found:?}");
        }
        // One of them twice, under the next number.
        let found = attack(folder, &format!("{kind}twice"), |left| {
            let names = files(left, kind);
            let last = names.last().expect("there").to_string_lossy().into_owned();
            let (start, digits) = last.split_at(last.len() - 16);
            let number = u64::from_str_radix(digits, 16).expect("a number") + 1;
            let _ = fs::copy(&names[0], format!("{start}{number:016x}")).expect("writable");
        });
        println!("{kind} twice: {found:?}");
    }
}

#[test]
fn a_bit_of_a_note_beside_the_log_never_gives_an_earlier_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let _ = make(folder.path());
    for name in ["identity", "settings", "reached"] {
        let size = fs::read(folder.path().join("whole/pool.log").join(name)).expect("there").len();
        for at in (0..size).step_by(7) {
            let found = attack(folder.path(), &format!("{name}-{at}"), |left| {
                let path = left.join("pool.log").join(name);
                let mut bytes = fs::read(&path).expect("there");
                bytes[at] ^= 1 << (at % 8);
                fs::write(path, bytes).expect("writable");
            });
            // Every file of the log says itself whose it is.
            let costs_nothing = matches!(found, [Ok(KEYS), Ok(KEYS)]);
            assert!(name != "identity" || costs_nothing, "byte {at} of {name}: {found:?}");
        }
    }
}

/// Segments, snapshots or all of a log from an older copy, with the newer notes beside them; and segments of
/// another store.
#[test]
fn a_log_partly_older_or_foreign_is_not_taken_for_the_newer() {
    let folder = tempfile::tempdir().expect("a folder");
    let _ = make(folder.path());
    let older = folder.path().join("older");
    for kinds in [&["log-"][..], &["snapshot-"], &["log-", "snapshot-"]] {
        let found = attack(folder.path(), &format!("older {kinds:?}"), |left| {
            for kind in kinds {
                files(left, kind).iter().for_each(|path| fs::remove_file(path).expect("there"));
                for path in files(&older, kind) {
                    let name = path.file_name().expect("it has one");
                    let _ = fs::copy(&path, left.join("pool.log").join(name)).expect("writable");
                }
            }
        });
        println!("{kinds:?}: {found:?}");
        // The newer segments reach back to the older snapshots.
        let has_rest = !kinds.contains(&"log-");
        assert!(has_rest || found[1].is_err(), "without the pool nothing has the rest: {kinds:?}");
    }
    let other = tempfile::tempdir().expect("a folder");
    let _ = make(other.path());
    let stranger = files(&other.path().join("whole"), "log-").pop().expect("there is one");
    let found = attack(folder.path(), "stranger", |left| {
        let last = files(left, "log-").pop().expect("there is one");
        let _ = fs::copy(&stranger, last).expect("writable");
    });
    assert!(found.iter().all(Result::is_err), "{found:?}");
}

/// A function that an operation runs may do all of this, or be refused; it must not wait for itself.
#[test]
fn expiries_may_change_and_sync_while_a_snapshot_is_owed() {
    let folder = tempfile::tempdir().expect("a folder");
    let interval = || options().durability(Durability::Interval(Duration::from_secs(5)));
    let (whole, left) = (folder.path().join("whole"), folder.path().join("left"));
    fs::create_dir(&whole).expect("writable");
    let store = interval().open(whole.join("pool")).expect("it opens");
    store.default_map().put("long", vec![7; 100_000]).expect("room");
    store.default_map().put("short", "value").expect("room");
    store.sync().expect("the disk works");
    // As if the process died here.
    copy(&whole, &left);
    drop(store);
    let store = interval().open(left.join("pool")).expect("it opens");
    let map = store.default_map();
    let late = Expiry::from_unix_ms(1 << 45);
    map.update_with("short", |_| {
        for key in ["long", "other"] {
            let _ = map.expire(key, late).expect("room");
        }
        Action::Put(b"new".to_vec())
    })
    .expect("room");
    let seen = map.get_with("long", |value| {
        store.sync().expect("the disk works");
        let _ = map.persist("long").expect("room");
        let mut batch = WriteBatch::new();
        batch.put_with_expiry(map, "long", value, late);
        // Refused at most: the gate may be down.
        let _ = store.write(&batch);
        value.len()
    });
    assert_eq!(seen.expect("readable"), Some(100_000));
    assert_eq!(map.get("short").expect("readable"), Some(b"new".to_vec()));
    assert_eq!(map.get("long").expect("readable"), Some(vec![7; 100_000]));
    store.close().expect("it closes");
    fs::remove_file(left.join("pool")).expect("there");
    let store = interval().open(left.join("pool")).expect("it opens");
    assert_eq!(store.default_map().get("long").expect("readable"), Some(vec![7; 100_000]));
}

/// A view keeps the expiry that a key had, whichever way it is changed, and gives back what it kept.
#[test]
fn views_keep_expiries_that_change_in_place_and_by_batches() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = options().open(folder.path().join("pool")).expect("it opens");
    let (map, long) = (store.default_map(), vec![9; 50_000]);
    map.put("key", &long).expect("room");
    for turn in 0..30_u64 {
        let view = store.view().expect("a view");
        let expiry = Expiry::from_unix_ms((1 << 45) + turn);
        if turn % 2 == 0 {
            assert!(map.expire("key", expiry).expect("room"));
        } else {
            let mut batch = WriteBatch::new();
            batch.put_with_expiry(map, "key", &long, expiry);
            assert!(store.write(&batch).expect("room").is_done());
        }
        assert_eq!(map.expiry("key").expect("readable"), Some(expiry));
        assert!(map.expire("key", Expiry::from_unix_ms(1)).expect("room"));
        assert_eq!(map.get("key").expect("readable"), None);
        assert_eq!(view.default_map().get("key").expect("readable").as_ref(), Some(&long));
        map.put("key", &long).expect("room");
        drop(view);
        assert_eq!(store.statistics().view_bytes, 0);
    }
    store.close().expect("it closes");
    fs::remove_file(folder.path().join("pool")).expect("there");
    let store = options().open(folder.path().join("pool")).expect("it opens");
    assert_eq!(store.default_map().get("key").expect("readable"), Some(long));
    assert_eq!(store.default_map().expiry("key").expect("readable"), Some(Expiry::Never));
}

/// A pool of which a record is damaged, whose process dies: the snapshot that is owed cannot be written.
/// Nobody may go on writing in the belief that it is kept.
#[test]
fn a_store_that_cannot_write_its_owed_snapshot_takes_no_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let interval = || options().durability(Durability::Interval(Duration::from_secs(5)));
    let (whole, left) = (folder.path().join("whole"), folder.path().join("left"));
    fs::create_dir(&whole).expect("writable");
    let store = interval().open(whole.join("pool")).expect("it opens");
    put(&store, 0..KEYS);
    let marked = b"a value that is found in the file by its bytes";
    store.default_map().put("key", marked).expect("room");
    store.sync().expect("the disk works");
    copy(&whole, &left);
    drop(store);
    let mut pool = fs::read(left.join("pool")).expect("readable");
    let at = pool.windows(marked.len()).position(|bytes| bytes == marked).expect("it is there");
    pool[at] ^= 1;
    fs::write(left.join("pool"), pool).expect("writable");
    let store = interval().open(left.join("pool")).expect("it opens");
    let error = loop {
        match store.default_map().put("new", "value") {
            Ok(_) => std::thread::yield_now(),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("check sum is wrong") && error.contains("rebuilds the pool"), "{error}");
    assert!(store.sync().is_err() && store.close().is_err());
    fs::remove_file(left.join("pool")).expect("there");
    let store = interval().open(left.join("pool")).expect("the log has everything");
    assert_eq!(store.default_map().get("key").expect("readable").as_deref(), Some(&marked[..]));
}

/// A map is emptied and its space returned to the system while others read it, iterate it, and look at it by
/// views from before: nobody sees anything else than what was there, and what is written then is kept.
#[test]
fn space_that_goes_back_under_readers_takes_nothing_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let interval = || options().durability(Durability::Interval(Duration::from_secs(5)));
    let store = interval().open(folder.path().join("pool")).expect("it opens");
    let value = |number: u32| number.to_le_bytes().repeat(500);
    let fill = || {
        for number in 0..600_u32 {
            let _ = store.default_map().put(number.to_be_bytes(), value(number)).expect("room");
        }
    };
    fill();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    // Relaxed, here and below: it is only to end some time.
    let goes_on = || !is_over.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while goes_on() {
                    let view = store.view().expect("a view");
                    for (seen, pair) in (0_u32..).zip(view.default_map().iter()) {
                        let (key, found) = pair.expect("readable");
                        let number = u32::from_be_bytes(key.try_into().expect("four bytes"));
                        // They were written in this order.
                        assert_eq!((number, found), (seen, value(seen)));
                    }
                    let number = 77_u32;
                    let got = store.default_map().get(number.to_be_bytes()).expect("readable");
                    assert!(got.is_none_or(|got| got == value(number)));
                }
            });
        }
        let mut returned = 0;
        for _ in 0..12 {
            store.default_map().clear().expect("room");
            returned += store.return_space().expect("the system takes it");
            fill();
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        println!("{returned} bytes were returned");
    });
    assert!(store.check().expect("it can be checked").problems.is_empty());
    store.close().expect("it closes");
    fs::remove_file(folder.path().join("pool")).expect("there");
    let store = interval().open(folder.path().join("pool")).expect("the log has everything");
    assert_eq!(store.default_map().len(), 600);
    assert_eq!(store.default_map().get(599_u32.to_be_bytes()).expect("readable"), Some(value(599)));
}

/// Functions that do everything that is allowed inside of an operation, while batches, views, snapshots, the sweep
/// and the return of space go on beside them: nobody waits for himself or in a circle, and nothing is lost.
#[test]
fn functions_that_call_everything_end_beside_all_threads() {
    const THREADS: u32 = 6;
    const ROUNDS: u32 = 60;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let interval = || {
        let options =
            Options::new().create(true).max_size_bytes(1 << 28).view_memory_bytes(1 << 16);
        options.durability(Durability::Interval(Duration::from_millis(2))).recovery_threads(1)
    };
    let store = std::sync::Arc::new(interval().open(&path).expect("it opens"));
    let (over, is_over) = std::sync::mpsc::channel();
    let all = store.clone();
    let thread = std::thread::spawn(move || {
        std::thread::scope(|scope| {
            for number in 0..THREADS {
                let store = &all;
                scope.spawn(move || (0..ROUNDS).for_each(|round| nest(store, number, round)));
            }
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    // Views are given up over the limit, and snapshots refused while one is written.
                    let view = all.view().expect("a view");
                    let _ = (all.snapshot(), all.return_space(), all.statistics());
                    let mut batch = WriteBatch::new();
                    for key in 0..20_u32 {
                        batch.put(
                            all.default_map(),
                            [&b"b"[..], &key.to_be_bytes()].concat(),
                            [1; 9],
                        );
                    }
                    assert!(all.write(&batch).expect("room").is_done());
                    assert!(all.check().expect("it can be checked").problems.is_empty());
                    drop((view, round));
                }
            });
        });
        let _ = over.send(());
    });
    // Dropped by a panic, or sent.
    let ended = is_over.recv_timeout(Duration::from_secs(120));
    assert_ne!(ended, Err(std::sync::mpsc::RecvTimeoutError::Timeout), "it does not end");
    thread.join().expect("nobody panicked");
    let count = |store: &Store, name: &str| {
        let value = store.default_map().get(name).expect("readable").expect("it is there");
        u32::from_be_bytes(value.try_into().expect("four bytes"))
    };
    assert_eq!(count(&store, "sum"), THREADS * ROUNDS);
    std::sync::Arc::into_inner(store).expect("nobody else has it").close().expect("it closes");
    fs::remove_file(&path).expect("there");
    let store = interval().open(&path).expect("the log has everything");
    assert_eq!(count(&store, "sum"), THREADS * ROUNDS);
    for number in 0..THREADS {
        assert_eq!(count(&store, &format!("own {number}")), ROUNDS);
    }
}

/// Adds one to two numbers, each in a function that does something else with the store.
fn nest(store: &Store, number: u32, round: u32) {
    let map = store.default_map();
    let add = |found: Option<&[u8]>| {
        let found = found.map_or(0, |found| u32::from_be_bytes(found.try_into().expect("four")));
        Action::Put((found + 1).to_be_bytes().to_vec())
    };
    let inside = |value: &[u8]| {
        let _ = (store.statistics(), store.map_names(), store.return_space());
        // These may be refused inside of an operation.
        let _ = (store.view().map(drop), store.check().map(drop), store.snapshot());
        store.map(&format!("map {}", round % 3)).expect("room").put("k", value).expect("room");
        if round.is_multiple_of(8) {
            store.sync().expect("the disk works");
        }
    };
    map.update_with(format!("own {number}"), |found| {
        let short = format!("short {number} {}", round % 7);
        map.put_with_expiry(&short, "value", Expiry::from_unix_ms(1)).expect("room");
        map.update_with(format!("inner {number}"), |_| {
            map.get_with("sum", inside).expect("readable");
            Action::Put(vec![round as u8; 5_000])
        })
        .expect("room");
        map.expire(format!("inner {number}"), Expiry::from_unix_ms(1 << 45)).expect("room");
        add(found)
    })
    .expect("room");
    map.update_with("sum", add).expect("room");
}
