//! Iterators, batches and views; iterators are compared with a plain map.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::Bound;

use everleaf_capi::argument::{EL_EXCLUDED, EL_INCLUDED, el_bound, el_range};
use everleaf_capi::batch::*;
use everleaf_capi::code::*;
use everleaf_capi::cursor::*;
use everleaf_capi::expiry::el_expiry;
use everleaf_capi::store::el_store_write;
use everleaf_capi::view::{el_view_free, el_view_get, el_view_get_many, el_view_new};

use crate::support::*;

type Move = fn(
    Option<&mut el_iter>,
    Option<&mut Room<everleaf_capi::argument::el_slice>>,
    Option<&mut Room<everleaf_capi::argument::el_slice>>,
) -> i32;

/// The key that a move leads to.
fn key_by(
    code: impl FnOnce(&mut Room<everleaf_capi::argument::el_slice>) -> i32,
) -> Option<String> {
    let mut key = Room::uninit();
    match code(&mut key) {
        EL_OK => Some(String::from_utf8(bytes(stored(key))).expect("text")),
        EL_NOT_FOUND => None,
        code => panic!("{code}: {}", last_error()),
    }
}

fn go(iter: *mut el_iter, way: Move) -> Option<String> {
    key_by(|key| way(at_mut(iter), Some(key), None))
}

const NEXT: Move = |iter, key, value| el_iter_next(iter, key, value);
const PREV: Move = |iter, key, value| el_iter_prev(iter, key, value);

fn seek(iter: *mut el_iter, target: &str) -> Option<String> {
    key_by(|key| el_iter_seek(at_mut(iter), slice(target), Some(key), None))
}

fn seek_back(iter: *mut el_iter, target: &str) -> Option<String> {
    key_by(|key| el_iter_seek_back(at_mut(iter), slice(target), Some(key), None))
}

#[test]
fn an_iterator_goes_both_ways_and_comes_back() {
    let opened = TestStore::new();
    for key in ["a", "b", "c"] {
        opened.put(key, "value");
    }
    let iter = made(|room| el_iter_new(opened.map(), None, room));
    let some = |key: &str| Some(key.to_string());
    assert_eq!(go(iter, PREV), some("c"), "a new one is behind the last");
    assert_eq!(go(iter, NEXT), None);
    assert_eq!(go(iter, NEXT), None, "and stays there");
    assert_eq!(go(iter, PREV), some("c"));
    assert_eq!(go(iter, PREV), some("b"));
    assert_eq!(go(iter, NEXT), some("c"));
    assert_eq!(seek(iter, "aa"), some("b"));
    assert_eq!(go(iter, PREV), some("a"));
    assert_eq!(go(iter, PREV), None);
    assert_eq!(go(iter, NEXT), some("a"));
    assert_eq!(seek_back(iter, "bb"), some("b"));
    assert_eq!(go(iter, NEXT), some("c"));
    assert_eq!(seek(iter, "d"), None);
    assert_eq!(el_iter_rewind(at_mut(iter)), EL_OK);
    assert_eq!(go(iter, NEXT), some("a"));
    assert_eq!(el_iter_free(at_mut(iter)), EL_OK);
    let iter = made(|room| el_iter_prefix(opened.map(), slice("b"), room));
    assert_eq!((go(iter, NEXT), go(iter, NEXT)), (some("b"), None));
    assert_eq!(el_iter_free(at_mut(iter)), EL_OK);
}

/// A plain map with a place, as the iterator should be.
struct Model<'a> {
    keys: &'a BTreeMap<String, ()>,
    bounds: (Bound<String>, Bound<String>),
    place: CursorState,
}

#[derive(Clone)]
enum CursorState {
    New,
    At(String),
    Before,
    Behind,
}

