//! Views: a map as it was at one moment.

use std::sync::{Mutex, PoisonError};

use everleaf::MapView;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::failure::{closed, raised};
use crate::map::bounds;
use crate::pairs::{Pairs, Source};

/// A map as it was when the view was opened.
#[pyclass(frozen, module = "everleaf._everleaf")]
pub struct RawView {
    view: Mutex<Option<MapView>>,
}

impl RawView {
    pub fn new(view: MapView) -> Self {
        RawView { view: Mutex::new(Some(view)) }
    }

    fn view(&self) -> PyResult<MapView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(closed)
    }
}

#[pymethods]
impl RawView {
    /// The value that a key had, or None.
    fn get<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.view()?.get(key).map_err(raised)?;
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    /// The pairs of a range, in order, or from its end.
    fn pairs(
        &self,
        from: Option<Vec<u8>>,
        to: Option<Vec<u8>>,
        inclusive: (bool, bool),
        reverse: bool,
    ) -> PyResult<Pairs> {
        Ok(Pairs::new(&Source::View(self.view()?), bounds(from, to, inclusive), reverse))
    }

    /// Lets go of what is kept for it.
    fn close(&self) {
        drop(self.view.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
