//! What maps and views have in common.

use std::ops::Bound;

use pyo3::exceptions::{PyKeyError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyList, PySlice};

use crate::codec::Codec;
use crate::pairs::{Ends, Pairs, What};
use crate::room::copy_of;

/// An object of Python.
pub type Object<'py> = pyo3::Bound<'py, PyAny>;

/// How keys and values become bytes.
pub struct Codecs {
    pub keys: Codec,
    pub values: Codec,
}

impl Codecs {
    /// The codecs that two `everleaf.codecs.Codec` describe.
    pub fn of(keys: &Object<'_>, values: &Object<'_>) -> PyResult<Self> {
        Ok(Codecs { keys: Codec::of(keys, true)?, values: Codec::of(values, false)? })
    }

    /// As [`Codec::clone_ref`].
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        Codecs { keys: self.keys.clone_ref(py), values: self.values.clone_ref(py) }
    }

    /// As [`Codec::traverse`].
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.keys.traverse(visit)?;
        self.values.traverse(visit)
    }

    /// Runs what looks for a key, of which it is only asked whether it is there: what no key can be is not.
    #[inline]
    pub fn has(
        &self,
        key: &Object<'_>,
        find: impl FnOnce(&[u8]) -> PyResult<bool>,
    ) -> PyResult<bool> {
        match self.keys.encode(key) {
            Ok(key) => find(key.as_ref()),
            Err(error) => is_no_key(key.py(), error),
        }
    }
}

/// Says that it is not there, or what else is wrong.
#[cold]
fn is_no_key(py: Python<'_>, error: PyErr) -> PyResult<bool> {
    let is_no_key = error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyOverflowError>(py);
    if is_no_key { Ok(false) } else { Err(error) }
}

/// What can be read in order.
pub trait Reader {
    fn codecs(&self) -> &Codecs;

    /// An iterator over a range.
    fn pairs(&self, py: Python<'_>, ends: Ends, reverse: bool, what: What) -> PyResult<Pairs>;

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
    fn all(&self, py: Python<'_>, reverse: bool, what: What) -> PyResult<Pairs> {
        self.pairs(py, (Bound::Unbounded, Bound::Unbounded), reverse, what)
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
        let pairs = self.pairs(py, ends, step == -1, What::Pairs)?;
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
