//! Whether a pool without its default map has lost it.
//!
//! The default map is made before any other of the store's, and never removed. A pool that has none is
//! new, or its making was cut short, or the map's entry in the pool's directory was damaged. An entry
//! whose first word is zero cannot be told from one that was never finished by itself; so other signs are
//! looked for: what is made only afterwards, and pairs.

use std::os::unix::fs::FileExt;
use std::path::Path;

use everleaf_index::salvage::Salvage;
use everleaf_index::{Hardware, Pool};

use crate::maintenance::regular_file::{next_data, open_regular};
use crate::map::reserved::{DEFAULT_MAP, is_reserved};
use crate::{Error, Result};

/// Refuses a pool that has lost its default map; before anything is done to it, since what no map leads to
/// is free space. O(1), or a pass over the pool if it has no map at all.
///
/// # Errors
/// [`Error::Corrupt`], and if the file cannot be read.
pub fn refuse_lost_default(pool: &Pool<Hardware>, path: &Path) -> Result<()> {
    // A clean close keeps how many roots there are: that is compared with when the trees are opened.
    let is_there = pool.was_clean() || pool.root(DEFAULT_MAP).is_some();
    if is_there || !has_later_maps(pool) && !has_pairs_without_maps(pool, path)? {
        return Ok(());
    }
    Err(Error::Corrupt(format!(
        "the map '{DEFAULT_MAP}' of {} is missing, which is never removed: the pool is damaged; keep what \
         can be proven with `everleaf repair`, or restore it from a backup",
        path.display()
    )))
}

/// Whether there is, or was, something that is made after the default map.
fn has_later_maps(pool: &Pool<Hardware>) -> bool {
    let (roots, traces) = (pool.roots(), pool.root_traces());
    let is_used = |slot: u16| roots.iter().any(|root| root.index.get() == slot);
    let name_of = |slot: u16| traces.iter().find(|(other, _)| *other == slot).map(|(_, name)| name);
    // Places are taken in their order, and the default map of a new pool takes the first.
    let first_is_its = !is_used(0) && name_of(0).is_none_or(|name| name == DEFAULT_MAP);
    let place = match first_is_its {
        true => Some(0),
        false => traces.iter().find(|(_, name)| name == DEFAULT_MAP).map(|(slot, _)| *slot),
    };
    let is_behind = |slot: u16| {
        roots.iter().any(|root| root.index.get() > slot) || traces.iter().any(|(at, _)| *at > slot)
    };
    place.is_some_and(is_behind) || roots.iter().any(|root| is_reserved(&root.name))
}

/// Whether a pool that never had another map has pairs nevertheless.
fn has_pairs_without_maps(pool: &Pool<Hardware>, path: &Path) -> Result<bool> {
    let is_other = |(_, name): &(u16, String)| name != DEFAULT_MAP;
    let has_file = pool.path().is_some();
    if !has_file || !pool.roots().is_empty() || pool.root_traces().iter().any(is_other) {
        return Ok(false);
    }
    let cannot = |error| Error::Io(format!("cannot read {}", path.display()), error);
    let file = open_regular(pool.path().unwrap_or(path)).map_err(cannot)?;
    let read = |offset: u64, bytes: &mut [u8]| file.read_exact_at(bytes, offset).is_ok();
    let mut has_some = false;
    let next_data = |offset: u64| next_data(&file, pool.size(), offset);
    Salvage::new(pool.size(), &read, &next_data).pairs(&mut |_| has_some = true, &mut |_| {});
    Ok(has_some)
}
