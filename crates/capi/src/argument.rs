//! What C code passes: slices, buffers, text, places for results, functions.
//!
//! A value of these types is a promise of the C code that made it: the bytes of a slice can be read,
//! and those of a buffer written, for the length of the call. Rust code that makes one takes the same
//! promise on itself (`unsafe fn new`); so the functions that believe it are safe.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Bound;

use everleaf::{Action, Expiry, KEY_SIZE_MAX, VALUE_SIZE_MAX};

use crate::code::{EL_BUFFER_TOO_SMALL, Failure, out_of_memory};
use crate::entry::invalid;

/// Some bytes, which the callee only reads. Zero bytes may be at NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct el_slice {
    /// The first byte.
    data: *const c_void,
    /// How many.
    size: usize,
}

/// Some slices: an array of `count` at `items`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct el_slices {
    /// The first one.
    items: *const el_slice,
    /// How many.
    count: usize,
}

/// Some bytes for a result. Zero bytes may be at NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct el_buffer {
    /// The first byte.
    data: *mut c_void,
    /// How many there are.
    capacity: usize,
}

/// Text in UTF-8 that ends with a zero byte.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct el_text(*const c_char);

/// No bound: from the first key, or to the last.
pub const EL_UNBOUNDED: c_int = 0;
/// The key of the bound, too.
pub const EL_INCLUDED: c_int = 1;
/// Without the key of the bound.
pub const EL_EXCLUDED: c_int = 2;

/// One end of a range.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct el_bound {
    /// `EL_UNBOUNDED`, `EL_INCLUDED` or `EL_EXCLUDED`.
    kind: c_int,
    /// The key, unless unbounded.
    key: MaybeUninit<el_slice>,
}

/// A range of keys.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct el_range {
    /// Where it begins.
    from: el_bound,
    /// Where it ends.
    to: el_bound,
}

/// Is shown a value, which is valid for the call only. It must be quick, must not unwind, and may call
/// functions of this library; but what would wait for its own call is refused (`EL_UNSUPPORTED`, whose text says so):
/// `el_store_check` always, and the first `el_store_write`, `el_view_new`, `el_watch_new`, `el_store_backup` or
/// `el_store_save` after a pause.
pub type el_value_fn = Option<extern "C" fn(context: *mut c_void, value: el_slice)>;
/// Is shown the value of the key number `index`, NULL if there is none; otherwise as `el_value_fn`.
pub type el_found_fn =
    Option<extern "C" fn(context: *mut c_void, index: usize, value: Option<&el_slice>)>;
/// Is shown a pair; anything but 0 ends the scan. Otherwise as `el_value_fn`.
pub type el_pair_fn =
    Option<extern "C" fn(context: *mut c_void, key: el_slice, value: el_slice) -> c_int>;
/// Of `el_decision`: leave the key as it is.
pub const EL_KEEP: c_int = 0;
/// Of `el_decision`: give the key this value; when it expires stays as it is.
pub const EL_PUT: c_int = 1;
/// Of `el_decision`: give the key this value, and let it expire then.
pub const EL_PUT_EXPIRING: c_int = 2;
/// Of `el_decision`: leave the value, and let it expire then.
pub const EL_EXPIRE: c_int = 3;
/// Of `el_decision`: remove the key.
pub const EL_REMOVE: c_int = 4;

/// What is to become of a key.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct el_decision {
    /// `EL_KEEP`, `EL_PUT`, `EL_PUT_EXPIRING`, `EL_EXPIRE` or `EL_REMOVE`.
    what: c_int,
    /// The value, for what puts one. Its bytes are valid until the key is decided upon again, or the call ends.
    value: MaybeUninit<el_slice>,
    /// When the key expires (0: never), for what says so.
    expiry_ms: MaybeUninit<u64>,
}

/// Is shown the value of a key, NULL if there is none, and decides what becomes of it; otherwise as `el_value_fn`. It
/// must not write this key itself: it would be asked again, and such a write is refused then, as is the whole call
/// (`EL_UNSUPPORTED`).
pub type el_decide_fn =
    Option<extern "C" fn(context: *mut c_void, value: Option<&el_slice>) -> el_decision>;
