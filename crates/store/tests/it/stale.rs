//! Copies of a pool that are older than its log, put back in its place.
//!
//! What was lost: a pool that was copied while it was open looked like one whose process was killed. It was opened,
//! and the snapshot that is due then took the place of everything the log had from later. And a program that only read
//! or backed up an older copy, or another pool, was served it with success.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everleaf::{Durability, Error, Options, Store};

fn options(durability: Durability) -> Options {
    let options = Options::new().create(true).max_size_bytes(1 << 26).sweep(false);
    options.durability(durability).recovery_threads(1)
}

fn put(store: &Store, keys: std::ops::Range<u32>) {
    for number in keys {
        let _ = store.default_map().put(number.to_be_bytes(), b"value").expect("room");
    }
}

/// Copies a folder with a pool and its log, as it is at the moment: what a killed process leaves.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("room");
    for entry in fs::read_dir(from).expect("readable") {
        let path = entry.expect("readable").path();
        let name = to.join(path.file_name().expect("it has one"));
        match path.is_dir() {
            true => copy(&path, &name),
            false => drop(fs::copy(&path, &name).expect("room")),
        }
    }
}

fn is_older(opened: everleaf::Result<Store>) {
    match opened.map(drop) {
        Err(Error::Corrupt(text)) => assert!(text.contains("is older than its log"), "{text}"),
        other => panic!("{other:?}"),
    }
}

fn image(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(folder).expect("there").map(|file| file.expect("readable").path());
    let mut files: Vec<_> =
        files.map(|file| (file.clone(), fs::read(file).unwrap_or_default())).collect();
    files.sort();
    files
}

/// The names of the segments and snapshots.
fn names(image: &[(PathBuf, Vec<u8>)]) -> Vec<PathBuf> {
    let is_data = |path: &&PathBuf| path.to_string_lossy().contains('-');
    image.iter().map(|(path, _)| path).filter(is_data).cloned().collect()
}

/// An older copy is refused to a program that writes, reads, or wants to do without the log, and the log stays.
/// Without the copy everything is there.
fn is_refused(pool: &Path, durability: Durability, keys: u64) {
    let log = pool.with_file_name("pool.log");
    let before = image(&log);
    for _ in 0..2 {
        is_older(options(durability).open(pool));
        is_older(Options::new().read_only(true).open(pool));
        is_older(options(Durability::Process).open(pool));
        is_older(Options::new().read_only(true).verify_reads(true).open(pool));
    }
    // A new segment may have been begun.
    let (before, after) = (names(&before), names(&image(&log)));
    assert!(before.iter().all(|name| after.contains(name)), "{before:?} {after:?}");
    fs::remove_file(pool).expect("there");
    let store = options(durability).open(pool).expect("the log has everything");
    assert_eq!(store.default_map().len(), keys);
}

#[test]
fn a_copy_of_an_open_pool_is_refused_later() {
    for durability in [Durability::Power, Durability::Interval(Duration::from_millis(5))] {
        let folder = tempfile::tempdir().expect("a folder");
        let (pool, old) = (folder.path().join("pool"), folder.path().join("old"));
        let store = options(durability).open(&pool).expect("it opens");
        put(&store, 0..10);
        let _ = fs::copy(&pool, &old).expect("room");
        put(&store, 10..100);
        store.close().expect("it closes");
        let _ = fs::copy(&old, &pool).expect("room");
        is_refused(&pool, durability, 100);
    }
}

#[test]
fn a_copy_from_before_a_killed_process_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (open, left) = (folder.path().join("open"), folder.path().join("left"));
    fs::create_dir(&open).expect("room");
    let store = options(Durability::Power).open(open.join("pool")).expect("it opens");
    put(&store, 0..10);
    let old = folder.path().join("old");
    copy(&open, &left);
    let _ = fs::copy(left.join("pool"), &old).expect("room");
    drop(store);
    // The next life is killed, too.
    let store = options(Durability::Power).open(left.join("pool")).expect("it opens");
    put(&store, 10..60);
    let killed = folder.path().join("killed");
    copy(&left, &killed);
    drop(store);
    let _ = fs::copy(&old, killed.join("pool")).expect("room");
    is_refused(&killed.join("pool"), Durability::Power, 60);
}

