//! The folder of a log is believed only as far as it explains itself, and whatever becomes of the pool
//! file, what was acknowledged is rebuilt from there.
//!
//! What was lost: one flipped bit in `identity` and a lost pool made a new, empty store, whose log
//! overwrote the whole one. A pool of which both header pages were gone, or that was empty, was refused
//! though its log had everything. A pool whose keys were out of order ended the process at opening.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everleaf::{Durability, Error, Options, Store};

const KEYS: u32 = 300;

fn options(durability: Durability) -> Options {
    Options::new().create(true).max_size_bytes(1 << 28).durability(durability)
}

fn power() -> Options {
    options(Durability::Power)
}

/// A store with a log, closed: everything is in the first snapshot and the log behind it.
fn make(folder: &Path) -> PathBuf {
    let path = folder.join("pool");
    let store = power().open(&path).expect("it opens");
    for number in 0..KEYS {
        let _ = store.default_map().put(number.to_be_bytes(), number.to_le_bytes()).expect("room");
        if number == KEYS / 2 {
            store.snapshot().expect("room");
        }
    }
    store.close().expect("it closes");
    path
}

fn is_whole(store: &Store) {
    assert_eq!(store.default_map().len(), u64::from(KEYS));
    for number in 0..KEYS {
        let value = store.default_map().get(number.to_be_bytes()).expect("readable");
        assert_eq!(value.as_deref(), Some(&number.to_le_bytes()[..]));
    }
    assert_eq!(store.check().expect("it can be checked").problems, Vec::<String>::new());
}

/// All files of a folder, to see that nothing was changed.
fn image(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(folder)
        .expect("a folder")
        .map(|file| file.expect("readable").path())
        .map(|path| (path.clone(), fs::read(&path).expect("readable")))
        .collect();
    files.sort();
    files
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("log")
}

#[test]
fn no_flipped_bit_of_the_identity_costs_anything() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = make(folder.path());
    let identity = log_of(&path).join("identity");
    let line = fs::read(&identity).expect("there");
    assert!(line.len() > 40, "it has a check sum");
    fs::remove_file(&path).expect("the pool is lost");
    // Every bit is tried by the tests of the line itself.
    for bit in (0..line.len() * 8).step_by(29) {
        let mut damaged = line.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&identity, &damaged).expect("room");
        let store = power().open(&path).expect("all its files say whose it is");
        is_whole(&store);
        store.close().expect("it closes");
        assert_eq!(fs::read(&identity).expect("there"), line, "bit {bit} was mended");
        fs::remove_file(&path).expect("the pool is lost");
    }
}

/// What was lost: nothing, but a pool that was put beside the log of another through a link could not be opened, where
/// the log alone would have rebuilt the lost pool.
#[test]
fn nothing_is_put_beside_a_log_behind_a_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let there = folder.path().join("there");
    fs::create_dir(&there).expect("room");
    let path = make(&there);
    let backup = folder.path().join("backup");
    let store = power().open(&path).expect("it opens");
    store.backup(&backup, |_| {}).expect("room");
    store.close().expect("it closes");
    fs::remove_file(&path).expect("the pool is lost");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("there/pool", &link).expect("room");
    let before = image(&log_of(&path));
    let copy = Options::new().read_only(true).open(&backup).expect("it opens");
    let refused = [
        Store::restore(&backup, &link, |_| {}).map(drop),
        copy.backup(&link, |_| {}).map(drop),
        Store::repair(&backup, &link).map(drop),
    ];
    for made in refused {
        let text = made.expect_err("there is a log").to_string();
        assert!(text.contains("there is a log in") && text.contains("pool.log"), "{text}");
        assert!(!path.exists(), "nothing is put there");
    }
    assert!(image(&log_of(&path)) == before, "nothing is changed");
    is_whole(&power().open(&link).expect("it is rebuilt"));
}

