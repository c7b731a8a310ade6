//! Views: a store as it was at one moment.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use everleaf::View;

use crate::argument::{el_buffer, el_found_fn, el_slice, el_slices, handle_place};
use crate::code::{EL_NOT_FOUND, EL_OK};
use crate::entry::{entry, invalid};
use crate::handle::{free, give, kind, shared};
use crate::many::in_blocks;
use crate::map::el_map;
use crate::store::el_store;

kind! {
    /// All maps of a store as they were at one moment. For any number of threads at once, but its freeing.
    el_view, View, b"elView\0\0"
}

/// Stores a view of the store, as it is now, at `view`. It costs memory for what is changed while it is
/// open. Free it with `el_view_free`.
#[unsafe(no_mangle)]
pub extern "C" fn el_view_new(
    store: Option<&el_store>,
    view: Option<&mut MaybeUninit<*mut el_view>>,
) -> c_int {
    entry(|| {
        let place = handle_place(view)?;
        let opened = shared(store)?.with(|store| Ok(store.view()?))?;
        give(Some(place), opened)
    })
}

/// Frees a view; NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn el_view_free(view: Option<&mut el_view>) -> c_int {
    entry(|| free(view))
}

/// As `el_get`, of a map as it was when the view was opened.
#[unsafe(no_mangle)]
pub extern "C" fn el_view_get(
    view: Option<&el_view>,
    map: Option<&el_map>,
    key: el_slice,
    buffer: el_buffer,
    size: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    entry(|| {
        let map = shared(view)?.map(shared(map)?);
        let Some(value) = map.get(key.bytes()?)? else { return Ok(EL_NOT_FOUND) };
        buffer.fill(&value, size)?;
        Ok(EL_OK)
    })
}

/// As `el_get_many`, of a map as it was when the view was opened.
#[unsafe(no_mangle)]
pub extern "C" fn el_view_get_many(
    view: Option<&el_view>,
    map: Option<&el_map>,
    keys: el_slices,
    see: el_found_fn,
    context: *mut c_void,
) -> c_int {
    entry(|| {
        let see = see.ok_or_else(|| invalid("the function is NULL"))?;
        let map = shared(view)?.map(shared(map)?);
        in_blocks(keys.items()?.iter(), |first, keys| {
            map.get_many(keys, |index, value| {
                let value = value.map(el_slice::shown);
                see(context, first + index, value.as_ref());
            })
        })?;
        Ok(EL_OK)
    })
}
