//! Stores: opening and closing, maps by name, batches, copies, checks.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, TryLockError};

use everleaf::{Error, Store, Written};

use crate::argument::{el_buffer, el_slice};
use crate::argument::{el_progress_fn, el_text, el_text_fn, handle_place, progress, set};
use crate::batch::el_batch;
use crate::code::{EL_BUSY, EL_CLOSED, EL_MISMATCH, EL_NOT_FOUND, EL_OK, Failure};
use crate::entry::{entry, invalid};
use crate::handle::{exclusive, free, give, kind, shared};
use crate::map::el_map;
use crate::options::{Log, el_options};
use crate::statistics::{el_statistics, fill};

/// What a handle of a store holds.
pub struct StoreHandle {
    /// `None` once it was closed.
    store: RwLock<Option<Store>>,
    log: Option<Log>,
}

impl StoreHandle {
    fn say(&self, text: impl FnOnce() -> String) {
        if let Some(log) = &self.log {
            log.say(&text());
        }
    }

    /// Lets `run` use the store, unless it was closed.
    pub(crate) fn with<R>(
        &self,
        run: impl FnOnce(&Store) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let guard: RwLockReadGuard<'_, _> =
            self.store.read().unwrap_or_else(PoisonError::into_inner);
        match &*guard {
            Some(store) => {
                // What only looks at memory would answer in a forked process, too.
                store.check_process()?;
                run(store)
            }
            None => Err(Failure::new(EL_CLOSED, "the store was closed: open it again")),
        }
    }
}

kind! {
    /// An open store: maps by name in one pool file. For any number of threads at once, but its freeing.
    el_store, StoreHandle, b"elStore\0"
}

/// Opens the pool file at `path`, and stores a handle at `store`. NULL options are the defaults, which
/// open a pool that is there. Free the handle with `el_store_free`.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_open(
    path: el_text,
    options: Option<&mut el_options>,
    store: Option<&mut MaybeUninit<*mut el_store>>,
) -> c_int {
    entry(|| {
        let place = handle_place(store)?;
        let (options, log) = match options {
            None => Default::default(),
            Some(options) => {
                let opening = exclusive(Some(options))?;
                (opening.options.clone(), opening.log)
            }
        };
        let path = path.path()?;
        let opened = Store::open(path, options)?;
        let found = opened.statistics();
        let store = RwLock::new(Some(opened));
        let opened = StoreHandle { store, log };
        opened.say(|| {
            let (ms, clean) = (found.recovery.as_millis(), found.was_clean);
            let closed = if clean { "closed" } else { "not closed" };
            let shown = path.display();
            format!("opened {shown} in {ms} ms: {} keys, was {closed} before", found.keys)
        });
        give(Some(place), opened)
    })
}

/// Closes the store: its handle refuses everything from then on. Maps, views, batches and iterators
/// keep the pool open, and the last of them closes it when it is freed. A store that was closed before
/// stays so. `EL_STILL_OPEN`: it is closed, but something else keeps the pool. `EL_BUSY`: other calls are using the handle.
/// `EL_POOL_GONE`: the file was removed or replaced, and it is too late to save it: ask `el_store_is_pool_gone` before.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_close(store: Option<&el_store>) -> c_int {
    entry(|| {
        let opened = shared(store)?;
        let taken = match opened.store.try_write() {
            Ok(mut store) => store.take(),
            Err(TryLockError::Poisoned(error)) => error.into_inner().take(),
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::new(EL_BUSY, "other calls are using the store"));
            }
        };
        if let Some(store) = taken {
            // The end itself is told when it comes.
            store.close().inspect_err(|error| {
                if let Error::StillOpen { .. } = error {
                    opened.say(|| error.to_string());
                }
            })?;
        }
        Ok(EL_OK)
    })
}

/// Frees the handle, and closes the store unless it was; NULL is nothing. No other call may be using
/// the handle. An error of closing is lost, unless `el_options_log` tells it: `el_store_close` returns it.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_free(store: Option<&mut el_store>) -> c_int {
    entry(|| free(store))
}

/// Stores a handle on the map called `name` at `map`: NULL is the default map, which is always there.
/// With `create` a map that is missing is made; otherwise it is `EL_NOT_FOUND`. Free the handle with
/// `el_map_free`.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_map(
    store: Option<&el_store>,
    name: el_text,
    create: bool,
    map: Option<&mut MaybeUninit<*mut el_map>>,
) -> c_int {
    entry(|| {
        let place = handle_place(map)?;
        shared(store)?.with(|store| {
            let name = if name.is_null() { everleaf::DEFAULT_MAP } else { name.str()? };
            let map = match create {
                true => Some(store.map(name)?),
                false => store.existing_map(name)?,
            };
            match map {
                Some(map) => give(Some(place), map),
                None => Ok(EL_NOT_FOUND),
            }
        })
    })
}

