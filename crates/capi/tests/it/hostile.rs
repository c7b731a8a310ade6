//! What C code does wrong: NULL, handles that are none, lengths that lie, two calls at once.

#![allow(clippy::multiple_unsafe_ops_per_block, reason = "several arguments are made at once")]

use std::ffi::{c_int, c_void};

use everleaf_capi::argument::{el_buffer, el_decision, el_slice, el_slices};
use everleaf_capi::atomic::*;
use everleaf_capi::batch::*;
use everleaf_capi::code::*;
use everleaf_capi::cursor::*;
use everleaf_capi::expiry::*;
use everleaf_capi::many::*;
use everleaf_capi::map::*;
use everleaf_capi::memory::{el_allocated, el_free};
use everleaf_capi::options::*;
use everleaf_capi::store::*;
use everleaf_capi::upkeep::*;
use everleaf_capi::view::*;
use everleaf_capi::watch::*;

use crate::support::*;

/// Calls everything that takes a handle with the same one, which is none.
#[allow(clippy::too_many_lines, reason = "one line for each function")]
fn with_all_handles(any: *mut c_void) -> Vec<c_int> {
    let (k, null) = (slice("k"), std::ptr::null_mut::<c_void>());
    let (store, map) = (|| at::<el_store>(any.cast()), || at::<el_map>(any.cast()));
    let iter = || at_mut::<el_iter>(any.cast());
    let batch = || at_mut::<el_batch>(any.cast());
    let view = || at::<el_view>(any.cast());
    let mut empty: [u8; 0] = [];
    let mut room = Room::uninit();
    let mut count = Room::uninit();
    extern "C" fn text(_: *mut c_void, _: el_slice) {}
    extern "C" fn found(_: *mut c_void, _: usize, _: Option<&el_slice>) {}
    extern "C" fn pair(_: *mut c_void, _: el_slice, _: el_slice) -> c_int {
        0
    }
    extern "C" fn keep_it(_: *mut c_void, _: Option<&el_slice>) -> el_decision {
        el_decision::new(EL_KEEP, slice(""), 0)
    }
    extern "C" fn keep_expiring(_: *mut c_void, _: Option<&el_slice>, _: u64) -> el_decision {
        el_decision::new(EL_KEEP, slice(""), 0)
    }
    extern "C" fn keep_by_expiry(_: *mut c_void, _: Option<&u64>) -> el_decision {
        el_decision::new(EL_KEEP, slice(""), 0)
    }
    let none = || buffer(&mut []);
    let watch = || at::<el_watch>(any.cast());
    let mut codes = vec![
        el_options_set(at_mut(any.cast()), EL_CREATE, 1),
        el_options_log(at_mut(any.cast()), None, null),
        el_store_close(store()),
        el_store_map(store(), c_text(c"m"), true, Some(&mut Room::uninit())),
        el_store_drop_map(store(), c_text(c"m")),
        el_store_load_map(
            store(),
            c_text(c"m"),
            slices(&[]),
            slices(&[]),
            Some(&mut Room::uninit()),
        ),
        el_store_map_names(store(), Some(text), null),
        el_store_write(store(), batch(), None),
        el_store_sync(store()),
        el_store_snapshot(store(), None),
        el_store_backup(store(), c_text(c"/nowhere"), None, null, None),
        el_store_check(store(), None, null, None),
        el_store_return_space(store(), None),
        el_store_statistics(store(), buffer(&mut empty), None),
    ];
    codes.extend([
        el_store_save(store(), None),
        el_store_defer_sync(store()),
        el_store_wait_deferred(store()),
        el_store_has_log_failed(store(), Some(&mut Room::uninit())),
        el_store_is_pool_gone(store(), Some(&mut Room::uninit())),
        el_store_is_read_only(store(), Some(&mut Room::uninit())),
        el_store_rebuilt(store(), None, null, none(), None),
        el_store_put_aside_files(store(), None, null, None),
        el_store_rollback_count(store(), Some(&mut Room::uninit())),
        el_map_numbers(map(), none(), None),
        el_get_expiring(map(), k, none(), None, None),
        el_fetch_add(map(), k, 1, None),
        el_take(map(), k, None, None),
        el_pop(map(), true, None, None, None, None),
        el_update_with(map(), k, Some(keep_it), null),
        el_update_expiring_with(map(), k, Some(keep_expiring), null),
        el_update_expiry_with(map(), k, Some(keep_by_expiry), null),
        el_watch_new(map(), k, Some(&mut Room::uninit())),
        el_watch_is_broken(watch(), Some(&mut Room::uninit())),
        el_batch_expect_unwritten(batch(), watch()),
        el_batch_expect_expiring(batch(), map(), k, k, 0),
        el_batch_expect_no_rollback(batch(), 0),
    ]);
    codes.extend([
        el_get(map(), k, none(), None),
        el_get_copy(map(), k, Some(&mut room), Some(&mut count)),
        el_get_with(map(), k, Some(text), null),
        el_contains(map(), k),
        el_put(map(), k, k),
        el_insert(map(), k, k),
        el_update(map(), k, k),
        el_remove(map(), k),
        el_compare_exchange(map(), k, None, None),
        el_count(map(), Some(&mut Room::uninit())),
        el_clear(map()),
        el_scan(map(), None, false, Some(pair), null, None),
        el_put_expiring(map(), k, k, 0),
        el_expire_at(map(), k, 0),
        el_expiry(map(), k, Some(&mut Room::uninit())),
        el_get_many(map(), slices(&[k]), Some(found), null),
        el_put_many(map(), slices(&[k]), slices(&[k])),
        el_prefetch(map(), slices(&[k])),
        el_put_columns(map(), k, 1, k, 1),
        el_get_columns(map(), k, 1, buffer(&mut [0]), 1, buffer(&mut [0]), None),
    ]);
    codes.extend([
        el_iter_new(map(), None, Some(&mut Room::uninit())),
        el_iter_prefix(map(), k, Some(&mut Room::uninit())),
        el_iter_view(view(), map(), None, Some(&mut Room::uninit())),
        el_iter_next(iter(), None, None),
        el_iter_prev(iter(), None, None),
        el_iter_seek(iter(), k, None, None),
        el_iter_seek_back(iter(), k, None, None),
        el_iter_rewind(iter()),
        el_batch_clear(batch()),
        el_batch_count(batch(), Some(&mut Room::uninit())),
        el_batch_put(batch(), map(), k, k),
        el_batch_put_expiring(batch(), map(), k, k, 0),
        el_batch_expire_at(batch(), map(), k, 0),
        el_batch_remove(batch(), map(), k),
        el_batch_expect(batch(), map(), k, None),
        el_view_new(store(), Some(&mut Room::uninit())),
        el_view_get(view(), map(), k, none(), None),
        el_view_get_many(view(), map(), slices(&[k]), Some(found), null),
    ]);
    codes
}

