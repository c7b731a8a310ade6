//! A log that is damaged in the middle, beside a pool that is lost: an error that names the way on, and
//! with [`Options::salvage_log`] everything from before the damage.

use std::fs;
use std::path::{Path, PathBuf};

use everleaf::{Durability, Error, Options, Store};

const KEYS: u32 = 300;

fn power() -> Options {
    let options = Options::new().create(true).max_size_bytes(1 << 26).sweep(false);
    options.durability(Durability::Power).recovery_threads(1)
}

/// The first segment of the log of a closed store that has [`KEYS`] keys, one a commit.
fn make(pool: &Path) -> PathBuf {
    let store = power().open(pool).expect("it opens");
    for number in 0..KEYS {
        let _ = store.default_map().put(number.to_be_bytes(), [7; 100]).expect("room");
    }
    store.close().expect("it closes");
    let log = pool.with_file_name("pool.log");
    let mut segments: Vec<_> =
        fs::read_dir(log).expect("a folder").map(|entry| entry.expect("readable").path()).collect();
    segments
        .retain(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("log-")));
    segments.sort();
    segments.remove(0)
}

/// How many keys there are, which must be the first.
fn prefix(store: &Store) -> u32 {
    let count = store.default_map().len() as u32;
    for number in 0..count {
        let value = store.default_map().get(number.to_be_bytes()).expect("readable");
        assert_eq!(value, Some(vec![7; 100]), "key {number} of {count}");
    }
    count
}

/// Makes a byte in the middle of what a segment has another.
fn damage(segment: &Path) {
    let mut bytes = fs::read(segment).expect("readable");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("not empty");
    bytes[end / 2] ^= 1;
    fs::write(segment, bytes).expect("writable");
}

#[test]
fn a_damaged_log_without_its_pool_goes_on_when_asked_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    damage(&make(&pool));
    fs::remove_file(&pool).expect("it is there");
    let error = power().open(&pool).map(drop).expect_err("acknowledged writes are gone");
    assert!(matches!(error, Error::Corrupt(_)), "{error}");
    assert!(error.to_string().contains("--salvage-log"), "{error}");
    assert!(!pool.exists(), "no pool is made unasked");

    let store = power().salvage_log(true).open(&pool).expect("half of it is whole");
    let damages = store.rebuilt().expect("it was rebuilt").damages.clone();
    assert!(!damages.is_empty() && damages[0].contains("log-"), "{damages:?}");
    let left = prefix(&store);
    assert!((KEYS / 4..KEYS).contains(&left), "{left} of {KEYS}");
    let _ = store.default_map().put(left.to_be_bytes(), [7; 100]).expect("room");
    store.close().expect("it closes");

    // It is an ordinary log from now on.
    let store = power().open(&pool).expect("nothing is damaged any more");
    assert_eq!(prefix(&store), left + 1);
    assert!(store.check().expect("readable").is_clean());
    store.close().expect("it closes");
    fs::remove_file(&pool).expect("it is there");
    let store = power().open(&pool).expect("it is made from its log");
    assert_eq!(prefix(&store), left + 1);
}

#[test]
fn a_damaged_log_beside_its_pool_costs_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    damage(&make(&pool));
    let store = power().salvage_log(true).open(&pool).expect("the pool has everything");
    assert_eq!(prefix(&store), KEYS);
    store.close().expect("it closes");
    fs::remove_file(&pool).expect("it is there");
    let store = power().open(&pool).expect("a snapshot took the place of what was damaged");
    assert_eq!(prefix(&store), KEYS);
}

/// Nobody was told what was damaged, where the pool has it all.
#[test]
fn a_salvage_beside_a_pool_says_what_was_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let segment = make(&pool);
    let (image, log) = (folder.path().join("killed"), folder.path().join("killed.log"));
    // As a process leaves it that is killed: nothing proves the pool.
    let store = power().open(&pool).expect("it opens");
    fs::copy(&pool, &image).expect("room");
    fs::create_dir(&log).expect("room");
    for file in fs::read_dir(segment.parent().expect("a folder")).expect("a folder") {
        let file = file.expect("readable");
        fs::copy(file.path(), log.join(file.file_name())).expect("room");
    }
    drop(store);
    let mut segments: Vec<_> =
        fs::read_dir(&log).expect("a folder").map(|file| file.expect("readable").path()).collect();
    segments.retain(|path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"log-"))
    });
    segments.sort();
    let last =
        fs::File::options().write(true).open(segments.last().expect("there")).expect("there");
    std::os::unix::fs::FileExt::write_all_at(&last, &[0xEE; 64], 0).expect("room");
    let error = power().open(&image).map(drop).expect_err("it is damaged");
    assert!(error.to_string().contains("--salvage-log"), "{error}");
    let (tell, told) = std::sync::mpsc::channel();
    let (before, folder) = (names(&log), log.clone());
    let options = power().events(move |event| drop(tell.send((event.to_string(), names(&folder)))));
    let store = options.salvage_log(true).open(&image).expect("the pool has everything");
    let (line, then) = told.try_iter().next().expect("it is told");
    assert!(line.starts_with("the log was salvaged: ") && line.contains("log-"), "{line}");
    // A program that is told may tell others: by then the log that goes on is there, and what it goes on without aside.
    let has_new =
        |kind: &str| then.iter().any(|name| name.starts_with(kind) && !before.contains(name));
    assert!(has_new("log-") || has_new("damaged-log-"), "{then:?}");
    assert!(
        then.iter().any(|name| name == "salvaging"),
        "not before the pool needs nothing of it: {then:?}"
    );
    assert_eq!(prefix(&store), KEYS);
}

