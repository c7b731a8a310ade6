//! What a store does by itself is told, and nothing else is.

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use everleaf::{Durability, Error, Event, Options, Store};

const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> Options {
    Options::new().create(true).max_size_bytes(1 << 28)
}

/// Options of which the lines are kept that are told.
fn told(options: Options) -> (Options, mpsc::Receiver<String>) {
    let (tell, told) = mpsc::channel();
    (options.events(move |event| drop(tell.send(event.to_string()))), told)
}

/// "closed" came while the pool was still locked: a caller that opened it again at once was
/// refused.
#[test]
fn a_pool_can_be_opened_as_soon_as_it_is_told_to_be_closed() {
    let log = options().durability(Durability::Power);
    for (options, is_view_last) in
        [(options(), false), (options(), true), (log.clone(), false), (log, true)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let (tell, told) = mpsc::channel();
        let place = path.clone();
        let again = options.clone();
        let options = options.events(move |event| {
            if let Event::Closed = event {
                let opened = again.clone().open(&place).map(|store| store.statistics().was_clean);
                drop(tell.send(opened.map_err(|error| error.to_string())));
            }
        });
        let store = options.open(&path).expect("it opens");
        let map = store.map("other").expect("room");
        let _ = map.put("key", "value").expect("room");
        if is_view_last {
            let range = map.iter();
            let view = store.view().expect("a view");
            drop(store);
            drop(map);
            drop(range);
            drop(view);
        } else {
            drop(map);
            store.close().expect("it closes");
        }
        assert_eq!(told.try_recv(), Ok(Ok(true)));
    }
}

/// What was tried: a thread waited for itself, and the pool stayed as after a crash.
#[test]
fn a_function_that_drops_the_last_handle_closes_the_pool() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let slot: Arc<Mutex<Option<Store>>> = Arc::default();
    let (tell, told) = mpsc::channel();
    let held = slot.clone();
    let options = options().durability(Durability::Power).snapshot_after_bytes(1);
    let store = options
        .events(move |event| {
            if let Event::Snapshot(_) = event {
                // The lock goes first: closing tells, too.
                let last = held.lock().expect("no panic").take();
                drop(last);
            }
            drop(tell.send(event.to_string()));
        })
        .open(&path)
        .expect("it opens");
    // The function has to wait until the store is in its place.
    let mut place = slot.lock().expect("no panic");
    let _ = store.default_map().put("key", "value").expect("room");
    *place = Some(store);
    drop(place);
    let next = || told.recv_timeout(PATIENCE).expect("it goes on");
    // Perhaps one was written before, of nothing.
    while next() != "closed" {}
    assert!(next().starts_with("wrote a snapshot"));
    // The thread lets the pool go when it ends, which is soon.
    let start = std::time::Instant::now();
    let again = loop {
        match Options::new().open(&path) {
            Err(Error::Locked(_)) if start.elapsed() < PATIENCE => std::thread::yield_now(),
            opened => break opened.expect("it was closed"),
        }
    };
    assert!(again.statistics().was_clean);
    assert_eq!(again.check().expect("it can be checked").problems, Vec::<String>::new());
}

#[test]
fn a_snapshot_at_the_opening_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let log = options().durability(Durability::Power);
    let store = log.clone().snapshot_after_bytes(u64::MAX).open(&path).expect("it opens");
    let _ = store.default_map().put("key", "value").expect("room");
    store.close().expect("it closes");
    let (log, told) = told(log.snapshot_after_bytes(1));
    drop(log.open(&path).expect("it opens"));
    let lines: Vec<String> = told.try_iter().collect();
    assert_eq!(lines, ["wrote a snapshot of 1 pairs", "closed"]);
}

/// Of compaction and upgrade nobody was told it, nor what was kept.
#[test]
fn that_a_pool_is_rebuilt_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let log = options().durability(Durability::Power);
    let store = log.clone().open(&path).expect("it opens");
    let _ = store.default_map().put("key", "value").expect("room");
    store.close().expect("it closes");
    let all: [fn(Options, &Path); 3] = [
        |options, path| assert_eq!(options.compact(path, |_| {}).expect("room").keys, 1),
        |options, path| drop(options.upgrade(path).expect("room")),
        |options, path| drop(options.open(path).expect("it opens")),
    ];
    for act in all {
        std::fs::write(&path, "no pool").expect("room");
        let (options, told) = told(log.clone());
        act(options, &path);
        let line = told.try_iter().next().expect("it is told");
        assert!(line.starts_with("rebuilt the pool from "), "{line}");
        assert!(line.contains("is kept as ") && line.contains("pool.no-pool"), "{line}");
    }
}

/// "closed" was told of stores that nobody had opened.
#[test]
fn of_a_store_that_the_caller_never_has_nothing_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    options().open(&path).expect("it opens").close().expect("it closes");
    let all: [fn(Options, &Path); 3] = [
        |options, path| assert_eq!(options.compact(path, |_| {}).expect("room").keys, 0),
        |options, path| drop(options.upgrade(path).expect("room")),
        |options, path| drop(options.open(path.join("none")).expect_err("the pool is no folder")),
    ];
    for act in all {
        let (options, told) = told(options());
        act(options, &path);
        assert_eq!(told.try_iter().collect::<Vec<_>>(), Vec::<String>::new());
    }
}
