//! What Python calls of stores: opening and closing, batches, copies.

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everleaf::{Expiry, Store, WriteBatch, Written};
use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyDict;

use crate::failure::{Error, raised};
use crate::held::release;
use crate::map::{RawMap, expiry_in};
use crate::open_store::RawStore;
use crate::opening::{self, Lines};
use crate::reader::{Codecs, Object};
use crate::watch::RawWatch;
use crate::{many, numbers};

#[pymethods]
impl RawStore {
    /// Opens the pool at a path. The options have the names that they have in `everleaf.open`.
    #[new]
    #[pyo3(signature = (path, **options))]
    fn new(py: Python<'_>, path: PathBuf, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let lines = Lines::default();
        let options = opening::options(options, &lines)?;
        let store = py.detach(|| options.open(path)).map_err(raised)?;
        let is_slow = store.statistics().durability.name() != "process";
        Ok(RawStore::of(store, is_slow, lines))
    }

    /// The names of all maps.
    fn map_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.refuse_forked()?;
        py.detach(|| self.with(|store| Ok(store.map_names())))
    }

    /// Removes a map; says whether there was one.
    fn drop_map(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.waits.during(py, || self.with(|store| store.drop_map(name)))
    }

    /// Writes a batch: None if all was done, or the number of the condition that did not hold.
    fn write(&self, py: Python<'_>, batch: &RawBatch) -> PyResult<Option<usize>> {
        let shared = batch.shared(py)?;
        // It moves in, and with its end, however that comes, the batch can be used again.
        let written = self.waits.during(py, move || self.with(|store| store.write(&shared)));
        match written? {
            Written::All => Ok(None),
            Written::Refused(number) => Ok(Some(number)),
        }
    }

    /// Of a store with a log, makes durable all that can be read now; without one nothing.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.with(Store::sync))
    }

    /// Copies the store to a new pool; returns the number of pairs.
    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        self.waits.during(py, || self.with(|store| Ok(store.backup(path, |_| {})?.keys)))
    }

    /// What is wrong in the pool: nothing, one hopes.
    fn check(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let report = self.waits.during(py, || self.with(Store::check))?;
        Ok(report.problems.iter().chain(&report.damaged_copies).map(ToString::to_string).collect())
    }

    /// Numbers about the store.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.refuse_forked()?;
        numbers::of_store(py, &py.detach(|| self.with(|store| Ok(store.statistics())))?)
    }

    /// Writes a snapshot, which shortens the log; returns the number of pairs.
    fn snapshot(&self, py: Python<'_>) -> PyResult<u64> {
        self.waits.during(py, || self.with(Store::snapshot))
    }

    /// Writes a snapshot, or without a log a backup beside the pool; returns the number of pairs.
    fn save(&self, py: Python<'_>) -> PyResult<u64> {
        self.waits.during(py, || self.with(Store::save))
    }

    /// Returns free space to the file system; how many bytes.
    fn return_space(&self, py: Python<'_>) -> PyResult<u64> {
        self.waits.during(py, || self.with(Store::return_space))
    }

    /// Lets writes of this thread return before they are durable, until it waits for them.
    fn defer_sync(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            self.with(|store| {
                store.defer_sync();
                Ok(())
            })
        })
    }

    /// Waits until the writes of this thread are durable.
    fn wait_deferred(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.with(Store::wait_deferred))
    }

    /// Whether the log has failed, and nothing can be written any more.
    fn has_log_failed(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| self.with(|store| Ok(store.has_log_failed())))
    }

    /// Whether the file of the pool was removed, or another lies in its place.
    fn is_pool_gone(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| self.with(|store| Ok(store.is_pool_gone())))
    }

    /// Whether it was opened read-only.
    fn is_read_only(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| self.with(|store| Ok(store.is_read_only())))
    }

    /// How often a batch was rolled back for want of space since the store was opened.
    fn rollback_count(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.with(|store| Ok(store.rollback_count())))
    }

    /// The damaged files of the log that were put aside.
    fn put_aside_files(&self, py: Python<'_>) -> PyResult<Vec<PathBuf>> {
        py.detach(|| self.with(Store::put_aside_files))
    }

    /// What the pool was made from when it was opened, if it was rebuilt.
    fn rebuilt<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let found = py.detach(|| self.with(|store| Ok(store.rebuilt().cloned())))?;
        found.map(|found| numbers::of_rebuilt(py, &found)).transpose()
    }

    /// What the store did by itself since this was called last.
    fn events(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        // A thread that is not here may have the lock of the lines.
        self.refuse_forked()?;
        Ok(py.detach(|| self.lines.take()))
    }

    /// Makes a new map from pairs whose keys ascend; see `many::load`.
    fn load(
        &self,
        map_name: &str,
        keys: &Object<'_>,
        values: &Object<'_>,
        pairs: &Object<'_>,
    ) -> PyResult<()> {
        let py = pairs.py();
        let pairs = many::collect(&Codecs::of(keys, values)?, pairs)?;
        // The handle goes there: it may be the last that keeps the store open.
        self.waits.during(py, || self.with(|store| store.load_map(map_name, pairs).map(drop)))
    }

    /// Closes the store and its maps; views and iterators keep the pool open while they are held, of which a
    /// `ResourceWarning` tells.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.waits.begin_close();
        let Some(held) = py.detach(|| self.end()).map_err(raised)? else { return Ok(()) };
        let text = CString::new(held).unwrap_or_default();
        PyErr::warn(py, &py.get_type::<PyResourceWarning>(), &text, 1)
    }

    /// Whether it was closed.
    fn is_closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.with(|_| Ok(()))).is_err()
    }
}