impl Model<'_> {
    fn step(&mut self, back: bool) -> Option<String> {
        let (mut from, mut to) = self.bounds.clone();
        match (&self.place, back) {
            (CursorState::Before, true) | (CursorState::Behind, false) => return None,
            (CursorState::At(key), false) => from = Bound::Excluded(key.clone()),
            (CursorState::At(key), true) => to = Bound::Excluded(key.clone()),
            _ => {}
        }
        self.arrive(self.find(from, to, back), back)
    }

    fn seek(&mut self, key: &str, back: bool) -> Option<String> {
        let (from, to) = self.bounds.clone();
        let within =
            |key: &&String| self.keys.range((from.clone(), to.clone())).any(|(k, ())| k == *key);
        let mut keys: Vec<&String> = self.keys.keys().filter(within).collect();
        keys.retain(|k| if back { k.as_str() <= key } else { k.as_str() >= key });
        let found = if back { keys.last() } else { keys.first() }.map(|key| (*key).clone());
        self.arrive(found, back)
    }

    fn find(&self, from: Bound<String>, to: Bound<String>, back: bool) -> Option<String> {
        // A plain map does not take bounds that are crossed.
        let crossed = matches!((&from, &to),
            (Bound::Included(f) | Bound::Excluded(f), Bound::Included(t) | Bound::Excluded(t))
                if f > t || (f == t && !matches!((&from, &to), (Bound::Included(_), Bound::Included(_)))));
        if crossed {
            return None;
        }
        let mut range = self.keys.range((from, to));
        if back { range.next_back() } else { range.next() }.map(|(key, ())| key.clone())
    }

    fn arrive(&mut self, found: Option<String>, back: bool) -> Option<String> {
        self.place = match &found {
            Some(key) => CursorState::At(key.clone()),
            None if back => CursorState::Before,
            None => CursorState::Behind,
        };
        found
    }
}

#[test]
fn random_moves_lead_where_they_lead_in_a_plain_map() {
    let opened = TestStore::new();
    let keys: BTreeMap<String, ()> = (0..400).map(|n| (format!("{:04}", n * 5), ())).collect();
    keys.keys().for_each(|key| opened.put(key, ""));
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = |below: u64| everleaf::random::next(&mut state) % below;
    for round in 0..30 {
        let (from, to) = (format!("{:04}", draw(1000)), format!("{:04}", 1000 + draw(1000)));
        let range = el_range::new(
            el_bound::new(EL_INCLUDED, slice(&from)),
            el_bound::new(EL_EXCLUDED, slice(&to)),
        );
        let iter = made(|room| el_iter_new(opened.map(), Some(&range), room));
        let bounds = (Bound::Included(from.clone()), Bound::Excluded(to.clone()));
        let mut model = Model { keys: &keys, bounds, place: CursorState::New };
        for step in 0..200 {
            let target = format!("{:04}", draw(2200));
            let (expected, found) = match draw(12) {
                0 => (model.seek(&target, false), seek(iter, &target)),
                1 => (model.seek(&target, true), seek_back(iter, &target)),
                2..7 => (model.step(false), go(iter, NEXT)),
                _ => (model.step(true), go(iter, PREV)),
            };
            assert_eq!(found, expected, "round {round}, step {step}, {from}..{to}, {target}");
        }
        assert_eq!(el_iter_free(at_mut(iter)), EL_OK);
    }
}

#[test]
fn a_batch_is_written_as_one_if_its_conditions_hold() {
    let opened = TestStore::new();
    let (map, store) = (opened.map(), opened.store());
    opened.put("gone", "1");
    let batch = made(|room| el_batch_new(room));
    let b = || at_mut(batch);
    let one = slice("1");
    assert_eq!(el_batch_expect(b(), map, slice("gone"), Some(&one)), EL_OK);
    assert_eq!(el_batch_expect(b(), map, slice("new"), None), EL_OK);
    assert_eq!(el_batch_put(b(), map, slice("new"), slice("2")), EL_OK);
    assert_eq!(el_batch_put_expiring(b(), map, slice("past"), slice("3"), 1), EL_OK);
    assert_eq!(el_batch_remove(b(), map, slice("gone")), EL_OK);
    assert_eq!(made(|room| el_batch_count(b(), room)), 3);
    let mut refused = Room::new(9);
    assert_eq!(el_store_write(store, b(), Some(&mut refused)), EL_OK);
    assert_eq!((opened.get("new"), opened.get("gone")), (Some(b"2".to_vec()), None));
    assert_eq!(opened.get("past"), None);
    assert_eq!(el_store_write(store, b(), Some(&mut refused)), EL_MISMATCH);
    assert_eq!(stored(refused), 0, "it is gone");
    assert_eq!(el_batch_clear(b()), EL_OK);
    assert_eq!(made(|room| el_batch_count(b(), room)), 0);
    assert_eq!(el_store_write(store, b(), None), EL_OK);
    assert_eq!(el_batch_free(b()), EL_OK);
}

