//! Reads and writes of one key as one atomic step, and watches.

use std::ffi::c_void;

use everleaf_capi::argument::{el_decision, el_slice};
use everleaf_capi::atomic::*;
use everleaf_capi::batch::*;
use everleaf_capi::code::*;
use everleaf_capi::expiry::{el_expiry, el_put_expiring};
use everleaf_capi::map::{el_map, el_put};
use everleaf_capi::memory::{el_allocated, el_free};
use everleaf_capi::store::el_store_write;
use everleaf_capi::upkeep::el_store_rollback_count;
use everleaf_capi::watch::*;

use crate::support::*;

/// Far away, in milliseconds since 1970.
const LATER: u64 = 4_000_000_000_000;

/// The bytes that a function has allocated, which are freed.
fn given(data: Room<*mut c_void>, size: Room<usize>) -> Vec<u8> {
    let (data, size) = (stored(data), stored(size));
    // SAFETY: the library has stored so many bytes there.
    let copy = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }.to_vec();
    // SAFETY: it came from the library, and goes back once.
    el_free(unsafe { el_allocated::new(data) });
    copy
}

#[test]
fn numbers_are_added_to() {
    let opened = TestStore::new();
    let map = opened.map();
    assert_eq!(made(|room| el_fetch_add(map, slice("n"), 7, room)), 0);
    assert_eq!(made(|room| el_fetch_add(map, slice("n"), -9, room)), 7);
    assert_eq!(opened.get("n"), Some(b"-2".to_vec()));
    assert_eq!(el_fetch_add(map, slice("n"), i64::MIN, None), EL_MISMATCH, "{}", last_error());
    opened.put("text", "7 ");
    assert_eq!(el_fetch_add(map, slice("text"), 1, None), EL_MISMATCH);
    assert_eq!(opened.get("text"), Some(b"7 ".to_vec()));
    assert_eq!(el_put_expiring(map, slice("n"), slice("1"), LATER), EL_OK);
    assert_eq!(el_fetch_add(map, slice("n"), 1, None), EL_OK);
    assert_eq!(made(|room| el_expiry(map, slice("n"), room)), LATER, "it stays as it is");
}

#[test]
fn a_value_is_read_with_its_expiry() {
    let opened = TestStore::new();
    let map = opened.map();
    assert_eq!(el_put_expiring(map, slice("k"), slice("1234"), LATER), EL_OK);
    let (mut bytes, mut size, mut expiry) = ([0; 4], Room::uninit(), Room::uninit());
    let places = (Some(&mut size), Some(&mut expiry));
    let code = el_get_expiring(map, slice("k"), buffer(&mut bytes), places.0, places.1);
    assert_eq!(code, EL_OK, "{}", last_error());
    assert_eq!((&bytes, stored(size), stored(expiry)), (b"1234", 4, LATER));
    let get = |bytes: &mut [u8]| el_get_expiring(map, slice("k"), buffer(bytes), None, None);
    assert_eq!(get(&mut bytes), EL_OK);
    assert_eq!(get(&mut bytes[..3]), EL_BUFFER_TOO_SMALL);
    assert_eq!(el_get_expiring(map, slice("-"), buffer(&mut bytes), None, None), EL_NOT_FOUND);
}

#[test]
fn a_value_is_taken_with_its_key() {
    let opened = TestStore::new();
    let map = opened.map();
    opened.put("oak", "Quercus");
    let (mut value, mut size) = (Room::uninit(), Room::uninit());
    assert_eq!(el_take(map, slice("oak"), Some(&mut value), Some(&mut size)), EL_OK);
    assert_eq!(given(value, size), b"Quercus");
    let mut value = Room::uninit();
    assert_eq!(el_take(map, slice("oak"), Some(&mut value), None), EL_NOT_FOUND);
    assert!(stored(value).is_null());
    opened.put("ash", "");
    assert_eq!(el_take(map, slice("ash"), None, None), EL_OK);
    assert_eq!(opened.get("ash"), None);
}

