//! Space that is free is returned to the file system, and allocated again before it is used.

use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use everleaf::{Options, Store};

/// Bytes of data, in MiB; `EVERLEAF_SPACE_MIB` for a measurement.
const SIZE_MIB: u64 = 24;
const VALUE_SIZE: usize = 1000;

fn open(pool: &Path) -> Store {
    Options::new().create(true).max_size_bytes(4 << 30).open(pool).expect("the pool opens")
}

fn allocated(pool: &Path) -> u64 {
    std::fs::metadata(pool).expect("there").blocks() * 512
}

fn size_mib() -> u64 {
    let given = std::env::var("EVERLEAF_SPACE_MIB").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(SIZE_MIB)
}

fn fill(store: &Store, mark: u8) -> u64 {
    let count = (size_mib() << 20) / VALUE_SIZE as u64;
    for number in 0..count {
        let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        store.default_map().put(key, [mark; VALUE_SIZE]).expect("room");
    }
    // One that has chunks of its own.
    store.default_map().put(b"large", vec![mark; 3 << 20]).expect("room");
    count + 1
}

fn is_sound(store: &Store, count: u64, mark: u8) {
    assert_eq!(
        store
            .default_map()
            .iter()
            .map(Result::unwrap)
            .filter(|(_, value)| value.iter().all(|b| *b == mark))
            .count() as u64,
        count
    );
    assert_eq!(store.check().expect("the check runs").problems, Vec::<String>::new());
}

/// Whether this file system can make holes: without them there is nothing to see. (A store was asked first, so a
/// store that returned nothing passed for a file system without holes.)
pub(crate) fn knows_holes(folder: &Path) -> bool {
    let path = folder.join("probe");
    std::fs::write(&path, [7; 1 << 16]).expect("room");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("it is there");
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: a system call without memory, on a file of ours.
    unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, 1 << 15) == 0 }
}

/// The file stayed at its largest size after everything was removed from it.
#[test]
fn what_was_emptied_gives_its_space_back() {
    let folder = tempfile::tempdir().expect("a folder");
    if !knows_holes(folder.path()) {
        return;
    }
    let pool = folder.path().join("pool");
    let store = open(&pool);
    let count = fill(&store, 1);
    let (before, length) = (allocated(&pool), std::fs::metadata(&pool).expect("there").len());
    store.default_map().clear().expect("room");
    let returned = store.return_space().expect("nothing is refused");
    let after = allocated(&pool);
    println!("{before} bytes allocated, {after} after it was emptied, {returned} returned");
    assert!(after < before / 3, "{after} of {before} bytes are left");
    assert!(store.statistics().pool_returned_bytes >= returned);
    assert_eq!(std::fs::metadata(&pool).expect("there").len(), length);
    is_sound(&store, 0, 0);
    // It is all there again, and was allocated before it was written.
    assert_eq!(fill(&store, 2), count);
    assert!(allocated(&pool) >= before * 9 / 10);
    is_sound(&store, count, 2);
    store.close().expect("it can be closed");
    is_sound(&open(&pool), count, 2);
}

/// Opening filled all holes, so that an emptied store took its whole space again.
#[test]
fn an_emptied_store_stays_small_when_it_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    if !knows_holes(folder.path()) {
        return;
    }
    let pool = folder.path().join("pool");
    for closes in [true, false] {
        let store = open(&pool);
        let count = fill(&store, 3);
        let before = allocated(&pool);
        store.default_map().clear().expect("room");
        store.default_map().put(b"left", b"over").expect("room");
        store.return_space().expect("nothing is refused");
        if closes {
            store.close().expect("it can be closed");
        } else {
            // As if the process had died here.
            let copy = folder.path().join("copy");
            let made = Command::new("cp").arg("--sparse=always").args([&pool, &copy]).status();
            assert!(made.expect("a copying program").success());
            store.close().expect("it can be closed");
            std::fs::rename(copy, &pool).expect("it can be renamed");
        }
        let store = open(&pool);
        assert!(allocated(&pool) < before / 2, "opening took {} bytes", allocated(&pool));
        assert_eq!(store.default_map().get(b"left").expect("get"), Some(b"over".to_vec()));
        assert_eq!(store.check().expect("the check runs").problems, Vec::<String>::new());
        store.default_map().remove(b"left").expect("writable");
        fill(&store, 4);
        is_sound(&store, count, 4);
        store.default_map().clear().expect("room");
        store.close().expect("it can be closed");
    }
}

/// Threads write while space is returned over and over: what they are given is never taken from them.
#[test]
fn space_is_returned_beside_writers() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let store = open(&pool);
    std::thread::scope(|scope| {
        for writer in 0..3u8 {
            let store = &store;
            scope.spawn(move || {
                let map = store.map(&format!("map {writer}")).expect("room");
                for round in 0..12u8 {
                    let value = |number: u32| {
                        let size = if number.is_multiple_of(100) { 400_000 } else { 2000 };
                        vec![round ^ writer ^ number as u8; size]
                    };
                    for number in 0..300u32 {
                        map.put(number.to_be_bytes(), value(number)).expect("room");
                    }
                    for number in 0..300u32 {
                        let found = map.get(number.to_be_bytes()).expect("get");
                        assert_eq!(found, Some(value(number)), "writer {writer}, round {round}");
                    }
                    map.clear().expect("room");
                }
            });
        }
        for _ in 0..60 {
            store.return_space().expect("nothing is refused");
        }
    });
    assert_eq!(store.check().expect("the check runs").problems, Vec::<String>::new());
    store.close().expect("it can be closed");
    assert_eq!(open(&pool).check().expect("the check runs").problems, Vec::<String>::new());
}

/// What was free at opening counted as returned for good, if anything was.
#[test]
fn what_was_free_before_is_returned_after_opening() {
    let folder = tempfile::tempdir().expect("a folder");
    if !knows_holes(folder.path()) {
        return;
    }
    let pool = folder.path().join("pool");
    let open = || {
        let options = Options::new().create(true).max_size_bytes(4 << 30).sweep(false);
        options.open(&pool).expect("the pool opens")
    };
    let store = open();
    let large = |number: u8| (number, vec![number; 8 << 20]);
    for (number, value) in (0..12).map(large) {
        store.default_map().put([number], &value).expect("room");
    }
    for number in [2, 3] {
        store.default_map().remove([number]).expect("writable");
    }
    assert!(store.return_space().expect("nothing is refused") > 12 << 20);
    for number in [6, 7, 8, 9] {
        store.default_map().remove([number]).expect("writable");
    }
    store.close().expect("it can be closed");
    // Only this opening finds them free, and notes it in the pool.
    open().close().expect("it can be closed");
    let store = open();
    let (before, counted) = (allocated(&pool), store.statistics().pool_returned_bytes);
    assert!((12 << 20..24 << 20).contains(&counted), "{counted} bytes have no space");
    let returned = store.return_space().expect("nothing is refused");
    assert!(returned > 28 << 20, "{returned} bytes");
    let after = allocated(&pool);
    assert!(
        after + (16 << 20) < before,
        "{before} bytes allocated, {after} after {returned} were returned"
    );
    for (number, value) in (0..12).map(large) {
        store.default_map().put([number], &value).expect("room");
        assert_eq!(store.default_map().get([number]).expect("get"), Some(value));
    }
    assert_eq!(store.check().expect("the check runs").problems, Vec::<String>::new());
}
