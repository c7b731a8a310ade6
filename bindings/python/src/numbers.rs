//! Numbers and reports of the library as dictionaries.

use everleaf::{MapStatistics, Rebuilt, Repaired, Statistics};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Numbers about a store, and about each of its maps (`by_map`).
pub fn of_store<'py>(py: Python<'py>, found: &Statistics) -> PyResult<Bound<'py, PyDict>> {
    let numbers = PyDict::new(py);
    for (name, number) in [
        ("keys", found.keys),
        ("maps", found.maps),
        ("pool_size_bytes", found.pool_size_bytes),
        ("pool_used_bytes", found.pool_used_bytes),
        ("pool_returned_bytes", found.pool_returned_bytes),
        ("pool_max_bytes", found.pool_max_bytes),
        ("memory_bytes", found.memory_bytes),
        ("leaves", found.leaves),
        ("height", found.height),
        ("splits", found.splits),
        ("merges", found.merges),
        ("log_bytes", found.log_bytes),
        ("log_lag", found.log_lag),
        ("views", found.views),
        ("view_keys", found.view_keys),
        ("view_bytes", found.view_bytes),
        ("views_lost", found.views_lost),
        ("swept_keys", found.swept_keys),
        ("recovered_batches", found.recovered_batches),
    ] {
        numbers.set_item(name, number)?;
    }
    numbers.set_item("recovery_seconds", found.recovery.as_secs_f64())?;
    numbers.set_item("durability", found.durability.name())?;
    numbers.set_item("domain", found.domain.name())?;
    numbers.set_item("was_clean", found.was_clean)?;
    numbers.set_item("log_owes_snapshot", found.log_owes_snapshot)?;
    let by_map = PyDict::new(py);
    for (name, map) in &found.by_map {
        by_map.set_item(name, of_map(py, map)?)?;
    }
    numbers.set_item("by_map", by_map)?;
    Ok(numbers)
}

fn of_map<'py>(py: Python<'py>, found: &MapStatistics) -> PyResult<Bound<'py, PyDict>> {
    let numbers = PyDict::new(py);
    for (name, number) in [
        ("keys", found.keys),
        ("expiring_keys", found.expiring_keys),
        ("leaves", found.leaves),
        ("height", found.height),
        ("splits", found.splits),
        ("merges", found.merges),
    ] {
        numbers.set_item(name, number)?;
    }
    numbers.set_item("expiring_mean_seconds", found.expiring_mean.as_secs_f64())?;
    Ok(numbers)
}

/// What a pool was rebuilt from.
pub fn of_rebuilt<'py>(py: Python<'py>, found: &Rebuilt) -> PyResult<Bound<'py, PyDict>> {
    let report = PyDict::new(py);
    report.set_item("snapshot_pairs", found.snapshot_pairs)?;
    report.set_item("replayed", found.replayed)?;
    report.set_item("skipped", &found.skipped)?;
    report.set_item("damages", &found.damages)?;
    report.set_item("kept", &found.kept)?;
    Ok(report)
}

/// What a repair kept and dropped.
pub fn of_repaired<'py>(py: Python<'py>, found: &Repaired) -> PyResult<Bound<'py, PyDict>> {
    let report = PyDict::new(py);
    report.set_item("kept", found.kept)?;
    report.set_item("doubtful", found.doubtful)?;
    report.set_item("maps", &found.maps)?;
    report.set_item("lost", &found.lost)?;
    report.set_item("is_complete", found.is_complete)?;
    report.set_item("dropped", &found.dropped)?;
    Ok(report)
}