#[test]
fn a_copy_of_a_closed_pool_is_refused_by_readers() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, old) = (folder.path().join("pool"), folder.path().join("old"));
    let store = options(Durability::Power).open(&pool).expect("it opens");
    put(&store, 0..10);
    store.close().expect("it closes");
    let _ = fs::copy(&pool, &old).expect("room");
    let store = options(Durability::Power).open(&pool).expect("it opens");
    put(&store, 10..30);
    store.close().expect("it closes");
    let _ = fs::copy(&old, &pool).expect("room");
    is_refused(&pool, Durability::Power, 30);
}

/// What the life behind the copy had in memory only came into a snapshot, which takes no number of its own: the copy
/// was opened, and the next snapshot took the place of that one.
#[test]
fn a_copy_from_before_an_interval_that_was_killed_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (open, killed) = (folder.path().join("open"), folder.path().join("killed"));
    let old = folder.path().join("old");
    fs::create_dir(&open).expect("room");
    let store = options(Durability::Power).open(open.join("pool")).expect("it opens");
    put(&store, 0..10);
    store.close().expect("it closes");
    let _ = fs::copy(open.join("pool"), &old).expect("room");
    let interval = Durability::Interval(Duration::from_secs(3600));
    let store = options(interval).open(open.join("pool")).expect("it opens");
    put(&store, 10..20);
    copy(&open, &killed);
    drop(store);
    let store = options(Durability::Power).open(killed.join("pool")).expect("it opens");
    assert_eq!(store.default_map().len(), 20);
    store.close().expect("it closes");
    let _ = fs::copy(&old, killed.join("pool")).expect("room");
    is_refused(&killed.join("pool"), Durability::Power, 20);
}

/// A pool that was opened and closed again is newer than its copy, which is refused also where it lacks nothing, by
/// writers as by readers; and the log has it all.
#[test]
fn a_copy_that_lacks_nothing_is_refused_and_made_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, old) = (folder.path().join("pool"), folder.path().join("old"));
    let store = options(Durability::Power).open(&pool).expect("it opens");
    put(&store, 0..10);
    store.close().expect("it closes");
    let _ = fs::copy(&pool, &old).expect("room");
    let store = options(Durability::Power).open(&pool).expect("it opens");
    store.close().expect("it closes");
    let _ = fs::copy(&old, &pool).expect("room");
    is_refused(&pool, Durability::Power, 10);
}

#[test]
fn a_compacted_pool_whose_process_was_killed_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let store = options(Durability::Power).open(&pool).expect("it opens");
    put(&store, 0..10);
    store.close().expect("it closes");
    let _ = options(Durability::Power).compact(&pool, |_| {}).expect("it is whole");
    let store = options(Durability::Power).open(&pool).expect("it opens");
    put(&store, 10..20);
    let left = folder.path().join("left");
    fs::create_dir(&left).expect("room");
    let _ = fs::copy(&pool, left.join("pool")).expect("room");
    copy(&folder.path().join("pool.log"), &left.join("pool.log"));
    drop(store);
    assert_eq!(
        Options::new()
            .read_only(true)
            .open(left.join("pool"))
            .expect("it opens")
            .default_map()
            .len(),
        20
    );
    let store = options(Durability::Power).open(left.join("pool")).expect("it opens");
    assert_eq!(store.default_map().len(), 20);
}

#[test]
fn a_pool_beside_the_log_of_another_is_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, other) = (folder.path().join("pool"), folder.path().join("other"));
    for path in [&pool, &other] {
        let store = options(Durability::Power).open(path).expect("it opens");
        put(&store, 0..10);
        store.close().expect("it closes");
    }
    let _ = fs::copy(&other, &pool).expect("room");
    match Options::new().read_only(true).open(&pool).map(drop) {
        Err(Error::Corrupt(text)) => assert!(text.contains("not the one of this pool"), "{text}"),
        opened => panic!("{opened:?}"),
    }
}