/// As `el_decide_fn`, and is told when the key expires (0: never, or there is none).
pub type el_decide_expiring_fn = Option<
    extern "C" fn(context: *mut c_void, value: Option<&el_slice>, expiry_ms: u64) -> el_decision,
>;
/// As `el_decide_fn`, and is told when the key expires (0: never), in place of its value; NULL if there is none.
pub type el_decide_expiry_fn =
    Option<extern "C" fn(context: *mut c_void, expiry_ms: Option<&u64>) -> el_decision>;
/// Is told some text, which is valid for the call only.
pub type el_text_fn = Option<extern "C" fn(context: *mut c_void, text: el_slice)>;
/// Is told how many pairs are done.
pub type el_progress_fn = Option<extern "C" fn(context: *mut c_void, pairs: u64)>;

/// A place for a result; NULL if it is not wanted.
pub type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

impl el_slice {
    /// A slice as C code would pass it.
    ///
    /// # Safety
    /// As long as it is used, `size` bytes at `data` can be read; or `size` is 0, or `data` is NULL.
    pub const unsafe fn new(data: *const c_void, size: usize) -> Self {
        el_slice { data, size }
    }

    /// What C code is shown; it is told how long that is valid.
    #[inline]
    pub fn shown(bytes: &[u8]) -> Self {
        el_slice { data: bytes.as_ptr().cast(), size: bytes.len() }
    }

    /// The bytes, for the length of the call.
    #[inline]
    pub(crate) fn bytes<'a>(self) -> Result<&'a [u8], Failure> {
        if self.size == 0 {
            return Ok(&[]);
        }
        if self.data.is_null() {
            return Err(invalid("a slice has bytes but they are at NULL"));
        }
        if self.size > isize::MAX as usize {
            return Err(invalid("a slice is longer than memory can be: its length is negative"));
        }
        // SAFETY: the caller of `new` has promised that so many bytes can be read during the call;
        // they are not at NULL, and their number is no more than the language allows.
        Ok(unsafe { std::slice::from_raw_parts(self.data.cast(), self.size) })
    }
}

impl el_slices {
    /// Some slices as C code would pass them.
    ///
    /// # Safety
    /// As long as it is used, `count` slices at `items` can be read; or `count` is 0, or `items` NULL.
    pub const unsafe fn new(items: *const el_slice, count: usize) -> Self {
        el_slices { items, count }
    }

    /// All of them, for the length of the call. Each was looked at: it has bytes. Nothing is allocated for them, so
    /// that their number costs no memory.
    pub(crate) fn items<'a>(self) -> Result<Items<'a>, Failure> {
        if self.count == 0 {
            return Ok(Items(&[]));
        }
        if self.items.is_null() || !self.items.is_aligned() {
            return Err(invalid("the array of slices is at NULL or not aligned"));
        }
        if self.count > isize::MAX as usize / size_of::<el_slice>() {
            return Err(invalid("there are more slices than memory can hold"));
        }
        // SAFETY: the caller of `new` has promised that so many slices can be read during the call;
        // they are not at NULL, aligned, and no more than the language allows.
        let slices = unsafe { std::slice::from_raw_parts(self.items, self.count) };
        slices.iter().try_for_each(|slice| slice.bytes().map(|_| ()))?;
        Ok(Items(slices))
    }
}

/// Slices that can be read.
#[derive(Clone, Copy)]
pub(crate) struct Items<'a>(&'a [el_slice]);

impl<'a> Items<'a> {
    pub fn len(self) -> usize {
        self.0.len()
    }

    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
        // Each was looked at (`items`); one that the caller has changed since, which it must not, has no bytes.
        self.0.iter().map(|slice| slice.bytes().unwrap_or_default())
    }
}

impl el_buffer {
    /// A buffer as C code would pass it.
    ///
    /// # Safety
    /// As long as it is used, `capacity` bytes at `data` can be written, and nothing else refers to
    /// them; or `capacity` is 0, or `data` is NULL.
    pub const unsafe fn new(data: *mut c_void, capacity: usize) -> Self {
        el_buffer { data, capacity }
    }

    /// How many bytes it has; none at NULL, whatever its length says.
    pub fn capacity(self) -> usize {
        if self.data.is_null() { 0 } else { self.capacity }
    }

