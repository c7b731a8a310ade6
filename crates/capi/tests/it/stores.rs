//! Stores: opening, closing, maps by name, copies, checks, numbers, and what is told.

use std::ffi::c_void;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use everleaf_capi::argument::{el_slice, el_text};
use everleaf_capi::code::*;
use everleaf_capi::files::el_restore;
use everleaf_capi::map::{el_clear, el_contains, el_map_free, el_put};
use everleaf_capi::options::*;
use everleaf_capi::statistics::el_statistics;
use everleaf_capi::store::*;

use crate::support::*;

fn statistics(opened: &TestStore) -> el_statistics {
    let mut bytes = [0; size_of::<el_statistics>()];
    let known = made(|room| el_store_statistics(opened.store(), buffer(&mut bytes), room));
    assert_eq!(known, bytes.len());
    // SAFETY: all fields are numbers, and the library has filled them all.
    unsafe { std::mem::transmute(bytes) }
}

#[test]
fn maps_have_names() {
    let opened = TestStore::new();
    let (store, name) = (opened.store(), c_text(c"heights"));
    let mut room = Room::uninit();
    assert_eq!(el_store_map(store, name, false, Some(&mut room)), EL_NOT_FOUND);
    assert!(stored(room).is_null());
    let map = made(|room| el_store_map(store, name, true, room));
    assert_eq!(el_put(at(map), slice("oak"), slice("40")), EL_OK);
    assert_eq!(opened.get("oak"), None);
    let names = told(|context| el_store_map_names(store, Some(keep), context));
    assert_eq!(names, ["default", "heights"]);
    assert_eq!(statistics(&opened).maps, 2);
    assert_eq!(el_store_drop_map(store, name), EL_OK);
    assert_eq!(el_store_drop_map(store, name), EL_NOT_FOUND);
    assert_eq!(el_contains(at(map), slice("oak")), EL_MAP_DROPPED, "{}", last_error());
    assert_eq!(el_clear(at(map)), EL_MAP_DROPPED);
    assert_eq!(el_map_free(at_mut(map)), EL_OK);
    let long = c"a name of a map that is much too long for it";
    let mut room = Room::uninit();
    assert_eq!(el_store_map(store, c_text(long), true, Some(&mut room)), EL_BAD_NAME);
}

#[test]
fn a_closed_store_refuses_and_its_maps_keep_the_pool() {
    let opened = TestStore::new();
    opened.put("oak", "Quercus");
    let code = el_store_close(opened.store());
    assert_eq!(code, EL_STILL_OPEN, "the map is held");
    assert_eq!(el_store_close(opened.store()), EL_OK, "once more");
    let mut room = Room::uninit();
    assert_eq!(el_store_map(opened.store(), NO_TEXT(), false, Some(&mut room)), EL_CLOSED);
    assert_eq!(el_store_sync(opened.store()), EL_CLOSED);
    assert_eq!(opened.get("oak"), Some(b"Quercus".to_vec()), "the map keeps it open");
    let path = path_text(&opened.path());
    let mut room = Room::uninit();
    assert_eq!(el_store_open(c_text(&path), None, Some(&mut room)), EL_LOCKED, "{}", last_error());
}

#[test]
fn a_store_is_copied_checked_and_counted() {
    let opened = TestStore::new();
    for n in 0..100 {
        opened.put(&format!("key {n}"), "value");
    }
    let store = opened.store();
    assert_eq!(made(|room| el_store_check(store, None, std::ptr::null_mut(), room)), 0);
    assert_eq!(statistics(&opened).keys, 100);
    assert_eq!(statistics(&opened).was_clean, 1);
    // A program that was compiled with fewer fields.
    let mut two = [9; 17];
    let known = made(|room| el_store_statistics(store, buffer(&mut two[..16]), room));
    assert!(known > 16 && two[..8] == 100_u64.to_ne_bytes() && two[16] == 9);
    assert_eq!(el_store_sync(store), EL_OK);
    let _bytes: u64 = made(|room| el_store_return_space(store, room));
    let copy = path_text(&opened.folder.path().join("copy"));
    let null = std::ptr::null_mut();
    let pairs = made(|room| el_store_backup(store, c_text(&copy), None, null, room));
    assert_eq!(pairs, 100);
    let again = el_store_backup(store, c_text(&copy), None, null, None);
    assert_eq!(again, EL_ALREADY_EXISTS);
    let third = path_text(&opened.folder.path().join("third"));
    let pairs = made(|room| el_restore(c_text(&copy), c_text(&third), None, null, room));
    assert_eq!(pairs, 100);
    let mut room = Room::uninit();
    assert_eq!(el_store_snapshot(store, Some(&mut room)), EL_UNSUPPORTED, "it has no log");
}

