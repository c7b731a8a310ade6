//! Reads and writes of one key as one atomic step.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use everleaf::{Action, Expiry};

pub use crate::argument::{EL_EXPIRE, EL_KEEP, EL_PUT, EL_PUT_EXPIRING, EL_REMOVE};
use crate::argument::{Out, el_buffer, el_decision, el_slice, set};
use crate::argument::{el_decide_expiring_fn, el_decide_expiry_fn, el_decide_fn};
use crate::code::{EL_MISMATCH, EL_NOT_FOUND, EL_OK, Failure, out_of_memory};
use crate::entry::{EntryResult, entry, invalid};
use crate::handle::shared;
use crate::map::{code, el_map};
use crate::memory;

/// Copies the value of `key` to `buffer`, as `el_get`, and stores when it expires (0: never) at `expiry_ms`, of one
/// moment.
#[unsafe(no_mangle)]
pub extern "C" fn el_get_expiring(
    map: Option<&el_map>,
    key: el_slice,
    buffer: el_buffer,
    size: Option<&mut MaybeUninit<usize>>,
    expiry_ms: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    entry(|| {
        let found = shared(map)?.get_with_expiry(key.bytes()?, |value, expiry| {
            set(expiry_ms, expiry.as_unix_ms());
            buffer.fill(value, size)
        })?;
        found.map_or(Ok(EL_NOT_FOUND), |filled| filled.map(|()| EL_OK))
    })
}

/// Adds `amount` to the integer that is the value of `key`, in decimal digits; an absent key counts as 0. Stores the
/// value before at `before`, which may be NULL. When the key expires stays as it is. `EL_MISMATCH`: the value is no
/// integer, or the sum is too large, and nothing was changed.
#[unsafe(no_mangle)]
pub extern "C" fn el_fetch_add(
    map: Option<&el_map>,
    key: el_slice,
    amount: i64,
    before: Option<&mut MaybeUninit<i64>>,
) -> c_int {
    entry(|| match shared(map)?.fetch_add(key.bytes()?, amount) {
        Ok(number) => {
            set(before, number);
            Ok(EL_OK)
        }
        Err(everleaf::Error::NotAnInteger | everleaf::Error::Overflow) => Ok(EL_MISMATCH),
        Err(error) => Err(error.into()),
    })
}

/// Bytes for C code, which frees them.
fn give_copy(
    bytes: &[u8],
    data: Out<'_, *mut c_void>,
    size: Out<'_, usize>,
) -> Result<(), Failure> {
    let Some(place) = data else {
        set(size, bytes.len());
        return Ok(());
    };
    let copy = memory::copy(bytes).ok_or_else(out_of_memory)?;
    place.write(copy.as_ptr());
    set(size, bytes.len());
    Ok(())
}

/// Removes `key`, and stores a copy of the value that it had at `value`, and its size at `size`; either may be NULL.
/// Free the copy with `el_free`. `EL_NOT_FOUND`: it is not there. `EL_OUT_OF_MEMORY`: there is none for the copy; the key
/// may be removed all the same, and its value is lost: a program that must not lose it gets it first (`el_get_copy`),
/// and removes it by `el_compare_exchange`.
#[unsafe(no_mangle)]
pub extern "C" fn el_take(
    map: Option<&el_map>,
    key: el_slice,
    mut value: Option<&mut MaybeUninit<*mut c_void>>,
    size: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    entry(|| {
        set(value.as_deref_mut(), std::ptr::null_mut());
        let Some(taken) = shared(map)?.take(key.bytes()?)? else { return Ok(EL_NOT_FOUND) };
        give_copy(&taken, value, size)?;
        Ok(EL_OK)
    })
}

