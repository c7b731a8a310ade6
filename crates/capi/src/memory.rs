//! Values that this library allocates for C code, which gives them back with `el_free`.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Before the bytes lies the number of bytes; the whole is aligned for anything.
const FRONT: usize = 16;

fn layout_of(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(FRONT)?, FRONT).ok()
}

/// A copy of `bytes` for C code. `None`: there is no memory.
pub(crate) fn copy(bytes: &[u8]) -> Option<NonNull<c_void>> {
    let layout = layout_of(bytes.len())?;
    // SAFETY: the layout has more than zero bytes.
    let start = NonNull::new(unsafe { alloc(layout) })?;
    // SAFETY: the first bytes are ours, just allocated, and aligned for a number.
    unsafe { start.cast::<usize>().write(bytes.len()) };
    // SAFETY: behind the front there are as many bytes as were asked for.
    let data = unsafe { start.add(FRONT) };
    // SAFETY: so many bytes fit there, and nobody else knows them yet.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data.as_ptr(), bytes.len()) };
    Some(data.cast())
}

/// What a function of this library has allocated.
#[repr(transparent)]
pub struct el_allocated(*mut c_void);

impl el_allocated {
    /// A value to be freed, as C code would pass it.
    ///
    /// # Safety
    /// It came from a function of this library that says so, and was not freed; or is NULL.
    pub const unsafe fn new(data: *mut c_void) -> Self {
        el_allocated(data)
    }
}

/// Frees what a function of this library has allocated, if it says so; NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn el_free(allocated: el_allocated) {
    let Some(data) = NonNull::new(allocated.0.cast::<u8>()) else { return };
    // SAFETY: the caller of `new` has promised that `copy` made the bytes: before them
    // lies their front.
    let start = unsafe { data.sub(FRONT) };
    // SAFETY: `copy` has put their number there.
    let size = unsafe { start.cast::<usize>().read() };
    if let Some(layout) = layout_of(size) {
        // SAFETY: allocated by `copy` with this layout.
        unsafe { dealloc(start.as_ptr(), layout) };
    }
}
