//! What keeps a store well: damage of the log and of the pool, repair, smaller and newer files, what is deferred.

use std::ffi::{c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};

use everleaf_capi::argument::el_buffer;
use everleaf_capi::code::*;
use everleaf_capi::cursor::{el_iter_free, el_iter_new, el_iter_next};
use everleaf_capi::files::*;
use everleaf_capi::map::{el_get, el_map_free, el_put};
use everleaf_capi::options::*;
use everleaf_capi::statistics::{el_map_statistics, el_rebuilt, el_repaired, el_statistics};
use everleaf_capi::store::*;
use everleaf_capi::upkeep::*;

use crate::support::*;

const NULL: *mut c_void = std::ptr::null_mut();

/// Numbers that a function stores in a buffer; one that knows fewer of them leaves the rest alone.
fn numbers<T, const N: usize>(mut fill: impl FnMut(el_buffer) -> usize) -> [u64; N] {
    assert_eq!(N * 8, size_of::<T>());
    let mut room = vec![0xee_u8; N * 8 + 1];
    let known = fill(buffer(&mut room[..8]));
    assert_eq!((known, room[8]), (N * 8, 0xee), "no more than there is room for");
    assert_eq!(fill(buffer(&mut room[..N * 8])), N * 8);
    std::array::from_fn(|at| u64::from_ne_bytes(room[at * 8..][..8].try_into().expect("eight")))
}

/// The value of a key, and of the first pair of an iterator: both codes.
fn looked_at(path: &Path, options: &[(c_int, u64)], key: &str) -> (c_int, c_int) {
    let store = open_at(path, options);
    let map = made(|room| el_store_map(at(store), NO_TEXT(), false, room));
    let mut bytes = [0; 100];
    let got = el_get(at(map), slice(key), buffer(&mut bytes), None);
    let iter = made(|room| el_iter_new(at(map), None, room));
    let code = loop {
        match el_iter_next(at_mut(iter), None, None) {
            EL_OK => {}
            code => break code,
        }
    };
    assert_eq!(el_iter_free(at_mut(iter)), EL_OK);
    assert_eq!(el_map_free(at_mut(map)), EL_OK);
    assert_eq!(el_store_close(at(store)), EL_OK);
    assert_eq!(el_store_free(at_mut(store)), EL_OK);
    (got, code)
}

/// A closed pool of so many pairs.
fn make(path: &Path, options: &[(c_int, u64)], count: u32) {
    let store = open_at(path, options);
    let map = made(|room| el_store_map(at(store), NO_TEXT(), false, room));
    for number in 0..count {
        let (key, value) = (format!("{number:03}"), format!("value of {number:03}"));
        assert_eq!(el_put(at(map), slice(&key), slice(&value)), EL_OK);
    }
    assert_eq!(el_map_free(at_mut(map)), EL_OK);
    assert_eq!(el_store_close(at(store)), EL_OK);
    assert_eq!(el_store_free(at_mut(store)), EL_OK);
}

fn flip(path: &Path, place: impl Fn(&[u8]) -> usize) {
    let mut bytes = fs::read(path).expect("readable");
    let place = place(&bytes);
    bytes[place] ^= 1;
    fs::write(path, bytes).expect("writable");
}

fn damage_value(path: &Path) {
    let mark = b"value of 123";
    flip(path, |bytes| {
        bytes.windows(mark.len()).position(|here| here == mark).expect("it is there")
    });
}

#[test]
fn damage_is_told_of_by_whoever_looks() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.pool");
    make(&path, &[], 300);
    damage_value(&path);
    assert_eq!(looked_at(&path, &[], "123"), (EL_OK, EL_CORRUPT));
    assert_eq!(looked_at(&path, &[(EL_VERIFY_SCANS, 0)], "123"), (EL_OK, EL_NOT_FOUND));
    assert_eq!(looked_at(&path, &[(EL_VERIFY_READS, 1)], "123"), (EL_CORRUPT, EL_CORRUPT));
}

