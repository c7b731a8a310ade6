//! A process that is forked from the one that has a store open has a copy of its handles, and may do
//! nothing with them.
//!
//! What was lost: a child that dropped an inherited handle, as every child does that ends orderly,
//! unlocked the pool of its parent and marked it cleanly closed. A second process then opened it
//! for writing, beside the first.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use everleaf::{Durability, Error, Options, Store, WriteBatch};

/// Seconds after which a child that hangs is ended.
const PATIENCE: u32 = 60;

/// Runs `act` in a forked child, and returns the code it ends with: 0, 101 if it panics, and 128
/// more than the signal that ends it.
pub fn in_child(act: impl FnOnce()) -> i32 {
    // SAFETY: the child runs `act` and ends. It has one thread, and what it uses of the standard
    // library and of the allocator works after a fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a system call without memory.
        unsafe { libc::alarm(PATIENCE) };
        // Without the locks of the usual one, which another thread may hold at the fork.
        std::panic::set_hook(Box::new(|info| {
            let text = format!("in the child: {info}\n");
            // SAFETY: the bytes are ours for the length of the call.
            unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        }));
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        // SAFETY: ends the process at once; nothing of the parent's is run.
        unsafe { libc::_exit(if ended.is_ok() { 0 } else { 101 }) };
    }
    assert!(child > 0, "a process can be forked");
    let mut status = 0;
    // SAFETY: the status is ours, and the child is one of ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) }
}

fn options(durability: Durability) -> Options {
    Options::new().create(true).max_size_bytes(1 << 28).durability(durability)
}

const ALL: [Durability; 3] =
    [Durability::Process, Durability::Interval(Duration::from_millis(5)), Durability::Power];

fn is_forked<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Forked(text)) if text.contains("fork"))
}

/// Copies a pool and its log, as they are.
fn copy(from: &Path, to: &Path) {
    std::fs::copy(from, to).expect("the pool can be copied");
    let Ok(files) = std::fs::read_dir(from.with_extension("pool.log")) else { return };
    let folder = to.with_extension("pool.log");
    std::fs::create_dir(&folder).expect("a folder");
    for file in files {
        let file = file.expect("a file");
        std::fs::copy(file.path(), folder.join(file.file_name())).expect("it can be copied");
    }
}

#[test]
fn a_child_that_drops_a_store_leaves_it_to_its_parent() {
    // With the thread of the sweep, what it holds is never dropped in a child; without it, all is.
    for (durability, sweep) in ALL.into_iter().flat_map(|one| [(one, true), (one, false)]) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.pool");
        let options = |durability| options(durability).sweep(sweep);
        let mut store = Some(options(durability).open(&path).expect("it opens"));
        let put = |store: &Option<Store>, key: &[u8]| {
            let _ = store
                .as_ref()
                .expect("open")
                .default_map()
                .put(key, b"value")
                .expect("it is writable");
        };
        put(&store, b"before");
        for child in 0..3 {
            assert_eq!(in_child(|| drop(store.take())), 0, "{durability:?}: child {child} ends");
        }
        let second = options(durability).open(&path);
        assert!(matches!(second, Err(Error::Locked(_))), "{durability:?}: it is the parent's");
        put(&store, b"after");
        // As the parent would leave it if it were killed now.
        let killed = folder.path().join("killed.pool");
        copy(&path, &killed);
        let opened = options(durability).open(&killed).expect("it opens");
        assert!(!opened.statistics().was_clean, "{durability:?}: nobody has closed it");
        assert_eq!(opened.default_map().len(), 2, "{durability:?}");
        drop(opened);
        store.take().expect("open").close().expect("the parent closes it");
        let opened = options(durability).open(&path).expect("it is free");
        assert!(opened.statistics().was_clean, "{durability:?}: it was closed");
        assert_eq!(opened.default_map().len(), 2, "{durability:?}");
    }
}

/// What was lost: a program that was started without a standard error got its number for the pool, and the next line
/// that any library printed was in the pool's header.
#[test]
fn a_closed_standard_stream_is_no_file_of_a_store() {
    for durability in ALL {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.pool");
        let print_everywhere = |what: &str| {
            for stream in 0..3 {
                let text = what.repeat(1 << 10);
                // SAFETY: the bytes are ours for the length of the call. It fails where there is no such stream.
                unsafe { libc::write(stream, text.as_ptr().cast(), text.len()) };
            }
        };
        // Once it is made, and once it is there.
        for life in 0..2_u8 {
            let code = in_child(|| {
                for stream in 0..3 {
                    // SAFETY: nothing that runs in this child needs its standard streams.
                    unsafe { libc::close(stream) };
                }
                let store = options(durability).open(&path).expect("it opens");
                assert!(!store.default_map().put([life], b"value").expect("room"));
                store.save().expect("room");
                print_everywhere("a warning\n");
                let copied = store.backup(folder.path().join(format!("copy{life}")), |_| {
                    print_everywhere("a remark\n");
                });
                copied.expect("room");
                assert!(!store.default_map().put([life, life], b"value").expect("room"));
                store.close().expect("it closes");
            });
            assert_eq!(code, 0, "{durability:?}, life {life}");
        }
        for name in ["a.pool", "copy1"] {
            let store = options(durability).open(folder.path().join(name)).expect("it opens");
            assert!(store.default_map().len() >= 3, "{durability:?}: {name}");
            assert!(store.check().expect("it can be checked").problems.is_empty(), "{name}");
        }
    }
}