    /// Copies `bytes` to its start, and stores their number; says so if there are too many.
    #[inline]
    pub(crate) fn fill(self, bytes: &[u8], size: Out<'_, usize>) -> Result<(), Failure> {
        set(size, bytes.len());
        if bytes.len() > self.capacity || (self.data.is_null() && !bytes.is_empty()) {
            return Err(self.too_small(bytes.len()));
        }
        if !bytes.is_empty() {
            // SAFETY: the bytes fit, just compared, where the caller alone may write (`new`), and so they
            // overlap nothing that Rust code refers to.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.data.cast(), bytes.len());
            }
        }
        Ok(())
    }

    #[cold]
    fn too_small(self, needed: usize) -> Failure {
        let text = format!("{needed} bytes are needed, and there are {}", self.capacity());
        Failure::new(EL_BUFFER_TOO_SMALL, text)
    }

    /// Copies `bytes` to `at`. The caller has made sure that they fit; otherwise nothing is done.
    #[inline]
    pub fn write(self, at: usize, bytes: &[u8]) {
        let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= self.capacity);
        if !fits || bytes.is_empty() || self.data.is_null() {
            return;
        }
        // SAFETY: `at` is within the buffer, whose bytes can be written (`new`); just compared.
        let to = unsafe { self.data.cast::<u8>().add(at) };
        // SAFETY: all of `bytes` fits behind `to`, just compared, and the buffer belongs to the caller
        // alone (`new`), so that it overlaps nothing that Rust code refers to.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}

impl el_text {
    /// Text as C code would pass it.
    ///
    /// # Safety
    /// As long as it is used, a zero byte ends the bytes at `text`; or it is NULL.
    pub const unsafe fn new(text: *const c_char) -> Self {
        el_text(text)
    }

    /// Whether there is none.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The bytes before the zero, for the length of the call.
    pub(crate) fn bytes<'a>(self) -> Result<&'a [u8], Failure> {
        if self.0.is_null() {
            return Err(invalid("a text is NULL"));
        }
        // SAFETY: it is not NULL, and the caller of `new` has promised the zero byte.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// The text.
    ///
    /// # Errors
    /// It is NULL or not UTF-8.
    pub fn str<'a>(self) -> Result<&'a str, Failure> {
        std::str::from_utf8(self.bytes()?).map_err(|_| invalid("a text is not UTF-8"))
    }

    /// The text as a path, which need not be UTF-8.
    ///
    /// # Errors
    /// It is NULL.
    pub fn path<'a>(self) -> Result<&'a std::path::Path, Failure> {
        use std::os::unix::ffi::OsStrExt;
        Ok(std::path::Path::new(std::ffi::OsStr::from_bytes(self.bytes()?)))
    }
}

impl el_bound {
    /// A bound as C code would pass it.
    pub const fn new(kind: c_int, key: el_slice) -> Self {
        el_bound { kind, key: MaybeUninit::new(key) }
    }

    fn key<'a>(self) -> Result<&'a [u8], Failure> {
        // SAFETY: the C code that made the bound has said that it has a key (`bound`), and so has set it.
        unsafe { self.key.assume_init() }.bytes()
    }

    fn bound<'a>(self) -> Result<Bound<&'a [u8]>, Failure> {
        match self.kind {
            EL_UNBOUNDED => Ok(Bound::Unbounded),
            EL_INCLUDED => Ok(Bound::Included(self.key()?)),
            EL_EXCLUDED => Ok(Bound::Excluded(self.key()?)),
            _ => Err(invalid("the kind of a bound is none of the three")),
        }
    }
}

impl el_decision {
    /// A decision as C code would make it.
    pub const fn new(what: c_int, value: el_slice, expiry_ms: u64) -> Self {
        let (value, expiry_ms) = (MaybeUninit::new(value), MaybeUninit::new(expiry_ms));
        el_decision { what, value, expiry_ms }
    }