#[test]
fn records_that_nothing_explains_are_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = make(folder.path());
    let log = log_of(&path);
    let identity = log.join("identity");
    let line = fs::read_to_string(&identity).expect("there");
    let old = format!("{}\n", &line[..32]);
    let other = format!("{}\n", "ab".repeat(16));
    fs::remove_file(&path).expect("the pool is lost");
    // Missing; of another log, as older versions wrote it.
    for text in [None, Some(other)] {
        match &text {
            None => fs::remove_file(&identity).expect("there"),
            Some(text) => fs::write(&identity, text).expect("room"),
        }
        let before = image(&log);
        for options in [power(), options(Durability::Process), Options::new().create_new(true)] {
            let error = options.open(&path).map(drop).expect_err("nobody knows whose it is");
            let text = error.to_string();
            assert!(matches!(error, Error::Corrupt(_)), "{text}");
            assert!(text.contains("move") && text.contains("pool.log"), "{text}");
            assert!(!path.exists(), "no new pool is made");
        }
        assert!(image(&log) == before, "nothing is changed");
    }
    // As an older version wrote it.
    fs::write(&identity, old).expect("room");
    is_whole(&power().open(&path).expect("its files confirm it"));
    assert_eq!(fs::read_to_string(&identity).expect("there"), line, "it has a check sum now");
}

#[test]
fn a_log_that_was_being_made_or_removed_is_of_no_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = make(folder.path());
    let log = log_of(&path);
    fs::write(log.join("notes.txt"), "mine").expect("room");
    fs::rename(log.join("identity"), log.join("incomplete")).expect("there");
    // The pool has everything, and gets a new log.
    is_whole(&power().open(&path).expect("it opens"));
    assert!(log.join("identity").exists() && !log.join("incomplete").exists());
    drop(options(Durability::Process).open(&path).expect("it opens"));
    let left: Vec<_> = image(&log).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, [log.join("notes.txt")], "what is not of the log stays");
}

#[test]
fn a_log_of_another_pool_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = make(folder.path());
    fs::remove_file(&path).expect("the pool is lost");
    let error = Options::new().create_new(true).open(&path).map(drop).expect_err("it has a log");
    assert!(error.to_string().contains("rebuilds the pool"), "{error}");
    assert!(!path.exists());
    is_whole(&power().open(&path).expect("it is rebuilt"));
}

/// What a crash of the machine may leave of a pool file.
fn damages(pool: &[u8]) -> Vec<(&'static str, Option<Vec<u8>>)> {
    let mut no_headers = pool.to_vec();
    no_headers[..2 << 12].fill(0xA5);
    let mut zeroed_headers = pool.to_vec();
    zeroed_headers[..1 << 16].fill(0);
    vec![
        ("missing", None),
        ("empty", Some(vec![])),
        ("one byte", Some(vec![0x45])),
        ("all zero", Some(vec![0; pool.len()])),
        ("cut short", Some(pool[..pool.len() / 2].to_vec())),
        ("both header pages gone", Some(no_headers)),
        ("both header pages zero", Some(zeroed_headers)),
        ("noise", Some(pool.iter().map(|byte| byte ^ 0x5A).collect())),
    ]
}

#[test]
fn whatever_a_crash_leaves_of_the_pool_it_is_made_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = make(folder.path());
    let pool = fs::read(&path).expect("there");
    for (what, left) in damages(&pool) {
        match left {
            None => fs::remove_file(&path).expect("there"),
            Some(bytes) => fs::write(&path, bytes).expect("room"),
        }
        let read = Options::new().read_only(true).open(&path).map(drop);
        let text = read.expect_err("it cannot be rebuilt for reading only").to_string();
        assert!(text.contains("pool.log"), "{what}: {text}");
        let store = power().open(&path).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(store.rebuilt().is_some(), "{what}");
        is_whole(&store);
        drop(store);
    }
    // What is no pool at all was kept, if there was anything in it: it may have come there by mistake.
    let kept: BTreeSet<Vec<u8>> = fs::read_dir(folder.path())
        .expect("there")
        .map(|entry| entry.expect("there").path())
        .filter(|path| path.to_string_lossy().contains("pool.no-pool"))
        .map(|path| fs::read(path).expect("there"))
        .collect();
    let left = damages(&pool).into_iter().filter_map(|(what, left)| {
        ["both header pages gone", "both header pages zero", "noise"]
            .contains(&what)
            .then_some(left?)
    });
    // What was wrong: a file that begins with zeros was lost, whatever was behind them.
    assert!(left.into_iter().all(|left| kept.contains(&left)), "{} are kept", kept.len());
    assert!(kept.iter().all(|bytes| bytes.iter().any(|byte| *byte != 0)));
}