/// Changes, and conditions, to be done as one.
#[pyclass(frozen, module = "everleaf._everleaf")]
pub struct RawBatch {
    /// Shared while it is written, so that no thread waits for that with the interpreter: they are refused.
    batch: Mutex<Arc<WriteBatch>>,
}

/// The batch is used while another thread writes it.
#[cold]
fn being_written() -> PyErr {
    Error::new_err("another thread is writing the batch: it is for one thread at a time")
}

impl RawBatch {
    fn lock<'a>(&'a self, py: Python<'_>) -> MutexGuard<'a, Arc<WriteBatch>> {
        self.batch.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    /// For the call that writes it; until that is freed all others are refused.
    fn shared(&self, py: Python<'_>) -> PyResult<Arc<WriteBatch>> {
        let mut batch = self.lock(py);
        Arc::get_mut(&mut batch).ok_or_else(being_written)?;
        Ok(batch.clone())
    }

    fn with(
        &self,
        py: Python<'_>,
        map: &RawMap,
        run: impl FnOnce(&mut WriteBatch, &everleaf::Map) -> everleaf::Result<()>,
    ) -> PyResult<()> {
        let (map, waits) = (map.held.map()?, &map.held.waits);
        let added = Arc::get_mut(&mut self.lock(py)).map(|batch| run(batch, &map));
        waits.free(map);
        added.ok_or_else(being_written)?.map_err(raised)
    }
}

impl Drop for RawBatch {
    fn drop(&mut self) {
        // It holds its maps, and may be the last that does: then it closes the store.
        let batch = self.batch.get_mut().unwrap_or_else(PoisonError::into_inner);
        release(std::mem::take(batch));
    }
}

#[pymethods]
impl RawBatch {
    /// An empty batch.
    #[new]
    fn new() -> Self {
        RawBatch { batch: Mutex::default() }
    }

    /// Adds that a key gets a value, for so many seconds if `ttl` is given.
    #[pyo3(signature = (map, key, value, ttl=None))]
    fn put(
        &self,
        map: &RawMap,
        key: &Object<'_>,
        value: &Object<'_>,
        ttl: Option<f64>,
    ) -> PyResult<()> {
        let expiry = ttl.map_or(Ok(Expiry::Never), expiry_in)?;
        let py = key.py();
        let (key, value) = (map.codecs.keys.encode(key)?, map.codecs.values.encode(value)?);
        let (key, value) = (key.as_ref(), value.as_ref());
        self.with(py, map, |batch, map| {
            batch.try_reserve(1, key.len() + value.len())?;
            batch.put_with_expiry(map, key, value, expiry);
            Ok(())
        })
    }

    /// Adds that a key, if it is there, keeps its value and expires in so many seconds, or never (None).
    fn expire(&self, map: &RawMap, key: &Object<'_>, ttl: Option<f64>) -> PyResult<()> {
        let expiry = ttl.map_or(Ok(Expiry::Never), expiry_in)?;
        let (py, key) = (key.py(), map.codecs.keys.encode(key)?);
        self.with(py, map, |batch, map| {
            batch.expire(map, key, expiry);
            Ok(())
        })
    }

    /// Adds that a key is removed.
    fn remove(&self, map: &RawMap, key: &Object<'_>) -> PyResult<()> {
        let (py, key) = (key.py(), map.codecs.keys.encode(key)?);
        self.with(py, map, |batch, map| {
            batch.remove(map, key);
            Ok(())
        })
    }

    /// Lets the batch depend on the value of a key; None: on its absence.
    fn expect(&self, map: &RawMap, key: &Object<'_>, value: Option<Object<'_>>) -> PyResult<()> {
        let (py, key) = (key.py(), map.codecs.keys.encode(key)?);
        let value = value.as_ref().map(|value| map.codecs.values.encode(value)).transpose()?;
        let (key, value): (&[u8], Option<&[u8]>) =
            (key.as_ref(), value.as_ref().map(AsRef::as_ref));
        self.with(py, map, |batch, map| {
            batch.try_reserve(1, key.len() + value.map_or(0, <[u8]>::len))?;
            batch.expect(map, key, value);
            Ok(())
        })
    }

    /// Lets the batch depend on the key of a watch not having been written since.
    fn expect_unwritten(&self, py: Python<'_>, watch: &RawWatch) -> PyResult<()> {
        let handle = watch.watch()?;
        let added = Arc::get_mut(&mut self.lock(py)).map(|batch| {
            batch.expect_unwritten(&handle);
        });
        watch.waits.free(handle);
        added.ok_or_else(being_written)
    }

    /// Lets the batch depend on none having been rolled back since there were so many.
    fn expect_no_rollback(&self, py: Python<'_>, rollback_count: u64) -> PyResult<()> {
        let added = Arc::get_mut(&mut self.lock(py)).map(|batch| {
            batch.expect_no_rollback(rollback_count);
        });
        added.ok_or_else(being_written)
    }

    /// How many changes it holds.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(Arc::get_mut(&mut self.lock(py)).ok_or_else(being_written)?.len())
    }
}
