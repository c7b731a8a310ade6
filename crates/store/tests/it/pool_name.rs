//! A pool without a log whose file is removed or replaced while it is open.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use everleaf::{Action, Error, Expiry, Options, Store, WriteBatch};

fn options() -> Options {
    Options::new().create(true).max_size_bytes(1 << 28)
}

/// A store with two maps, which was told of nothing when its file was moved and moved back.
fn moved_store(path: &Path, options: Options) -> Store {
    let store = options.open(path).expect("it opens");
    let _ = store.default_map().put("first", "value").expect("room");
    let _ = store.map("other").expect("room").put("key", "value").expect("room");
    let moved = path.with_extension("moved");
    fs::rename(path, &moved).expect("there");
    store.sync().expect("the user who moved it can find it");
    let _ = store.default_map().put("second", "value").expect("it goes on");
    fs::rename(&moved, path).expect("there");
    // Another name is as good.
    fs::hard_link(path, &moved).expect("room");
    fs::remove_file(path).expect("there");
    store.sync().expect("it can be found");
    fs::rename(&moved, path).expect("there");
    store
}

fn is_gone<R>(result: everleaf::Result<R>) -> bool {
    matches!(result, Err(Error::PoolGone(_)))
}

/// Each kind of write is refused, and reads are served.
fn refuses_all_writes(store: &Store) {
    let map = store.default_map();
    let later = Expiry::from_unix_ms(1 << 42);
    assert!(is_gone(map.put("first", "later")));
    assert!(is_gone(map.insert("new", "later")));
    assert!(is_gone(map.remove("first")));
    assert!(is_gone(map.expire("first", later)));
    assert!(is_gone(map.fetch_add("sum", 1)));
    assert!(is_gone(map.update_with("first", |_| Action::Put(b"later".to_vec()))));
    let mut batch = WriteBatch::new();
    batch.put(map, "first", "later");
    assert!(is_gone(store.write(&batch)));
    assert!(is_gone(map.clear()));
    assert!(is_gone(store.map("new")));
    assert!(is_gone(store.drop_map("other")));
    assert!(is_gone(store.load_map("new", [("key", "value")])));
    assert!(is_gone(store.sync()) && store.is_pool_gone());
    assert_eq!(map.get("first").expect("readable").as_deref(), Some(&b"value"[..]));
    assert_eq!(map.iter().count(), 2);
    assert_eq!(store.map_names(), ["default", "other"]);
}

/// What was lost: everything that was written to a pool without a log after its file was removed, or another put in its
/// place. All of it was acknowledged, and gone when the process ended.
#[test]
fn a_pool_without_its_file_takes_no_more_writes() {
    for is_replaced in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let (tell, told) = mpsc::channel();
        let options = options().events(move |event| drop(tell.send(event.to_string())));
        let store = moved_store(&path, options);
        if is_replaced {
            let other = folder.path().join("other");
            fs::write(&other, "another file").expect("room");
            fs::rename(other, &path).expect("room");
        } else {
            fs::remove_file(&path).expect("there");
        }
        let start = Instant::now();
        while store.default_map().put("second", "value").is_ok() {
            assert!(start.elapsed() < Duration::from_secs(60), "nobody looks");
            std::thread::yield_now();
        }
        refuses_all_writes(&store);
        let told = told.recv_timeout(Duration::from_secs(60)).expect("it is told");
        let happened =
            if is_replaced { "put another file in its place" } else { "removed the file" };
        assert!(told.contains(happened) && told.contains(path.to_str().expect("text")), "{told}");
        // The way out that it tells of.
        assert_eq!(store.save().expect("room"), 3);
        assert!(is_gone(store.close()));
        let copy = path.with_extension("backup");
        let copy = Options::new().open(copy).expect("it is whole");
        assert_eq!(copy.default_map().get("second").expect("get"), Some(b"value".to_vec()));
        assert_eq!(copy.map_names(), ["default", "other"]);
    }
}

/// What was told, and not so: that all is lost when the process ends, of a file that was moved before another was put
/// in its place.
#[test]
fn a_file_with_another_name_is_not_told_to_be_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    for is_linked in [false, true] {
        let store = moved_store(&path, options().sweep(false));
        let (moved, other) = (path.with_extension("moved"), path.with_extension("other"));
        match is_linked {
            true => fs::hard_link(&path, &moved).expect("room"),
            false => fs::rename(&path, &moved).expect("there"),
        }
        fs::write(&other, "another file").expect("room");
        fs::rename(&other, &path).expect("room");
        let told = store.sync().expect_err("others find another file").to_string();
        assert!(told.contains("put another file in its place"), "{told}");
        assert!(told.contains("put that file back") && !told.contains("lost"), "{told}");
        refuses_all_writes(&store);
        drop(store);
        fs::rename(&moved, &path).expect("there");
        let store = options().open(&path).expect("it is whole");
        assert_eq!(store.default_map().get("second").expect("get"), Some(b"value".to_vec()));
        assert!(store.check().expect("a check").is_clean());
        store.close().expect("it closes");
        fs::remove_file(&path).expect("there");
    }
}