/// Everything a handle can be asked, by a process that inherited it.
fn use_all(store: Store, view: everleaf::View, mut range: everleaf::Range) {
    let map = everleaf::Map::clone(store.default_map());
    assert!(is_forked(store.default_map().get(b"0")));
    assert!(is_forked(store.default_map().put(b"0", b"child")));
    assert!(is_forked(store.default_map().remove(b"0")));
    assert!(is_forked(store.default_map().get_many(&[b"0"], |_, _| ())));
    assert!(is_forked(store.default_map().scan(..).for_each(|_, _| ())));
    assert!(is_forked(store.default_map().clear()));
    assert!(is_forked(store.map("new")));
    assert!(is_forked(store.existing_map("other")));
    assert!(is_forked(store.drop_map("other")));
    assert!(is_forked(store.view()));
    assert!(is_forked(store.default_map().watch(b"0")));
    assert!(is_forked(store.check()));
    assert!(is_forked(store.sync()));
    assert!(is_forked(store.check_process()));
    assert!(is_forked(store.wait_deferred()));
    assert!(is_forked(store.save()));
    assert!(is_forked(store.snapshot()));
    assert!(is_forked(store.backup("/nowhere/backup", |_| {})));
    // It went on with what the child knew of the free space of its parent: it died, or said that it was done.
    assert!(is_forked(store.return_space()));
    assert!(is_forked(store.load_map("loaded", [(b"a", b"b")])));
    assert!(is_forked(map.statistics()));
    assert!(is_forked(map.fetch_add(b"0", 1)));
    assert!(is_forked(map.take(b"0")));
    assert!(is_forked(map.pop_first()));
    assert!(is_forked(map.ceiling(b"0")));
    assert!(is_forked(map.expire(b"0", Duration::from_secs(1))));
    assert!(is_forked(map.expiry(b"0")));
    assert!(is_forked(map.update_with(b"0", |_| everleaf::Action::Remove)));
    assert!(is_forked(view.default_map().get_many(&[b"0"], |_, _| ())));
    let _ = (store.is_read_only(), store.has_log_failed(), store.rollback_count());
    let _ = (store.rebuilt().is_some(), store.put_aside_files());
    store.defer_sync();
    let mut batch = WriteBatch::new();
    batch.put(&map, b"0", b"child");
    assert!(is_forked(store.write(&batch)));
    assert!(is_forked(view.default_map().get(b"0")));
    // What it had fetched it may give.
    assert!(matches!(range.by_ref().last(), Some(Err(Error::Forked(_)))));
    assert_eq!(store.default_map().len(), 0);
    assert_eq!(store.map_names(), Vec::<String>::new());
    let _ = store.statistics();
    drop((view, range, batch, map));
    assert!(is_forked(store.close()));
}

#[test]
fn every_operation_of_a_child_is_refused_and_none_hangs() {
    for durability in ALL {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.pool");
        let store = options(durability).open(&path).expect("it opens");
        for number in 0..600_u32 {
            let _ = store.default_map().put(number.to_be_bytes(), b"value").expect("room");
        }
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Threads that hold locks at the moment of the fork.
            for thread in 0..2_u32 {
                let (store, is_over) = (&store, &is_over);
                scope.spawn(move || {
                    // Relaxed: it is only to end some time.
                    for number in (0..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                        let _ = store.map(&format!("map-{}", number % 3)).expect("room");
                        let _ = store
                            .view()
                            .expect("a view")
                            .default_map()
                            .get(b"0")
                            .expect("readable");
                        let mut batch = WriteBatch::new();
                        let key = format!("{thread}-{}", number % 9);
                        batch.put(store.default_map(), key.as_bytes(), b"value");
                        let _ = store.write(&batch).expect("room");
                    }
                });
            }
            for child in 0..8 {
                let watch = store.default_map().watch(b"unwritten").expect("a watch");
                let mut held =
                    Some((&store, store.view().expect("a view"), store.default_map().iter()));
                let code = in_child(|| {
                    let (store, view, range) = held.take().expect("the child's copy");
                    assert!(watch.is_broken(), "what the parent writes is not seen");
                    // SAFETY: the child ends without using the original.
                    use_all(unsafe { std::ptr::read(store) }, view, range);
                });
                if code != 0 {
                    is_over.store(true, Ordering::Relaxed);
                }
                assert_eq!(code, 0, "{durability:?}: child {child}");
                assert!(!watch.is_broken(), "nobody has written it");
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(store.check().expect("it can be checked").problems.is_empty());
    }
}

#[test]
fn a_child_may_open_a_store_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let inherited = options(Durability::Power).open(folder.path().join("a.pool")).expect("opens");
    let path = folder.path().join("b.pool");
    let code = in_child(|| {
        let store = options(Durability::Power).open(&path).expect("it opens");
        assert!(!store.default_map().put(b"key", b"value").expect("room"));
        assert!(is_forked(inherited.default_map().get(b"key")));
        // And its child is refused in turn.
        assert_eq!(in_child(|| assert!(is_forked(store.default_map().get(b"key")))), 0);
        store.close().expect("it is the child's");
    });
    assert_eq!(code, 0);
    let store = options(Durability::Power).open(&path).expect("it opens");
    assert!(store.statistics().was_clean);
    assert_eq!(store.default_map().len(), 1);
}