#[test]
fn handles_that_are_none_are_refused_everywhere() {
    let mut zeros = [0_u64; 64];
    let mut noise = [0x5555_5555_5555_5555_u64; 64];
    let options = options(&[]);
    for (what, any) in [
        ("NULL", std::ptr::null_mut::<c_void>()),
        ("zeros", zeros.as_mut_ptr().cast()),
        ("noise", noise.as_mut_ptr().cast()),
        ("not aligned", noise.as_mut_ptr().cast::<u8>().wrapping_add(3).cast()),
    ] {
        for (index, code) in with_all_handles(any).into_iter().enumerate() {
            assert_eq!(code, EL_BAD_HANDLE, "{what}, call {index}");
        }
        assert!(last_error().starts_with("the el_"), "{}", last_error());
    }
    // A handle of another kind: only what it is for takes it.
    let codes = with_all_handles(options.cast());
    assert!(codes[2..].iter().all(|code| *code == EL_BAD_HANDLE), "{codes:?}");
    assert_eq!(codes[..2], [EL_OK, EL_OK]);
    assert_eq!(el_store_free(at_mut(options.cast())), EL_BAD_HANDLE);
    assert_eq!(el_options_free(at_mut(options)), EL_OK);
}

#[test]
fn nothing_is_freed_twice_when_it_is_null() {
    assert_eq!(el_options_free(None), EL_OK);
    assert_eq!(el_store_free(None), EL_OK);
    assert_eq!(el_map_free(None), EL_OK);
    assert_eq!(el_iter_free(None), EL_OK);
    assert_eq!(el_batch_free(None), EL_OK);
    assert_eq!(el_view_free(None), EL_OK);
    // SAFETY: NULL is allowed.
    el_free(unsafe { el_allocated::new(std::ptr::null_mut()) });
}

#[test]
fn places_that_are_null_are_refused_where_they_are_needed() {
    let opened = TestStore::new();
    assert_eq!(el_options_new(None), EL_INVALID);
    assert_eq!(el_store_open(c_text(c"x"), None, None), EL_INVALID);
    assert_eq!(el_store_map(opened.store(), NO_TEXT(), true, None), EL_INVALID);
    assert_eq!(el_store_open(NO_TEXT(), None, Some(&mut Room::uninit())), EL_INVALID);
    assert_eq!(el_store_map_names(opened.store(), None, std::ptr::null_mut()), EL_INVALID);
    assert_eq!(el_get_copy(opened.map(), slice("k"), None, None), EL_INVALID);
    assert_eq!(el_count(opened.map(), None), EL_INVALID);
    assert_eq!(el_expiry(opened.map(), slice("k"), None), EL_INVALID);
    assert_eq!(el_iter_new(opened.map(), None, None), EL_INVALID);
    assert_eq!(el_batch_new(None), EL_INVALID);
    assert_eq!(el_view_new(opened.store(), None), EL_INVALID);
}

