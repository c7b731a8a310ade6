//! Integer indexes: opened by the name of a design, one key at a time, scans into buffers.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use everleaf::Error;
use everleaf_capi::argument::{el_buffer, el_slice, el_text, el_text_fn, set, wanted};
use everleaf_capi::code::{
    EL_EXISTS, EL_FORKED, EL_INVALID, EL_NOT_FOUND, EL_OK, EL_OUT_OF_MEMORY, Failure,
};
use everleaf_capi::entry::{entry, invalid};
use everleaf_capi::handle::{give, kind, shared, taken};
use everleaf_capi::map::code;
use everleaf_lab_designs::{IndexError, IndexOpening, Intent, NamedIndex, designs};

/// Bytes of a pair in the buffer of a scan.
const PAIR_SIZE: usize = 16;
/// Pairs that a scan copies at a time: so their number costs no memory.
const SCANNED_COUNT: usize = 4096;

/// Of `el_index_open_as`: the file must not be there yet.
pub const EL_INDEX_NEW: u32 = 1;
/// Of `el_index_open_as`: open a pool although the machine crashed while it was open. What is in it may then be any mix
/// of old and new.
pub const EL_INDEX_TRUST_AFTER_MACHINE_CRASH: u32 = 2;

kind! {
    /// An ordered index of 64-bit integers. For any number of threads at once, but its freeing.
    el_index, NamedIndex, b"elIndex\0"
}

/// What an index can hold.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct el_index_limits {
    /// The smallest key.
    first_key: u64,
    /// The largest key.
    last_key: u64,
    /// The smallest value.
    first_value: u64,
    /// The largest value.
    last_value: u64,
}

fn failure(error: IndexError) -> Failure {
    let is_argument = matches!(
        error,
        IndexError::UnknownDesign(_)
            | IndexError::KeyOutOfRange(_)
            | IndexError::ValueOutOfRange(_)
            | IndexError::OtherKind(_)
            | IndexError::OtherContents(_)
    );
    match is_argument {
        true => Failure::new(EL_INVALID, error.to_string()),
        false => Error::from(error).into(),
    }
}

/// Shows the names of all designs to a function, one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn el_index_designs(see: el_text_fn, context: *mut c_void) -> c_int {
    entry(|| {
        let see = see.ok_or_else(|| invalid("the function is NULL"))?;
        for design in designs() {
            see(context, el_slice::shown(design.name.as_bytes()));
        }
        Ok(EL_OK)
    })
}

/// Opens the index of a design in the pool at `path`, and stores it at `index`; makes both if there is no
/// file. `path` NULL: in memory, gone when it is freed. `max_size` is how many bytes a new pool may grow
/// to; 0 for 64 GiB; one that is there keeps its maximum. `EL_INVALID`: there is no such design, or the pool has an
/// index of another one or something else in it, such as the maps of a store; the file stays as it is.
#[unsafe(no_mangle)]
pub extern "C" fn el_index_open(
    design: el_text,
    path: el_text,
    max_size: u64,
    index: Option<&mut MaybeUninit<*mut el_index>>,
) -> c_int {
    entry(|| {
        let place = wanted(index)?;
        place.write(std::ptr::null_mut());
        let path = if path.is_null() { None } else { Some(path.path()?) };
        let opened = NamedIndex::open(design.str()?, path, max_size).map_err(failure)?;
        give(Some(place), opened)
    })
}

/// As `el_index_open`, in the file at `path`, with any of `EL_INDEX_NEW` and `EL_INDEX_TRUST_AFTER_MACHINE_CRASH`
/// in `flags`.
#[unsafe(no_mangle)]
pub extern "C" fn el_index_open_as(
    design: el_text,
    path: el_text,
    max_size: u64,
    flags: u32,
    index: Option<&mut MaybeUninit<*mut el_index>>,
) -> c_int {
    entry(|| {
        let place = wanted(index)?;
        place.write(std::ptr::null_mut());
        if flags & !(EL_INDEX_NEW | EL_INDEX_TRUST_AFTER_MACHINE_CRASH) != 0 {
            return Err(invalid("there is no such flag"));
        }
        let opening = IndexOpening {
            max_size,
            is_new: flags & EL_INDEX_NEW != 0,
            trusts_after_machine_crash: flags & EL_INDEX_TRUST_AFTER_MACHINE_CRASH != 0,
        };
        let opened = NamedIndex::open_as(design.str()?, path.path()?, opening).map_err(failure)?;
        give(Some(place), opened)
    })
}

/// Makes everything durable that was written before, in a design that defers that (its name ends with `-unlogged`):
/// there a crash takes back what was written since, and so does an end without `el_index_free`. In all others it is so
/// already.
#[unsafe(no_mangle)]
pub extern "C" fn el_index_persist(index: Option<&el_index>) -> c_int {
    entry(|| {
        shared(index)?.persist().map_err(failure)?;
        Ok(EL_OK)
    })
}

