//! How a store is opened: by names, which `everleaf.open` and its like pass on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everleaf::{Domain, Durability, Options, Tree};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::reader::Object;

/// Lines that are kept until somebody asks for them.
const LINES_MAX: usize = 1000;

/// What a store did by itself, and nobody has asked for yet. The threads of a store put lines there, and never
/// attach: the thread that has the interpreter may be waiting for them.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<VecDeque<String>>>);

impl Lines {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// All of them, which are then forgotten.
    pub fn take(&self) -> Vec<String> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *lines).into()
    }
}

/// What is to survive, from its name.
fn durability(name: &str, interval_ms: u64) -> PyResult<Durability> {
    match name {
        "process" => Ok(Durability::Process),
        "power" => Ok(Durability::Power),
        "interval" => Ok(Durability::Interval(Duration::from_millis(interval_ms))),
        _ => Err(PyValueError::new_err("durability is 'process', 'interval' or 'power'")),
    }
}

fn tree(name: &str) -> PyResult<Tree> {
    match name {
        "nbtree" => Ok(Tree::NbTree),
        "hashed-leaf" => Ok(Tree::HashedLeaf),
        _ => Err(PyValueError::new_err("a tree is 'nbtree' or 'hashed-leaf'")),
    }
}

fn domain(name: &str) -> PyResult<Domain> {
    name.parse().map_err(|_| PyValueError::new_err("a domain is 'adr', 'eadr' or 'process'"))
}

/// The options with one more, by its name.
fn with(options: Options, name: &str, value: &Object<'_>) -> PyResult<Options> {
    Ok(match name {
        "create" => options.create(value.extract()?),
        // Given beside the one before, which is the default of the other.
        "create_new" if !value.extract()? => options,
        "create_new" => options.create_new(true),
        "read_only" => options.read_only(value.extract()?),
        "initial_size" => options.initial_size_bytes(value.extract()?),
        "max_size" => options.max_size_bytes(value.extract()?),
        "domain" => options.domain(domain(value.extract()?)?),
        "trust_after_machine_crash" => options.trust_after_machine_crash(value.extract()?),
        "salvage_log" => options.salvage_log(value.extract()?),
        "recovery_threads" => options.recovery_threads(value.extract()?),
        "sweep" => options.sweep(value.extract()?),
        "verify_reads" => options.verify_reads(value.extract()?),
        "verify_scans" => options.verify_scans(value.extract()?),
        "tree" => options.tree(tree(value.extract()?)?),
        "snapshot_after" => options.snapshot_after_bytes(value.extract()?),
        "view_memory" => options.view_memory_bytes(value.extract()?),
        _ => return Err(PyTypeError::new_err(format!("there is no option '{name}'"))),
    })
}

/// The options that were given; None is as if one were not. What the store does by itself goes to `lines`.
pub fn options(given: Option<&Bound<'_, PyDict>>, lines: &Lines) -> PyResult<Options> {
    let told = lines.clone();
    let mut options = Options::new().events(move |event| told.push(event.to_string()));
    let Some(given) = given else { return Ok(options) };
    let mut interval_ms = 1000;
    if let Some(number) = given.get_item("interval_ms")? {
        interval_ms = number.extract()?;
    }
    for (name, value) in given {
        let name: String = name.extract()?;
        options = match name.as_str() {
            "interval_ms" => options,
            _ if value.is_none() => options,
            "durability" => options.durability(durability(value.extract()?, interval_ms)?),
            "durability_of_new" => {
                options.durability_of_new(durability(value.extract()?, interval_ms)?)
            }
            name => with(options, name, &value)?,
        };
    }
    Ok(options)
}
