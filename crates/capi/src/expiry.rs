//! Keys that expire. Times are in milliseconds since 1970-01-01 UTC.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use everleaf::Expiry;

use crate::argument::{el_slice, wanted};
use crate::code::{EL_NOT_FOUND, EL_OK};
use crate::entry::entry;
use crate::handle::shared;
use crate::map::{code, el_map};

/// Sets the value of `key`, which is absent from `expiry_ms` on (0: never).
#[unsafe(no_mangle)]
pub extern "C" fn el_put_expiring(
    map: Option<&el_map>,
    key: el_slice,
    value: el_slice,
    expiry_ms: u64,
) -> c_int {
    entry(|| {
        shared(map)?.put_with_expiry(
            key.bytes()?,
            value.bytes()?,
            Expiry::from_unix_ms(expiry_ms),
        )?;
        Ok(EL_OK)
    })
}

/// Lets `key` expire at `expiry_ms` (0: never); `EL_NOT_FOUND` if it is not there.
#[unsafe(no_mangle)]
pub extern "C" fn el_expire_at(map: Option<&el_map>, key: el_slice, expiry_ms: u64) -> c_int {
    entry(|| {
        Ok(code(shared(map)?.expire(key.bytes()?, Expiry::from_unix_ms(expiry_ms))?, EL_NOT_FOUND))
    })
}

/// Stores when `key` expires at `expiry_ms` (0: never); `EL_NOT_FOUND` if it is not there.
#[unsafe(no_mangle)]
pub extern "C" fn el_expiry(
    map: Option<&el_map>,
    key: el_slice,
    expiry_ms: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    entry(|| {
        let place = wanted(expiry_ms)?;
        let Some(expiry) = shared(map)?.expiry(key.bytes()?)? else { return Ok(EL_NOT_FOUND) };
        place.write(expiry.as_unix_ms());
        Ok(EL_OK)
    })
}
