//! What is done with the files of stores that nobody has open.

use std::path::PathBuf;

use everleaf::Store;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::failure::raised;
use crate::numbers;
use crate::opening::{self, Lines};

/// Makes a pool from a backup; returns the number of pairs.
#[pyfunction]
pub fn restore(py: Python<'_>, backup: PathBuf, path: PathBuf) -> PyResult<u64> {
    py.detach(|| Store::restore(backup, path, |_| {})).map(|copied| copied.keys).map_err(raised)
}

/// Writes a pool anew, as small as it can be; returns its bytes.
#[pyfunction]
#[pyo3(signature = (path, **options))]
pub fn compact(
    py: Python<'_>,
    path: PathBuf,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<u64> {
    let options = opening::options(options, &Lines::default())?;
    py.detach(|| options.compact(path, |_| {})).map(|copied| copied.size_bytes).map_err(raised)
}

/// Lets a pool have everything that this version can do; returns what was new to it.
#[pyfunction]
#[pyo3(signature = (path, **options))]
pub fn upgrade(
    py: Python<'_>,
    path: PathBuf,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<&'static str>> {
    let options = opening::options(options, &Lines::default())?;
    py.detach(|| options.upgrade(path)).map_err(raised)
}

/// Writes what can be proven of a damaged pool to a new one; returns what was kept and what was not.
#[pyfunction]
pub fn repair<'py>(
    py: Python<'py>,
    damaged: PathBuf,
    path: PathBuf,
) -> PyResult<Bound<'py, PyDict>> {
    numbers::of_repaired(py, &py.detach(|| Store::repair(damaged, path)).map_err(raised)?)
}