#[test]
fn a_batch_changes_when_keys_expire_and_leaves_their_values() {
    const LATER: u64 = 4_000_000_000_000;
    let opened = TestStore::new();
    let (map, store) = (opened.map(), opened.store());
    let long = "v".repeat(5000);
    opened.put("short", "1");
    opened.put("long", &long);
    opened.put("past", "2");
    let batch = made(|room| el_batch_new(room));
    let b = || at_mut(batch);
    for (key, expiry) in [("short", LATER), ("long", LATER + 1), ("past", 1), ("absent", LATER)] {
        assert_eq!(el_batch_expire_at(b(), map, slice(key), expiry), EL_OK);
    }
    assert_eq!(made(|room| el_batch_count(b(), room)), 4);
    assert_eq!(el_store_write(store, b(), None), EL_OK);
    assert_eq!(made(|room| el_expiry(map, slice("short"), room)), LATER);
    assert_eq!(made(|room| el_expiry(map, slice("long"), room)), LATER + 1);
    assert_eq!(opened.get("long"), Some(long.into_bytes()));
    assert_eq!((opened.get("past"), opened.get("absent")), (None, None));
    assert_eq!(el_batch_clear(b()), EL_OK);
    assert_eq!(el_batch_expire_at(b(), map, slice("long"), 0), EL_OK);
    assert_eq!(el_store_write(store, b(), None), EL_OK);
    assert_eq!(made(|room| el_expiry(map, slice("long"), room)), 0);
    assert_eq!(el_batch_free(b()), EL_OK);
}

#[test]
fn a_view_shows_what_was() {
    let opened = TestStore::new();
    opened.put("oak", "Quercus");
    let view = made(|room| el_view_new(opened.store(), room));
    opened.put("oak", "changed");
    opened.put("ash", "new");
    let mut value = [0; 16];
    let mut size = Room::uninit();
    let get = |key: &str, value: &mut [u8], size: &mut Room<usize>| {
        el_view_get(at(view), opened.map(), slice(key), buffer(value), Some(size))
    };
    assert_eq!(get("oak", &mut value, &mut size), EL_OK);
    assert_eq!(&value[..stored(size)], b"Quercus");
    assert_eq!(get("ash", &mut value, &mut size), EL_NOT_FOUND);
    let mut seen: Vec<(usize, Option<Vec<u8>>)> = vec![];
    let context: *mut c_void = (&raw mut seen).cast();
    let wanted = [slice("oak"), slice("ash"), slice("oak")];
    let many = |see| el_view_get_many(at(view), opened.map(), slices(&wanted), see, context);
    assert_eq!(many(Some(keep_found)), EL_OK);
    assert_eq!(many(None), EL_INVALID);
    let quercus = Some(b"Quercus".to_vec());
    assert_eq!(seen, [(0, quercus.clone()), (1, None), (2, quercus)]);
    let iter = made(|room| el_iter_view(at(view), opened.map(), None, room));
    assert_eq!((go(iter, NEXT).as_deref(), go(iter, NEXT)), (Some("oak"), None));
    assert_eq!(go(iter, PREV).as_deref(), Some("oak"));
    assert_eq!(el_iter_free(at_mut(iter)), EL_OK);
    assert_eq!(el_view_free(at_mut(view)), EL_OK);
}