    pub(crate) fn action(self) -> Result<Action, Failure> {
        // SAFETY: only called for what puts a value: the C code that says so has set it.
        let value = || owned(unsafe { self.value.assume_init() });
        // SAFETY: only called for what says when the key expires: the C code that says so has set it.
        let expiry = || Expiry::from_unix_ms(unsafe { self.expiry_ms.assume_init() });
        Ok(match self.what {
            EL_KEEP => Action::Keep,
            EL_PUT => Action::Put(value()?),
            EL_PUT_EXPIRING => Action::PutWithExpiry(value()?, expiry()),
            EL_EXPIRE => Action::Expire(expiry()),
            EL_REMOVE => Action::Remove,
            _ => return Err(invalid("what is to be done is none of EL_KEEP to EL_REMOVE")),
        })
    }
}

/// A copy of bytes of C code.
fn owned(slice: el_slice) -> Result<Vec<u8>, Failure> {
    let (bytes, mut copy) = (slice.bytes()?, Vec::new());
    if bytes.len() > VALUE_SIZE_MAX {
        return Err(everleaf::Error::ValueTooLarge(bytes.len()).into());
    }
    let reserved = copy.try_reserve_exact(bytes.len());
    reserved.map_err(|_| out_of_memory())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// What is left of a bound, of which so many bytes can decide: no key is longer. With `back` it is an upper one.
pub(crate) fn cut(bound: Bound<&[u8]>, back: bool) -> Bound<&[u8]> {
    let (Bound::Included(key) | Bound::Excluded(key)) = bound else { return bound };
    match key.get(..KEY_SIZE_MAX) {
        // Every key that it begins with comes before all of it.
        Some(start) if key.len() > KEY_SIZE_MAX && back => Bound::Included(start),
        Some(start) if key.len() > KEY_SIZE_MAX => Bound::Excluded(start),
        _ => bound,
    }
}

/// Both bounds of a range.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

impl el_range {
    /// A range as C code would pass it.
    pub const fn new(from: el_bound, to: el_bound) -> Self {
        el_range { from, to }
    }

    /// The bounds; NULL is everything.
    pub(crate) fn bounds<'a>(range: Option<&el_range>) -> Result<Bounds<'a>, Failure> {
        match range {
            None => Ok((Bound::Unbounded, Bound::Unbounded)),
            Some(range) => Ok((cut(range.from.bound()?, false), cut(range.to.bound()?, true))),
        }
    }
}

/// Stores a result, if it is wanted.
#[inline]
pub fn set<T>(place: Out<'_, T>, value: T) {
    if let Some(place) = place {
        place.write(value);
    }
}

/// The place for a result that nobody can do without.
///
/// # Errors
/// It is NULL.
pub fn wanted<'a, T>(place: Out<'a, T>) -> Result<&'a mut MaybeUninit<T>, Failure> {
    place.ok_or_else(|| invalid("the place for the result is NULL"))
}

/// The place for a handle, which is NULL until it is made.
///
/// # Errors
/// It is NULL.
pub fn handle_place<'a, T>(place: Out<'a, *mut T>) -> Result<&'a mut MaybeUninit<*mut T>, Failure> {
    let place = wanted(place)?;
    place.write(std::ptr::null_mut());
    Ok(place)
}

/// Tells lines, if somebody wants to know.
pub(crate) fn tell_all<'a>(
    tell: el_text_fn,
    context: *mut c_void,
    lines: impl IntoIterator<Item = &'a String>,
) {
    if let Some(tell) = tell {
        lines.into_iter().for_each(|line| tell(context, el_slice::shown(line.as_bytes())));
    }
}

/// Tells how many pairs are done, if somebody wants to know.
pub(crate) fn progress(tell: el_progress_fn, context: *mut c_void) -> impl FnMut(u64) {
    move |done| {
        if let Some(tell) = tell {
            tell(context, done);
        }
    }
}

/// What C code wants passed to its function.
#[derive(Clone, Copy)]
pub(crate) struct Context(*mut c_void);

// SAFETY: it is only passed on, to a function that may be called by any thread: the header says so
// wherever a function is kept.
unsafe impl Send for Context {}
// SAFETY: only passed on, as for `Send`.
unsafe impl Sync for Context {}

impl Context {
    pub fn new(context: *mut c_void) -> Self {
        Context(context)
    }

    pub fn get(self) -> *mut c_void {
        self.0
    }
}