#[test]
fn a_copy_of_a_compacted_pool_is_refused_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, old) = (folder.path().join("pool"), folder.path().join("old"));
    let store = options(Durability::Power).open(&pool).expect("it opens");
    put(&store, 0..10);
    store.close().expect("it closes");
    let _ = options(Durability::Power).compact(&pool, |_| {}).expect("it is whole");
    let _ = fs::copy(&pool, &old).expect("room");
    let store = options(Durability::Power).open(&pool).expect("it opens");
    put(&store, 10..30);
    store.close().expect("it closes");
    let _ = fs::copy(&old, &pool).expect("room");
    is_refused(&pool, Durability::Power, 30);
}

#[test]
fn a_copy_of_a_closed_pool_is_refused_behind_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let (open, killed) = (folder.path().join("open"), folder.path().join("killed"));
    let old = folder.path().join("old");
    fs::create_dir(&open).expect("room");
    let store = options(Durability::Power).open(open.join("pool")).expect("it opens");
    put(&store, 0..10);
    store.close().expect("it closes");
    let _ = fs::copy(open.join("pool"), &old).expect("room");
    let store = options(Durability::Power).open(open.join("pool")).expect("it opens");
    put(&store, 10..30);
    copy(&open, &killed);
    drop(store);
    let _ = fs::copy(&old, killed.join("pool")).expect("room");
    is_refused(&killed.join("pool"), Durability::Power, 30);
}

/// A folder takes the place of a note beside the log, which cannot be read then. Returns where the note is meanwhile.
fn hide(log: &Path, name: &str) -> PathBuf {
    let (note, aside) = (log.join(name), log.with_extension("aside").join(name));
    fs::create_dir_all(aside.parent().expect("it has one")).expect("room");
    if note.exists() {
        fs::rename(&note, &aside).expect("there");
    }
    fs::create_dir(&note).expect("room");
    aside
}

fn show(log: &Path, name: &str, aside: &Path) {
    fs::remove_dir(log.join(name)).expect("nothing is in it");
    if aside.exists() {
        fs::rename(aside, log.join(name)).expect("there");
    }
}

/// What was lost: acknowledged writes. A note beside the log that could not be read, for want of a descriptor or
/// on a bad disk, was taken for one that is not there. So an older copy of the pool was opened; a log without its
/// end was all there ever was; and a pool was rebuilt as another one, in another tree.
#[test]
fn a_note_that_cannot_be_read_is_an_error_that_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, old) = (folder.path().join("pool"), folder.path().join("old"));
    let log = path.with_extension("log");
    let open = || options(Durability::Power).open(&path);
    let refused = |opened: everleaf::Result<Store>, name: &str| match opened.map(drop) {
        Err(Error::Io(what, _)) => {
            assert!(what.contains(&log.join(name).display().to_string()), "{name}: {what}");
        }
        other => panic!("{name}: {other:?}"),
    };
    for (from, to) in [(0, 10), (10, 20)] {
        let store = open().expect("it opens");
        put(&store, from..to);
        store.close().expect("it closes");
        if !old.exists() {
            let _ = fs::copy(&path, &old).expect("room");
        }
    }
    let newest = fs::read(&path).expect("there");
    for name in ["settings", "reached", "tree", "generation", "salvaging"] {
        let aside = hide(&log, name);
        let before = image(&log);
        let is_evidence = ["reached", "generation"].contains(&name);
        refused(open(), name);
        if is_evidence {
            refused(Options::new().read_only(true).open(&path), name);
            refused(options(Durability::Process).open(&path), name);
        }
        fs::remove_file(&path).expect("there");
        refused(open(), name);
        assert!(!path.exists(), "{name}: nothing was made");
        let _ = fs::copy(&old, &path).expect("room");
        refused(open(), name);
        assert!(image(&log) == before, "{name}: nothing was changed");
        show(&log, name, &aside);
        is_older(open());
        fs::write(&path, &newest).expect("room");
    }
    let store = open().expect("it opens");
    assert_eq!(store.default_map().len(), 20);
    // What is not there any more at the end is no reason not to close.
    for name in ["reached", "generation"] {
        let _ = hide(&log, name);
    }
    store.close().expect("only evidence is missing");
}
