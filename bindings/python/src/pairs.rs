//! Iterators over keys, values or pairs.

use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, PoisonError};
use std::vec::IntoIter;

use everleaf::{Map, MapView, PageLimit, Pages, Range};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::sync::MutexExt;
use pyo3::types::PyTuple;

use crate::failure::raised;
use crate::held::{Waits, release};
use crate::reader::{Codecs, Object};

/// Both ends of a range.
pub type Ends = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Where pairs come from.
pub enum Source {
    Map(Map, Pages),
    View(Box<Range>),
}

impl Source {
    pub fn of_map(map: Map, ends: Ends) -> Self {
        Source::Map(map, Pages::new(ends))
    }

    pub fn of_view(view: &MapView, ends: &Ends) -> Self {
        Source::View(Box::new(range_of(view, ends)))
    }
}

/// A range of a view.
pub fn range_of(view: &MapView, (from, to): &Ends) -> Range {
    view.range((slice(from), slice(to)))
}

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// What an iterator returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum What {
    Keys,
    Values,
    Pairs,
}

/// An object of a key and one of a value, as far as they are wanted.
type Item = (Option<Py<PyAny>>, Option<Py<PyAny>>);

/// What is fetched, and what is to be.
struct State {
    /// `None` only while it is freed.
    source: Option<Source>,
    page: IntoIter<Item>,
    /// Of the next page.
    limit: PageLimit,
    /// What follows the page, and ends the iterator.
    failed: Option<PyErr>,
    is_done: bool,
}

/// An iterator. Two threads that share it get each pair once. What it has fetched are objects already,
/// made of the bytes in the pool, so that a pair is copied once. Between two pages other threads may run, also
/// where nothing of Python does, as in `list(store)`.
#[pyclass(frozen, module = "everleaf._everleaf")]
pub struct Pairs {
    state: Mutex<State>,
    reverse: bool,
    what: What,
    codecs: Codecs,
    waits: Arc<Waits>,
}

impl Drop for Pairs {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        match state.source.take() {
            // The last iterator over a view frees what was kept for it.
            Some(source @ Source::View(_)) => release(source),
            source => self.waits.free(source),
        }
    }
}

impl Pairs {
    pub fn new(
        source: Source,
        reverse: bool,
        what: What,
        codecs: Codecs,
        waits: Arc<Waits>,
    ) -> Self {
        let page = vec![].into_iter();
        let source = Some(source);
        let state = State { source, page, limit: PageLimit::FIRST, failed: None, is_done: false };
        Pairs { state: Mutex::new(state), reverse, what, codecs, waits }
    }

    /// The objects of a pair. No function of Python runs.
    fn item(&self, py: Python<'_>, key: &[u8], value: &[u8]) -> PyResult<Item> {
        let key = match self.what {
            What::Values => None,
            _ => Some(self.codecs.keys.seen(py, key)?.unbind()),
        };
        let value = match self.what {
            What::Keys => None,
            _ => Some(self.codecs.values.seen(py, value)?.unbind()),
        };
        Ok((key, value))
    }

    fn next_item(&self, py: Python<'_>) -> PyResult<Option<Item>> {
        // Nothing of Python runs while it is held.
        let lock = || self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let mut state = lock();
        if state.page.len() == 0 {
            // A list that is made of the pairs looks for no signal until it has all of them.
            drop(state);
            py.check_signals()?;
            state = lock();
        }
        let mut has_filled = false;
        let next = loop {
            if let Some(item) = state.page.next() {
                break Ok(Some(item));
            }
            if let Some(error) = state.failed.take() {
                break Err(error);
            }
            if state.is_done {
                break Ok(None);
            }
            self.fill(py, &mut state);
            has_filled = true;
        };
        drop(state);
        if has_filled {
            // A thread that waits for the interpreter has it now.
            py.detach(|| ());
        }
        next
    }

    /// Fetches the next page.
    fn fill(&self, py: Python<'_>, state: &mut State) {
        let limit = state.limit;
        let mut page = Vec::with_capacity(limit.pairs());
        state.limit = limit.grown();
        let filled = match &mut state.source {
            Some(Source::Map(map, pages)) => self.fill_from_map(py, map, pages, limit, &mut page),
            Some(Source::View(range)) => self.fill_from_view(py, range, limit, &mut page),
            None => Ok(true),
        };
        state.page = page.into_iter();
        (state.is_done, state.failed) = match filled {
            Ok(is_done) => (is_done, None),
            Err(error) => (true, Some(error)),
        };
    }

    /// Appends the next page of a map; says whether that was all there is.
    fn fill_from_map(
        &self,
        py: Python<'_>,
        map: &Map,
        pages: &mut Pages,
        limit: PageLimit,
        page: &mut Vec<Item>,
    ) -> PyResult<bool> {
        let mut failed = None;
        let read =
            pages.visit(map, self.reverse, limit, |key, value| match self.item(py, key, value) {
                Ok(item) => {
                    page.push(item);
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            });
        read.map_err(raised)?;
        failed.map_or(Ok(!pages.has_more()), Err)
    }

    /// Appends the next page of a view; says whether that was all there is.
    fn fill_from_view(
        &self,
        py: Python<'_>,
        range: &mut Range,
        limit: PageLimit,
        page: &mut Vec<Item>,
    ) -> PyResult<bool> {
        let mut bytes = 0;
        while page.len() < limit.pairs() && bytes < limit.bytes() {
            let pair = if self.reverse { range.next_back() } else { range.next() };
            let Some(pair) = pair else { return Ok(true) };
            let (key, value) = pair.map_err(raised)?;
            bytes += key.len() + value.len();
            page.push(self.item(py, &key, &value)?);
        }
        Ok(false)
    }
}

#[pymethods]
impl Pairs {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // What it has fetched are bytes, texts and numbers, which refer to nothing.
        self.codecs.traverse(&visit)
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Object<'py>>> {
        let Some((key, value)) = self.next_item(py)? else { return Ok(None) };
        let Codecs { keys, values } = &self.codecs;
        let key = key.map(|key| keys.decoded(key.into_bound(py))).transpose()?;
        let value = value.map(|value| values.decoded(value.into_bound(py))).transpose()?;
        match (key, value) {
            (Some(key), Some(value)) => Ok(Some(PyTuple::new(py, [key, value])?.into_any())),
            (one, other) => Ok(one.or(other)),
        }
    }
}