#[test]
fn a_damaged_pool_is_repaired_into_a_new_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.pool");
    make(&path, &[], 300);
    damage_value(&path);
    let (from, to) = (path_text(&path), path_text(&folder.path().join("b.pool")));
    let mut lines = vec![];
    let found = numbers::<el_repaired, 6>(|room| {
        let _ = fs::remove_file(folder.path().join("b.pool"));
        let mut known = Room::uninit();
        lines.push(told(|context| {
            el_repair(c_text(&from), c_text(&to), Some(keep), context, room, Some(&mut known))
        }));
        stored(known)
    });
    // kept, doubtful, maps, lost, dropped, is_complete
    let dropped = lines[1].len() as u64;
    assert_eq!(found, [299, 0, 1, 0, dropped, 1]);
    assert!(dropped > 0 && lines[0] == lines[1], "{lines:?}");
    assert_eq!(looked_at(&folder.path().join("b.pool"), &[], "123"), (EL_NOT_FOUND, EL_NOT_FOUND));
    let repair = |from, to| el_repair(from, to, None, NULL, buffer(&mut []), None);
    assert_eq!(repair(c_text(&from), c_text(&to)), EL_ALREADY_EXISTS);
    assert_eq!(repair(c_text(c"/no/such"), c_text(c"/no/other")), EL_NO_POOL);
    assert_eq!(repair(NO_TEXT(), c_text(&to)), EL_INVALID);
}

fn segment(path: &Path) -> PathBuf {
    let log = fs::read_dir(path.with_extension("pool.log")).expect("a folder");
    let files = log.map(|entry| entry.expect("readable").path());
    let is_segment =
        |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("log-"));
    files.filter(is_segment).min().expect("there is one")
}

#[test]
fn a_damaged_log_is_salvaged_when_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.pool");
    let power = [(EL_DURABILITY_OF_NEW, EL_POWER)];
    make(&path, &power, 300);
    flip(&segment(&path), |bytes| {
        bytes.iter().rposition(|byte| *byte != 0).expect("not empty") / 2
    });
    fs::remove_file(&path).expect("it is there");
    let given = options(&[]);
    let text = path_text(&path);
    let mut room = Room::uninit();
    assert_eq!(el_store_open(c_text(&text), at_mut(given), Some(&mut room)), EL_CORRUPT);
    assert_eq!(el_options_free(at_mut(given)), EL_OK);

    let store = open_at(&path, &[(EL_SALVAGE_LOG, 1)]);
    let mut lines = vec![];
    let [snapshot_pairs, replayed, skipped, damages, kept] = numbers::<el_rebuilt, 5>(|room| {
        let mut known = Room::uninit();
        lines = told(|context| {
            el_store_rebuilt(at(store), Some(keep), context, room, Some(&mut known))
        });
        stored(known)
    });
    assert_eq!((snapshot_pairs, skipped, damages), (0, 0, lines.len() as u64), "{lines:?}");
    assert_eq!(kept, 0, "there was no file");
    assert!(damages > 0 && (75..300).contains(&replayed), "{replayed}");
    let mut count = Room::uninit();
    let files =
        told(|context| el_store_put_aside_files(at(store), Some(keep), context, Some(&mut count)));
    assert!(files.len() == stored(count) && files.iter().all(|file| Path::new(file).exists()));
    assert_eq!(el_store_put_aside_files(at(store), None, NULL, None), EL_OK);
    assert!(!made(|room| el_store_has_log_failed(at(store), room)));
    assert_eq!(el_store_close(at(store)), EL_OK);
    assert_eq!(el_store_rebuilt(at(store), None, NULL, buffer(&mut []), None), EL_CLOSED);
    assert_eq!(el_store_free(at_mut(store)), EL_OK);
    let store = open_at(&path, &[]);
    assert_eq!(el_store_rebuilt(at(store), None, NULL, buffer(&mut []), None), EL_NOT_FOUND);
    assert_eq!(el_store_free(at_mut(store)), EL_OK);
}

/// What a program in C was not told: that the file that was replaced is kept, and where.
#[test]
fn a_file_that_was_kept_is_told_with_its_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.pool");
    make(&path, &[(EL_DURABILITY_OF_NEW, EL_POWER)], 30);
    fs::write(&path, "no pool").expect("room");
    let store = open_at(&path, &[]);
    let mut lines = vec![];
    let [_, replayed, skipped, damages, kept] = numbers::<el_rebuilt, 5>(|room| {
        let mut known = Room::uninit();
        lines = told(|context| {
            el_store_rebuilt(at(store), Some(keep), context, room, Some(&mut known))
        });
        stored(known)
    });
    assert_eq!((replayed, skipped, damages, kept), (30, 0, 0, 1));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(fs::read(&lines[0]).expect("it is there"), b"no pool");
    assert_eq!(el_store_free(at_mut(store)), EL_OK);
}

/// What had the code of any refusal of the system: the file of a pool is gone.
#[test]
fn a_pool_that_has_lost_its_file_has_a_code_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.pool");
    make(&path, &[], 3);
    let store = open_at(&path, &[]);
    assert!(!made(|room| el_store_is_pool_gone(at(store), room)));
    fs::remove_file(&path).expect("it is there");
    assert_eq!(el_store_sync(at(store)), EL_POOL_GONE);
    assert!(made(|room| el_store_is_pool_gone(at(store), room)));
    let mut pairs = Room::uninit();
    assert_eq!(el_store_save(at(store), Some(&mut pairs)), EL_OK);
    assert_eq!(stored(pairs), 3);
    assert_eq!(el_store_close(at(store)), EL_POOL_GONE);
    assert_eq!(el_store_free(at_mut(store)), EL_OK);
}

