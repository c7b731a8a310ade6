//! Every design through the C interface, called from Rust as C code would.

use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::MaybeUninit;

use everleaf_capi::argument::{el_buffer, el_slice, el_text};
use everleaf_capi::code::{
    EL_BAD_HANDLE, EL_EXISTS, EL_INVALID, EL_NOT_FOUND, EL_OK, EL_UNSUPPORTED,
};
use everleaf_capi::entry::el_last_error;
use everleaf_lab_capi::index::{
    el_index, el_index_count, el_index_designs, el_index_free, el_index_get, el_index_get_limits,
    el_index_insert, el_index_open, el_index_put, el_index_remove, el_index_scan, el_index_update,
};
use everleaf_lab_designs::{NamedIndex, Scans, Writes, designs};

fn text(text: &CStr) -> el_text {
    // SAFETY: the tests hold the text for as long as they use it.
    unsafe { el_text::new(text.as_ptr()) }
}

fn no_text() -> el_text {
    // SAFETY: it is NULL.
    unsafe { el_text::new(std::ptr::null()) }
}

fn last_error() -> String {
    // SAFETY: the library returns text that ends with zero.
    unsafe { CStr::from_ptr(el_last_error()) }.to_string_lossy().into_owned()
}

/// An index while a test uses it.
struct OpenIndex(*mut el_index);

impl OpenIndex {
    fn new(design: &str, path: Option<&std::path::Path>) -> Result<Self, c_int> {
        let design = CString::new(design).expect("no zero");
        let path = path.map(|path| CString::new(path.to_str().expect("UTF-8")).expect("no zero"));
        let path = path.as_deref().map_or_else(no_text, text);
        let mut place = MaybeUninit::uninit();
        match el_index_open(text(&design), path, 1 << 30, Some(&mut place)) {
            // SAFETY: the library has stored a handle.
            EL_OK => Ok(OpenIndex(unsafe { place.assume_init() })),
            code => Err(code),
        }
    }

    fn get(&self) -> Option<&el_index> {
        // SAFETY: the handle is not freed before the test ends.
        Some(unsafe { &*self.0 })
    }

    fn value(&self, key: u64) -> Option<u64> {
        let mut value = MaybeUninit::uninit();
        match el_index_get(self.get(), key, Some(&mut value)) {
            EL_NOT_FOUND => None,
            code => {
                assert_eq!(code, EL_OK);
                // SAFETY: the library has stored a value.
                Some(unsafe { value.assume_init() })
            }
        }
    }

    fn pairs(&self, from: u64, limit: usize) -> Vec<(u64, u64)> {
        self.scan(from, limit).expect("it has an order")
    }

    fn scan(&self, from: u64, limit: usize) -> Result<Vec<(u64, u64)>, c_int> {
        let mut bytes = vec![0u8; limit * 16 + 7];
        let mut count = MaybeUninit::uninit();
        // SAFETY: the bytes are the test's, and outlive the call.
        let buffer = unsafe { el_buffer::new(bytes.as_mut_ptr().cast(), bytes.len()) };
        let code = el_index_scan(self.get(), from, buffer, Some(&mut count));
        if code != EL_OK {
            return Err(code);
        }
        // SAFETY: the library has stored a count.
        let count = unsafe { count.assume_init() };
        let words = bytes.as_chunks::<8>().0;
        let number = |at: usize| u64::from_ne_bytes(words[at]);
        Ok((0..count).map(|at| (number(2 * at), number(2 * at + 1))).collect())
    }

    fn count(&self) -> u64 {
        let mut count = MaybeUninit::uninit();
        assert_eq!(el_index_count(self.get(), Some(&mut count)), EL_OK);
        // SAFETY: the library has stored a count.
        unsafe { count.assume_init() }
    }
}

impl Drop for OpenIndex {
    fn drop(&mut self) {
        // SAFETY: the handle came from the library, and nobody uses it any more.
        assert_eq!(el_index_free(Some(unsafe { &mut *self.0 })), EL_OK);
    }
}