/// It went to the first pair of the range: a program that went on after an error got what is before
/// the target.
#[test]
fn an_iterator_that_cannot_reach_its_target_stays_where_it_was() {
    let opened = TestStore::new();
    for key in ["a", "b", "c", "d", "e"] {
        opened.put(key, &format!("the value of {key}"));
    }
    let iter = made(|room| el_iter_new(opened.map(), None, room));
    let some = |key: &str| Some(key.to_string());
    assert_eq!(seek(iter, "c"), some("c"));
    damage(&opened, b"the value of e");
    let mut key = Room::uninit();
    assert_eq!(el_iter_seek(at_mut(iter), slice("e"), Some(&mut key), None), EL_CORRUPT);
    assert_eq!(go(iter, NEXT), some("d"));
    let code = el_iter_seek_back(at_mut(iter), slice("x"), Some(&mut key), None);
    assert_eq!(code, EL_CORRUPT, "{}", last_error());
    assert_eq!(go(iter, PREV), some("c"));
    assert_eq!(el_iter_free(at_mut(iter)), EL_OK);
}

#[test]
fn pairs_before_damage_are_shown_once_and_then_it_is_told() {
    let opened = TestStore::new();
    for number in 0..40 {
        opened.put(&format!("k{number:02}"), &format!("the value of {number:02}"));
    }
    damage(&opened, b"the value of 27");
    let iter = made(|room| el_iter_new(opened.map(), None, room));
    let some = |number: usize| Some(format!("k{number:02}"));
    for number in 0..27 {
        assert_eq!(go(iter, NEXT), some(number));
    }
    for _ in 0..2 {
        assert_eq!(el_iter_next(at_mut(iter), None, None), EL_CORRUPT);
    }
    assert_eq!(go(iter, PREV), some(25), "it was at 26");
    assert_eq!(seek(iter, "k28"), some(28));
    assert_eq!(el_iter_prev(at_mut(iter), None, None), EL_CORRUPT);
    assert_eq!(go(iter, NEXT), some(29));
    assert_eq!(seek_back(iter, "k39"), some(39));
    for number in (28..39).rev() {
        assert_eq!(go(iter, PREV), some(number));
    }
    assert_eq!(el_iter_prev(at_mut(iter), None, None), EL_CORRUPT);
    assert_eq!(el_iter_free(at_mut(iter)), EL_OK);
}

#[test]
fn values_of_all_sizes_are_shown_from_both_ends() {
    let opened = TestStore::new();
    // Pages that end by their bytes, by their pairs, and with a value that is longer than a page.
    let size = |number: usize| match number % 50 {
        0 => 250_000,
        1..9 => 60_000 + number,
        _ => number,
    };
    let pairs: Vec<(String, String)> = (0..500)
        .map(|number| (format!("{number:03}"), format!("{number:03}").repeat(size(number))))
        .collect();
    pairs.iter().for_each(|(key, value)| opened.put(key, value));
    let iter = made(|room| el_iter_new(opened.map(), None, room));
    let collect = |way: Move| {
        let mut found = vec![];
        loop {
            let (mut key, mut value) = (Room::uninit(), Room::uninit());
            match way(at_mut(iter), Some(&mut key), Some(&mut value)) {
                EL_OK => found.push(
                    [stored(key), stored(value)]
                        .map(|text| String::from_utf8(bytes(text)).expect("text")),
                ),
                code => break assert_eq!(code, EL_NOT_FOUND, "{}", last_error()),
            }
        }
        found
    };
    let are_all = |found: &mut dyn Iterator<Item = [String; 2]>| {
        found.eq(pairs.iter().map(|(key, value)| [key.clone(), value.clone()]))
    };
    assert!(are_all(&mut collect(NEXT).into_iter()));
    assert!(are_all(&mut collect(PREV).into_iter().rev()));
    assert_eq!(el_iter_free(at_mut(iter)), EL_OK);
}

/// Changes a byte of a value in the file, behind the back of the store.
fn damage(opened: &TestStore, value: &[u8]) {
    use std::os::unix::fs::FileExt;
    let bytes = std::fs::read(opened.path()).expect("the pool can be read");
    let found = bytes.windows(value.len()).position(|window| window == value);
    let at = found.expect("the value lies in the file") as u64;
    let file = std::fs::File::options().write(true).open(opened.path()).expect("and written");
    file.write_all_at(b"T", at).expect("to where it was");
}