#[test]
fn a_pool_is_made_smaller_and_newer() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.pool");
    make(&path, &[(EL_TREE, EL_NBTREE), (EL_DOMAIN, EL_DOMAIN_PROCESS)], 300);
    let text = path_text(&path);
    let given = options(&[(EL_TREE, EL_HASHED_LEAF)]);
    let bytes = made(|room| el_compact(c_text(&text), at_mut(given), None, NULL, room));
    assert_eq!(bytes, fs::metadata(&path).expect("there").len());
    let upgrade = || told(|context| el_upgrade(c_text(&text), at_mut(given), Some(keep), context));
    let _new = upgrade();
    assert!(upgrade().is_empty(), "all of it is there");
    assert_eq!(looked_at(&path, &[], "123"), (EL_OK, EL_NOT_FOUND));
    let store = open_at(&path, &[(EL_READ_ONLY_OPEN, 1), (EL_CREATE, 0)]);
    assert!(made(|room| el_store_is_read_only(at(store), room)));
    assert_eq!(el_compact(c_text(&text), None, None, NULL, None), EL_LOCKED, "{}", last_error());
    assert_eq!(el_upgrade(c_text(&text), None, None, NULL), EL_LOCKED);
    assert_eq!(el_store_free(at_mut(store)), EL_OK);
    assert_eq!(el_compact(c_text(c"/no/such"), None, None, NULL, None), EL_NO_POOL);
    assert_eq!(el_options_free(at_mut(given)), EL_OK);
}

#[test]
fn writes_of_a_thread_share_a_sync() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.pool");
    let store = open_at(&path, &[(EL_DURABILITY, EL_POWER)]);
    let map = made(|room| el_store_map(at(store), NO_TEXT(), false, room));
    assert_eq!(el_store_defer_sync(at(store)), EL_OK);
    for number in 0..100 {
        assert_eq!(el_put(at(map), slice(&format!("{number:03}")), slice("v")), EL_OK);
    }
    assert_eq!(el_store_wait_deferred(at(store)), EL_OK);
    let mut bytes = [0; size_of::<el_statistics>()];
    assert_eq!(el_store_statistics(at(store), buffer(&mut bytes), None), EL_OK);
    // SAFETY: all fields are numbers, and the library has filled them all.
    let found: el_statistics = unsafe { std::mem::transmute(bytes) };
    assert_eq!((found.log_lag, found.durability), (0, EL_POWER));
    assert_eq!(made(|room| el_store_save(at(store), room)), 100, "a snapshot");
    assert_eq!(el_map_free(at_mut(map)), EL_OK);
    assert_eq!(el_store_free(at_mut(store)), EL_OK);
}

#[test]
fn a_store_without_a_log_is_saved_beside_itself() {
    let opened = TestStore::new();
    opened.put("oak", "Quercus");
    assert_eq!(made(|room| el_store_save(opened.store(), room)), 1);
    assert!(opened.path().with_extension("pool.backup").exists());
    assert!(!made(|room| el_store_is_read_only(opened.store(), room)));
    // keys, expiring_keys, expiring_mean_ms, leaves, height, splits, merges
    let found = numbers::<el_map_statistics, 7>(|room| {
        made(|known| el_map_numbers(opened.map(), room, known))
    });
    assert_eq!(found, [1, 0, 0, 1, 2, 0, 0]);
}

#[test]
fn new_options_are_looked_at() {
    let options = options(&[
        (EL_DURABILITY_OF_NEW, EL_PROCESS),
        (EL_INTERVAL_MS_OF_NEW, 5),
        (EL_DOMAIN, EL_DOMAIN_ADR),
        (EL_DOMAIN, EL_DOMAIN_EADR),
        (EL_TREE, EL_NBTREE),
    ]);
    for (option, number) in [
        (EL_VERIFY_SCANS, 2),
        (EL_SALVAGE_LOG, 2),
        (EL_TREE, 2),
        (EL_DOMAIN, 0),
        (EL_DOMAIN, 4),
        (EL_DURABILITY_OF_NEW, 2),
        (EL_INTERVAL_MS_OF_NEW + 1, 0),
    ] {
        assert_eq!(
            el_options_set(at_mut(options), option, number),
            EL_INVALID,
            "{option} {number}"
        );
    }
    assert_eq!(el_options_free(at_mut(options)), EL_OK);
}
