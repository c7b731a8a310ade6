//! Maps: keys and values, one and many, and when they expire.

use std::ffi::{c_int, c_void};

use everleaf_capi::argument::{EL_EXCLUDED, EL_INCLUDED, EL_UNBOUNDED};
use everleaf_capi::argument::{el_bound, el_buffer, el_range, el_slice};
use everleaf_capi::code::*;
use everleaf_capi::expiry::{el_expire_at, el_expiry, el_put_expiring};
use everleaf_capi::many::{
    el_get_columns, el_get_many, el_prefetch, el_put_columns, el_put_many, el_store_load_map,
};
use everleaf_capi::map::*;
use everleaf_capi::store::{el_store, el_store_check, el_store_drop_map, el_store_map};

use crate::support::*;

/// Far away, in milliseconds since 1970.
const LATER: u64 = 4_000_000_000_000;

#[test]
fn a_key_is_put_read_and_removed() {
    let opened = TestStore::new();
    let map = opened.map();
    assert_eq!(el_contains(map, slice("oak")), EL_NOT_FOUND);
    assert_eq!(el_put(map, slice("oak"), slice("Quercus")), EL_OK);
    assert_eq!(el_contains(map, slice("oak")), EL_OK);
    assert_eq!(opened.get("oak"), Some(b"Quercus".to_vec()));
    assert_eq!(el_insert(map, slice("oak"), slice("x")), EL_EXISTS);
    assert_eq!(el_insert(map, slice("ash"), slice("Fraxinus")), EL_OK);
    assert_eq!(el_update(map, slice("elm"), slice("x")), EL_NOT_FOUND);
    assert_eq!(el_update(map, slice("ash"), slice("")), EL_OK);
    assert_eq!(opened.get("ash"), Some(vec![]));
    assert_eq!(made(|room| el_count(map, room)), 2);
    assert_eq!(el_remove(map, slice("oak")), EL_OK);
    assert_eq!(el_remove(map, slice("oak")), EL_NOT_FOUND);
    assert_eq!(el_clear(map), EL_OK);
    assert_eq!(made(|room| el_count(map, room)), 0);
}

#[test]
fn a_buffer_that_is_too_small_is_told_what_is_needed() {
    let opened = TestStore::new();
    opened.put("oak", "Quercus");
    let get = |bytes: &mut [u8]| {
        let mut size = Room::new(usize::MAX);
        let code = el_get(opened.map(), slice("oak"), buffer(bytes), Some(&mut size));
        (code, stored(size))
    };
    let mut bytes = [b'.'; 8];
    assert_eq!(get(&mut bytes[..6]), (EL_BUFFER_TOO_SMALL, 7));
    assert_eq!(&bytes, b"........", "nothing was written");
    assert!(last_error().contains("7 bytes are needed"), "{}", last_error());
    assert_eq!(get(&mut []), (EL_BUFFER_TOO_SMALL, 7));
    assert_eq!(get(&mut bytes[..7]), (EL_OK, 7));
    assert_eq!(&bytes, b"Quercus.");
    let absent = el_get(opened.map(), slice("elm"), buffer(&mut bytes), None);
    assert_eq!(absent, EL_NOT_FOUND);
    // SAFETY: NULL is allowed.
    let nowhere = unsafe { el_buffer::new(std::ptr::null_mut(), 100) };
    assert_eq!(el_get(opened.map(), slice("oak"), nowhere, None), EL_BUFFER_TOO_SMALL);
}

extern "C" fn keep(context: *mut c_void, value: el_slice) {
    // SAFETY: the tests pass a vector, which they hold.
    unsafe { &mut *context.cast::<Vec<Vec<u8>>>() }.push(bytes(value));
}

