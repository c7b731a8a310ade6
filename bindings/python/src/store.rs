//! Stores: opening and closing, maps, batches, copies.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError, Weak};
use std::time::Duration;

use everleaf::{Durability, Expiry, MapView, Options, Store, WriteBatch, Written};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyDict;

use crate::failure::{Error, closed, raised};
use crate::held::{Held, Waits, release};
use crate::map::{RawMap, expiry_in};
use crate::reader::Object;

/// An open store.
#[pyclass(frozen, module = "everleaf._everleaf")]
pub struct RawStore {
    store: RwLock<Option<Store>>,
    /// Of all maps that were asked for: closing the store closes them.
    maps: Mutex<Vec<Weak<Held>>>,
    is_slow: bool,
    /// The number of the process that opened it.
    owner: u32,
    pub waits: Arc<Waits>,
}

/// A store that nobody has closed: its maps, which hold it, are gone or going.
impl Drop for RawStore {
    fn drop(&mut self) {
        self.waits.begin_close();
        if self.store.get_mut().unwrap_or_else(PoisonError::into_inner).is_none() {
            return;
        }
        let ended = Python::try_attach(|py| {
            // An exception that is on its way when a variable goes out of scope goes on.
            let raising = PyErr::take(py);
            if let Err(error) = py.detach(|| self.end()) {
                raised(error).write_unraisable(py, None);
            }
            if let Some(raising) = raising {
                raising.restore(py);
            }
        });
        if ended.is_none() {
            // The interpreter is at its end, and nobody can be told.
            let _ = self.end();
        }
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

impl RawStore {
    /// Runs what uses the store, by a detached thread. It does not wait for whoever closes the store: it has come too
    /// late. (That thread is not there at all in a process that was forked meanwhile.)
    fn with<R>(&self, run: impl FnOnce(&Store) -> everleaf::Result<R>) -> PyResult<R> {
        if self.waits.is_closing() {
            return Err(closed());
        }
        let guard = match self.store.try_read() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(closed()),
        };
        run(guard.as_ref().ok_or_else(closed)?).map_err(raised)
    }

    /// Closes the maps and the store. By a detached thread.
    fn end(&self) -> everleaf::Result<()> {
        if std::process::id() != self.owner {
            self.end_in_a_fork();
            return Ok(());
        }
        // First the store: a map that another thread opens meanwhile is in the list before this has the lock.
        let taken = self.store.write().unwrap_or_else(PoisonError::into_inner).take();
        let maps = std::mem::take(&mut *self.maps.lock().unwrap_or_else(PoisonError::into_inner));
        maps.iter().filter_map(Weak::upgrade).for_each(|map| map.close());
        match taken.map_or(Ok(()), Store::close) {
            // Iterators and views that are held: the last of them closes it.
            Err(everleaf::Error::StillOpen { .. }) => Ok(()),
            closed => closed,
        }
    }

    /// Lets go of the maps and the store in a process that was forked. What a thread of the process before was using at
    /// that moment is left as it is: the thread is not here, and whoever waits for it waits for ever. It is memory of this
    /// process alone, and the store is closed in the other one.
    fn end_in_a_fork(&self) {
        if let Ok(mut store) = self.store.try_write() {
            drop(store.take());
        }
        if let Ok(mut maps) = self.maps.try_lock() {
            maps.drain(..).filter_map(|map| map.upgrade()).for_each(|map| map.close_in_a_fork());
        }
    }

    fn remember(&self, held: &Arc<Held>) {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        maps.retain(|map| map.strong_count() > 0);
        maps.push(Arc::downgrade(held));
    }

    /// The map of this name, made if it is missing.
    pub fn open_map(&self, py: Python<'_>, name: &str) -> PyResult<Arc<Held>> {
        py.detach(|| {
            self.with(|store| {
                let map = match store.existing_map(name)? {
                    Some(map) => map,
                    None => store.map(name)?,
                };
                let held = Held::new(map, self.is_slow, self.waits.clone());
                // While the store is held, so that whoever closes it closes the map, too.
                self.remember(&held);
                Ok(held)
            })
        })
    }

    /// A view of a map as it is now.
    pub fn view_of(&self, py: Python<'_>, map: &RawMap) -> PyResult<MapView> {
        let map = map.held.map()?;
        // It moves in, and is freed there: it may be the last that keeps the store open.
        self.waits.during(py, move || Ok(self.with(Store::view)?.map(&map)))
    }
}

#[pymethods]
impl RawStore {
    /// Opens the pool at a path.
    #[new]
    #[pyo3(signature = (path, *, create, read_only, max_size, durability_name, interval_ms,
        trust_after_machine_crash, verify_reads, view_memory))]
    #[allow(clippy::too_many_arguments, reason = "all by name, from one place in Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        create: bool,
        read_only: bool,
        max_size: Option<u64>,
        durability_name: Option<&str>,
        interval_ms: u64,
        trust_after_machine_crash: bool,
        verify_reads: bool,
        view_memory: u64,
    ) -> PyResult<Self> {
        let mut options = Options::new()
            .create(create)
            .read_only(read_only)
            .trust_after_machine_crash(trust_after_machine_crash)
            .verify_reads(verify_reads)
            .view_memory_bytes(view_memory);
        if let Some(max_size) = max_size {
            options = options.max_size_bytes(max_size);
        }
        if let Some(name) = durability_name {
            options = options.durability(durability(name, interval_ms)?);
        }
        let store = py.detach(|| options.open(path)).map_err(raised)?;
        let is_slow = store.statistics().durability.name() != "process";
        let (store, waits) = (RwLock::new(Some(store)), Arc::default());
        let owner = std::process::id();
        Ok(RawStore { store, maps: Mutex::default(), is_slow, owner, waits })
    }

    /// The names of all maps.
    fn map_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
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

    /// Makes everything durable that can be read now.
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
        Ok(report.problems.iter().map(ToString::to_string).collect())
    }

    /// Numbers about the store.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| self.with(|store| Ok(store.statistics())))?;
        let numbers = PyDict::new(py);
        for (name, number) in [
            ("keys", found.keys),
            ("maps", found.maps),
            ("pool_size_bytes", found.pool_size_bytes),
            ("pool_used_bytes", found.pool_used_bytes),
            ("pool_returned_bytes", found.pool_returned_bytes),
            ("pool_max_bytes", found.pool_max_bytes),
            ("memory_bytes", found.memory_bytes),
            ("leaves", found.leaves),
            ("height", found.height),
            ("splits", found.splits),
            ("merges", found.merges),
            ("log_bytes", found.log_bytes),
            ("log_lag", found.log_lag),
            ("views", found.views),
            ("view_keys", found.view_keys),
            ("view_bytes", found.view_bytes),
            ("views_lost", found.views_lost),
            ("swept_keys", found.swept_keys),
            ("recovered_batches", found.recovered_batches),
        ] {
            numbers.set_item(name, number)?;
        }
        numbers.set_item("recovery_seconds", found.recovery.as_secs_f64())?;
        numbers.set_item("durability", found.durability.name())?;
        numbers.set_item("domain", found.domain.name())?;
        numbers.set_item("was_clean", found.was_clean)?;
        numbers.set_item("log_owes_snapshot", found.log_owes_snapshot)?;
        Ok(numbers)
    }

    /// Closes the store and its maps; views and iterators keep the pool open while they are held.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.waits.begin_close();
        py.detach(|| self.end()).map_err(raised)
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

    /// For whoever writes it; until that is freed all others are refused.
    fn shared(&self, py: Python<'_>) -> PyResult<Arc<WriteBatch>> {
        let mut batch = self.lock(py);
        Arc::get_mut(&mut batch).ok_or_else(being_written)?;
        Ok(batch.clone())
    }

    fn with(
        &self,
        py: Python<'_>,
        map: &RawMap,
        run: impl FnOnce(&mut WriteBatch, &everleaf::Map),
    ) -> PyResult<()> {
        let (map, waits) = (map.held.map()?, &map.held.waits);
        let added = Arc::get_mut(&mut self.lock(py)).map(|batch| run(batch, &map));
        waits.free(map);
        added.ok_or_else(being_written)
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

    /// Adds that a key gets a value.
    fn put(&self, map: &RawMap, key: &Object<'_>, value: &Object<'_>) -> PyResult<()> {
        let py = key.py();
        let (key, value) = (map.codecs.keys.encode(key)?, map.codecs.values.encode(value)?);
        self.with(py, map, |batch, map| {
            batch.put(map, key, value);
        })
    }

    /// Adds that a key, if it is there, keeps its value and expires in so many seconds, or never (None).
    fn expire(&self, map: &RawMap, key: &Object<'_>, ttl: Option<f64>) -> PyResult<()> {
        let expiry = ttl.map_or(Ok(Expiry::Never), expiry_in)?;
        let (py, key) = (key.py(), map.codecs.keys.encode(key)?);
        self.with(py, map, |batch, map| {
            batch.expire(map, key, expiry);
        })
    }

    /// Adds that a key is removed.
    fn remove(&self, map: &RawMap, key: &Object<'_>) -> PyResult<()> {
        let (py, key) = (key.py(), map.codecs.keys.encode(key)?);
        self.with(py, map, |batch, map| {
            batch.remove(map, key);
        })
    }

    /// Lets the batch depend on the value of a key; None: on its absence.
    fn expect(&self, map: &RawMap, key: &Object<'_>, value: Option<Object<'_>>) -> PyResult<()> {
        let (py, key) = (key.py(), map.codecs.keys.encode(key)?);
        let value = value.as_ref().map(|value| map.codecs.values.encode(value)).transpose()?;
        self.with(py, map, |batch, map| {
            batch.expect(map, key, value.as_ref().map(AsRef::as_ref));
        })
    }

    /// How many changes it holds.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(Arc::get_mut(&mut self.lock(py)).ok_or_else(being_written)?.len())
    }
}

/// Makes a pool from a backup; returns the number of pairs.
#[pyfunction]
pub fn restore(py: Python<'_>, backup: PathBuf, path: PathBuf) -> PyResult<u64> {
    py.detach(|| Store::restore(backup, path, |_| {})).map(|copied| copied.keys).map_err(raised)
}

/// Writes a pool anew, as small as it can be; returns its bytes.
#[pyfunction]
pub fn compact(py: Python<'_>, path: PathBuf) -> PyResult<u64> {
    py.detach(|| Store::compact(path, |_| {})).map(|copied| copied.size_bytes).map_err(raised)
}