/// The files of a folder.
fn names(folder: &std::path::Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder");
    files.map(|file| file.expect("readable").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn nothing_is_salvaged_of_a_log_that_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    make(&pool);
    fs::remove_file(&pool).expect("it is there");
    let store = power().salvage_log(true).open(&pool).expect("it is made from its log");
    assert_eq!(store.rebuilt().expect("it was rebuilt").damages, Vec::<String>::new());
    assert_eq!(prefix(&store), KEYS);
}

/// What was lost: a log that was cut short was salvaged without a word of what is missing.
#[test]
fn a_salvaged_log_whose_end_was_cut_off_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let segment = make(&pool);
    let bytes = fs::read(&segment).expect("readable");
    let chunks = bytes.iter().rposition(|byte| *byte != 0).expect("not empty") >> 12;
    assert!(chunks > 80, "each write is a chunk");
    fs::write(&segment, &bytes[..(chunks - 40) << 12]).expect("writable");
    fs::remove_file(&pool).expect("it is there");
    let error =
        power().open(&pool).map(drop).expect_err("acknowledged writes are gone").to_string();
    assert!(error.contains("was cut off") && error.contains("--salvage-log"), "{error}");
    let store = power().salvage_log(true).open(&pool).expect("most of it is there");
    let damages = store.rebuilt().expect("it was rebuilt").damages.clone();
    assert!(damages.len() == 1 && damages[0].contains("was cut off"), "{damages:?}");
    let left = prefix(&store);
    assert!((KEYS / 2..KEYS).contains(&left), "{left} of {KEYS}");
    let _ = store.default_map().put(left.to_be_bytes(), [7; 100]).expect("room");
    store.close().expect("it closes");
    fs::remove_file(&pool).expect("it is there");
    let store = power().open(&pool).expect("it is an ordinary log");
    assert_eq!(prefix(&store), left + 1);
}

/// What was lost: without any segment the snapshots were put aside before it was known that nothing can be salvaged.
#[test]
fn snapshots_without_a_log_are_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let segment = make(&pool);
    let log = segment.parent().expect("a folder");
    let names = || {
        let names = fs::read_dir(log).expect("readable").map(|file| file.expect("readable").path());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    };
    let is_segment = |path: &PathBuf| path.to_string_lossy().contains("/log-");
    for path in names().iter().filter(|path| is_segment(path)) {
        fs::remove_file(path).expect("writable");
    }
    fs::remove_file(&pool).expect("it is there");
    let is_snapshot = |path: &PathBuf| path.to_string_lossy().contains("/snapshot-");
    let before: Vec<_> = names().into_iter().filter(is_snapshot).collect();
    assert!(!before.is_empty());
    for _ in 0..2 {
        let error = power().salvage_log(true).open(&pool).map(drop).expect_err("nothing is proven");
        assert!(matches!(error, Error::Corrupt(_)), "{error}");
        assert!(error.to_string().contains("nothing was changed"), "{error}");
        assert_eq!(names().into_iter().filter(is_snapshot).collect::<Vec<_>>(), before);
    }
}

#[test]
fn a_whole_log_is_not_left_as_one_that_is_salvaged() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, old) = (folder.path().join("pool"), folder.path().join("old"));
    make(&pool);
    let _ = fs::copy(&pool, &old).expect("room");
    let store = power().salvage_log(true).open(&pool).expect("it is whole");
    let _ = store.default_map().put(KEYS.to_be_bytes(), [7; 100]).expect("room");
    store.close().expect("it closes");
    let _ = fs::copy(&old, &pool).expect("room");
    let error = power().salvage_log(true).open(&pool).map(drop).expect_err("it is older");
    assert!(error.to_string().contains("is older than its log"), "{error}");
    // What the message says.
    fs::remove_file(&pool).expect("it is there");
    assert_eq!(prefix(&power().open(&pool).expect("the log is whole")), KEYS + 1);
}

/// The pool was damaged, too, and the only place of what the log had lost: it was removed.
#[test]
fn a_pool_that_may_have_what_a_salvaged_log_has_not_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    damage(&make(&pool));
    let file = fs::File::options().write(true).open(&pool).expect("it is there");
    file.set_len(file.metadata().expect("readable").len() - 4096).expect("writable");
    let before = fs::read(&pool).expect("readable");
    let store = power().salvage_log(true).open(&pool).expect("half of it is whole");
    assert!(prefix(&store) < KEYS);
    let kept = store.rebuilt().expect("it was rebuilt").kept.clone();
    assert_eq!(fs::read(kept.expect("it may have more")).expect("readable"), before);
}

/// What the log went on without was removed with it, though it is nowhere else.
#[test]
fn what_a_salvage_put_aside_stays_when_the_log_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let segment = make(&pool);
    let store = power().open(&pool).expect("it begins another segment");
    let _ = store.default_map().put(KEYS.to_be_bytes(), [7; 100]).expect("room");
    store.close().expect("it closes");
    damage(&segment);
    fs::remove_file(&pool).expect("it is there");
    power().salvage_log(true).open(&pool).expect("half of it is whole").close().expect("it closes");
    let log = segment.parent().expect("a folder");
    let aside = || {
        let mut files: Vec<_> = fs::read_dir(log)
            .expect("readable")
            .map(|file| file.expect("readable").path())
            .filter(|path| path.to_string_lossy().contains("/damaged-log-"))
            .map(|path| (fs::read(&path).expect("readable"), path))
            .collect();
        files.sort();
        files
    };
    let before = aside();
    assert!(!before.is_empty());
    for durability in [Durability::Process, Durability::Power] {
        let store = power().durability(durability).open(&pool).expect("it opens");
        assert!(aside() == before, "{durability:?}");
        store.close().expect("it closes");
    }
}
