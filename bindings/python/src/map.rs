//! Maps: one key at a time.

use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use everleaf::{Exchange, Expiry, Map};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::failure::{closed, raised};
use crate::pairs::{Pairs, Source};

/// Bytes of Python.
type Value<'py> = pyo3::Bound<'py, PyBytes>;

/// A map until it is closed.
pub struct Held {
    map: RwLock<Option<Map>>,
    /// Whether a write waits for a log.
    pub is_slow: bool,
}

impl Held {
    pub fn new(map: Map, is_slow: bool) -> Arc<Self> {
        Arc::new(Held { map: RwLock::new(Some(map)), is_slow })
    }

    /// Lets go of the map, and with it of the store.
    pub fn close(&self) {
        drop(self.map.write().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn read(&self) -> RwLockReadGuard<'_, Option<Map>> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `run` use the map, unless it was closed.
    pub fn with<R>(&self, run: impl FnOnce(&Map) -> everleaf::Result<R>) -> PyResult<R> {
        run(self.read().as_ref().ok_or_else(closed)?).map_err(raised)
    }

    /// A handle of its own.
    pub fn map(&self) -> PyResult<Map> {
        self.read().clone().ok_or_else(closed)
    }

    /// Runs a write: with a log without the interpreter, because it waits for the disk.
    pub fn write<R: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&Map) -> everleaf::Result<R> + Send,
    ) -> PyResult<R> {
        if self.is_slow { py.detach(|| self.with(run)) } else { self.with(run) }
    }
}

/// An ordered map of byte strings.
#[pyclass(frozen, module = "everleaf._everleaf")]
pub struct RawMap {
    pub held: Arc<Held>,
}

/// The bounds of a range: with `None` it has no end there.
pub fn bounds(
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    inclusive: (bool, bool),
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let bound = |key: Option<Vec<u8>>, included| match key {
        None => Bound::Unbounded,
        Some(key) if included => Bound::Included(key),
        Some(key) => Bound::Excluded(key),
    };
    (bound(from, inclusive.0), bound(to, inclusive.1))
}

#[pymethods]
impl RawMap {
    /// The value of a key, or None.
    fn get<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Value<'py>>> {
        self.held.with(|map| map.get_with(key, |value| PyBytes::new(py, value)))
    }

    /// Whether a key is there.
    fn contains(&self, key: &[u8]) -> PyResult<bool> {
        self.held.with(|map| map.contains(key))
    }

    /// Sets the value of a key; says whether one was replaced.
    fn put(&self, py: Python<'_>, key: &[u8], value: &[u8]) -> PyResult<bool> {
        self.held.write(py, |map| map.put(key, value))
    }

    /// As `put`; from that time on the key is absent, in milliseconds since 1970-01-01 UTC.
    fn put_expiring(&self, py: Python<'_>, key: &[u8], value: &[u8], at_ms: u64) -> PyResult<bool> {
        self.held.write(py, |map| map.put_with_expiry(key, value, Expiry::from_unix_ms(at_ms)))
    }

    /// Lets a key expire at that time, 0 for never; says whether it is there.
    fn expire_at(&self, py: Python<'_>, key: &[u8], at_ms: u64) -> PyResult<bool> {
        self.held.write(py, |map| map.expire(key, Expiry::from_unix_ms(at_ms)))
    }

    /// When a key expires, 0 for never; None if it is not there.
    fn expiry(&self, key: &[u8]) -> PyResult<Option<u64>> {
        let found = self.held.with(|map| map.expiry(key))?;
        Ok(found.map(Expiry::as_unix_ms))
    }

    /// Adds a key unless it is there; says whether it was added.
    fn insert(&self, py: Python<'_>, key: &[u8], value: &[u8]) -> PyResult<bool> {
        self.held.write(py, |map| map.insert(key, value))
    }

    /// Removes a key; says whether it was there.
    fn remove(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        self.held.write(py, |map| map.remove(key))
    }

    /// Removes a key, and returns its value, or None.
    fn take<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Value<'py>>> {
        let taken = self.held.write(py, |map| map.take(key))?;
        Ok(taken.map(|value| PyBytes::new(py, &value)))
    }

    /// Changes a key if its value is `expected` (None: absent); says whether it was.
    fn compare_exchange(
        &self,
        py: Python<'_>,
        key: &[u8],
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> PyResult<bool> {
        let done = self.held.write(py, |map| map.compare_exchange(key, expected, value))?;
        Ok(done == Exchange::Done)
    }

    /// The number of keys.
    fn count(&self) -> PyResult<u64> {
        self.held.with(|map| Ok(map.len()))
    }

    /// Removes all keys.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.held.with(Map::clear))
    }

    /// The pairs of a range, in order, or from its end.
    fn pairs(
        &self,
        from: Option<Vec<u8>>,
        to: Option<Vec<u8>>,
        inclusive: (bool, bool),
        reverse: bool,
    ) -> PyResult<Pairs> {
        Ok(Pairs::new(&Source::Map(self.held.map()?), bounds(from, to, inclusive), reverse))
    }

    /// The number of keys of a range, by looking at them.
    fn count_range(
        &self,
        py: Python<'_>,
        from: Option<Vec<u8>>,
        to: Option<Vec<u8>>,
        inclusive: (bool, bool),
    ) -> PyResult<usize> {
        let range = bounds(from, to, inclusive);
        py.detach(|| Pairs::new(&Source::Map(self.held.map()?), range, false).count())
    }

    /// The values of many keys, None where there is none.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<Vec<u8>>,
    ) -> PyResult<Vec<Option<Value<'py>>>> {
        let found = py.detach(|| {
            let mut found = vec![None; keys.len()];
            let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let see = |index: usize, value: Option<&[u8]>| found[index] = value.map(<[u8]>::to_vec);
            self.held.with(|map| map.get_many(&slices, see))?;
            PyResult::Ok(found)
        })?;
        let shown = |value: Option<Vec<u8>>| value.map(|value| PyBytes::new(py, &value));
        Ok(found.into_iter().map(shown).collect())
    }

    /// Puts many pairs, each for itself.
    fn put_many(&self, py: Python<'_>, pairs: Vec<(Vec<u8>, Vec<u8>)>) -> PyResult<()> {
        py.detach(|| {
            self.held.with(|map| {
                for (key, value) in &pairs {
                    map.put(key, value)?;
                }
                Ok(())
            })
        })
    }

    /// As `everleaf.Map.get_columns`, on buffers.
    fn get_columns(
        &self,
        py: Python<'_>,
        keys: &pyo3::Bound<'_, PyAny>,
        values: &pyo3::Bound<'_, PyAny>,
        found: &pyo3::Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        crate::columns::get(py, &self.held, keys, values, found)
    }

    /// As `everleaf.Map.put_columns`, on buffers.
    fn put_columns(
        &self,
        py: Python<'_>,
        keys: &pyo3::Bound<'_, PyAny>,
        values: &pyo3::Bound<'_, PyAny>,
    ) -> PyResult<()> {
        crate::columns::put(py, &self.held, keys, values)
    }
}