/// A child that lives on has the files of its parent open, and with them what the lock is on: the parent can
/// close the store and open it again nevertheless.
#[test]
fn a_parent_closes_and_opens_again_while_its_child_lives() {
    for durability in ALL {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.pool");
        let store = options(durability).open(&path).expect("it opens");
        let _ = store.default_map().put(b"key", b"value").expect("room");
        // SAFETY: the child waits until it is ended, and does nothing else.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: a system call without memory.
            unsafe { libc::alarm(PATIENCE) };
            // SAFETY: a system call without memory.
            unsafe { libc::pause() };
            // SAFETY: ends the process at once; nothing of the parent's is run.
            unsafe { libc::_exit(0) };
        }
        assert!(child > 0, "a process can be forked");
        store.close().expect("it closes");
        for _ in 0..2 {
            let store = options(durability).open(&path).expect("nobody else has it open");
            assert!(store.statistics().was_clean, "{durability:?}");
            assert_eq!(store.default_map().len(), 1);
            store.close().expect("it closes");
        }
        // SAFETY: a system call without memory, about a child of ours.
        unsafe { libc::kill(child, libc::SIGKILL) };
        // SAFETY: the child is ours; the status is not wanted.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
}

/// Another program that is started while a store is open gets none of its files, and so holds no lock when
/// it outlives the store.
#[test]
fn a_program_that_is_started_gets_no_file_of_the_store() {
    for durability in ALL {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.pool");
        let store = options(durability).open(&path).expect("it opens");
        let _ = store.default_map().put(b"key", b"value").expect("room");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
        let files = std::fs::read_dir(format!("/proc/{}/fd", child.id())).expect("it lives");
        for file in files.map(|file| file.expect("readable").path()) {
            let leads_to = std::fs::read_link(&file).unwrap_or_default();
            assert!(!leads_to.starts_with(folder.path()), "{}", leads_to.display());
        }
        drop(store);
        let opened = options(durability).open(&path).expect("it is free");
        assert_eq!(opened.default_map().len(), 1);
        child.kill().expect("it lives");
        let _ = child.wait().expect("it is ours");
    }
}

/// The lock of a pool is there as long as anybody has the file that was opened. The refusal named the process that was
/// killed, and said that it has to be ended.
#[test]
fn a_child_of_a_killed_parent_is_named_as_who_may_hold_the_lock() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.pool");
    let options = || options(Durability::Process).sweep(false);
    options().open(&path).expect("it opens").close().expect("it closes");
    let (told, mut tell) = std::io::pipe().expect("a pipe");
    let ended = in_child(|| {
        let store = options().open(&path).expect("it opens");
        let _ = store.default_map().put(b"key", b"value").expect("it is writable");
        // SAFETY: the child waits for a byte, and ends; nothing of its parent's is run.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: a system call without memory.
            unsafe { libc::alarm(PATIENCE) };
            let mut byte = 0_u8;
            // SAFETY: the byte is there until the call returns.
            unsafe { libc::read(told.as_raw_fd(), (&raw mut byte).cast(), 1) };
            // SAFETY: nothing of the parent's is run.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: a system call without memory.
        let own = unsafe { libc::getpid() };
        // SAFETY: as the one before it: without memory.
        unsafe { libc::kill(own, libc::SIGKILL) };
    });
    assert_eq!(ended, 128 + libc::SIGKILL);
    let refused = options().open(&path);
    let Err(Error::Locked(text)) = refused else { panic!("{refused:?}: its child has the file") };
    assert!(text.contains("ended") && text.contains("forked"), "{text}");
    tell.write_all(b"x").expect("it waits");
    let since = std::time::Instant::now();
    let store = loop {
        match options().open(&path) {
            Err(Error::Locked(_)) if since.elapsed() < Duration::from_secs(30) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => break opened.expect("nobody has it any more"),
        }
    };
    assert_eq!(store.default_map().get(b"key").expect("readable"), Some(b"value".to_vec()));
}
