//! Pools of the store with maps of 64-bit integers kept in trees of any design.

use std::path::Path;

use everleaf_bench::BenchError;
use everleaf_designs::registry;
use everleaf_index::{CheckReport, CreateMode, Pool, PoolOptions, Trees};

/// Adds an empty map of 64-bit integers called `name`, kept in a tree of the design of this name, to
/// a pool that nobody has open.
///
/// # Errors
/// There is no such design; the pool cannot be opened for writing; the name is bad or taken; no
/// space.
///
/// # Example
/// ```
/// use everleaf_lab_designs::add_index;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("numbers.pool");
/// everleaf::Options::new().create_new(true).open(&path)?.close()?;
/// add_index(&path, "numbers", "fast-fair")?;
/// # Ok(())
/// # }
/// ```
pub fn add_index(path: &Path, name: &str, design: &str) -> Result<(), BenchError> {
    crate::design::refuse_in_file(design)?;
    let trees = open(path)?;
    trees.create_index(name, design)?;
    Ok(trees.close()?)
}

/// Checks all maps of a pool that nobody has open, of whatever design.
///
/// # Errors
/// The pool cannot be opened for writing, or is damaged so that it cannot be checked.
pub fn check_pool(path: &Path) -> Result<CheckReport, BenchError> {
    let trees = open(path)?;
    let report = trees.check()?;
    trees.close()?;
    Ok(report)
}

fn open(path: &Path) -> Result<Trees, BenchError> {
    let options = PoolOptions { create: CreateMode::Never, ..PoolOptions::default() };
    Ok(Trees::open_with(Pool::open(path, &options)?, 1, registry())?)
}