/// Removes a map with all its pairs; `EL_NOT_FOUND` if there is none. Handles on it fail from then on.
/// The default map is emptied instead.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_drop_map(store: Option<&el_store>, name: el_text) -> c_int {
    entry(|| {
        let name = name.str()?;
        let dropped = shared(store)?.with(|store| Ok(store.drop_map(name)?))?;
        Ok(if dropped { EL_OK } else { EL_NOT_FOUND })
    })
}

/// Tells the names of all maps, in order.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_map_names(
    store: Option<&el_store>,
    tell: el_text_fn,
    context: *mut c_void,
) -> c_int {
    entry(|| {
        let tell = tell.ok_or_else(|| invalid("the function is NULL"))?;
        // Outside of the lock, so that the function may close the store.
        let names = shared(store)?.with(|store| Ok(store.map_names()))?;
        names.iter().for_each(|name| tell(context, el_slice::shown(name.as_bytes())));
        Ok(EL_OK)
    })
}

/// Does all of a batch or nothing, as one. `EL_MISMATCH`: a condition did not hold, and its number,
/// counted from 0, was stored at `refused`, which may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_write(
    store: Option<&el_store>,
    batch: Option<&mut el_batch>,
    refused: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    entry(|| {
        let batch = exclusive(batch)?;
        match shared(store)?.with(|store| Ok(store.write(&batch)?))? {
            Written::All => Ok(EL_OK),
            Written::Refused(number) => {
                set(refused, number);
                Ok(EL_MISMATCH)
            }
        }
    })
}

/// Of a store with a log: makes durable all that can be read now, also with `EL_INTERVAL_MS`. Without a log
/// (`EL_PROCESS`) it makes nothing durable, and only looks for the pool's file (`EL_POOL_GONE`): after a crash of the
/// machine such a pool is refused, synced or not.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_sync(store: Option<&el_store>) -> c_int {
    entry(|| shared(store)?.with(|store| Ok(store.sync().map(|()| EL_OK)?)))
}

/// Writes a snapshot of a store that has a log, which shortens the log. Stores the number of pairs at
/// `pairs`, which may be NULL. `EL_BUSY`: another is being written, which a store begins by itself; try again.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_snapshot(
    store: Option<&el_store>,
    pairs: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    entry(|| {
        let opened = shared(store)?;
        let count = opened.with(|store| Ok(store.snapshot()?))?;
        opened.say(|| format!("wrote a snapshot of {count} pairs"));
        set(pairs, count);
        Ok(EL_OK)
    })
}

/// Copies the store, as it is at one moment, to a new pool at `path`, where nothing may be yet. `tell`,
/// which may be NULL, is told how many pairs are done. Stores their number at `pairs`, which may be
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_backup(
    store: Option<&el_store>,
    path: el_text,
    tell: el_progress_fn,
    context: *mut c_void,
    pairs: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    entry(|| {
        let path = path.path()?;
        let copied =
            shared(store)?.with(|store| Ok(store.backup(path, progress(tell, context))?))?;
        set(pairs, copied.keys);
        Ok(EL_OK)
    })
}

/// Checks everything in the pool. Tells each problem, and stores their number at `problems`, which may
/// be NULL, as the function may. Reads and writes wait meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_check(
    store: Option<&el_store>,
    tell: el_text_fn,
    context: *mut c_void,
    problems: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    entry(|| {
        let report = shared(store)?.with(|store| Ok(store.check()?))?;
        let problems_found = report.problems.iter().chain(&report.damaged_copies);
        for problem in problems_found.filter(|_| tell.is_some()) {
            if let Some(tell) = tell {
                tell(context, el_slice::shown(problem.to_string().as_bytes()));
            }
        }
        set(problems, report.problems.len() + report.damaged_copies.len());
        Ok(EL_OK)
    })
}

/// Returns the disk space of what is free in the pool to the file system. Stores the number of bytes at
/// `bytes`, which may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_return_space(
    store: Option<&el_store>,
    bytes: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    entry(|| {
        let returned = shared(store)?.with(|store| Ok(store.return_space()?))?;
        set(bytes, returned);
        Ok(EL_OK)
    })
}

/// Stores numbers about the store in a buffer for an `el_statistics`: as much of them as the buffer
/// holds and this version knows. So programs and libraries of different versions understand each other.
/// Stores the size of what this version knows at `known`, which may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_statistics(
    store: Option<&el_store>,
    buffer: el_buffer,
    known: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    entry(|| {
        let found = shared(store)?.with(|store| Ok(store.statistics()))?;
        fill(el_statistics::from(&found), buffer, known);
        Ok(EL_OK)
    })
}