/// Removes the pair with the lowest key, or the highest if `highest`, and stores copies of its key and value. No two
/// calls get the same pair. All places may be NULL; free the copies with `el_free`. `EL_NOT_FOUND`: the map is empty.
/// `EL_OUT_OF_MEMORY`: as `el_take`, and the pair may be lost.
#[unsafe(no_mangle)]
pub extern "C" fn el_pop(
    map: Option<&el_map>,
    highest: bool,
    mut key: Option<&mut MaybeUninit<*mut c_void>>,
    key_size: Option<&mut MaybeUninit<usize>>,
    mut value: Option<&mut MaybeUninit<*mut c_void>>,
    value_size: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    entry(|| {
        set(key.as_deref_mut(), std::ptr::null_mut());
        set(value.as_deref_mut(), std::ptr::null_mut());
        let map = shared(map)?;
        let popped = if highest { map.pop_last()? } else { map.pop_first()? };
        let Some((found, what)) = popped else { return Ok(EL_NOT_FOUND) };
        give_copy(&found, key, key_size)?;
        give_copy(&what, value, value_size)?;
        Ok(EL_OK)
    })
}

/// Lets `update` ask a function of C code, whose last answer counts: `asked(found, decision)` is told whether the key
/// is there. An answer that is wrong leaves the key as it is.
fn decided(
    update: impl FnOnce(&mut dyn FnMut(bool, el_decision) -> Action) -> Result<(), everleaf::Error>,
) -> EntryResult {
    let (mut wrong, mut is_there) = (None, false);
    update(&mut |found, decision| {
        (wrong, is_there) = (None, found);
        decision.action().unwrap_or_else(|failure| {
            wrong = Some(failure);
            Action::Keep
        })
    })?;
    match wrong {
        Some(failure) => Err(failure),
        None => Ok(code(is_there, EL_NOT_FOUND)),
    }
}

fn no_function() -> Failure {
    invalid("the function is NULL")
}

/// Reads, decides and writes `key` as one atomic step: `decide` is shown the value, or NULL, and returns what is to
/// become of it. It may be called several times, when other threads interfere; its last answer counts. The bytes of its
/// answer are copied when it has returned. It must not write `key` itself (`el_decide_fn`); otherwise it is as
/// `el_value_fn`. `EL_NOT_FOUND`: the key was not there before.
#[unsafe(no_mangle)]
pub extern "C" fn el_update_with(
    map: Option<&el_map>,
    key: el_slice,
    decide: el_decide_fn,
    context: *mut c_void,
) -> c_int {
    entry(|| {
        let (decide, map, key) = (decide.ok_or_else(no_function)?, shared(map)?, key.bytes()?);
        decided(|asked| {
            let updated = map.update_with(key, |value| {
                let value = value.map(el_slice::shown);
                asked(value.is_some(), decide(context, value.as_ref()))
            });
            updated.map(drop)
        })
    })
}

/// As `el_update_with`, and `decide` is also told when the key expires (0: never, or there is none).
#[unsafe(no_mangle)]
pub extern "C" fn el_update_expiring_with(
    map: Option<&el_map>,
    key: el_slice,
    decide: el_decide_expiring_fn,
    context: *mut c_void,
) -> c_int {
    entry(|| {
        let (decide, map, key) = (decide.ok_or_else(no_function)?, shared(map)?, key.bytes()?);
        decided(|asked| {
            map.update_with_expiry(key, |found| {
                let (value, expiry) = found.unzip();
                let (value, at) = (value.map(el_slice::shown), expiry.map(Expiry::as_unix_ms));
                let answer = decide(context, value.as_ref(), at.unwrap_or(0));
                asked(value.is_some(), answer)
            })
        })
    })
}

/// As `el_update_with`, for a function that need not see the value, which may be long: it is not read for it. `decide`
/// is told when the key expires (0: never), or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn el_update_expiry_with(
    map: Option<&el_map>,
    key: el_slice,
    decide: el_decide_expiry_fn,
    context: *mut c_void,
) -> c_int {
    entry(|| {
        let (decide, map, key) = (decide.ok_or_else(no_function)?, shared(map)?, key.bytes()?);
        decided(|asked| {
            map.update_expiry_with(key, |expiry| {
                let at = expiry.map(Expiry::as_unix_ms);
                asked(at.is_some(), decide(context, at.as_ref()))
            })
        })
    })
}
