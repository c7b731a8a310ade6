//! Every design through the C interface, called from Rust as C code would.

use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::MaybeUninit;

use everleaf_capi::argument::{el_buffer, el_slice, el_text};
use everleaf_capi::code::{
    EL_ALREADY_EXISTS, EL_BAD_HANDLE, EL_EXISTS, EL_FORKED, EL_INVALID, EL_IO, EL_NOT_FOUND, EL_OK,
    EL_UNSUPPORTED,
};
use everleaf_capi::entry::el_last_error;
use everleaf_lab_capi::index::{
    EL_INDEX_NEW, EL_INDEX_TRUST_AFTER_MACHINE_CRASH, el_index, el_index_count, el_index_designs,
    el_index_free, el_index_get, el_index_get_limits, el_index_insert, el_index_open,
    el_index_open_as, el_index_persist, el_index_put, el_index_remove, el_index_scan,
    el_index_update,
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

/// Opens a pool as an index, which is refused for a reason, and leaves the file as it is.
fn is_refused(design: &str, path: &std::path::Path, told: &str) {
    let before = std::fs::read(path).expect("the pool is there");
    assert_eq!(OpenIndex::new(design, Some(path)).err(), Some(EL_INVALID), "{design}");
    assert!(last_error().contains(told), "{design}: {}", last_error());
    assert!(std::fs::read(path).expect("it is there") == before, "{design} changed the file");
}

/// A root was made in a pool of the store, which then had a map of a design that the store does not know, and could not
/// be opened any more.
#[test]
fn a_store_is_not_opened_as_an_index() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.pool");
    let store = everleaf::Options::new().create(true).open(&path).expect("a new one");
    store.default_map().put("oak", "Quercus").expect("room");
    store.close().expect("nothing is held");
    for design in ["fptree", "nbtree", "hashed-leaf"] {
        is_refused(design, &path, "default");
    }
    is_refused("no-such-tree", &path, "no-such-tree");
    let store = everleaf::Options::new().open(&path).expect("it can be opened as before");
    assert_eq!(store.default_map().get("oak").expect("readable"), Some(b"Quercus".to_vec()));
    assert!(store.statistics().was_clean);
}

/// It was left as if its program had been killed: after the next start of the machine it was refused as crashed.
#[test]
fn an_index_that_is_refused_stays_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index.pool");
    drop(OpenIndex::new("fast-fair", Some(&path)).expect("a new one"));
    is_refused("fptree", &path, "index");
    is_refused("no-such-tree", &path, "no-such-tree");
    drop(OpenIndex::new("fast-fair", Some(&path)).expect("the same one"));
}

#[test]
fn a_design_that_is_unknown_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index.pool");
    assert_eq!(OpenIndex::new("no-such-tree", Some(&path)).err(), Some(EL_INVALID));
    assert!(!path.exists(), "refused, and left its file");
}

fn open_as(design: &CStr, path: &std::path::Path, flags: u32) -> Result<OpenIndex, c_int> {
    let path = CString::new(path.to_str().expect("UTF-8")).expect("no zero");
    let mut place = MaybeUninit::uninit();
    match el_index_open_as(text(design), text(&path), 1 << 30, flags, Some(&mut place)) {
        // SAFETY: the library has stored a handle.
        EL_OK => Ok(OpenIndex(unsafe { place.assume_init() })),
        code => Err(code),
    }
}

#[test]
fn an_index_is_opened_by_flags() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index.pool");
    let index = open_as(c"fast-fair", &path, EL_INDEX_NEW).expect("a new one");
    assert_eq!(el_index_insert(index.get(), 5, 50), EL_OK);
    drop(index);
    assert_eq!(open_as(c"fast-fair", &path, EL_INDEX_NEW).err(), Some(EL_ALREADY_EXISTS));
    assert_eq!(open_as(c"fast-fair", &path, 4).err(), Some(EL_INVALID));
    let trusting = open_as(c"fast-fair", &path, EL_INDEX_TRUST_AFTER_MACHINE_CRASH);
    assert_eq!(trusting.expect("the same one").value(5), Some(50));
    let missing = folder.path().join("missing.pool");
    assert_eq!(open_as(c"no-such-tree", &missing, EL_INDEX_NEW).err(), Some(EL_INVALID));
    assert!(!missing.exists(), "refused, and left its file");
}

