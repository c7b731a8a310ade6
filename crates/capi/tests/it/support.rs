//! What C code would do, from Rust: the promises are kept here.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use everleaf_capi::argument::{el_buffer, el_slice, el_slices, el_text};
use everleaf_capi::code::EL_OK;
use everleaf_capi::map::{el_get_copy, el_map, el_map_free};
use everleaf_capi::memory::{el_allocated, el_free};
use everleaf_capi::options::{EL_CREATE, EL_MAX_SIZE, el_options, el_options_free};
use everleaf_capi::options::{el_options_new, el_options_set};
use everleaf_capi::store::{el_store, el_store_free, el_store_map, el_store_open};

/// A place for a result.
pub type Room<T> = MaybeUninit<T>;

/// The bytes of `bytes`, which outlive the call: tests pass literals and what they hold.
pub fn slice(bytes: &(impl AsRef<[u8]> + ?Sized)) -> el_slice {
    let bytes = bytes.as_ref();
    // SAFETY: the tests hold the bytes for as long as they use the slice.
    unsafe { el_slice::new(bytes.as_ptr().cast(), bytes.len()) }
}

pub fn slices(items: &[el_slice]) -> el_slices {
    // SAFETY: the tests hold the items for as long as they use them, as in `slice`.
    unsafe { el_slices::new(items.as_ptr(), items.len()) }
}

pub fn buffer(bytes: &mut [u8]) -> el_buffer {
    // SAFETY: the tests hold the bytes, as in `slice`; nothing else uses the bytes during the call.
    unsafe { el_buffer::new(bytes.as_mut_ptr().cast(), bytes.len()) }
}

pub fn c_text(text: &CStr) -> el_text {
    // SAFETY: the tests hold the text for as long as they use it.
    unsafe { el_text::new(text.as_ptr()) }
}

pub const NO_TEXT: fn() -> el_text = || {
    // SAFETY: it is NULL.
    unsafe { el_text::new(std::ptr::null()) }
};

/// Text that the library returned.
pub fn text(text: *const c_char) -> String {
    assert!(!text.is_null());
    // SAFETY: the library returns text that ends with zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

pub fn last_error() -> String {
    text(everleaf_capi::entry::el_last_error())
}

/// The bytes of a slice that the library has shown, while they are valid.
pub fn bytes(shown: el_slice) -> Vec<u8> {
    // SAFETY: the struct has these two fields, in this order, as C code sees it.
    let (data, size): (*const u8, usize) = unsafe { std::mem::transmute(shown) };
    if size == 0 {
        return vec![];
    }
    // SAFETY: the library has shown them, and the caller uses them in time.
    unsafe { std::slice::from_raw_parts(data, size) }.to_vec()
}

/// What a function has stored.
pub fn stored<T>(room: Room<T>) -> T {
    // SAFETY: the test has seen that the function did.
    unsafe { room.assume_init() }
}

/// Passes a place to a function that must store something there.
pub fn made<T>(make: impl FnOnce(Option<&mut Room<T>>) -> c_int) -> T {
    let mut room = Room::uninit();
    let code = make(Some(&mut room));
    assert_eq!(code, EL_OK, "{}", last_error());
    stored(room)
}

/// A handle, as its functions take it.
pub fn at<T>(handle: *mut T) -> Option<&'static T> {
    // SAFETY: a type without bytes: whatever the pointer is, the reference says nothing of memory.
    unsafe { handle.as_ref() }
}

pub fn at_mut<T>(handle: *mut T) -> Option<&'static mut T> {
    // SAFETY: a type without bytes, as in `at`.
    unsafe { handle.as_mut() }
}

/// A store in a folder that goes with it.
pub struct TestStore {
    pub folder: tempfile::TempDir,
    pub store: *mut el_store,
    pub map: *mut el_map,
}

pub fn path_text(path: &Path) -> CString {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).expect("no zero in it")
}

pub fn options(more: &[(c_int, u64)]) -> *mut el_options {
    let options = made(|room| el_options_new(room));
    for (option, number) in [(EL_CREATE, 1), (EL_MAX_SIZE, 1 << 28)].iter().chain(more) {
        assert_eq!(el_options_set(at_mut(options), *option, *number), EL_OK, "{}", last_error());
    }
    options
}

pub fn open_at(path: &Path, more: &[(c_int, u64)]) -> *mut el_store {
    let options = options(more);
    let path = path_text(path);
    let store = made(|room| el_store_open(c_text(&path), at_mut(options), room));
    assert_eq!(el_options_free(at_mut(options)), EL_OK);
    store
}

impl TestStore {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open_at(&folder.path().join("a.pool"), &[]);
        let map = made(|room| el_store_map(at(store), NO_TEXT(), false, room));
        TestStore { folder, store, map }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("a.pool")
    }

    pub fn map(&self) -> Option<&'static el_map> {
        at(self.map)
    }

    pub fn store(&self) -> Option<&'static el_store> {
        at(self.store)
    }

    pub fn put(&self, key: &str, value: &str) {
        let code = everleaf_capi::map::el_put(self.map(), slice(key), slice(value));
        assert_eq!(code, EL_OK, "{}", last_error());
    }

    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        value_of(self.map(), key)
    }
}

/// The value of a key, by the function that allocates.
pub fn value_of(map: Option<&el_map>, key: &str) -> Option<Vec<u8>> {
    let (mut value, mut size) = (Room::uninit(), Room::uninit());
    match el_get_copy(map, slice(key), Some(&mut value), Some(&mut size)) {
        EL_OK => {
            let (value, size) = (stored(value), stored(size));
            // SAFETY: the library has stored so many bytes there.
            let copy = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), size) }.to_vec();
            // SAFETY: it came from the function before, and goes back once.
            el_free(unsafe { el_allocated::new(value) });
            Some(copy)
        }
        everleaf_capi::code::EL_NOT_FOUND => None,
        code => panic!("{code}: {}", last_error()),
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        assert_eq!(el_map_free(at_mut(self.map)), EL_OK);
        assert_eq!(el_store_free(at_mut(self.store)), EL_OK);
    }
}

/// Keeps what many keys have, in the vector that is passed with it.
pub extern "C" fn keep_found(context: *mut c_void, index: usize, value: Option<&el_slice>) {
    // SAFETY: the test passes such a vector, which it holds.
    unsafe { &mut *context.cast::<Vec<(usize, Option<Vec<u8>>)>>() }
        .push((index, value.map(|value| bytes(*value))));
}

/// Keeps lines, in what `told` passes.
pub extern "C" fn keep(context: *mut c_void, text: el_slice) {
    // SAFETY: the tests pass such lines, which they hold.
    let lines = unsafe { &*context.cast::<Mutex<Vec<String>>>() };
    let line = String::from_utf8(bytes(text)).expect("text is UTF-8");
    lines.lock().expect("no panic").push(line);
}

/// The lines that a function tells.
pub fn told(run: impl FnOnce(*mut c_void) -> c_int) -> Vec<String> {
    let lines = Mutex::new(vec![]);
    assert_eq!(run((&raw const lines).cast_mut().cast()), EL_OK, "{}", last_error());
    lines.into_inner().expect("no panic")
}
