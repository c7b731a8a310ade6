//! Iterators over pairs.

use std::ops::Bound;
use std::sync::{Mutex, PoisonError};

use everleaf::{Map, MapView, Range};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::failure::raised;

/// Where pairs come from.
pub enum Source {
    Map(Map),
    View(MapView),
}

/// An iterator over pairs. It holds no lock; two threads that share it get each pair once.
#[pyclass(frozen, module = "everleaf._everleaf")]
pub struct Pairs {
    range: Mutex<Range>,
    reverse: bool,
}

type Pair = (Vec<u8>, Vec<u8>);
type Shown<'py> = (pyo3::Bound<'py, PyBytes>, pyo3::Bound<'py, PyBytes>);

impl Pairs {
    pub fn new(source: &Source, bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>), reverse: bool) -> Self {
        let (from, to) = &bounds;
        let bounds = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        let range = match source {
            Source::Map(map) => map.range(bounds),
            Source::View(view) => view.range(bounds),
        };
        Pairs { range: Mutex::new(range), reverse }
    }

    fn step(&self) -> PyResult<Option<Pair>> {
        let mut range = self.range.lock().unwrap_or_else(PoisonError::into_inner);
        next(&mut range, self.reverse)
    }

    /// How many there are.
    pub fn count(&self) -> PyResult<usize> {
        let mut count = 0;
        while self.step()?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

/// The next pair from an end.
fn next(range: &mut Range, reverse: bool) -> PyResult<Option<Pair>> {
    let pair = if reverse { range.next_back() } else { range.next() };
    pair.transpose().map_err(raised)
}

#[pymethods]
impl Pairs {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Shown<'py>>> {
        let pair = self.step()?;
        Ok(pair.map(|(key, value)| (PyBytes::new(py, &key), PyBytes::new(py, &value))))
    }

    /// Up to so many pairs at once, fetched while other threads run.
    fn take<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Vec<Shown<'py>>> {
        let pairs = py.detach(|| {
            let mut pairs = Vec::with_capacity(count.min(1024));
            while pairs.len() < count
                && let Some(pair) = self.step()?
            {
                pairs.push(pair);
            }
            PyResult::Ok(pairs)
        })?;
        let shown = |(key, value): Pair| (PyBytes::new(py, &key), PyBytes::new(py, &value));
        Ok(pairs.into_iter().map(shown).collect())
    }
}