#[test]
fn a_value_is_shown_in_place() {
    let opened = TestStore::new();
    opened.put("oak", "Quercus");
    let mut seen: Vec<Vec<u8>> = vec![];
    let context = (&raw mut seen).cast();
    assert_eq!(el_get_with(opened.map(), slice("oak"), Some(keep), context), EL_OK);
    assert_eq!(el_get_with(opened.map(), slice("elm"), Some(keep), context), EL_NOT_FOUND);
    assert_eq!(el_get_with(opened.map(), slice("oak"), None, context), EL_INVALID);
    assert_eq!(seen, [b"Quercus"]);
}

#[test]
fn a_value_is_exchanged_if_it_is_as_expected() {
    let opened = TestStore::new();
    let (one, two) = (slice("1"), slice("2"));
    let exchange = |expected, value| el_compare_exchange(opened.map(), slice("n"), expected, value);
    assert_eq!(exchange(Some(&one), Some(&two)), EL_MISMATCH);
    assert_eq!(exchange(None, Some(&one)), EL_OK);
    assert_eq!(exchange(None, Some(&one)), EL_MISMATCH);
    assert_eq!(exchange(Some(&one), Some(&two)), EL_OK);
    assert_eq!(opened.get("n"), Some(b"2".to_vec()));
    assert_eq!(exchange(Some(&two), None), EL_OK);
    assert_eq!(opened.get("n"), None);
}

#[test]
fn keys_expire() {
    let opened = TestStore::new();
    let map = opened.map();
    assert_eq!(el_put_expiring(map, slice("past"), slice("1"), 1), EL_OK);
    assert_eq!(el_put_expiring(map, slice("later"), slice("2"), LATER), EL_OK);
    opened.put("never", "3");
    assert_eq!(opened.get("past"), None);
    assert_eq!(made(|room| el_expiry(map, slice("later"), room)), LATER);
    assert_eq!(made(|room| el_expiry(map, slice("never"), room)), 0);
    let mut room = Room::uninit();
    assert_eq!(el_expiry(map, slice("past"), Some(&mut room)), EL_NOT_FOUND);
    assert_eq!(el_expire_at(map, slice("later"), 0), EL_OK);
    assert_eq!(made(|room| el_expiry(map, slice("later"), room)), 0);
    assert_eq!(el_expire_at(map, slice("never"), 1), EL_OK);
    assert_eq!(opened.get("never"), None);
    assert_eq!(el_expire_at(map, slice("none"), LATER), EL_NOT_FOUND);
}

#[test]
fn many_keys_are_put_and_read_in_one_call() {
    let opened = TestStore::new();
    let map = opened.map();
    let (keys, values) = ([slice("a"), slice("c")], [slice("1"), slice("")]);
    assert_eq!(el_put_many(map, slices(&keys), slices(&values)), EL_OK);
    assert_eq!(el_put_many(map, slices(&keys), slices(&values[..1])), EL_INVALID);
    let mut seen: Vec<(usize, Option<Vec<u8>>)> = vec![];
    let wanted = [slice("a"), slice("b"), slice("c")];
    let context: *mut c_void = (&raw mut seen).cast();
    assert_eq!(el_get_many(map, slices(&wanted), Some(keep_found), context), EL_OK);
    assert_eq!(seen, [(0, Some(b"1".to_vec())), (1, None), (2, Some(vec![]))]);
    assert_eq!(el_get_many(map, slices(&wanted), None, context), EL_INVALID);
    assert_eq!(el_get_many(map, slices(&[]), Some(keep_found), context), EL_OK);
    // A map that is gone says so for no keys, too.
    let (store, name) = (opened.store(), c_text(c"gone"));
    let gone = made(|room| el_store_map(store, name, true, room));
    assert_eq!(el_store_drop_map(store, name), EL_OK);
    assert_eq!(el_get_many(at(gone), slices(&[]), Some(keep_found), context), EL_MAP_DROPPED);
    assert_eq!(el_prefetch(map, slices(&wanted)), EL_OK, "{}", last_error());
    assert_eq!(el_prefetch(at(gone), slices(&wanted)), EL_MAP_DROPPED);
    assert_eq!(el_map_free(at_mut(gone)), EL_OK);
    assert_eq!(seen.len(), wanted.len());
}

