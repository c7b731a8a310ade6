//! Watches: whether a key was written since it is watched.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use everleaf::Watch;

use crate::argument::{el_slice, handle_place, wanted};
use crate::batch::el_batch;
use crate::code::EL_OK;
use crate::entry::entry;
use crate::handle::{exclusive, free, give, kind, shared};
use crate::map::el_map;

kind! {
    /// Watches one key of a map. For any number of threads at once, but its freeing.
    el_watch, Watch, b"elWatch\0"
}

/// Stores a watch of `key` at `watch`: from now on it tells of every write of the key, also of one that stores the
/// value that was there, and of its expiry. It keeps the pool open. Free it with `el_watch_free`.
#[unsafe(no_mangle)]
pub extern "C" fn el_watch_new(
    map: Option<&el_map>,
    key: el_slice,
    watch: Option<&mut MaybeUninit<*mut el_watch>>,
) -> c_int {
    entry(|| {
        let place = handle_place(watch)?;
        give(Some(place), shared(map)?.watch(key.bytes()?)?)
    })
}

/// Frees a watch; NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn el_watch_free(watch: Option<&mut el_watch>) -> c_int {
    entry(|| free(watch))
}

/// Stores at `broken` whether the key was written, or has expired, since the watch began. A write at the same time may
/// be missed: what must not miss it is a batch (`el_batch_expect_unwritten`).
#[unsafe(no_mangle)]
pub extern "C" fn el_watch_is_broken(
    watch: Option<&el_watch>,
    broken: Option<&mut MaybeUninit<bool>>,
) -> c_int {
    entry(|| {
        wanted(broken)?.write(shared(watch)?.is_broken());
        Ok(EL_OK)
    })
}

/// Lets the whole batch depend on the key of a watch not having been written since. The watch may be freed.
#[unsafe(no_mangle)]
pub extern "C" fn el_batch_expect_unwritten(
    batch: Option<&mut el_batch>,
    watch: Option<&el_watch>,
) -> c_int {
    entry(|| {
        exclusive(batch)?.expect_unwritten(shared(watch)?);
        Ok(EL_OK)
    })
}