#[test]
fn the_first_and_the_last_pair_are_popped() {
    let opened = TestStore::new();
    let map = opened.map();
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")] {
        opened.put(key, value);
    }
    let pop = |highest| {
        let (mut key, mut key_size) = (Room::uninit(), Room::uninit());
        let (mut value, mut value_size) = (Room::uninit(), Room::uninit());
        let code = el_pop(
            map,
            highest,
            Some(&mut key),
            Some(&mut key_size),
            Some(&mut value),
            Some(&mut value_size),
        );
        match code {
            EL_OK => Some((given(key, key_size), given(value, value_size))),
            code => {
                assert_eq!(code, EL_NOT_FOUND);
                assert!(stored(key).is_null() && stored(value).is_null());
                None
            }
        }
    };
    assert_eq!(pop(false), Some((b"a".to_vec(), b"1".to_vec())));
    assert_eq!(pop(true), Some((b"d".to_vec(), b"4".to_vec())));
    assert_eq!(el_pop(map, true, None, None, None, None), EL_OK);
    assert_eq!(pop(true), Some((b"b".to_vec(), b"2".to_vec())));
    assert_eq!(pop(false), None);
}

/// What was shown, and what is decided, one after the other.
struct Decider<'a> {
    map: Option<&'a el_map>,
    shown: Vec<Option<Vec<u8>>>,
    answer: el_decision,
}

