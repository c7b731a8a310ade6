//! What a call through the C interface costs above the same call in Rust, in nanoseconds.
//!
//!     cargo run --release -p everleaf-capi --example call_cost
//!
//! A map of a few keys, so that nothing waits for memory: both calls find, copy or replace the same value. `insert` and
//! `remove` take turns in one call, so that each time there is something to do: the difference is of both together. The
//! iterators go through all keys, and begin anew behind the last one. They take turns in short rounds, and the
//! difference of two neighbouring rounds counts; shown is the median of all, with the quartiles. The C functions are
//! called through pointers that the compiler does not know, as the calls of a program in C are.

#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::error::Error;
use std::ffi::c_int;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::Instant;

use std::cell::RefCell;

use everleaf::{Map, Options, Range};
use everleaf_capi::argument::{el_buffer, el_slice, el_text};
use everleaf_capi::code::{EL_NOT_FOUND, EL_OK};
use everleaf_capi::cursor::{el_iter, el_iter_free, el_iter_new, el_iter_next, el_iter_rewind};
use everleaf_capi::map::{el_contains, el_get, el_insert, el_map, el_map_free, el_put, el_remove};
use everleaf_capi::options::el_options_set;
use everleaf_capi::options::{EL_CREATE, el_options, el_options_free, el_options_new};
use everleaf_capi::store::{el_store, el_store_free, el_store_map, el_store_open};

const KEYS: usize = 256;
const VALUE_SIZE: usize = 100;
const CALLS: usize = 20_000;
const ROUNDS: usize = 301;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = Options::new().create(true).open(folder.path().join("rust.pool"))?;
    let map = store.default_map();
    let keys: Vec<String> = (0..KEYS).map(|number| format!("key{number:013}")).collect();
    let value = [7u8; VALUE_SIZE];
    let c = OpenStore::new(&folder.path().join("c.pool"));
    for key in &keys {
        map.put(key, value)?;
        assert_eq!(el_put(c.map(), slice(key.as_bytes()), slice(&value)), EL_OK);
    }
    println!("| call | Rust, ns | C, ns | difference, ns (quartiles) |");
    println!("|---|---:|---:|---:|");
    compare("contains", &keys, |key| contains(map, key), |key| c.contains(key));
    compare("get, 100 bytes copied", &keys, |key| get(map, key), |key| c.get(key));
    compare("put, 100 bytes", &keys, |key| put(map, key, &value), |key| c.put(key, &value));
    let in_rust = |key: &str| remove_and_insert(map, key, &value);
    compare("remove and insert, 100 bytes", &keys, in_rust, |key| c.remove_and_insert(key, &value));
    let (range, iter) = (RefCell::new(map.iter()), c.iterate());
    let step = |_: &str| step(map, &mut range.borrow_mut());
    compare("a step of an iterator", &keys, step, |_| iter.step());
    Ok(())
}

fn contains(map: &Map, key: &str) -> bool {
    map.contains(key).is_ok_and(|found| found)
}

fn get(map: &Map, key: &str) -> bool {
    let mut buffer = [0u8; VALUE_SIZE];
    let found = map.get_with(key, |value| buffer[..value.len()].copy_from_slice(value));
    black_box(&mut buffer);
    found.is_ok_and(|found| found.is_some())
}

fn put(map: &Map, key: &str, value: &[u8]) -> bool {
    map.put(key, value).is_ok()
}

fn remove_and_insert(map: &Map, key: &str, value: &[u8]) -> bool {
    map.remove(key).is_ok_and(|done| done) && map.insert(key, value).is_ok_and(|done| done)
}

/// The next pair of a range, which begins anew behind its last one.
fn step(map: &Map, range: &mut Range) -> bool {
    let pair = range.next().or_else(|| {
        *range = map.iter();
        range.next()
    });
    black_box(pair).is_some_and(|pair| pair.is_ok())
}

/// Times both in turns, and prints a line.
fn compare(
    name: &str,
    keys: &[String],
    in_rust: impl Fn(&str) -> bool,
    in_c: impl Fn(&str) -> bool,
) {
    let (mut rust, mut c, mut differences) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let one = time(keys, &in_rust);
        let other = time(keys, &in_c);
        rust.push(one);
        c.push(other);
        differences.push(other - one);
    }
    let at = |of: &mut Vec<f64>, quarter: usize| {
        of.sort_by(f64::total_cmp);
        of[(of.len() - 1) * quarter / 4]
    };
    println!(
        "| {name} | {:.1} | {:.1} | {:.1} ({:.1} to {:.1}) |",
        at(&mut rust, 2),
        at(&mut c, 2),
        at(&mut differences, 2),
        at(&mut differences, 1),
        at(&mut differences, 3),
    );
}

