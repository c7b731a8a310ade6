//! What a save keeps: the backup of another pool.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::mpsc;

use everleaf::{Action, Error, Options, Store};

fn open(path: &Path) -> Store {
    Options::new().create(true).open(path).expect("the pool opens")
}

fn value(path: &Path, key: &str) -> Option<Vec<u8>> {
    let store = Options::new().read_only(true).open(path).expect("a backup is a pool");
    store.default_map().get(key).expect("readable")
}

/// A store had lost its file, and saved all that there was to `pool.backup`. A supervisor started it anew, with an
/// empty pool, whose first save replaced that backup.
#[test]
fn the_save_of_a_new_pool_keeps_the_backup_of_the_lost_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let lost = open(&path("pool"));
    lost.default_map().put("precious", "1").expect("room");
    std::fs::remove_file(path("pool")).expect("it is there");
    assert_eq!(lost.save().expect("a save is what helps then"), 1);
    let new = open(&path("pool"));
    for (count, kept) in [("1", 1), ("2", 1)] {
        new.default_map().put("count", count).expect("room");
        assert_eq!(new.save().expect("room"), 1);
        assert_eq!(value(&path("pool.backup"), "count").as_deref(), Some(count.as_bytes()));
        let names = std::fs::read_dir(folder.path()).expect("a folder").flatten();
        let names = names.filter(|entry| entry.file_name().to_string_lossy().contains("replaced"));
        assert_eq!(names.count(), kept, "of its own saves it keeps the last");
    }
    assert_eq!(value(&path("pool.backup.replaced"), "precious").as_deref(), Some(&b"1"[..]));
    // Both are there, and save in turn: none of the two replaces what only the other has.
    lost.save().expect("room");
    assert_eq!(value(&path("pool.backup.replaced-2"), "count").as_deref(), Some(&b"2"[..]));
}

/// A pool that has the number of a copy from its own copy is not its source: a restored pool keeps what it was restored
/// from.
#[test]
fn the_save_of_a_restored_pool_keeps_what_it_was_restored_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let store = open(&path("old"));
    store.default_map().put("a", "1").expect("room");
    store.backup(path("pool.backup"), |_| {}).expect("room");
    store.close().expect("it closes");
    Store::restore(path("pool.backup"), path("pool"), |_| {}).expect("it is sound");
    let restored = open(&path("pool"));
    restored.default_map().remove("a").expect("it is there");
    restored.save().expect("room");
    assert_eq!(value(&path("pool.backup"), "a"), None);
    assert_eq!(value(&path("pool.backup.replaced"), "a").as_deref(), Some(&b"1"[..]));
}

/// A backup that was killed behind its end left a second name of its file, which no later call removed: they were
/// refused, since the backup was there. To delete it gave no space back.
#[test]
fn a_backup_that_is_there_loses_its_second_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let store = open(&path("pool"));
    store.backup(path("copy"), |_| {}).expect("room");
    store.save().expect("room");
    let left = path(".copy.everleaf-new");
    let links = || std::fs::metadata(path("copy")).expect("it is there").nlink();
    for again in [0, 1] {
        std::fs::DirBuilder::new().mode(0o700).create(&left).expect("room");
        std::fs::hard_link(path("copy"), left.join("copy")).expect("room");
        assert_eq!(links(), 2);
        let refused = match again {
            0 => store.backup(path("copy"), |_| {}).map(drop),
            _ => Store::repair(path("pool.backup"), path("copy")).map(drop),
        };
        assert!(matches!(refused, Err(Error::AlreadyExists(_))), "{refused:?}");
        assert_eq!(links(), 1);
    }
}

/// What another pool left is kept before it is replaced. A process that was killed in between, again and again, left
/// one more name of it each time, and with the thousandth none could save any more.
#[test]
fn a_file_that_is_kept_already_gets_no_other_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let other = open(&path("other"));
    other.default_map().put("precious", "1").expect("room");
    other.backup(path("pool.backup"), |_| {}).expect("room");
    let store = open(&path("pool"));
    // What a process leaves that was killed behind the first of two steps.
    std::fs::hard_link(path("pool.backup"), path("pool.backup.replaced")).expect("room");
    store.save().expect("room");
    assert!(!path("pool.backup.replaced-2").exists());
    assert_eq!(value(&path("pool.backup.replaced"), "precious").as_deref(), Some(&b"1"[..]));
    assert_eq!(value(&path("pool.backup"), "precious"), None);
}

/// What was lost: a file that came to where a save was to go while that was being made.
#[test]
fn what_comes_while_a_save_is_made_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let other = open(&path("other"));
    other.default_map().put("precious", "1").expect("room");
    let store = open(&path("pool"));
    store.default_map().put("key", "value").expect("room");
    let ((begin, begun), (go, gone)) = (mpsc::channel(), mpsc::channel::<()>());
    std::thread::scope(|scope| {
        let map = store.default_map();
        let writer = scope.spawn(move || {
            map.update_with("key", |_| {
                begin.send(()).expect("it is waited for");
                gone.recv().expect("it is told");
                Action::Keep
            })
        });
        begun.recv().expect("it writes");
        let saver = scope.spawn(|| store.save());
        // Made behind the look at what is there; then the save waits for the write.
        while !path(".pool.backup.everleaf-new").exists() {
            std::thread::yield_now();
        }
        other.backup(path("moved"), |_| {}).expect("room");
        std::fs::rename(path("moved"), path("pool.backup")).expect("room");
        go.send(()).expect("it waits");
        drop(writer.join().expect("it ends"));
        assert_eq!(saver.join().expect("it ends").expect("room"), 1);
    });
    assert_eq!(value(&path("pool.backup"), "key").as_deref(), Some(&b"value"[..]));
    assert_eq!(value(&path("pool.backup.replaced"), "precious").as_deref(), Some(&b"1"[..]));
}
