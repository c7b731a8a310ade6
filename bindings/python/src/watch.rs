//! Watches: whether a key was written since somebody began to watch it.

use std::sync::{Arc, Mutex, PoisonError};

use everleaf::Watch;
use pyo3::prelude::*;

use crate::failure::{closed, raised};
use crate::held::{Waits, release};
use crate::map::RawMap;
use crate::reader::Object;

/// Watches one key of a map.
#[pyclass(frozen, module = "everleaf._everleaf")]
pub struct RawWatch {
    watch: Mutex<Option<Watch>>,
    pub waits: Arc<Waits>,
}

impl Drop for RawWatch {
    fn drop(&mut self) {
        // It keeps the store open, and may be the last that does.
        if let Some(watch) = self.watch.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            release(watch);
        }
    }
}

impl RawWatch {
    /// A handle on the watch, unless it was closed.
    pub fn watch(&self) -> PyResult<Watch> {
        // Held for as long as a copy of a handle takes.
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(closed)
    }
}

#[pymethods]
impl RawWatch {
    /// Begins to watch a key.
    #[new]
    fn new(map: &RawMap, key: &Object<'_>) -> PyResult<Self> {
        let (py, waits) = (key.py(), map.held.waits.clone());
        let (key, handle) = (map.codecs.keys.encode(key)?, map.held.map()?);
        let key = key.as_ref();
        // The handle moves in, and is freed there: it may be the last that keeps the store open. The first watch after
        // a pause waits for the operations that are running.
        let watch = waits.during(py, move || handle.watch(key)).map_err(raised)?;
        Ok(RawWatch { watch: Mutex::new(Some(watch)), waits })
    }

    /// Whether the key was written, or has expired.
    fn is_broken(&self) -> PyResult<bool> {
        let watch = self.watch()?;
        let is_broken = watch.is_broken();
        self.waits.free(watch);
        Ok(is_broken)
    }

    /// Ends the watch.
    fn close(&self, py: Python<'_>) {
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.waits.during(py, || drop(watch));
    }
}