/// Without a thread in the background only a call that asks looks, and the end.
#[test]
fn a_sync_and_the_end_tell_that_the_file_is_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let store = moved_store(&path, options().sweep(false));
    fs::remove_file(&path).expect("there");
    assert!(is_gone(store.sync()));
    refuses_all_writes(&store);
    drop(store);
    let store = moved_store(&path, options().sweep(false));
    fs::remove_file(&path).expect("there");
    assert!(is_gone(store.close()));
}

/// Inside of an operation nobody can be waited for: the next look has the others refused.
#[test]
fn a_sync_within_an_operation_waits_for_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let store = moved_store(&path, options().sweep(false));
    fs::remove_file(&path).expect("there");
    let read = store.default_map().get_with("first", |_| is_gone(store.sync()));
    assert_eq!(read.expect("readable"), Some(true));
    assert!(is_gone(store.sync()));
    refuses_all_writes(&store);
}

/// What was lost: a write that was acknowledged behind the refusal of another, while the first thread that has seen the
/// loss still waited for writes that began before.
#[test]
fn who_is_refused_finds_no_write_acknowledged_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let store = moved_store(&path, options().sweep(false));
    let ((begin, begun), (go, gone)) = (mpsc::channel(), mpsc::channel::<()>());
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        // In here, so that the writer ends, too, when something below fails.
        let go = go;
        let map = store.default_map();
        let writer = scope.spawn(move || {
            map.update_with("first", |_| {
                begin.send(()).expect("it is waited for");
                gone.recv().expect("it is told");
                Action::Put(b"before".to_vec())
            })
        });
        begun.recv().expect("it writes");
        fs::remove_file(&path).expect("there");
        let look = || {
            let (tell, store) = (tell.clone(), &store);
            scope.spawn(move || tell.send(is_gone(store.sync())).expect("it is waited for"))
        };
        look();
        let start = Instant::now();
        while !is_gone(map.put("second", "later")) {
            assert!(start.elapsed() < Duration::from_secs(60), "nobody looks");
            std::thread::yield_now();
        }
        look();
        // Neither of the two: the write goes on.
        assert!(told.recv_timeout(Duration::from_millis(300)).is_err());
        go.send(()).expect("it waits");
        assert!(writer.join().expect("it ends").is_ok());
        assert!(told.recv().expect("it is told") && told.recv().expect("it is told"));
    });
    assert!(is_gone(store.default_map().put("second", "later")));
    assert_eq!(
        store.default_map().get("first").expect("readable").as_deref(),
        Some(&b"before"[..])
    );
}

/// What is written to a log is found there, whatever becomes of the pool.
#[test]
fn a_pool_with_a_log_goes_on_without_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let power = || options().durability(everleaf::Durability::Power);
    let store = moved_store(&path, power());
    fs::remove_file(&path).expect("there");
    store.sync().expect("the log is there");
    let _ = store.default_map().put("second", "later").expect("room");
    store.close().expect("it closes");
    let store = power().open(&path).expect("it is rebuilt");
    assert_eq!(store.default_map().get("second").expect("get"), Some(b"later".to_vec()));
}

/// What was lost: all that there was, where the log was removed with its pool. Nobody asked for the pool of a store
/// with a log, though that had failed; its end saved nothing, and a save was refused.
#[test]
fn what_has_lost_its_log_as_well_can_be_saved() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    for durability in
        [everleaf::Durability::Power, everleaf::Durability::Interval(Duration::from_millis(100))]
    {
        let store = options().durability(durability).open(&path).expect("it opens");
        let _ = store.default_map().put("first", "value").expect("room");
        let log = folder.path().join("pool.log");
        fs::remove_dir_all(&log).expect("there");
        assert!(!store.is_pool_gone());
        fs::remove_file(&path).expect("there");
        assert!(store.is_pool_gone() && is_gone(store.sync()) && store.has_log_failed());
        assert_eq!(store.save().expect("it is what helps then"), 1);
        assert!(store.close().is_err());
        let backup = path.with_extension("backup");
        let saved = Options::new().open(&backup).expect("it is whole");
        assert_eq!(saved.default_map().get("first").expect("get"), Some(b"value".to_vec()));
        saved.close().expect("it closes");
        fs::remove_file(backup).expect("there");
    }
}
