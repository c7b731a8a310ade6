//! Batches: many changes as one.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use everleaf::{Error, Expiry, KEY_SIZE_MAX, VALUE_SIZE_MAX, WriteBatch};

use crate::argument::{el_slice, handle_place, wanted};
use crate::code::{EL_OK, Failure};
use crate::entry::entry;
use crate::handle::{exclusive, free, give, kind, shared};
use crate::map::el_map;

kind! {
    /// Changes, and conditions on which they depend, for `el_store_write`. For one call at a time.
    el_batch, WriteBatch, b"elBatch\0"
}

/// Stores an empty batch at `batch`. Free it with `el_batch_free`.
#[unsafe(no_mangle)]
pub extern "C" fn el_batch_new(batch: Option<&mut MaybeUninit<*mut el_batch>>) -> c_int {
    entry(|| give(Some(handle_place(batch)?), WriteBatch::new()))
}

/// Frees a batch; NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn el_batch_free(batch: Option<&mut el_batch>) -> c_int {
    entry(|| free(batch))
}

/// Takes everything out of a batch.
#[unsafe(no_mangle)]
pub extern "C" fn el_batch_clear(batch: Option<&mut el_batch>) -> c_int {
    entry(|| {
        exclusive(batch)?.clear();
        Ok(EL_OK)
    })
}

/// Stores the number of changes in a batch at `count`.
#[unsafe(no_mangle)]
pub extern "C" fn el_batch_count(
    batch: Option<&mut el_batch>,
    count: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    entry(|| {
        wanted(count)?.write(exclusive(batch)?.len());
        Ok(EL_OK)
    })
}

/// Lets a batch have room for one more change or condition. What no write takes is refused before it is copied.
fn make_room(batch: &mut WriteBatch, key: &[u8], value: &[u8]) -> Result<(), Failure> {
    if key.len() > KEY_SIZE_MAX {
        return Err(Error::KeyTooLarge(key.len()).into());
    }
    if value.len() > VALUE_SIZE_MAX {
        return Err(Error::ValueTooLarge(value.len()).into());
    }
    Ok(batch.try_reserve(1, key.len() + value.len())?)
}

/// Adds that a key gets this value. Here and below, after an error nothing was added: a key or value that is too large,
/// and one for which there is no memory, is refused at once.
#[unsafe(no_mangle)]
pub extern "C" fn el_batch_put(
    batch: Option<&mut el_batch>,
    map: Option<&el_map>,
    key: el_slice,
    value: el_slice,
) -> c_int {
    entry(|| {
        let (mut batch, map) = (exclusive(batch)?, shared(map)?);
        let (key, value) = (key.bytes()?, value.bytes()?);
        make_room(&mut batch, key, value)?;
        batch.put(map, key, value);
        Ok(EL_OK)
    })
}

/// Adds that a key gets this value and is absent from `expiry_ms` on, in milliseconds since 1970-01-01
/// UTC (0: never).
#[unsafe(no_mangle)]
pub extern "C" fn el_batch_put_expiring(
    batch: Option<&mut el_batch>,
    map: Option<&el_map>,
    key: el_slice,
    value: el_slice,
    expiry_ms: u64,
) -> c_int {
    entry(|| {
        let (mut batch, map) = (exclusive(batch)?, shared(map)?);
        let (key, value) = (key.bytes()?, value.bytes()?);
        make_room(&mut batch, key, value)?;
        batch.put_with_expiry(map, key, value, Expiry::from_unix_ms(expiry_ms));
        Ok(EL_OK)
    })
}

/// Adds that a key, if it is there, keeps its value and is absent from `expiry_ms` on, in milliseconds since 1970-01-01
/// UTC (0: never). A long value is neither read nor copied, unless a view is open.
#[unsafe(no_mangle)]
pub extern "C" fn el_batch_expire_at(
    batch: Option<&mut el_batch>,
    map: Option<&el_map>,
    key: el_slice,
    expiry_ms: u64,
) -> c_int {
    entry(|| {
        let (mut batch, map, key) = (exclusive(batch)?, shared(map)?, key.bytes()?);
        make_room(&mut batch, key, &[])?;
        batch.expire(map, key, Expiry::from_unix_ms(expiry_ms));
        Ok(EL_OK)
    })
}

/// Adds that a key is removed, if it is there.
#[unsafe(no_mangle)]
pub extern "C" fn el_batch_remove(
    batch: Option<&mut el_batch>,
    map: Option<&el_map>,
    key: el_slice,
) -> c_int {
    entry(|| {
        let (mut batch, map, key) = (exclusive(batch)?, shared(map)?, key.bytes()?);
        make_room(&mut batch, key, &[])?;
        batch.remove(map, key);
        Ok(EL_OK)
    })
}

/// Lets the whole batch depend on the value that a key has just before it; NULL: on its absence.
#[unsafe(no_mangle)]
pub extern "C" fn el_batch_expect(
    batch: Option<&mut el_batch>,
    map: Option<&el_map>,
    key: el_slice,
    value: Option<&el_slice>,
) -> c_int {
    entry(|| {
        let (mut batch, map, key) = (exclusive(batch)?, shared(map)?, key.bytes()?);
        let value = value.map(|value| value.bytes()).transpose()?;
        make_room(&mut batch, key, value.unwrap_or_default())?;
        batch.expect(map, key, value);
        Ok(EL_OK)
    })
}

/// Lets the whole batch depend on the value that a key has just before it, and on when it expires (0: never).
#[unsafe(no_mangle)]
pub extern "C" fn el_batch_expect_expiring(
    batch: Option<&mut el_batch>,
    map: Option<&el_map>,
    key: el_slice,
    value: el_slice,
    expiry_ms: u64,
) -> c_int {
    entry(|| {
        let (mut batch, map) = (exclusive(batch)?, shared(map)?);
        let (key, value) = (key.bytes()?, value.bytes()?);
        make_room(&mut batch, key, value)?;
        batch.expect_with_expiry(map, key, value, Expiry::from_unix_ms(expiry_ms));
        Ok(EL_OK)
    })
}

/// Lets the whole batch depend on no batch having been rolled back since `el_store_rollback_count` stored this number.
/// A program that decides by what a scan has shown needs it: a batch that fails for want of space can be seen by scans,
/// in part, until it is rolled back.
#[unsafe(no_mangle)]
pub extern "C" fn el_batch_expect_no_rollback(
    batch: Option<&mut el_batch>,
    rollback_count: u64,
) -> c_int {
    entry(|| {
        exclusive(batch)?.expect_no_rollback(rollback_count);
        Ok(EL_OK)
    })
}