extern "C" fn decide(context: *mut c_void, value: Option<&el_slice>) -> el_decision {
    // SAFETY: the tests pass such a thing, which they hold.
    let decider = unsafe { &mut *context.cast::<Decider<'_>>() };
    decider.shown.push(value.map(|value| bytes(*value)));
    // It may use the store.
    assert_eq!(el_put(decider.map, slice("beside"), slice("x")), EL_OK);
    decider.answer
}

#[test]
fn a_function_decides_what_becomes_of_a_key() {
    let opened = TestStore::new();
    let map = opened.map();
    let update = |what, value: &[u8], expiry_ms| {
        let answer = el_decision::new(what, slice(value), expiry_ms);
        let mut decider = Decider { map, shown: vec![], answer };
        let code = el_update_with(map, slice("k"), Some(decide), (&raw mut decider).cast());
        (code, decider.shown)
    };
    let expiry = || made(|room| el_expiry(map, slice("k"), room));
    let was = |value: &str| vec![Some(value.as_bytes().to_vec())];
    assert_eq!(update(EL_KEEP, b"", 0), (EL_NOT_FOUND, vec![None]));
    assert_eq!(update(EL_PUT_EXPIRING, b"1", LATER), (EL_NOT_FOUND, vec![None]));
    assert_eq!(update(EL_PUT, b"2", 0), (EL_OK, was("1")));
    assert_eq!((opened.get("k"), expiry()), (Some(b"2".to_vec()), LATER));
    assert_eq!(update(EL_EXPIRE, b"3", 0), (EL_OK, was("2")));
    assert_eq!((opened.get("k"), expiry()), (Some(b"2".to_vec()), 0));
    for what in [-1, 5] {
        assert_eq!(update(what, b"4", 0), (EL_INVALID, was("2")));
    }
    // SAFETY: NULL is allowed, and refused.
    let nowhere = unsafe { el_slice::new(std::ptr::null(), 3) };
    let answer = el_decision::new(EL_PUT, nowhere, 0);
    let mut decider = Decider { map, shown: vec![], answer };
    let code = el_update_with(map, slice("k"), Some(decide), (&raw mut decider).cast());
    assert_eq!((code, opened.get("k")), (EL_INVALID, Some(b"2".to_vec())));
    assert_eq!(update(EL_REMOVE, b"", 0), (EL_OK, was("2")));
    assert_eq!(opened.get("k"), None);
    assert_eq!(el_update_with(map, slice("k"), None, std::ptr::null_mut()), EL_INVALID);
}

extern "C" fn decide_expiring(
    context: *mut c_void,
    value: Option<&el_slice>,
    expiry_ms: u64,
) -> el_decision {
    assert_eq!(expiry_ms, if value.is_some() { LATER } else { 0 });
    decide(context, value)
}

/// Notes whether there was something, and no value, which it is not shown.
extern "C" fn decide_by_expiry(context: *mut c_void, expiry_ms: Option<&u64>) -> el_decision {
    // SAFETY: the tests pass such a thing, which they hold.
    let decider = unsafe { &mut *context.cast::<Decider<'_>>() };
    decider.shown.push(expiry_ms.map(|at| at.to_string().into_bytes()));
    decider.answer
}

#[test]
fn a_function_is_told_when_a_key_expires() {
    let opened = TestStore::new();
    let map = opened.map();
    let decider = |what, value: &[u8]| {
        let answer = el_decision::new(what, slice(value), LATER);
        Decider { map, shown: vec![], answer }
    };
    let expiring = |what, value: &[u8]| {
        let mut decider = decider(what, value);
        let context = (&raw mut decider).cast();
        (el_update_expiring_with(map, slice("k"), Some(decide_expiring), context), decider.shown)
    };
    let by_expiry = |what, value: &[u8]| {
        let mut decider = decider(what, value);
        let context = (&raw mut decider).cast();
        (el_update_expiry_with(map, slice("k"), Some(decide_by_expiry), context), decider.shown)
    };
    let later = || vec![Some(LATER.to_string().into_bytes())];
    assert_eq!(expiring(EL_KEEP, b""), (EL_NOT_FOUND, vec![None]));
    assert_eq!(by_expiry(EL_EXPIRE, b""), (EL_NOT_FOUND, vec![None]));
    assert_eq!(expiring(EL_PUT_EXPIRING, b"1"), (EL_NOT_FOUND, vec![None]));
    assert_eq!(expiring(EL_PUT, b"2"), (EL_OK, vec![Some(b"1".to_vec())]));
    assert_eq!(by_expiry(EL_KEEP, b""), (EL_OK, later()));
    assert_eq!(by_expiry(EL_PUT, b"3"), (EL_OK, later()));
    let at = made(|room| el_expiry(map, slice("k"), room));
    assert_eq!((opened.get("k"), at), (Some(b"3".to_vec()), LATER));
    assert_eq!(by_expiry(9, b""), (EL_INVALID, later()));
    assert_eq!(by_expiry(EL_REMOVE, b""), (EL_OK, later()));
    assert_eq!(opened.get("k"), None);
    let null = std::ptr::null_mut();
    assert_eq!(el_update_expiring_with(map, slice("k"), None, null), EL_INVALID);
    assert_eq!(el_update_expiry_with(map, slice("k"), None, null), EL_INVALID);
}

#[test]
fn a_batch_depends_on_a_watch_and_on_an_expiry() {
    let opened = TestStore::new();
    let map = opened.map();
    opened.put("k", "1");
    let watch = made(|room| el_watch_new(map, slice("k"), room));
    let batch = made(|room| el_batch_new(room));
    assert_eq!(el_batch_put(at_mut(batch), map, slice("k"), slice("2")), EL_OK);
    assert_eq!(el_batch_expect_unwritten(at_mut(batch), at(watch)), EL_OK);
    assert!(!made(|room| el_watch_is_broken(at(watch), room)));
    // The same value: no condition on that can tell.
    opened.put("k", "1");
    assert!(made(|room| el_watch_is_broken(at(watch), room)));
    assert_eq!(el_watch_free(at_mut(watch)), EL_OK);
    let mut refused = Room::uninit();
    assert_eq!(el_store_write(opened.store(), at_mut(batch), Some(&mut refused)), EL_MISMATCH);
    assert_eq!((stored(refused), opened.get("k")), (0, Some(b"1".to_vec())));

    assert_eq!(el_batch_clear(at_mut(batch)), EL_OK);
    let (key, value) = (slice("k"), slice("1"));
    assert_eq!(el_put_expiring(map, key, value, LATER), EL_OK);
    for (expected, code) in [(LATER - 1, EL_MISMATCH), (LATER, EL_OK)] {
        let rollbacks = made(|room| el_store_rollback_count(opened.store(), room));
        assert_eq!(el_batch_clear(at_mut(batch)), EL_OK);
        assert_eq!(el_batch_put(at_mut(batch), map, key, slice("3")), EL_OK);
        assert_eq!(el_batch_expect_no_rollback(at_mut(batch), rollbacks), EL_OK);
        assert_eq!(el_batch_expect_expiring(at_mut(batch), map, key, value, expected), EL_OK);
        assert_eq!(el_store_write(opened.store(), at_mut(batch), None), code);
    }
    assert_eq!(opened.get("k"), Some(b"3".to_vec()));
    assert_eq!(el_batch_clear(at_mut(batch)), EL_OK);
    assert_eq!(el_batch_expect_no_rollback(at_mut(batch), 7), EL_OK);
    assert_eq!(el_store_write(opened.store(), at_mut(batch), None), EL_MISMATCH);
    assert_eq!(el_batch_free(at_mut(batch)), EL_OK);
}
