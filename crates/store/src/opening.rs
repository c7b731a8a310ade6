//! What opening does besides the trees: the pool, its log, and batches that were cut short.

use std::path::Path;

use everleaf_index::{
    CreateMode, Hardware, IndexError, Journal, Pool, PoolError, PoolOptions, Trees,
};

use crate::power::{self, Place, PowerLog};
use crate::store::from_pool;
use crate::{Durability, Error, Options, Rebuilt, Result};

/// Opens the pool; if the machine crashed and there is a log, makes it again from there.
pub fn open_pool(
    path: &Path,
    place: &Place,
    options: &Options,
    threads: usize,
) -> Result<(Pool<Hardware>, Option<Rebuilt>)> {
    let has_log = place.identity().is_some();
    // What is torn need not be trusted if there is a log.
    let trust_after_machine_crash = options.pool.trust_after_machine_crash && !has_log;
    let pool_options = PoolOptions { trust_after_machine_crash, ..options.pool.clone() };
    let error = if has_log && !path.exists() && options.pool.create != CreateMode::New {
        // Not to be made as if there had been nothing.
        PoolError::Missing { path: path.into() }
    } else {
        match Pool::open(path, &pool_options) {
            Ok(pool) => return Ok((pool, None)),
            Err(error) => error,
        }
    };
    let lost = matches!(
        error,
        PoolError::MachineCrashed { .. }
            | PoolError::Missing { .. }
            | PoolError::Damaged { .. }
            | PoolError::Truncated { .. }
    );
    if !lost || !has_log {
        return Err(from_pool(error, path));
    }
    if options.pool.read_only {
        return Err(Error::MachineCrashed(format!(
            "{error}; the log in {} has everything: open it for writing once (for instance with \
             `everleaf snapshot`), which makes the pool again from there",
            place.display()
        )));
    }
    if options.durability == Some(Durability::Process) {
        return Err(Error::MachineCrashed(format!(
            "{error}; the log in {} has everything: open the store with durability power or \
             interval to make the pool again from there",
            place.display()
        )));
    }
    let rebuilt = power::rebuild(path, place, options, threads)?;
    let pool = PoolOptions { create: CreateMode::Never, ..pool_options };
    let pool = Pool::open(path, &pool).map_err(|error| from_pool(error, path))?;
    Ok((pool, Some(rebuilt)))
}

/// Opens the log, if there is to be one; a log that there was and is not to be is forgotten.
pub fn open_power(trees: &Trees, place: &Place, options: &Options) -> Result<Option<PowerLog>> {
    if options.pool.read_only {
        return Ok(None);
    }
    let durability = match options.durability {
        Some(durability) => durability,
        None => power::last_durability(trees)?,
    };
    if durability != Durability::Process {
        let power = PowerLog::open(trees, place, durability, options)?;
        if power.is_long(options.snapshot_after_bytes) {
            // Lives that are too short for the thread that does it otherwise add up to this. It may
            // fail: then the log is longer than it should be.
            let mut session = trees.heap().session().map_err(IndexError::from)?;
            let _ = power.snapshot(trees, &mut session);
        }
        return Ok(Some(power));
    }
    power::refuse_foreign(trees, place)?;
    if trees.find_bytes_tree(power::NAME)?.is_some() {
        // What is written from now on is not in it.
        place.forget()?;
        trees.remove(power::NAME)?;
    }
    Ok(None)
}

/// Brings batches that were cut short to their end. Returns how many.
pub fn finish_batches(trees: &Trees) -> Result<u64> {
    let Some(journal) = Journal::find(trees)? else { return Ok(0) };
    let mut session = trees.heap().session().map_err(IndexError::from)?;
    if trees.heap().pool().is_read_only() {
        return match journal.pending(&mut session)? {
            0 => Ok(0),
            _ => Err(Error::Unfinished),
        };
    }
    Ok(journal.recover(trees, &mut session)? as u64)
}
