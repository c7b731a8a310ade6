//! Many keys in one call. They are handed on in blocks, so that their number costs no memory.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::slice::ChunksExact;

use everleaf::Error;

use crate::argument::{el_buffer, el_found_fn, el_slice, el_slices, el_text, handle_place, set};
use crate::code::{EL_OK, EL_TOO_LARGE, Failure};
use crate::entry::{entry, invalid};
use crate::handle::{give, shared};
use crate::map::el_map;
use crate::store::el_store;

/// Keys that are looked for at a time.
const BLOCK: usize = 512;

/// Calls `get(first, keys)` for block after block of the keys, of which the first has this number; for no keys at all
/// once, so that a map that cannot be read says so.
pub(crate) fn in_blocks<'a>(
    keys: impl Iterator<Item = &'a [u8]>,
    mut get: impl FnMut(usize, &[&[u8]]) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut block, mut first): ([&[u8]; BLOCK], usize) = ([&[]; BLOCK], 0);
    let mut keys = keys.peekable();
    loop {
        let mut count = 0;
        for (place, key) in block.iter_mut().zip(&mut keys) {
            *place = key;
            count += 1;
        }
        get(first, &block[..count])?;
        first += count;
        if keys.peek().is_none() {
            return Ok(());
        }
    }
}

/// Shows the values of many keys to a function, in order, with overlapping cache misses: several times
/// the speed of separate calls.
#[unsafe(no_mangle)]
pub extern "C" fn el_get_many(
    map: Option<&el_map>,
    keys: el_slices,
    see: el_found_fn,
    context: *mut c_void,
) -> c_int {
    entry(|| {
        let see = see.ok_or_else(|| invalid("the function is NULL"))?;
        let (map, keys) = (shared(map)?, keys.items()?);
        in_blocks(keys.iter(), |first, keys| {
            map.get_many(keys, |index, value| {
                let value = value.map(el_slice::shown);
                see(context, first + index, value.as_ref());
            })
        })?;
        Ok(EL_OK)
    })
}

/// Brings what is known of many keys into the cache, with overlapping cache misses, for writes of them that follow. Of
/// what is damaged, those tell.
#[unsafe(no_mangle)]
pub extern "C" fn el_prefetch(map: Option<&el_map>, keys: el_slices) -> c_int {
    entry(|| {
        let (map, keys) = (shared(map)?, keys.items()?);
        in_blocks(keys.iter(), |_, keys| map.prefetch(keys))?;
        Ok(EL_OK)
    })
}

/// Looks for keys that lie one after another, each of `key_size` bytes, and copies their values one after
/// another, `value_size` bytes for each, to `values`; into `found`, which has a byte for each key, goes 1
/// if the key is there and 0 otherwise. A value of another size is `EL_TOO_LARGE`. Stores how many were
/// found at `count`, which may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn el_get_columns(
    map: Option<&el_map>,
    keys: el_slice,
    key_size: usize,
    values: el_buffer,
    value_size: usize,
    found: el_buffer,
    count: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    entry(|| {
        let keys = keys.bytes()?;
        let rows = rows(keys, key_size)?.len();
        let needed = rows.checked_mul(value_size);
        if needed.is_none_or(|needed| needed > values.capacity()) || rows > found.capacity() {
            return Err(invalid("the buffers do not hold a value and a byte for each key"));
        }
        let (mut hits, mut wrong, mut first, map) = (0, None, 0, shared(map)?);
        loop {
            // Once for no keys, too: see `in_blocks`.
            let count = BLOCK.min(rows - first);
            let block = &keys[first * key_size..][..count * key_size];
            map.get_rows(block, key_size, value_size, |index, value| {
                let index = first + index;
                found.write(index, &[u8::from(value.is_some())]);
                match value {
                    Some(value) if value.len() == value_size => {
                        values.write(index * value_size, value);
                        hits += 1;
                    }
                    Some(value) => wrong = Some(value.len()),
                    None => {}
                }
            })?;
            first += count;
            if first == rows {
                break;
            }
        }
        if let Some(size) = wrong {
            let text =
                format!("a value has {size} bytes, not the {value_size} that were asked for");
            return Err(Failure::new(EL_TOO_LARGE, text));
        }
        set(count, hits);
        Ok(EL_OK)
    })
}

/// Puts many pairs: keys and values lie one after another, as in `el_get_columns`. Each pair is put for
/// itself; after an error, some may have been.
#[unsafe(no_mangle)]
pub extern "C" fn el_put_columns(
    map: Option<&el_map>,
    keys: el_slice,
    key_size: usize,
    values: el_slice,
    value_size: usize,
) -> c_int {
    entry(|| {
        let (map, keys, values) = (shared(map)?, rows(keys.bytes()?, key_size)?, values.bytes()?);
        if keys.len().checked_mul(value_size) != Some(values.len()) {
            return Err(invalid("there is not one value for each key"));
        }
        in_blocks(keys, |first, keys| {
            map.prefetch(keys)?;
            for (index, key) in keys.iter().enumerate() {
                map.put(key, &values[(first + index) * value_size..][..value_size])?;
            }
            Ok(())
        })?;
        Ok(EL_OK)
    })
}

/// Puts many pairs, as `el_put_columns`.
#[unsafe(no_mangle)]
pub extern "C" fn el_put_many(map: Option<&el_map>, keys: el_slices, values: el_slices) -> c_int {
    entry(|| {
        let (map, keys, values) = (shared(map)?, keys.items()?, values.items()?);
        if keys.len() != values.len() {
            return Err(invalid("there is not one value for each key"));
        }
        let mut values = values.iter();
        in_blocks(keys.iter(), |_, keys| {
            map.prefetch(keys)?;
            for (key, value) in keys.iter().zip(&mut values) {
                map.put(key, value)?;
            }
            Ok(())
        })?;
        Ok(EL_OK)
    })
}

/// Makes the map called `name`, which must not be there yet, of pairs whose keys ascend, as one, and stores
/// a handle on it at `map`: several times as fast as putting them. `EL_NOT_SORTED`: they do not ascend, and
/// there is no such map.
#[unsafe(no_mangle)]
pub extern "C" fn el_store_load_map(
    store: Option<&el_store>,
    name: el_text,
    keys: el_slices,
    values: el_slices,
    map: Option<&mut MaybeUninit<*mut el_map>>,
) -> c_int {
    entry(|| {
        let place = handle_place(map)?;
        let (keys, values) = (keys.items()?, values.items()?);
        if keys.len() != values.len() {
            return Err(invalid("there is not one value for each key"));
        }
        let name = name.str()?;
        let pairs = keys.iter().zip(values.iter());
        let loaded = shared(store)?.with(|store| Ok(store.load_map(name, pairs)?))?;
        give(Some(place), loaded)
    })
}

/// The rows of a column.
fn rows(bytes: &[u8], size: usize) -> Result<ChunksExact<'_, u8>, Failure> {
    if size == 0 || !bytes.len().is_multiple_of(size) {
        return Err(invalid("the bytes of the keys are not a whole number of keys"));
    }
    Ok(bytes.chunks_exact(size))
}