#[test]
fn a_damaged_pool_with_a_log_says_so_and_ends_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = make(folder.path());
    let pool = fs::read(&path).expect("there");
    // Everything behind the records of the pool itself, page by page: each as it was somewhere else.
    let pages = pool.len() >> 12;
    for page in (16..pages).step_by(1 + pages / 60) {
        let mut damaged = pool.clone();
        let other = 16 + (page * 7) % (pages - 16);
        damaged[page << 12..(page + 1) << 12]
            .copy_from_slice(&pool[other << 12..(other + 1) << 12]);
        fs::write(&path, &damaged).expect("room");
        match power().open(&path) {
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("pool.log"), "page {page}: {text}");
            }
            // What is wrong in it is the business of the check.
            Ok(store) => drop(store.check().expect("it can be checked")),
        }
    }
}

#[test]
fn a_pool_has_one_log_whatever_link_it_is_opened_by() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = make(folder.path());
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("pool", &link).expect("room");
    let store = power().open(&link).expect("it opens");
    let _ = store.default_map().put(b"by the link", b"value").expect("room");
    store.close().expect("it closes");
    assert!(!folder.path().join("link.log").exists());
    fs::remove_file(&path).expect("the pool is lost");
    let store = power().open(&link).expect("it is rebuilt");
    assert_eq!(store.default_map().len(), u64::from(KEYS) + 1);
    assert!(link.is_symlink() && path.exists());
    drop(store);
    assert!(!matches!(power().open(&path).map(|store| store.default_map().len()), Ok(0)));
}

#[test]
fn many_that_open_a_lost_pool_at_once_lose_nothing() {
    for round in 0..6 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = make(folder.path());
        fs::remove_file(&path).expect("the pool is lost");
        std::thread::scope(|scope| {
            for number in 0..4_u8 {
                let path = &path;
                scope.spawn(move || {
                    // Until it has been open here, too.
                    let store = loop {
                        match power().open(path) {
                            Ok(store) => break store,
                            Err(Error::Locked(_)) => std::thread::yield_now(),
                            Err(error) => panic!("round {round}: {error}"),
                        }
                    };
                    let _ = store.default_map().put([b'n', number], b"value").expect("room");
                    store.close().expect("it closes");
                });
            }
        });
        let store = power().open(&path).expect("it opens");
        assert_eq!(store.default_map().len(), u64::from(KEYS) + 4, "round {round}");
    }
}

/// What was lost: a pool that `serve` had made was as durable as the library makes it, and was refused after a crash of
/// the machine. A program that asks for more of new pools must not change old ones.
#[test]
fn a_new_pool_is_as_durable_as_asked_and_an_old_one_as_it_was() {
    let interval = Durability::Interval(Duration::from_millis(50));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let served = || Options::new().create(true).durability_of_new(interval);
    let store = served().open(&path).expect("it opens");
    assert_eq!(store.statistics().durability.name(), "interval");
    drop(store);
    assert_eq!(
        Options::new().open(&path).expect("opens").statistics().durability.name(),
        "interval"
    );
    let plain = folder.path().join("plain");
    drop(Options::new().create(true).open(&plain).expect("it opens"));
    assert_eq!(served().open(&plain).expect("it opens").statistics().durability.name(), "process");
    assert!(!folder.path().join("plain.log").exists());
}

/// Cuts the end off the log, at the beginning of a chunk, as a program does that truncates a file, or a file system
/// that was repaired. Everything in what is left is right.
fn cut_log(path: &Path) {
    let log = log_of(path);
    let segments = image(&log).into_iter().filter(|(path, _)| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"log-"))
    });
    let (segment, bytes) = segments.max_by_key(|(_, bytes)| bytes.len()).expect("there is one");
    let chunks = bytes.len() >> 12;
    assert!(chunks > 80, "each write is a chunk");
    fs::write(segment, &bytes[..(chunks - 40) << 12]).expect("room");
}

/// What was lost: a log cut short gave an earlier state when the pool was lost, and nothing said so.
#[test]
fn a_log_without_its_end_does_not_make_an_earlier_pool() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = make(folder.path());
    cut_log(&path);
    let pool = fs::read(&path).expect("there");
    fs::remove_file(&path).expect("the pool is lost");
    let before = image(&log_of(&path));
    let error = power().open(&path).map(drop).expect_err("the end is missing").to_string();
    assert!(error.contains("was cut off") && error.contains("remove"), "{error}");
    assert!(image(&log_of(&path)) == before && !path.exists(), "nothing is changed");
    // With the pool nothing is lost, and the log has everything again.
    fs::write(&path, pool).expect("room");
    is_whole(&power().open(&path).expect("it opens"));
    fs::remove_file(&path).expect("the pool is lost");
    is_whole(&power().open(&path).expect("it is rebuilt"));
    // A user who wants what is left says so.
    fs::remove_file(&path).expect("the pool is lost");
    fs::remove_dir_all(log_of(&path)).expect("there");
    make(folder.path());
    cut_log(&path);
    fs::remove_file(&path).expect("the pool is lost");
    fs::remove_file(log_of(&path).join("reached")).expect("there");
    let left = power().open(&path).expect("it is rebuilt").default_map().len();
    assert!(left < u64::from(KEYS) && left > u64::from(KEYS / 2), "{left}");
}

