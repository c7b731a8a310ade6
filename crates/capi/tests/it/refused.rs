//! What is refused, and what is left behind then.

use std::ffi::c_void;

use everleaf_capi::argument::{EL_EXCLUDED, EL_INCLUDED, EL_UNBOUNDED, el_bound, el_decision};
use everleaf_capi::argument::{el_range, el_slice};
use everleaf_capi::atomic::{EL_PUT, el_fetch_add, el_update_with};
use everleaf_capi::batch::{el_batch, el_batch_new};
use everleaf_capi::code::*;
use everleaf_capi::cursor::*;
use everleaf_capi::expiry::el_expire_at;
use everleaf_capi::map::{el_map, el_put, el_scan};
use everleaf_capi::options::{el_options, el_options_new};
use everleaf_capi::view::{el_view, el_view_free, el_view_new};

use crate::support::*;

/// What was in the place stayed there, and a program that frees all that it has freed that, too.
#[test]
fn a_handle_that_is_not_made_is_null() {
    fn left<T>(make: impl FnOnce(Option<&mut Room<*mut T>>) -> i32) -> (i32, bool) {
        let mut room = Room::new(std::ptr::dangling_mut::<u64>().cast::<T>());
        let code = make(Some(&mut room));
        (code, stored(room).is_null())
    }
    let refused = (EL_BAD_HANDLE, true);
    assert_eq!(left::<el_iter>(|room| el_iter_new(None, None, room)), refused);
    assert_eq!(left::<el_iter>(|room| el_iter_prefix(None, slice("a"), room)), refused);
    assert_eq!(left::<el_iter>(|room| el_iter_view(None, None, None, room)), refused);
    assert_eq!(left::<el_view>(|room| el_view_new(None, room)), refused);
    let opened = TestStore::new();
    let range = el_range::new(el_bound::new(7, slice("")), el_bound::new(7, slice("")));
    let unbounded =
        |room: Option<&mut Room<*mut el_iter>>| el_iter_new(opened.map(), Some(&range), room);
    assert_eq!(left::<el_iter>(unbounded), (EL_INVALID, true));
    assert_eq!(left::<el_batch>(|room| el_batch_new(room)), (EL_OK, false));
    assert_eq!(left::<el_options>(|room| el_options_new(room)), (EL_OK, false));
}

struct OwnWriter {
    map: *mut el_map,
    write: fn(Option<&el_map>, u32) -> i32,
    asked: u32,
    codes: Vec<i32>,
}

/// Writes the key on which it decides, a thousand times at most.
extern "C" fn write_own(context: *mut c_void, _: Option<&el_slice>) -> el_decision {
    // SAFETY: the test passes such a thing, which it holds.
    let writer = unsafe { &mut *context.cast::<OwnWriter>() };
    writer.asked += 1;
    if writer.asked < 1000 {
        writer.codes.push((writer.write)(at(writer.map), writer.asked));
    }
    el_decision::new(EL_PUT, slice("9"), 0)
}

/// It was asked for ever, and what it had written filled the pool.
#[test]
fn a_decision_that_writes_its_own_key_is_refused() {
    let opened = TestStore::new();
    let writes: [fn(Option<&el_map>, u32) -> i32; 3] = [
        |map, asked| el_put(map, slice("k"), slice(&asked.to_string())),
        |map, asked| el_expire_at(map, slice("k"), 4_000_000_000_000 + u64::from(asked)),
        |map, _| el_fetch_add(map, slice("k"), 1, None),
    ];
    for with_view in [false, true] {
        let view = with_view.then(|| made(|room| el_view_new(opened.store(), room)));
        for write in writes {
            opened.put("k", "0");
            let mut writer = OwnWriter { map: opened.map, write, asked: 0, codes: vec![] };
            let context = (&raw mut writer).cast();
            let code = el_update_with(opened.map(), slice("k"), Some(write_own), context);
            assert_eq!((code, writer.asked), (EL_UNSUPPORTED, 2), "{}", last_error());
            assert!(last_error().contains("itself"), "{}", last_error());
            assert_eq!(writer.codes, [EL_OK, EL_UNSUPPORTED]);
        }
        if let Some(view) = view {
            assert_eq!(el_view_free(at_mut(view)), EL_OK);
        }
    }
}

/// Of a bound, or of what is sought, no more is looked at than a key can have.
#[test]
fn bounds_that_are_longer_than_keys_are_right() {
    let opened = TestStore::new();
    let longest = "k".repeat(64 << 10);
    let above = format!("{}l", &longest[1..]);
    for key in ["a", &longest, &above, "z"] {
        opened.put(key, "");
    }
    let longer = format!("{longest}k");
    let keys = |kinds: (i32, i32), from: &str, to: &str| {
        let bound = |kind, key: &str| el_bound::new(kind, slice(key));
        let range = el_range::new(bound(kinds.0, from), bound(kinds.1, to));
        let iter = made(|room| el_iter_new(opened.map(), Some(&range), room));
        let (mut found, mut key) = (vec![], Room::uninit());
        while el_iter_next(at_mut(iter), Some(&mut key), None) == EL_OK {
            let key = bytes(stored(key));
            found.push((key[0], key.len(), key[key.len() - 1]));
        }
        assert_eq!(el_iter_free(at_mut(iter)), EL_OK);
        let mut count = Room::uninit();
        extern "C" fn go_on(_: *mut c_void, _: el_slice, _: el_slice) -> i32 {
            0
        }
        let null = std::ptr::null_mut();
        let scanned =
            el_scan(opened.map(), Some(&range), false, Some(go_on), null, Some(&mut count));
        assert_eq!((scanned, stored(count)), (EL_OK, found.len() as u64));
        found
    };
    let (a, k, l, z) =
        ((b'a', 1, b'a'), (b'k', 64 << 10, b'k'), (b'k', 64 << 10, b'l'), (b'z', 1, b'z'));
    for kind in [EL_INCLUDED, EL_EXCLUDED] {
        assert_eq!(keys((kind, EL_UNBOUNDED), &longer, ""), [l, z]);
        assert_eq!(keys((EL_UNBOUNDED, kind), "", &longer), [a, k]);
        assert_eq!(keys((kind, kind), &longer, &longer), []);
    }
    let iter = made(|room| el_iter_new(opened.map(), None, room));
    let seek = |target: &str, back: bool| {
        let mut key = Room::uninit();
        let code = match back {
            true => el_iter_seek_back(at_mut(iter), slice(target), Some(&mut key), None),
            false => el_iter_seek(at_mut(iter), slice(target), Some(&mut key), None),
        };
        (code == EL_OK).then(|| bytes(stored(key)).last().copied()).flatten()
    };
    assert_eq!((seek(&longer, false), seek(&longer, true)), (Some(b'l'), Some(b'k')));
    assert_eq!((seek(&longest, false), seek(&longest, true)), (Some(b'k'), Some(b'k')));
    assert_eq!(seek(&format!("{longest}z"), true), Some(b'k'));
    assert_eq!(el_iter_free(at_mut(iter)), EL_OK);
    let iter = made(|room| el_iter_prefix(opened.map(), slice(&longer), room));
    assert_eq!(el_iter_next(at_mut(iter), None, None), EL_NOT_FOUND);
    assert_eq!(el_iter_prev(at_mut(iter), None, None), EL_NOT_FOUND);
    assert_eq!(el_iter_free(at_mut(iter)), EL_OK);
}
