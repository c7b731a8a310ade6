//! Views: a map as it was at one moment.

use std::sync::{Arc, Mutex, PoisonError};

use everleaf::{MapView, View};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PySlice, PyType};

use crate::failure::{closed, raised};
use crate::held::{Waits, release};
use crate::many::Lookup;
use crate::map::RawMap;
use crate::open_store::RawStore;
use crate::pairs::{Ends, Pairs, Source, What, range_of};
use crate::reader::{Codecs, Object, Reader, missing, what};
use crate::{columns, many};

/// How many pairs a range has. The thread that counts frees the view.
fn count(view: MapView, ends: &Ends) -> everleaf::Result<usize> {
    let mut count = 0;
    for pair in range_of(&view, ends) {
        pair?;
        count += 1;
    }
    drop(view);
    Ok(count)
}

/// A map as it was when the view was opened. `everleaf.View` is its subclass.
#[pyclass(frozen, subclass, mapping, module = "everleaf._everleaf")]
pub struct RawView {
    /// The map, and the view of the store that it is of.
    view: Mutex<Option<(MapView, View)>>,
    codecs: Codecs,
    waits: Arc<Waits>,
}

impl Drop for RawView {
    fn drop(&mut self) {
        // What was kept for it goes with it, and perhaps the store is closed.
        if let Some(view) = self.view.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            release(view);
        }
    }
}

impl RawView {
    fn view(&self) -> PyResult<MapView> {
        // Held for as long as a copy of a handle takes.
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        view.as_ref().map(|(map, _)| map.clone()).ok_or_else(closed)
    }

    /// The view of the store.
    fn of_store(&self) -> PyResult<View> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        view.as_ref().map(|(_, view)| view.clone()).ok_or_else(closed)
    }

    /// Runs what looks for many keys. The view is freed as what may be the last that keeps the store open.
    fn lookup<R>(&self, run: impl FnOnce(&Lookup) -> PyResult<R>) -> PyResult<R> {
        let lookup = Lookup::View(self.view()?);
        let found = run(&lookup);
        self.waits.free(lookup);
        found
    }

    fn find<'py>(&self, key: &Object<'py>) -> PyResult<Option<Object<'py>>> {
        let (py, view, values) = (key.py(), self.view()?, &self.codecs.values);
        let key = self.codecs.keys.encode(key)?;
        let key = key.as_ref();
        // The view moves in, and is freed there: it may be the last that keeps the store open.
        match py.detach(move || view.get(key)).map_err(raised)? {
            Some(value) => values.decoded(values.seen(py, &value)?).map(Some),
            None => Ok(None),
        }
    }
}

impl Reader for RawView {
    fn codecs(&self) -> &Codecs {
        &self.codecs
    }

    fn pairs(&self, py: Python<'_>, ends: Ends, reverse: bool, what: What) -> PyResult<Pairs> {
        let source = Source::of_view(&self.view()?, &ends);
        Ok(Pairs::new(source, reverse, what, self.codecs.clone_ref(py), self.waits.clone()))
    }
}

#[pymethods]
impl RawView {
    /// Opens a view of a map; or shows it as of the moment of another view.
    #[new]
    #[pyo3(signature = (store, map, moment=None))]
    fn new(
        py: Python<'_>,
        store: &RawStore,
        map: &RawMap,
        moment: Option<&RawView>,
    ) -> PyResult<Self> {
        let moment = moment.map(RawView::of_store).transpose()?;
        let view = Mutex::new(Some(store.view_of(py, map.held.map()?, moment)?));
        Ok(RawView { view, codecs: map.codecs.clone_ref(py), waits: store.waits.clone() })
    }

    /// For annotations.
    #[classmethod]
    fn __class_getitem__<'py>(class: &Bound<'py, PyType>, _of: &Object<'py>) -> Bound<'py, PyType> {
        class.clone()
    }

    fn __getitem__<'py>(&self, key: &Object<'py>) -> PyResult<Object<'py>> {
        if let Ok(slice) = key.cast::<PySlice>() {
            return self.sliced(key.py(), slice);
        }
        self.find(key)?.ok_or_else(|| missing(key))
    }

    fn __contains__(&self, key: &Object<'_>) -> PyResult<bool> {
        let (py, view) = (key.py(), self.view()?);
        // The view moves in, as in `find`.
        self.codecs.has(key, move |key| py.detach(move || view.contains(key)).map_err(raised))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Pairs> {
        self.all(py, false, What::Keys)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<Pairs> {
        self.all(py, true, What::Keys)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.codecs.traverse(&visit)
    }

    /// The value that a key had, or a default.
    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        &self,
        key: &Object<'py>,
        default: Option<Object<'py>>,
    ) -> PyResult<Option<Object<'py>>> {
        Ok(self.find(key)?.or(default))
    }

    /// An iterator over the 'keys', 'values' or 'pairs' of a range, in order, or from its end.
    fn pairs(
        &self,
        py: Python<'_>,
        low: Option<Object<'_>>,
        high: Option<Object<'_>>,
        inclusive: (bool, bool),
        reverse: bool,
        of: &str,
    ) -> PyResult<Pairs> {
        let ends = self.ends(low.as_ref(), high.as_ref(), inclusive)?;
        Reader::pairs(self, py, ends, reverse, what(of)?)
    }

    /// The number of keys of a range, by looking at them.
    fn count_range(
        &self,
        py: Python<'_>,
        low: Option<Object<'_>>,
        high: Option<Object<'_>>,
        inclusive: (bool, bool),
    ) -> PyResult<usize> {
        let ends = self.ends(low.as_ref(), high.as_ref(), inclusive)?;
        let view = self.view()?;
        py.detach(|| count(view, &ends)).map_err(raised)
    }

    /// The values of many keys, None where there was none.
    fn find_many<'py>(&self, keys: &Object<'py>) -> PyResult<Object<'py>> {
        self.lookup(|lookup| many::find(lookup, || true, &self.codecs, keys))
    }

    /// As of a map.
    #[pyo3(signature = (keys, values, found, forms=("bytes", "bytes")))]
    fn get_columns(
        &self,
        py: Python<'_>,
        keys: &Object<'_>,
        values: &Object<'_>,
        found: &Object<'_>,
        forms: (&str, &str),
    ) -> PyResult<usize> {
        self.lookup(|lookup| columns::get(py, lookup, keys, values, found, forms))
    }

    /// Lets go of what is kept for it.
    fn close(&self, py: Python<'_>) {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.waits.during(py, || drop(view));
    }
}
