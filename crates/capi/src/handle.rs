//! Handles: what C code holds of a store, a map, an iterator.
//!
//! A handle is a pointer to a `Handle`, which begins with a number for its kind. The number is looked
//! at before anything else, so that NULL, a handle of another kind, and most other memory is told
//! instead of used; freeing wipes it. To C code, and in the functions' arguments, it is a type without
//! bytes, of which a reference is to say nothing about the memory behind it ([`Opaque`]).
//!
//! What may be used by several threads at once has a body that is `Sync` (`shared`). Of all else one
//! call at a time is let in, and a second one refused (`exclusive`).

use std::cell::UnsafeCell;
use std::marker::PhantomPinned;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::argument::{Out, wanted};
use crate::code::{EL_BAD_HANDLE, EL_BUSY, EL_OK, Failure};
use crate::entry::EntryResult;

/// A kind of handle: a type without bytes.
pub trait Kind: Sized {
    /// What it stands for.
    type Body;
    /// What memory of this kind begins with.
    const NUMBER: u64;
    /// What it is called in an error.
    const NAME: &'static str;
}

/// What a kind of handle has in place of bytes. The compiler takes from a reference, even to no bytes at all, that
/// nothing is written through it, and from a mutable one that nobody else writes there; and it leaves out what a
/// function writes all the same, such as that a store was closed. The cell takes the first back, the mark the second.
pub struct Opaque {
    _written: UnsafeCell<[u8; 0]>,
    _by_others: PhantomPinned,
}

// SAFETY: it has no bytes that two threads could use. What is behind it is used as `shared` and `exclusive` let it.
unsafe impl Sync for Opaque {}

/// Defines the C type of a kind of handle.
#[macro_export]
macro_rules! kind {
    ($(#[$doc:meta])* $name:ident, $body:ty, $number:literal) => {
        $(#[$doc])*
        pub struct $name {
            _opaque: $crate::handle::Opaque,
        }

        impl $crate::handle::Kind for $name {
            type Body = $body;
            const NUMBER: u64 = u64::from_le_bytes(*$number);
            const NAME: &'static str = stringify!($name);
        }
    };
}
pub use kind;

/// What a handle points to.
#[repr(C)]
struct Handle<B> {
    number: AtomicU64,
    is_used: AtomicBool,
    body: B,
}

/// Stores a new handle at `place`.
///
/// # Errors
/// The place is NULL.
pub fn give<K: Kind>(place: Out<'_, *mut K>, body: K::Body) -> EntryResult {
    let place = wanted(place)?;
    let handle =
        Handle { number: AtomicU64::new(K::NUMBER), is_used: AtomicBool::new(false), body };
    place.write(Box::into_raw(Box::new(handle)).cast());
    Ok(EL_OK)
}

/// Refuses what is certainly no handle of this kind.
#[inline]
fn look<K: Kind>(handle: *const K) -> Result<*const Handle<K::Body>, Failure> {
    let handle: *const Handle<K::Body> = handle.cast();
    if handle.is_null() || !handle.is_aligned() {
        return Err(bad::<K>(if handle.is_null() { "is NULL" } else { "is not aligned" }));
    }
    // SAFETY: it is aligned, and a pointer to memory of the C program: the header says that only what
    // this library has given out, and not taken back, may be passed. The number is its first field.
    let number = unsafe { &*handle.cast::<AtomicU64>() };
    // Relaxed: it changes only when the handle is freed, which nothing may overlap.
    if number.load(Ordering::Relaxed) != K::NUMBER {
        return Err(bad::<K>("is of another kind, was freed, or never was one"));
    }
    Ok(handle)
}

#[cold]
fn bad<K: Kind>(what: &str) -> Failure {
    Failure::new(EL_BAD_HANDLE, format!("the {} {what}", K::NAME))
}

/// The body of a handle that several threads may use.
///
/// # Errors
/// It is none, of another kind, or freed.
#[inline]
pub fn shared<K: Kind>(handle: Option<&K>) -> Result<&K::Body, Failure>
where
    K::Body: Sync,
{
    let handle = look::<K>(handle.map_or(std::ptr::null(), std::ptr::from_ref))?;
    // SAFETY: `look` found the number of this kind, so the memory was made by `give`, and the C
    // program frees it not before this call has returned. Nobody has a mutable reference: the body
    // is shared with other threads as it may be (`Sync`).
    Ok(unsafe { &(*handle).body })
}

/// The body of a handle that one call at a time may use.
pub(crate) struct Exclusive<'a, K: Kind> {
    handle: *const Handle<K::Body>,
    is_used: &'a AtomicBool,
}

/// Lets a call use a handle alone.
#[inline]
pub(crate) fn exclusive<K: Kind>(handle: Option<&mut K>) -> Result<Exclusive<'_, K>, Failure> {
    let handle = look::<K>(handle.map_or(std::ptr::null(), |handle| std::ptr::from_mut(handle)))?;
    // SAFETY: as in `shared`; this field is an atomic.
    let is_used = unsafe { &(*handle).is_used };
    // Acquire: pairs with the release of the call that used it before.
    if is_used.swap(true, Ordering::Acquire) {
        let text = format!("another call is using the {}: it is for one at a time", K::NAME);
        return Err(Failure::new(EL_BUSY, text));
    }
    Ok(Exclusive { handle, is_used })
}

impl<K: Kind> Drop for Exclusive<'_, K> {
    fn drop(&mut self) {
        // Release: pairs with the acquire of the call that uses it next.
        self.is_used.store(false, Ordering::Release);
    }
}

impl<K: Kind> Deref for Exclusive<'_, K> {
    type Target = K::Body;
    fn deref(&self) -> &K::Body {
        // SAFETY: the memory is there, as in `shared`, and no other call has it: the flag was taken.
        unsafe { &(*self.handle).body }
    }
}

impl<K: Kind> DerefMut for Exclusive<'_, K> {
    fn deref_mut(&mut self) -> &mut K::Body {
        // SAFETY: as in `deref`; the memory was made by `Box`, with leave to write to it.
        unsafe { &mut (*self.handle.cast_mut()).body }
    }
}

/// Takes what a handle holds out of it, and frees the handle; NULL is none, and fine.
///
/// # Errors
/// It is none, of another kind, or another call is using it.
pub fn taken<K: Kind>(handle: Option<&mut K>) -> Result<Option<K::Body>, Failure> {
    let Some(handle) = handle else { return Ok(None) };
    let handle: *mut Handle<K::Body> = look::<K>(handle)?.cast_mut();
    // SAFETY: `look` found the number of this kind, so the memory was made by `give`; this field is an atomic. No box
    // is made of it before it is known that no other call has the body.
    let is_used = unsafe { &(*handle).is_used };
    // Acquire: pairs with the release of the call that used it last.
    if is_used.swap(true, Ordering::Acquire) {
        return Err(Failure::new(EL_BUSY, format!("another call is using the {}", K::NAME)));
    }
    // SAFETY: `look` found its number, so `give` made it of a box; no other call has it, as the flag says, and the C
    // program passes it to no other one.
    let owned = unsafe { Box::from_raw(handle) };
    // Relaxed: nothing may overlap the end of a handle. Volatile it need not be: a program that passes
    // it again has no promise, only a chance to be told.
    owned.number.store(0, Ordering::Relaxed);
    Ok(Some(owned.body))
}

/// Frees a handle; NULL is none, and fine.
///
/// # Errors
/// As [`taken`].
pub fn free<K: Kind>(handle: Option<&mut K>) -> EntryResult {
    taken(handle).map(drop)?;
    Ok(EL_OK)
}