/// The descriptor of this process for a file.
fn descriptor_of(path: &std::path::Path) -> c_int {
    let entries = std::fs::read_dir("/proc/self/fd").expect("the descriptors");
    let mut found = entries
        .flatten()
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == *path));
    let name = found.next().expect("it is open").file_name();
    name.to_str().and_then(|name| name.parse().ok()).expect("a number")
}

/// The error of closing was lost, and with it what a design had deferred.
#[test]
fn an_index_that_cannot_be_closed_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("it is there").join("index.pool");
    // A new file has no name yet when it is opened.
    drop(OpenIndex::new("sptree-unlogged", Some(&path)).expect("a new one"));
    let index = OpenIndex::new("sptree-unlogged", Some(&path)).expect("the same one");
    assert_eq!(el_index_insert(index.get(), 5, 50), EL_OK);
    assert_eq!(el_index_persist(index.get()), EL_OK);
    let mut ends = [0; 2];
    // SAFETY: there is room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // What cannot be synced takes the place of the file.
    // SAFETY: both are descriptors of this process, and the pool goes on with what it has mapped.
    assert!(unsafe { libc::dup2(ends[1], descriptor_of(&path)) } >= 0);
    let handle = index.0;
    std::mem::forget(index);
    // SAFETY: the handle came from the library, and nobody uses it any more.
    assert_eq!(el_index_free(Some(unsafe { &mut *handle })), EL_IO, "{}", last_error());
    for end in ends {
        // SAFETY: it is ours, and closed once.
        unsafe { libc::close(end) };
    }
}

#[test]
fn a_forked_process_may_only_free_an_index() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index.pool");
    let index = OpenIndex::new("fptree", Some(&path)).expect("a new one");
    assert_eq!(el_index_insert(index.get(), 5, 50), EL_OK);
    // SAFETY: the child calls what is tested, and ends without running anything of the parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a system call without memory: a child that hangs is ended.
        unsafe { libc::alarm(60) };
        let mut room = [0; 32];
        // SAFETY: the bytes are the test's, and outlive the call.
        let buffer = unsafe { el_buffer::new(room.as_mut_ptr().cast(), room.len()) };
        let codes = [
            el_index_get(index.get(), 5, Some(&mut MaybeUninit::uninit())),
            el_index_put(index.get(), 6, 60),
            el_index_scan(index.get(), 1, buffer, None),
            el_index_count(index.get(), Some(&mut MaybeUninit::uninit())),
        ];
        let wrong = codes.iter().position(|code| *code != EL_FORKED).map_or(0, |at| at + 1);
        // SAFETY: the child has the handle for itself.
        let freed = el_index_free(Some(unsafe { &mut *index.0 }));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if freed == EL_OK { wrong as i32 } else { 9 }) };
    }
    assert!(child > 0, "a process can be forked");
    let mut status = 0;
    // SAFETY: the status is ours, and the child is one of ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child ended well");
    assert_eq!((index.value(5), index.value(6)), (Some(50), None));
}

/// It said that all was well, so that a program that asks so took every design for an ordered one.
#[test]
fn a_scan_without_room_still_tells_what_cannot_be_scanned() {
    let hash = OpenIndex::new("cceh", None).expect("one");
    assert_eq!(hash.scan(1, 0), Err(EL_UNSUPPORTED));
    let tree = OpenIndex::new("fptree", None).expect("one");
    assert_eq!(tree.scan(1, 0), Ok(vec![]));
    // SAFETY: no bytes.
    let nothing = unsafe { el_buffer::new(std::ptr::null_mut(), 0) };
    assert_eq!(el_index_scan(None, 1, nothing, None), EL_BAD_HANDLE);
}

#[test]
fn a_long_scan_has_all_pairs() {
    let index = OpenIndex::new("fptree", None).expect("one");
    let limits = 1..=10_000;
    for key in limits.clone() {
        assert_eq!(el_index_insert(index.get(), key, key * 2), EL_OK);
    }
    let expected: Vec<_> = limits.map(|key| (key, key * 2)).collect();
    assert_eq!(index.pairs(1, 20_000), expected);
    assert_eq!(index.pairs(1, 8192), expected[..8192]);
    let last = OpenIndex::new("nbtree", None).expect("one");
    assert_eq!(el_index_insert(last.get(), u64::MAX, 1), EL_OK);
    assert_eq!(last.pairs(u64::MAX, 1), [(u64::MAX, 1)]);
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
