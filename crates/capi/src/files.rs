//! What is done with the files of pools that nobody has open.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use everleaf::{Options, Store};

use crate::argument::{el_buffer, el_progress_fn, el_slice, el_text, el_text_fn, set};
use crate::argument::{progress, tell_all};
use crate::code::{EL_OK, Failure};
use crate::entry::entry;
use crate::handle::exclusive;
use crate::options::el_options;
use crate::statistics::{el_repaired, fill};

fn given(options: Option<&mut el_options>) -> Result<Options, Failure> {
    match options {
        None => Ok(Options::new()),
        some => Ok(exclusive(some)?.options.clone()),
    }
}

/// Makes the pool at `to`, where nothing may be yet, from a backup, or any pool that nobody has open for
/// writing. `tell` and `pairs` as in `el_store_backup`.
#[unsafe(no_mangle)]
pub extern "C" fn el_restore(
    from: el_text,
    to: el_text,
    tell: el_progress_fn,
    context: *mut c_void,
    pairs: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    entry(|| {
        let copied = Store::restore(from.path()?, to.path()?, progress(tell, context))?;
        set(pairs, copied.keys);
        Ok(EL_OK)
    })
}

/// Writes the pool at `path`, which nobody has open, anew, as small as it can be, in its place. It is opened with
/// `options`, which may be NULL: so it can be rebuilt from its log, and with `EL_TREE` its maps are then in that tree.
/// If it is cut short, the old pool is there. `tell` as in `el_store_backup`; stores the size of the new file at
/// `bytes`, which may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn el_compact(
    path: el_text,
    options: Option<&mut el_options>,
    tell: el_progress_fn,
    context: *mut c_void,
    bytes: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    entry(|| {
        let copied = given(options)?.compact(path.path()?, progress(tell, context))?;
        set(bytes, copied.size_bytes);
        Ok(EL_OK)
    })
}

/// Lets the pool at `path`, which is opened with `options` (or NULL), have everything that this version can do, after
/// which older versions refuse it. Tells what was new to it. `tell` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn el_upgrade(
    path: el_text,
    options: Option<&mut el_options>,
    tell: el_text_fn,
    context: *mut c_void,
) -> c_int {
    entry(|| {
        let new = given(options)?.upgrade(path.path()?)?;
        if let Some(tell) = tell {
            new.iter().for_each(|new| tell(context, el_slice::shown(new.as_bytes())));
        }
        Ok(EL_OK)
    })
}

/// Reads the damaged pool at `from`, which stays as it is and which nobody has open, and writes all that can be proven
/// of it to a new pool at `to`, where nothing may be yet. A pool that only was not closed needs no repair: open it.
/// Tells what may have become of each map whose name was lost, and then what was dropped, a sentence each; stores an
/// `el_repaired` in `buffer`, as `el_store_statistics` does. `tell` and `known` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn el_repair(
    from: el_text,
    to: el_text,
    tell: el_text_fn,
    context: *mut c_void,
    buffer: el_buffer,
    known: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    entry(|| {
        let repaired = Store::repair(from.path()?, to.path()?)?;
        tell_all(tell, context, repaired.lost.iter().chain(&repaired.dropped));
        fill(el_repaired::from(&repaired), buffer, known);
        Ok(EL_OK)
    })
}