#[test]
fn a_store_with_a_log_says_what_it_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = path_text(&folder.path().join("a.pool"));
    let options = options(&[(EL_DURABILITY, EL_POWER), (EL_VERIFY_READS, 1)]);
    let lines = told(|context| {
        assert_eq!(el_options_log(at_mut(options), Some(keep), context), EL_OK);
        let store = made(|room| el_store_open(c_text(&path), at_mut(options), room));
        let map = made(|room| el_store_map(at(store), NO_TEXT(), false, room));
        assert_eq!(el_put(at(map), slice("oak"), slice("Quercus")), EL_OK);
        assert_eq!(made(|room| el_store_snapshot(at(store), room)), 1);
        assert_eq!(el_map_free(at_mut(map)), EL_OK);
        assert_eq!(el_store_close(at(store)), EL_OK);
        el_store_free(at_mut(store))
    });
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("opened "), "{lines:?}");
    assert_eq!(lines[1..], ["wrote a snapshot of 1 pairs", "closed"]);
    assert_eq!(el_options_free(at_mut(options)), EL_OK);
}

extern "C" fn send(context: *mut c_void, text: el_slice) {
    // SAFETY: the test passes this, and holds it until the store is closed.
    let tell = unsafe { &*context.cast::<Mutex<mpsc::Sender<String>>>() };
    let line = String::from_utf8(bytes(text)).expect("text is UTF-8");
    tell.lock().expect("no panic").send(line).expect("the test waits for it");
}

/// Nobody was told: only what was called itself said something.
#[test]
fn what_a_store_does_by_itself_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = path_text(&folder.path().join("a.pool"));
    let options = options(&[(EL_DURABILITY, EL_POWER), (EL_SNAPSHOT_AFTER, 1)]);
    let (tell, told) = mpsc::channel::<String>();
    let tell = Mutex::new(tell);
    let context = (&raw const tell).cast_mut().cast();
    assert_eq!(el_options_log(at_mut(options), Some(send), context), EL_OK);
    let store = made(|room| el_store_open(c_text(&path), at_mut(options), room));
    assert_eq!(el_options_free(at_mut(options)), EL_OK);
    let map = made(|room| el_store_map(at(store), NO_TEXT(), false, room));
    assert_eq!(el_put(at(map), slice("oak"), slice("Quercus")), EL_OK);
    let line = || told.recv_timeout(Duration::from_secs(60)).expect("a line");
    // Any log is too long for these options: the opening writes a snapshot, and then the thread of the store.
    let mut lines = vec![line()];
    while lines.last().is_some_and(|last| last != "wrote a snapshot of 1 pairs") {
        lines.push(line());
    }
    lines.pop();
    lines.sort();
    assert!(lines[0].starts_with("opened "), "{lines:?}");
    assert!(lines[1..].iter().all(|other| other == "wrote a snapshot of 0 pairs"), "{lines:?}");
    assert_eq!(el_store_close(at(store)), EL_STILL_OPEN);
    assert!(line().starts_with("the store is still open"));
    assert_eq!(el_store_free(at_mut(store)), EL_OK);
    assert!(told.try_recv().is_err(), "the map holds it");
    assert_eq!(el_map_free(at_mut(map)), EL_OK);
    assert_eq!(line(), "closed");
}

#[test]
fn options_are_looked_at() {
    let options = options(&[
        (EL_CREATE_NEW, 0),
        (EL_READ_ONLY_OPEN, 0),
        (EL_INITIAL_SIZE, 0),
        (EL_INTERVAL_MS, 5),
        (EL_DURABILITY, EL_PROCESS),
        (EL_TRUST_AFTER_MACHINE_CRASH, 0),
        (EL_RECOVERY_THREADS, 1),
        (EL_SWEEP, 0),
        (EL_SNAPSHOT_AFTER, 1 << 20),
        (EL_VIEW_MEMORY, 1 << 20),
    ]);
    for (option, number) in [(EL_CREATE, 2), (EL_DURABILITY, 2), (99, 0), (0, 0), (-1, 0)] {
        let code = el_options_set(at_mut(options), option, number);
        assert_eq!(code, EL_INVALID, "{option} {number}");
    }
    assert_eq!(el_options_free(at_mut(options)), EL_OK);
    let folder = tempfile::tempdir().expect("a folder");
    let path = path_text(&folder.path().join("none"));
    let mut room = Room::uninit();
    assert_eq!(el_store_open(c_text(&path), None, Some(&mut room)), EL_NO_POOL);
    assert!(stored(room).is_null());
    assert!(last_error().contains("there is no pool at"), "{}", last_error());
    // SAFETY: the bytes end with zero.
    let bad = unsafe { el_text::new(c"\xFF".as_ptr()) };
    let opened = TestStore::new();
    assert_eq!(el_store_drop_map(opened.store(), bad), EL_INVALID);
}
