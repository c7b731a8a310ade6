//! Maps: one key at a time.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;

use everleaf::{Exchange, Map};

use crate::argument::{el_buffer, el_range, el_slice, set, wanted};
use crate::argument::{el_pair_fn, el_value_fn};
use crate::code::{EL_EXISTS, EL_MISMATCH, EL_NOT_FOUND, EL_OK, out_of_memory};
use crate::entry::{entry, invalid};
use crate::handle::{free, kind, shared};
use crate::memory;

kind! {
    /// An ordered map of byte strings. For any number of threads at once, but its freeing.
    el_map, Map, b"elMap\0\0\0"
}

/// `EL_OK` or something else.
pub fn code(is_so: bool, otherwise: c_int) -> c_int {
    if is_so { EL_OK } else { otherwise }
}

/// Frees a handle on a map, and leaves the map alone; NULL is nothing. If it is the last handle of a store that was
/// closed or freed, it closes the pool, and only `el_options_log` tells whether that has failed.
#[unsafe(no_mangle)]
pub extern "C" fn el_map_free(map: Option<&mut el_map>) -> c_int {
    entry(|| free(map))
}

/// Copies the value of `key` to `buffer`, and stores its size at `size`, which may be NULL. If the
/// buffer is too small nothing is copied (`EL_BUFFER_TOO_SMALL`), and the size is what is needed.
#[unsafe(no_mangle)]
pub extern "C" fn el_get(
    map: Option<&el_map>,
    key: el_slice,
    buffer: el_buffer,
    size: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    entry(|| {
        let found = shared(map)?.get_with(key.bytes()?, |value| buffer.fill(value, size))?;
        found.map_or(Ok(EL_NOT_FOUND), |filled| filled.map(|()| EL_OK))
    })
}

/// Stores a copy of the value of `key` at `value`, and its size at `size`. Free it with `el_free`.
#[unsafe(no_mangle)]
pub extern "C" fn el_get_copy(
    map: Option<&el_map>,
    key: el_slice,
    value: Option<&mut MaybeUninit<*mut c_void>>,
    size: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    entry(|| {
        let (value, size) = (wanted(value)?, wanted(size)?);
        value.write(std::ptr::null_mut());
        let copy = |found: &[u8]| memory::copy(found).map(|copy| (copy, found.len()));
        let Some(found) = shared(map)?.get_with(key.bytes()?, copy)? else {
            return Ok(EL_NOT_FOUND);
        };
        let (copy, length) = found.ok_or_else(out_of_memory)?;
        value.write(copy.as_ptr());
        size.write(length);
        Ok(EL_OK)
    })
}

/// Shows the value of `key` to a function, in place, without a copy.
#[unsafe(no_mangle)]
pub extern "C" fn el_get_with(
    map: Option<&el_map>,
    key: el_slice,
    see: el_value_fn,
    context: *mut c_void,
) -> c_int {
    entry(|| {
        let see = see.ok_or_else(|| invalid("the function is NULL"))?;
        let shown = |value: &[u8]| see(context, el_slice::shown(value));
        let found = shared(map)?.get_with(key.bytes()?, shown)?;
        Ok(code(found.is_some(), EL_NOT_FOUND))
    })
}

/// `EL_OK` if `key` is there, `EL_NOT_FOUND` if not.
#[unsafe(no_mangle)]
pub extern "C" fn el_contains(map: Option<&el_map>, key: el_slice) -> c_int {
    entry(|| Ok(code(shared(map)?.contains(key.bytes()?)?, EL_NOT_FOUND)))
}

/// Sets the value of `key`.
#[unsafe(no_mangle)]
pub extern "C" fn el_put(map: Option<&el_map>, key: el_slice, value: el_slice) -> c_int {
    entry(|| {
        shared(map)?.put(key.bytes()?, value.bytes()?)?;
        Ok(EL_OK)
    })
}

/// Adds `key` unless it is there: then `EL_EXISTS`.
#[unsafe(no_mangle)]
pub extern "C" fn el_insert(map: Option<&el_map>, key: el_slice, value: el_slice) -> c_int {
    entry(|| Ok(code(shared(map)?.insert(key.bytes()?, value.bytes()?)?, EL_EXISTS)))
}

/// Replaces the value of `key` if it is there; otherwise `EL_NOT_FOUND`.
#[unsafe(no_mangle)]
pub extern "C" fn el_update(map: Option<&el_map>, key: el_slice, value: el_slice) -> c_int {
    entry(|| Ok(code(shared(map)?.update(key.bytes()?, value.bytes()?)?, EL_NOT_FOUND)))
}

/// Removes `key`; `EL_NOT_FOUND` if it is not there.
#[unsafe(no_mangle)]
pub extern "C" fn el_remove(map: Option<&el_map>, key: el_slice) -> c_int {
    entry(|| Ok(code(shared(map)?.remove(key.bytes()?)?, EL_NOT_FOUND)))
}

/// Changes `key` to `value` if its value is `expected`, atomically; NULL stands for absent on both
/// sides. Otherwise `EL_MISMATCH`, and nothing is changed.
#[unsafe(no_mangle)]
pub extern "C" fn el_compare_exchange(
    map: Option<&el_map>,
    key: el_slice,
    expected: Option<&el_slice>,
    value: Option<&el_slice>,
) -> c_int {
    entry(|| {
        let bytes = |slice: Option<&el_slice>| slice.map(|slice| slice.bytes()).transpose();
        let (expected, value) = (bytes(expected)?, bytes(value)?);
        let done = shared(map)?.compare_exchange(key.bytes()?, expected, value)?;
        Ok(code(done == Exchange::Done, EL_MISMATCH))
    })
}

/// Stores the number of keys at `count`; exact when nobody writes. Keys that have expired count until they are removed
/// in the background.
#[unsafe(no_mangle)]
pub extern "C" fn el_count(map: Option<&el_map>, count: Option<&mut MaybeUninit<u64>>) -> c_int {
    entry(|| {
        let (place, map) = (wanted(count)?, shared(map)?);
        // None is also what a map says that cannot be asked; the numbers say why.
        place.write(match map.len() {
            0 => map.statistics()?.keys,
            keys => keys,
        });
        Ok(EL_OK)
    })
}

/// Removes all keys, atomically.
#[unsafe(no_mangle)]
pub extern "C" fn el_clear(map: Option<&el_map>) -> c_int {
    entry(|| Ok(shared(map)?.clear().map(|()| EL_OK)?))
}

/// Shows the pairs of a range (NULL: all), ascending or `descending`, to a function, in place, until it
/// returns anything but 0. Stores how many were shown at `count`, which may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn el_scan(
    map: Option<&el_map>,
    range: Option<&el_range>,
    descending: bool,
    see: el_pair_fn,
    context: *mut c_void,
    count: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    entry(|| {
        let see = see.ok_or_else(|| invalid("the function is NULL"))?;
        let (map, bounds) = (shared(map)?, el_range::bounds(range)?);
        let mut shown = 0;
        let scan = map.scan(bounds);
        let scan = if descending { scan.reverse() } else { scan };
        scan.visit(|key, value| {
            shown += 1;
            match see(context, el_slice::shown(key), el_slice::shown(value)) {
                0 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        })?;
        set(count, shown);
        Ok(EL_OK)
    })
}