#[test]
fn columns_are_put_and_read_in_one_call() {
    let opened = TestStore::new();
    let map = opened.map();
    assert_eq!(el_put_columns(map, slice("k1k2k4"), 2, slice("onetwofor"), 3), EL_OK);
    let read = |keys: &str, key_size, values: &mut [u8], value_size, found: &mut [u8]| {
        let (values, found) = (buffer(values), buffer(found));
        let mut count = Room::new(usize::MAX);
        let keys = slice(keys);
        let code = el_get_columns(map, keys, key_size, values, value_size, found, Some(&mut count));
        (code, stored(count))
    };
    let (mut values, mut found) = ([b'.'; 9], [9; 3]);
    assert_eq!(read("k1k3k4", 2, &mut values, 3, &mut found), (EL_OK, 2));
    assert_eq!((&values, found), (b"one...for", [1, 0, 1]));
    // One byte less anywhere, and nothing is written.
    assert_eq!(read("k1k3k4", 2, &mut values[..8], 3, &mut found).0, EL_INVALID);
    assert_eq!(read("k1k3k4", 2, &mut values, 3, &mut found[..2]).0, EL_INVALID);
    assert_eq!(read("k1k3k", 2, &mut values, 3, &mut found).0, EL_INVALID);
    assert_eq!(read("k1k3k4", 0, &mut values, 3, &mut found).0, EL_INVALID);
    assert_eq!(read("k1", 2, &mut values, usize::MAX, &mut found).0, EL_INVALID);
    assert_eq!(read("k1", 2, &mut values, 2, &mut found).0, EL_TOO_LARGE, "{}", last_error());
    assert_eq!(el_put_columns(map, slice("k1k2"), 2, slice("one"), 3), EL_INVALID);
}

extern "C" fn keep_pair(context: *mut c_void, key: el_slice, _value: el_slice) -> c_int {
    // SAFETY: the test passes a vector, which it holds.
    let seen = unsafe { &mut *context.cast::<Vec<Vec<u8>>>() };
    seen.push(bytes(key));
    c_int::from(seen.len() == 3)
}

#[test]
fn a_scan_shows_a_range_either_way_until_it_is_told_to_stop() {
    let opened = TestStore::new();
    for key in ["a", "b", "c", "d", "e"] {
        opened.put(key, "");
    }
    let scan = |range: Option<&el_range>, descending| {
        let (mut seen, mut count) = (Vec::<Vec<u8>>::new(), Room::new(0));
        let context: *mut c_void = (&raw mut seen).cast();
        let (map, see) = (opened.map(), Some(keep_pair as extern "C" fn(_, _, _) -> _));
        assert_eq!(el_scan(map, range, descending, see, context, Some(&mut count)), EL_OK);
        assert_eq!(stored(count), seen.len() as u64);
        String::from_utf8(seen.concat()).expect("letters")
    };
    let bound = |kind, key: &'static str| el_bound::new(kind, slice(key));
    let behind_b = el_range::new(bound(EL_EXCLUDED, "b"), bound(EL_UNBOUNDED, ""));
    let to_b = el_range::new(bound(EL_UNBOUNDED, ""), bound(EL_INCLUDED, "b"));
    assert_eq!(scan(None, false), "abc");
    assert_eq!(scan(None, true), "edc");
    assert_eq!(scan(Some(&behind_b), false), "cde");
    assert_eq!(scan(Some(&to_b), true), "ba");
    let wrong = el_range::new(bound(7, "b"), bound(EL_UNBOUNDED, ""));
    let none = std::ptr::null_mut();
    assert_eq!(el_scan(opened.map(), Some(&wrong), false, Some(keep_pair), none, None), EL_INVALID);
    assert_eq!(el_scan(opened.map(), None, false, None, none, None), EL_INVALID);
}

