//! A store while it is open, and what its maps, batches and views ask of it. What Python calls is in `store.rs`.

use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError, Weak};

use everleaf::{Map, MapView, Store, View};
use pyo3::prelude::*;

use crate::failure::{Forked, closed, raised};
use crate::held::{Held, Waits};
use crate::opening::Lines;

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
    pub lines: Lines,
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

impl RawStore {
    /// Of a store that was opened just now. Its operations may wait for a disk if it `is_slow`.
    pub fn of(store: Store, is_slow: bool, lines: Lines) -> Self {
        let (store, waits) = (RwLock::new(Some(store)), Arc::default());
        let owner = std::process::id();
        RawStore { store, maps: Mutex::default(), is_slow, owner, waits, lines }
    }

    /// Runs what uses the store, by a detached thread. It does not wait for the call that closes the store: it has
    /// come too late. (That thread is not there at all in a process that was forked meanwhile.)
    pub fn with<R>(&self, run: impl FnOnce(&Store) -> everleaf::Result<R>) -> PyResult<R> {
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

    /// Closes the maps and the store. By a detached thread. Returns what is told of iterators and views that are held:
    /// the last of them closes it.
    pub fn end(&self) -> everleaf::Result<Option<String>> {
        if std::process::id() != self.owner {
            self.end_in_a_fork();
            return Ok(None);
        }
        // First the store: a map that another thread opens meanwhile is in the list before this has the lock.
        let taken = self.store.write().unwrap_or_else(PoisonError::into_inner).take();
        let maps = std::mem::take(&mut *self.maps.lock().unwrap_or_else(PoisonError::into_inner));
        maps.iter().filter_map(Weak::upgrade).for_each(|map| map.close());
        match taken.map_or(Ok(()), Store::close) {
            Err(error @ everleaf::Error::StillOpen { .. }) => Ok(Some(error.to_string())),
            closed => closed.map(|()| None),
        }
    }

    /// Lets go of the maps and the store in a process that was forked. What a thread of the process before was using at
    /// that moment is left as it is: the thread is not here, and a call that waited for it would wait for ever. It is
    /// memory of this process alone, and the store is closed in the other one.
    fn end_in_a_fork(&self) {
        if let Ok(mut store) = self.store.try_write() {
            drop(store.take());
        }
        if let Ok(mut maps) = self.maps.try_lock() {
            maps.drain(..).filter_map(|map| map.upgrade()).for_each(|map| map.close_in_a_fork());
        }
    }

    /// Refuses what the library would answer with nothing in a process that was forked.
    pub fn refuse_forked(&self) -> PyResult<()> {
        if std::process::id() != self.owner {
            return Err(Forked::new_err(
                "the store belongs to the process this one was forked from",
            ));
        }
        Ok(())
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
                // While the store is held, so that the call that closes it closes the map, too.
                self.remember(&held);
                Ok(held)
            })
        })
    }

    /// A map as it is now, or was when that view was opened.
    pub fn view_of(
        &self,
        py: Python<'_>,
        map: Map,
        moment: Option<View>,
    ) -> PyResult<(MapView, View)> {
        // It moves in, and is freed there: it may be the last that keeps the store open.
        self.waits.during(py, move || {
            let view = moment.map_or_else(|| self.with(Store::view), Ok)?;
            Ok((view.map(&map), view))
        })
    }
}