#[test]
fn lengths_of_zero_are_fine_and_lengths_that_lie_are_refused() {
    let opened = TestStore::new();
    let null = std::ptr::null();
    // SAFETY: NULL, and lengths that are refused before anything is read, are allowed.
    let (empty, lies, negative) = unsafe {
        let one = (&raw const opened).cast();
        (el_slice::new(null, 0), el_slice::new(null, 5), el_slice::new(one, usize::MAX))
    };
    assert_eq!(el_put(opened.map(), empty, empty), EL_OK);
    assert_eq!(opened.get(""), Some(vec![]));
    for wrong in [lies, negative] {
        assert_eq!(el_put(opened.map(), wrong, empty), EL_INVALID);
        assert_eq!(el_put(opened.map(), empty, wrong), EL_INVALID);
    }
    // SAFETY: lengths that are refused before anything is read are allowed.
    let (none, lies, many) = unsafe {
        let one = (&raw const empty).cast();
        (
            el_slices::new(std::ptr::null(), 0),
            el_slices::new(std::ptr::null(), 1),
            el_slices::new(one, usize::MAX),
        )
    };
    assert_eq!(el_put_many(opened.map(), none, none), EL_OK);
    assert_eq!(el_put_many(opened.map(), lies, none), EL_INVALID);
    assert_eq!(el_put_many(opened.map(), many, none), EL_INVALID);
    // SAFETY: a buffer without bytes may be anywhere.
    let nowhere = unsafe { el_buffer::new(std::ptr::dangling_mut::<u64>().cast(), 0) };
    assert_eq!(el_get(opened.map(), empty, nowhere, None), EL_OK);
    let long = vec![b'k'; (64 << 10) + 1];
    assert_eq!(el_put(opened.map(), slice(&long), empty), EL_TOO_LARGE);
    assert!(last_error().contains("65537 bytes"), "{}", last_error());
}

/// A function of C code that uses what it is called from.
extern "C" fn meddle(context: *mut c_void, _: el_slice) {
    // SAFETY: the test passes these, and holds them.
    let (opened, code) = unsafe { &mut *context.cast::<(&TestStore, Vec<c_int>)>() };
    code.push(el_put(opened.map(), slice("inner"), slice("1")));
    code.push(el_store_sync(opened.store()));
}

#[test]
fn functions_may_call_back() {
    let opened = TestStore::new();
    opened.put("k", "v");
    let mut context = (&opened, vec![]);
    let code = el_get_with(opened.map(), slice("k"), Some(meddle), (&raw mut context).cast());
    assert_eq!((code, &context.1[..]), (EL_OK, &[EL_OK, EL_OK][..]));
}

extern "C" fn close(context: *mut c_void, _: u64) {
    // SAFETY: the test passes these, and holds them.
    let (opened, code) = unsafe { &mut *context.cast::<(&TestStore, c_int)>() };
    *code = el_store_close(opened.store());
}

#[test]
fn a_store_is_not_closed_under_a_call() {
    let opened = TestStore::new();
    for n in 0..(1 << 14) {
        opened.put(&format!("{n}"), "");
    }
    let mut context = (&opened, EL_OK);
    let path = path_text(&opened.folder.path().join("copy"));
    let of = (&raw mut context).cast();
    assert_eq!(el_store_backup(opened.store(), c_text(&path), Some(close), of, None), EL_OK);
    assert_eq!(context.1, EL_BUSY, "it was told, and has not waited for itself");
}

#[test]
fn two_threads_do_not_share_a_batch_by_mistake() {
    let opened = TestStore::new();
    let batch = made(|room| el_batch_new(room)) as usize;
    let map = opened.map as usize;
    let refused: usize = std::thread::scope(|scope| {
        let work = || {
            let key = slice("k");
            let put = || el_batch_put(at_mut(batch as *mut _), at(map as *mut _), key, key);
            (0..2000).map(|_| put()).filter(|code| *code == EL_BUSY).count()
        };
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.map(|thread| thread.join().expect("it ends")).iter().sum()
    });
    let count = made(|room| el_batch_count(at_mut(batch as *mut el_batch), room));
    assert_eq!(count + refused, 4000, "each call was either done or refused");
    assert_eq!(el_batch_free(at_mut(batch as *mut el_batch)), EL_OK);
}

#[test]
fn threads_use_a_map_at_once() {
    let opened = TestStore::new();
    let map = opened.map as usize;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for n in 0..500 {
                    let key = format!("{thread} {n}");
                    assert_eq!(el_put(at(map as *mut _), slice(&key), slice(&key)), EL_OK);
                    assert_eq!(value_of(at(map as *mut _), &key), Some(key.into_bytes()));
                }
            });
        }
    });
    assert_eq!(made(|room| el_count(opened.map(), room)), 2000);
}
