//! An integer map of any design of the catalogue, in a pool of the store.

use std::path::Path;

use everleaf_index::{CreateMode, Pool, PoolOptions, Trees};

use crate::error::LabError;
use crate::target::IndexKind;

/// Adds an empty map of 64-bit integers called `name`, kept in a tree of this design, to a pool that
/// nobody has open.
///
/// # Errors
/// The index is not a design; the pool cannot be opened for writing; the name is bad or taken; no
/// space.
///
/// # Example
/// ```
/// use everleaf_lab::{IndexKind, add_index};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("numbers.pool");
/// everleaf::Options::new().create_new(true).open(&path)?.close()?;
/// let design = IndexKind::of_name("fast-fair").expect("in the catalogue");
/// add_index(&path, "numbers", design)?;
/// # Ok(())
/// # }
/// ```
pub fn add_index(path: &Path, name: &str, design: IndexKind) -> Result<(), LabError> {
    let IndexKind::Design(design) = design else {
        let text = format!("the index {} is no design of the catalogue", design.name());
        return Err(LabError::Settings(text));
    };
    let options = PoolOptions { create: CreateMode::Never, ..PoolOptions::default() };
    let trees: Trees =
        Trees::open_with(Pool::open(path, &options)?, 1, everleaf_designs::registry())?;
    trees.create_index(name, design)?;
    Ok(trees.close()?)
}