/// Nanoseconds of a call.
fn time(keys: &[String], call: impl Fn(&str) -> bool) -> f64 {
    let started = Instant::now();
    let mut done = 0;
    for number in 0..CALLS {
        done += usize::from(call(black_box(&keys[number * 7 % KEYS])));
    }
    let nanoseconds = started.elapsed().as_nanos() as f64;
    assert_eq!(done, CALLS, "every call succeeds");
    nanoseconds / CALLS as f64
}

fn slice(bytes: &[u8]) -> el_slice {
    // SAFETY: the callers hold the bytes for the length of their call.
    unsafe { el_slice::new(bytes.as_ptr().cast(), bytes.len()) }
}

/// A store as a program in C has it.
struct OpenStore {
    store: *mut el_store,
    map: *mut el_map,
}

fn made<T>(make: impl FnOnce(Option<&mut MaybeUninit<*mut T>>) -> c_int) -> *mut T {
    let mut place = MaybeUninit::new(std::ptr::null_mut());
    assert_eq!(make(Some(&mut place)), EL_OK);
    // SAFETY: it was initialized above.
    unsafe { place.assume_init() }
}

fn at<T>(handle: *mut T) -> Option<&'static T> {
    // SAFETY: a type without bytes: whatever the pointer is, the reference says nothing of memory.
    unsafe { handle.as_ref() }
}

fn at_mut<T>(handle: *mut T) -> Option<&'static mut T> {
    // SAFETY: a type without bytes, as in `at`.
    unsafe { handle.as_mut() }
}

impl OpenStore {
    fn new(path: &std::path::Path) -> Self {
        let path = std::ffi::CString::new(path.to_str().expect("UTF-8")).expect("no zero");
        // SAFETY: the text outlives the call.
        let path = unsafe { el_text::new(path.as_ptr()) };
        // SAFETY: it is NULL.
        let default = unsafe { el_text::new(std::ptr::null()) };
        let options: *mut el_options = made(|place| el_options_new(place));
        assert_eq!(el_options_set(at_mut(options), EL_CREATE, 1), EL_OK);
        let store = made(|place| el_store_open(path, at_mut(options), place));
        assert_eq!(el_options_free(at_mut(options)), EL_OK);
        let map = made(|place| el_store_map(at(store), default, false, place));
        OpenStore { store, map }
    }

    fn map(&self) -> Option<&el_map> {
        at(self.map)
    }

    fn contains(&self, key: &str) -> bool {
        black_box(el_contains as extern "C" fn(_, _) -> _)(self.map(), slice(key.as_bytes()))
            == EL_OK
    }

    fn get(&self, key: &str) -> bool {
        let mut bytes = [0u8; VALUE_SIZE];
        // SAFETY: the bytes are ours, and outlive the call.
        let buffer = unsafe { el_buffer::new(bytes.as_mut_ptr().cast(), bytes.len()) };
        let mut size = MaybeUninit::uninit();
        let call = black_box(el_get as extern "C" fn(_, _, _, _) -> _);
        let code = call(self.map(), slice(key.as_bytes()), buffer, Some(&mut size));
        black_box(&mut bytes);
        code == EL_OK
    }

    fn put(&self, key: &str, value: &[u8]) -> bool {
        let call = black_box(el_put as extern "C" fn(_, _, _) -> _);
        call(self.map(), slice(key.as_bytes()), slice(value)) == EL_OK
    }

    fn remove_and_insert(&self, key: &str, value: &[u8]) -> bool {
        let remove = black_box(el_remove as extern "C" fn(_, _) -> _);
        let insert = black_box(el_insert as extern "C" fn(_, _, _) -> _);
        remove(self.map(), slice(key.as_bytes())) == EL_OK
            && insert(self.map(), slice(key.as_bytes()), slice(value)) == EL_OK
    }

    fn iterate(&self) -> Iterated {
        Iterated(made(|place| el_iter_new(self.map(), None, place)))
    }
}

/// An iterator as a program in C has it.
struct Iterated(*mut el_iter);

impl Iterated {
    fn step(&self) -> bool {
        let call = black_box(el_iter_next as extern "C" fn(_, _, _) -> _);
        let (mut key, mut value) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let mut code = call(at_mut(self.0), Some(&mut key), Some(&mut value));
        if code == EL_NOT_FOUND {
            assert_eq!(el_iter_rewind(at_mut(self.0)), EL_OK);
            code = call(at_mut(self.0), Some(&mut key), Some(&mut value));
        }
        black_box((&mut key, &mut value));
        code == EL_OK
    }
}

impl Drop for Iterated {
    fn drop(&mut self) {
        assert_eq!(el_iter_free(at_mut(self.0)), EL_OK);
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        assert_eq!(el_map_free(at_mut(self.map)), EL_OK);
        assert_eq!(el_store_free(at_mut(self.store)), EL_OK);
    }
}