#[test]
fn a_map_is_loaded_as_one_if_its_keys_ascend() {
    let opened = TestStore::new();
    let (a, b) = (slice("a"), slice("b"));
    let load = |name, keys: &[el_slice], room: Option<&mut Room<*mut el_map>>| {
        el_store_load_map(opened.store(), c_text(name), slices(keys), slices(&[b, a]), room)
    };
    assert_eq!(load(c"m", &[b, a], Some(&mut Room::uninit())), EL_NOT_SORTED);
    assert_eq!(load(c"m", &[a], Some(&mut Room::uninit())), EL_INVALID);
    assert_eq!(load(c"m", &[a, b], None), EL_INVALID);
    let map = made(|room| load(c"m", &[a, b], room));
    assert_eq!(value_of(at(map), "b"), Some(b"a".to_vec()));
    assert_eq!(made(|room| el_count(at(map), room)), 2);
    assert_eq!(el_map_free(at_mut(map)), EL_OK);
}

/// Each key took 16 bytes of memory, and where there were none the process was aborted.
#[test]
fn many_keys_cost_no_memory() {
    // More than the allocator holds in reserve for a thread.
    const COUNT: usize = 5 << 20;
    if std::env::var_os(IN_LITTLE_MEMORY).is_some() {
        return many_keys_in_little_memory(COUNT);
    }
    // In a process of its own: the limit is for all of it.
    let mut command = std::process::Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "data::many_keys_cost_no_memory"]).env(IN_LITTLE_MEMORY, "1");
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

const IN_LITTLE_MEMORY: &str = "EVERLEAF_TEST_IN_LITTLE_MEMORY";

fn many_keys_in_little_memory(count: usize) {
    let opened = TestStore::new();
    opened.put("k", "v");
    let (keys, mut values, mut found) = (vec![b'k'; count], vec![0; count], vec![0; count]);
    let all = vec![slice("k"); count];
    let status = std::fs::read_to_string("/proc/self/statm").expect("it is Linux");
    let pages: u64 = status.split(' ').next().and_then(|text| text.parse().ok()).expect("a number");
    // All that there is now, and a little.
    let most = pages * 4096 + (8 << 20);
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the struct is ours.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    let (room, marks) = (buffer(&mut values), buffer(&mut found));
    let mut hits = Room::uninit();
    let code = el_get_columns(opened.map(), slice(&keys), 1, room, 1, marks, Some(&mut hits));
    assert_eq!((code, stored(hits)), (EL_OK, count), "{}", last_error());
    extern "C" fn counted(context: *mut c_void, index: usize, value: Option<&el_slice>) {
        // SAFETY: the test passes a number, which it holds.
        let count = unsafe { &mut *context.cast::<usize>() };
        assert!(value.is_some() && index == *count, "in order");
        *count += 1;
    }
    let mut seen = 0_usize;
    let context = (&raw mut seen).cast();
    assert_eq!(el_get_many(opened.map(), slices(&all), Some(counted), context), EL_OK);
    assert_eq!(seen, count);
    let some = slices(&all[..1000]);
    assert_eq!(el_put_many(opened.map(), some, some), EL_OK);
}

extern "C" fn check_inside(context: *mut c_void, _: el_slice) {
    // SAFETY: the test passes this, which it holds.
    let (store, code) = unsafe { &mut *context.cast::<(*mut el_store, c_int)>() };
    *code = el_store_check(at(*store), None, std::ptr::null_mut(), None);
}

/// What the header says of functions that are shown a value: some calls would wait for their own.
#[test]
fn a_function_shown_a_value_cannot_ask_for_what_waits_for_it() {
    let opened = TestStore::new();
    opened.put("k", "v");
    let mut inside = (opened.store, EL_OK);
    let context = (&raw mut inside).cast();
    assert_eq!(el_get_with(opened.map(), slice("k"), Some(check_inside), context), EL_OK);
    assert_eq!(inside.1, EL_UNSUPPORTED);
    assert!(last_error().contains("was called by a function"), "{}", last_error());
}
