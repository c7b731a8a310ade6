//! Several keys as one step, where no transaction is made: what they are at one moment, and their removal as one
//! change.

use std::ops::ControlFlow;

use everleaf::{Expiry, Map};

use crate::failure::{Result, is_refused_whole};
use crate::read_size::counted;

/// Keys of a request that are named without memory of their own.
const FEW: usize = 64;

/// What is told of a key by its place, and whether more is wanted.
pub type See<'a> = dyn FnMut(usize, Option<&[u8]>) -> ControlFlow<()> + 'a;

/// Runs `run` on the keys that a request names, as a slice.
pub fn with_names<'a, R>(
    mut names: impl ExactSizeIterator<Item = &'a [u8]>,
    run: impl FnOnce(&[&[u8]]) -> R,
) -> R {
    let count = names.len();
    if count > FEW {
        return run(&names.collect::<Vec<_>>());
    }
    let mut few: [&[u8]; FEW] = [b""; FEW];
    few.iter_mut().zip(&mut names).for_each(|(place, name)| *place = name);
    run(&few[..count])
}

/// Runs `see` on what keys hold at one moment, in order, until it breaks. One key takes the way of a get.
pub fn see(map: &Map, keys: &[&[u8]], see: &mut See<'_>) -> Result<()> {
    if let [key] = keys {
        let mut was_shown = false;
        map.get_with(key, |value| {
            was_shown = true;
            let _ = see(0, Some(counted(value)));
        })?;
        if !was_shown {
            let _ = see(0, None);
        }
        return Ok(());
    }
    let see = &mut |index: usize, found: Option<(&[u8], Expiry)>| {
        see(index, found.map(|(value, _)| counted(value)))
    };
    Ok(map.get_many_at_once(keys, see)?)
}

/// How many of the keys are there at one moment; one that is named twice counts twice.
pub fn count(map: &Map, keys: &[&[u8]]) -> Result<i64> {
    let mut count = 0;
    see(map, keys, &mut |_, value| {
        count += i64::from(value.is_some());
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

/// Removes keys as one change. Returns how many were there; one that is named twice counts once.
pub fn remove(map: &Map, keys: &[&[u8]]) -> Result<i64> {
    if keys.len() > 1 {
        match map.remove_many_at_once(keys) {
            Ok(count) => return Ok(i64::try_from(count).unwrap_or(i64::MAX)),
            // There is no space or memory to write all of it down first, and one removal needs none.
            Err(error) if is_refused_whole(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut count = 0;
    for key in keys {
        count += i64::from(map.remove(key)?);
    }
    Ok(count)
}
