//! What a store does for its durability and its space, when it is asked to.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;

use crate::argument::{el_buffer, el_slice, el_text_fn, set, tell_all, wanted};
use crate::code::{EL_NOT_FOUND, EL_OK};
use crate::entry::entry;
use crate::handle::shared;
use crate::map::el_map;
use crate::statistics::{el_map_statistics, el_rebuilt, fill};
use crate::store::el_store;

/// Saves what there is: a snapshot if the store has a log, as by `el_store_snapshot`; otherwise a backup beside the
/// pool, with `.backup` behind its name, in place of the last one. Stores the number of pairs at `pairs`, which may be
/// NULL. `EL_BUSY`: a snapshot is being written; try again.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_save(
    store: Option<&el_store>,
    pairs: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    entry(|| {
        set(pairs, shared(store)?.with(|store| Ok(store.save()?))?);
        Ok(EL_OK)
    })
}

/// Lets writes of the calling thread return before they are durable, from now on: nobody may be told of them before
/// `el_store_wait_deferred` has returned. So many writes share one sync. It ends when the thread calls this for another
/// store: a thread defers for one at a time. Without a log it does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_defer_sync(store: Option<&el_store>) -> c_int {
    entry(|| {
        shared(store)?.with(|store| {
            store.defer_sync();
            Ok(EL_OK)
        })
    })
}

/// Waits until the writes of the calling thread are durable, after `el_store_defer_sync`.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_wait_deferred(store: Option<&el_store>) -> c_int {
    entry(|| shared(store)?.with(|store| Ok(store.wait_deferred().map(|()| EL_OK)?)))
}

/// Stores at `failed` whether the log has failed, so that every write is refused until the store is opened anew.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_has_log_failed(
    store: Option<&el_store>,
    failed: Option<&mut MaybeUninit<bool>>,
) -> c_int {
    entry(|| {
        let place = wanted(failed)?;
        place.write(shared(store)?.with(|store| Ok(store.has_log_failed()))?);
        Ok(EL_OK)
    })
}

/// Stores at `gone` whether the file of the pool was removed, or another lies in its place, so that every write is
/// refused (`EL_POOL_GONE`). What there is can be saved.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_is_pool_gone(
    store: Option<&el_store>,
    gone: Option<&mut MaybeUninit<bool>>,
) -> c_int {
    entry(|| {
        let place = wanted(gone)?;
        place.write(shared(store)?.with(|store| Ok(store.is_pool_gone()))?);
        Ok(EL_OK)
    })
}

/// Stores at `read_only` whether the store was opened so.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_is_read_only(
    store: Option<&el_store>,
    read_only: Option<&mut MaybeUninit<bool>>,
) -> c_int {
    entry(|| {
        let place = wanted(read_only)?;
        place.write(shared(store)?.with(|store| Ok(store.is_read_only()))?);
        Ok(EL_OK)
    })
}

/// `EL_OK` if the pool was made from its log when it was opened, because it was missing or could not be used: stores
/// an `el_rebuilt` in `buffer`, as `el_store_statistics` does, and tells why each snapshot was skipped, then each
/// damage, and then the path of the file that was kept. `tell` and `known` may be NULL. Otherwise `EL_NOT_FOUND`.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_rebuilt(
    store: Option<&el_store>,
    tell: el_text_fn,
    context: *mut c_void,
    buffer: el_buffer,
    known: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    entry(|| {
        // Told outside of the lock, so that the function may close the store.
        let found = shared(store)?.with(|store| Ok(store.rebuilt().cloned()))?;
        let Some(found) = found else { return Ok(EL_NOT_FOUND) };
        tell_all(tell, context, found.skipped.iter().chain(&found.damages));
        if let (Some(tell), Some(kept)) = (tell, &found.kept) {
            tell(context, el_slice::shown(kept.as_os_str().as_bytes()));
        }
        fill(el_rebuilt::from(&found), buffer, known);
        Ok(EL_OK)
    })
}

/// Tells the paths of the files of the log that were found damaged, or belong to what a log has lost, and were put
/// aside. Nothing reads them any more. What was acknowledged behind the damage, and the pool does not have, is only in
/// `damaged-log-..`: keep those until that is not missed. The others can be deleted. Stores their number at `count`.
/// `tell` and `count` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_put_aside_files(
    store: Option<&el_store>,
    tell: el_text_fn,
    context: *mut c_void,
    count: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    entry(|| {
        let files = shared(store)?.with(|store| Ok(store.put_aside_files()?))?;
        if let Some(tell) = tell {
            for file in &files {
                tell(context, el_slice::shown(file.as_os_str().as_bytes()));
            }
        }
        set(count, files.len());
        Ok(EL_OK)
    })
}

/// Stores at `count` how often a batch was rolled back for want of space since the store was opened; for
/// `el_batch_expect_no_rollback`.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_rollback_count(
    store: Option<&el_store>,
    count: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    entry(|| {
        let place = wanted(count)?;
        place.write(shared(store)?.with(|store| Ok(store.rollback_count()))?);
        Ok(EL_OK)
    })
}

/// Stores numbers about a map in a buffer for an `el_map_statistics`, as `el_store_statistics` does.
#[unsafe(no_mangle)]
pub extern "C" fn el_map_numbers(
    map: Option<&el_map>,
    buffer: el_buffer,
    known: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    entry(|| {
        fill(el_map_statistics::from(&shared(map)?.statistics()?), buffer, known);
        Ok(EL_OK)
    })
}
