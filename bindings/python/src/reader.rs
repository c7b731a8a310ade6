//! What maps and views have in common.

use std::ops::Bound;
use std::sync::Arc;

use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice};

use crate::codec::Codec;
use crate::pairs::{Ends, Pairs, What};
use crate::room::copy_of;

/// An object of Python.
pub type Object<'py> = pyo3::Bound<'py, PyAny>;

/// How keys and values become bytes.
pub struct Codecs {
    pub keys: Arc<Codec>,
    pub values: Arc<Codec>,
}

/// What can be read in order.
pub trait Reader {
    fn codecs(&self) -> &Codecs;

    /// An iterator over a range.
    fn pairs(&self, ends: Ends, reverse: bool, what: What) -> PyResult<Pairs>;

    /// The ends of a range; None: it has no end there.
    fn ends(
        &self,
        low: Option<&Object<'_>>,
        high: Option<&Object<'_>>,
        inclusive: (bool, bool),
    ) -> PyResult<Ends> {
        let bound = |key: Option<&Object<'_>>, is_included| {
            let Some(key) = key else { return Ok(Bound::Unbounded) };
            let key = copy_of(self.codecs().keys.encode(key)?.as_ref())?;
            PyResult::Ok(if is_included { Bound::Included(key) } else { Bound::Excluded(key) })
        };
        Ok((bound(low, inclusive.0)?, bound(high, inclusive.1)?))
    }

    /// All of it, from an end.
    fn all(&self, reverse: bool, what: What) -> PyResult<Pairs> {
        self.pairs((Bound::Unbounded, Bound::Unbounded), reverse, what)
    }

    /// The pairs of `[low:high]`, as a list; with a step of -1 from the end.
    fn sliced<'py>(
        &self,
        py: Python<'py>,
        slice: &pyo3::Bound<'py, PySlice>,
    ) -> PyResult<Object<'py>> {
        let part = |name| {
            let part = slice.getattr(name)?;
            PyResult::Ok(if part.is_none() { None } else { Some(part) })
        };
        let step = part("step")?.map_or(Ok(1), |step| step.extract::<i64>())?;
        if step != 1 && step != -1 {
            return Err(PyValueError::new_err("a slice by key has a step of 1 or -1"));
        }
        let (low, high) = (part("start")?, part("stop")?);
        let ends = self.ends(low.as_ref(), high.as_ref(), (true, false))?;
        let pairs = self.pairs(ends, step == -1, What::Pairs)?;
        py.get_type::<PyList>().call1((pairs,))
    }
}

/// What is wanted, from its name.
pub fn what(name: &str) -> PyResult<What> {
    match name {
        "keys" => Ok(What::Keys),
        "values" => Ok(What::Values),
        "pairs" => Ok(What::Pairs),
        _ => Err(PyTypeError::new_err("'keys', 'values' or 'pairs'")),
    }
}

/// The key is not there.
#[cold]
pub fn missing(key: &Object<'_>) -> PyErr {
    // In a tuple of arguments: a key that is a tuple would be taken for them.
    PyKeyError::new_err((key.clone().unbind(),))
}