/// Closes an index, and frees it; NULL is nothing. No other call uses it. After an error it is freed all the same, the
/// next opening recovers, and what a design had deferred may be lost (`el_index_persist`). In a process that was forked
/// it only frees.
#[unsafe(no_mangle)]
pub extern "C" fn el_index_free(index: Option<&mut el_index>) -> c_int {
    entry(|| {
        let Some(index) = taken(index)? else { return Ok(EL_OK) };
        match index.close().map_err(failure) {
            // The process that opened it closes it.
            Err(failure) if failure.code() == EL_FORKED => Ok(EL_OK),
            closed => closed.map(|()| EL_OK),
        }
    })
}

/// Stores the smallest and largest key and value that the index can hold at `limits`.
#[unsafe(no_mangle)]
pub extern "C" fn el_index_get_limits(
    index: Option<&el_index>,
    limits: Option<&mut MaybeUninit<el_index_limits>>,
) -> c_int {
    entry(|| {
        let info = shared(index)?.info();
        wanted(limits)?.write(el_index_limits {
            first_key: *info.keys.start(),
            last_key: *info.keys.end(),
            first_value: *info.values.start(),
            last_value: *info.values.end(),
        });
        Ok(EL_OK)
    })
}

/// Stores the value of `key` at `value`; `EL_NOT_FOUND` if it is not there.
#[unsafe(no_mangle)]
pub extern "C" fn el_index_get(
    index: Option<&el_index>,
    key: u64,
    value: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    entry(|| {
        let found = shared(index)?.with(|tree, session| tree.get(session, key));
        let Some(found) = found.map_err(failure)? else { return Ok(EL_NOT_FOUND) };
        wanted(value)?.write(found);
        Ok(EL_OK)
    })
}

/// Adds `key` unless it is there: then `EL_EXISTS`. (A design that does not look sets the value.)
#[unsafe(no_mangle)]
pub extern "C" fn el_index_insert(index: Option<&el_index>, key: u64, value: u64) -> c_int {
    entry(|| {
        let done =
            shared(index)?.with(|tree, session| tree.change(session, key, Intent::Insert, value));
        Ok(code(done.map_err(failure)?.changed, EL_EXISTS))
    })
}

/// Sets the value of `key`, which need not be there.
#[unsafe(no_mangle)]
pub extern "C" fn el_index_put(index: Option<&el_index>, key: u64, value: u64) -> c_int {
    entry(|| {
        let done = shared(index)?.with(|tree, session| tree.upsert(session, key, value));
        done.map_err(failure)?;
        Ok(EL_OK)
    })
}

/// Replaces the value of `key` if it is there; otherwise `EL_NOT_FOUND`.
#[unsafe(no_mangle)]
pub extern "C" fn el_index_update(index: Option<&el_index>, key: u64, value: u64) -> c_int {
    entry(|| {
        let done =
            shared(index)?.with(|tree, session| tree.change(session, key, Intent::Update, value));
        Ok(code(done.map_err(failure)?.changed, EL_NOT_FOUND))
    })
}

/// Removes `key`; `EL_NOT_FOUND` if it is not there.
#[unsafe(no_mangle)]
pub extern "C" fn el_index_remove(index: Option<&el_index>, key: u64) -> c_int {
    entry(|| {
        let done =
            shared(index)?.with(|tree, session| tree.change(session, key, Intent::Remove, 0));
        Ok(code(done.map_err(failure)?.changed, EL_NOT_FOUND))
    })
}

/// Writes pairs from the key `from` on, ascending, to `pairs`: of each the key and then the value, 16 bytes
/// in the byte order of the machine, as many as the buffer has room for and the index has. Stores their
/// number at `count`. `EL_UNSUPPORTED` from a hash index, which has no order.
#[unsafe(no_mangle)]
pub extern "C" fn el_index_scan(
    index: Option<&el_index>,
    from: u64,
    pairs: el_buffer,
    count: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    entry(|| {
        let limit = pairs.capacity() / PAIR_SIZE;
        let (mut found, mut copied, mut next) = (Vec::new(), 0, Some(from));
        let reserved = found.try_reserve_exact(limit.min(SCANNED_COUNT));
        reserved.map_err(|_| Failure::new(EL_OUT_OF_MEMORY, "out of memory"))?;
        // Once in any case: a handle that cannot be scanned is told, also where there is no room for a pair.
        while let Some(from) = next {
            found.clear();
            let wanted = SCANNED_COUNT.min(limit - copied);
            let scanned =
                shared(index)?.with(|tree, session| tree.scan(session, from, wanted, &mut found));
            scanned.map_err(failure)?;
            for (key, value) in &found {
                let at = copied * PAIR_SIZE;
                pairs.write(at, &key.to_ne_bytes());
                pairs.write(at + PAIR_SIZE / 2, &value.to_ne_bytes());
                copied += 1;
            }
            let last = found.last().filter(|_| found.len() == wanted);
            next = last.filter(|_| copied < limit).and_then(|(key, _)| key.checked_add(1));
        }
        set(count, copied);
        Ok(EL_OK)
    })
}

/// Stores the number of keys at `count`; exact when nobody writes.
#[unsafe(no_mangle)]
pub extern "C" fn el_index_count(
    index: Option<&el_index>,
    count: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    entry(|| {
        let keys = shared(index)?.with(|tree, session| tree.len(session)).map_err(failure)?;
        wanted(count)?.write(keys);
        Ok(EL_OK)
    })
}