/// When a snapshot was written, what it reached was noted in the pool by a session that a check does not wait
/// for: the check told of a record that was free and in use, and of another that was neither.
#[test]
fn a_check_beside_snapshots_finds_nothing() {
    const SNAPSHOTS: u32 = 60;
    let folder = tempfile::tempdir().expect("a folder");
    let store = power().open(folder.path().join("pool")).expect("it opens");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..SNAPSHOTS {
                let _ = store.default_map().put(number.to_be_bytes(), b"v").expect("room");
                store.snapshot().expect("room");
            }
        });
        while !writer.is_finished() {
            let report = store.check().expect("it can be checked");
            assert_eq!(report.problems, Vec::<String>::new());
        }
    });
}

/// What was not noticed: the folder of the log was removed, and writes were acknowledged until the next segment or
/// snapshot was to be made, which may be hours later.
#[test]
fn a_log_that_is_removed_while_it_is_open_is_told_at_once() {
    let interval = Durability::Interval(Duration::from_millis(20));
    for durability in [Durability::Power, interval] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let store = options(durability).open(&path).expect("it opens");
        let map = store.default_map();
        let _ = map.put("first", "value").expect("room");
        // A folder that is moved away and back is the same.
        let moved = folder.path().join("moved");
        fs::rename(log_of(&path), &moved).expect("there");
        let _ = map.put("second", "value").expect("room");
        store.sync().expect("it goes on");
        fs::rename(&moved, log_of(&path)).expect("there");
        fs::remove_dir_all(log_of(&path)).expect("there");
        // With an interval no thread waits for the disk but one that asks for that.
        let told = map.put("third", "value").and_then(|_| store.sync()).expect_err("it is gone");
        assert!(told.to_string().contains("has removed it while the log is open"), "{told}");
        assert!(map.put("fourth", "value").is_err() && store.has_log_failed());
        assert_eq!(map.get("first").expect("readable").as_deref(), Some(&b"value"[..]));
        assert!(store.close().is_err());
        // The pool has everything, and gets a new log.
        let store = options(durability).open(&path).expect("it opens");
        assert_eq!(store.default_map().get("second").expect("get"), Some(b"value".to_vec()));
        store.sync().expect("there is a log");
    }
    // And where nobody writes.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let store = power().open(&path).expect("it opens");
    fs::remove_dir_all(log_of(&path)).expect("there");
    let start = std::time::Instant::now();
    while !store.has_log_failed() {
        assert!(start.elapsed() < Duration::from_secs(60), "nobody looks");
        std::thread::yield_now();
    }
}

/// The disk of a log was not mounted, so that the link to its folder led to nothing. A user who had lost the pool, too,
/// got a new and empty one, and others the system's answer, which named no way out.
#[test]
fn a_link_to_a_log_that_is_not_there_names_a_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = make(folder.path());
    let (log, elsewhere) = (folder.path().join("pool.log"), folder.path().join("elsewhere"));
    fs::rename(&log, &elsewhere).expect("there");
    std::os::unix::fs::symlink("elsewhere", &log).expect("room");
    is_whole(&power().open(&path).expect("a link is as good"));
    let unmounted = folder.path().join("unmounted");
    fs::rename(&elsewhere, &unmounted).expect("there");
    for is_lost in [false, true] {
        if is_lost {
            fs::remove_file(&path).expect("there");
        }
        for durability in [Durability::Process, Durability::Power] {
            let error = options(durability).open(&path).expect_err("the log is not there");
            let text = error.to_string();
            let is_told = text.contains("pool.log is a link to elsewhere, and nothing is there");
            assert!(is_told && text.contains("mount the disk"), "{durability:?}: {text}");
            assert!(log.is_symlink() && path.exists() != is_lost && !elsewhere.exists());
        }
    }
    fs::rename(&unmounted, &elsewhere).expect("there");
    is_whole(&power().open(&path).expect("it is rebuilt"));
}