#[test]
fn every_design_does_what_it_is_told() {
    for design in designs() {
        let name = design.name;
        let index =
            OpenIndex::new(name, None).unwrap_or_else(|_| panic!("{name}: {}", last_error()));
        for key in 1..=100 {
            assert_eq!(el_index_insert(index.get(), key * 3, key), EL_OK, "{name}");
        }
        assert_eq!(index.value(30), Some(10), "{name}");
        assert_eq!(index.value(31), None, "{name}");
        let info = NamedIndex::open(name, None, 1 << 30).expect("it could be opened before").info();
        let is_blind = info.writes == Writes::Blind;
        if !is_blind {
            assert_eq!(el_index_insert(index.get(), 30, 7), EL_EXISTS, "{name}");
            assert_eq!(el_index_update(index.get(), 31, 7), EL_NOT_FOUND, "{name}");
            assert_eq!(el_index_remove(index.get(), 31), EL_NOT_FOUND, "{name}");
        }
        assert_eq!(el_index_update(index.get(), 30, 11), EL_OK, "{name}");
        assert_eq!(index.value(30), Some(11), "{name}");
        assert_eq!(el_index_put(index.get(), 30, 12), EL_OK, "{name}");
        assert_eq!(el_index_remove(index.get(), 33), EL_OK, "{name}");
        if info.scans == Scans::Never {
            assert_eq!(index.scan(1, 3), Err(EL_UNSUPPORTED), "{name}");
            assert!(last_error().contains("no order of its keys"), "{name}: {}", last_error());
        } else {
            assert_eq!(index.pairs(29, 3), [(30, 12), (36, 12), (39, 13)], "{name}");
            assert_eq!(index.pairs(298, 9), [(300, 100)], "{name}");
            assert_eq!(index.pairs(1, 0), [], "{name}");
        }
        if !is_blind {
            assert_eq!(index.count(), 99, "{name}");
        }
    }
}

#[test]
fn an_index_is_found_again_in_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index.pool");
    {
        let index = OpenIndex::new("fast-fair", Some(&path)).expect("a new one");
        assert_eq!(el_index_insert(index.get(), 5, 50), EL_OK);
    }
    let index = OpenIndex::new("fast-fair", Some(&path)).expect("the same one");
    assert_eq!(index.value(5), Some(50));
    drop(index);
    assert_eq!(OpenIndex::new("fptree", Some(&path)).err(), Some(EL_INVALID), "of another design");
}

#[test]
fn what_is_wrong_is_told() {
    assert_eq!(OpenIndex::new("no-such-tree", None).err(), Some(EL_INVALID));
    assert!(last_error().contains("no-such-tree"), "{}", last_error());
    let mut value = MaybeUninit::uninit();
    assert_eq!(el_index_get(None, 1, Some(&mut value)), EL_BAD_HANDLE);
    assert_eq!(el_index_free(None), EL_OK);
    let index = OpenIndex::new("utree", None).expect("one");
    let mut limits = MaybeUninit::uninit();
    assert_eq!(el_index_get_limits(index.get(), Some(&mut limits)), EL_OK);
    assert_eq!(el_index_insert(index.get(), 0, 1), EL_INVALID, "key 0 is reserved by this design");
    assert_eq!(el_index_get(index.get(), 1, None), EL_NOT_FOUND);
    assert_eq!(el_index_insert(index.get(), 1, 1), EL_OK);
    assert_eq!(el_index_get(index.get(), 1, None), EL_INVALID, "no place for the value");
}

extern "C" fn note(context: *mut c_void, name: el_slice) {
    // SAFETY: the test passes its list, and calls from one thread.
    let names = unsafe { &mut *context.cast::<Vec<usize>>() };
    // SAFETY: the struct has these two fields, in this order, as C code sees it.
    let (_, size): (*const u8, usize) = unsafe { std::mem::transmute(name) };
    names.push(size);
}

#[test]
fn all_designs_are_named() {
    let mut sizes: Vec<usize> = vec![];
    assert_eq!(el_index_designs(Some(note), (&raw mut sizes).cast()), EL_OK);
    let expected: Vec<usize> = designs().iter().map(|design| design.name.len()).collect();
    assert_eq!(sizes, expected);
}

#[test]
fn threads_share_an_index() {
    let index = OpenIndex::new("fptree", None).expect("one");
    let shared = index.get().expect("it is there");
    struct Share<'a>(&'a el_index);
    // SAFETY: the interface says that any number of threads may use an index.
    unsafe impl Sync for Share<'_> {}
    let share = &Share(shared);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                let share = share;
                for number in 0..500 {
                    let key = 1 + number * 4 + thread;
                    assert_eq!(el_index_insert(Some(share.0), key, thread), EL_OK);
                }
            });
        }
    });
    assert_eq!(index.count(), 2000);
}
