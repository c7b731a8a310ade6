//! Which threads may wait, and what for.
//!
//! A thread of Python has the interpreter, or is detached from it. A get or a put of one key takes about
//! as long as detaching and coming back, so those threads keep it, unless there is something to wait for:
//! - a log, whose file may be slow, and which may sync before a write returns (`is_slow`);
//! - a batch, or whatever else keeps writers out (`Waits`). It is counted before its thread detaches: a thread that
//!   has the interpreter and sees none has nothing to wait for until it lets go of it. Where threads run without a
//!   common lock it may begin meanwhile, and costs the waiting thread nothing but time.
//!
//! Nobody waits for ever: no thread attaches while it is inside the store or has a lock of this crate, so
//! a thread that is waited for there needs no interpreter to go on.
//!
//! Closing a store may write a snapshot and sync, and what is freed last closes it: after `begin_close` that may
//! be an iterator, a view or a batch, which are then freed by a detached thread (`release`).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, TryLockError};

use everleaf::Map;
use pyo3::prelude::*;

use crate::failure::{closed, raised};

/// A value of this size is put by a detached thread: it takes longer to copy.
const LONG_VALUE: usize = 64 << 10;

/// Calls that others may wait for, and whether the store is being closed or was.
#[derive(Default)]
pub struct Waits {
    calls: AtomicUsize,
    is_closing: AtomicBool,
}

impl Waits {
    /// Runs, detached, what others may have to wait for.
    pub fn during<R: Send>(&self, py: Python<'_>, run: impl FnOnce() -> R + Send) -> R {
        struct Ends<'a>(&'a AtomicUsize);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                // Relaxed: as the addition in `during`.
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        // Relaxed: a thread that has to see it takes the interpreter after us; where there is no such lock
        // nothing depends on it.
        self.calls.fetch_add(1, Ordering::Relaxed);
        let _ends = Ends(&self.calls);
        py.detach(run)
    }

    /// From now on what is freed may be the last that keeps the store open.
    pub fn begin_close(&self) {
        // Relaxed: as in `during`.
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// Whether it has begun.
    pub fn is_closing(&self) -> bool {
        // Relaxed: see `begin_close`.
        self.is_closing.load(Ordering::Relaxed)
    }

    /// Frees what keeps the store open, detached if that may close it.
    pub fn free<T: Send>(&self, held: T) {
        if self.is_closing() {
            release(held);
        }
    }

    #[inline]
    fn any(&self) -> bool {
        // Relaxed: see `during`.
        self.calls.load(Ordering::Relaxed) != 0
    }
}

/// Frees something by a detached thread; at the end of the interpreter, when no thread can come back, by this one as
/// it is.
pub fn release<T: Send>(held: T) {
    Python::try_attach(|py| py.detach(|| drop(held)));
}

/// A map until it is closed.
pub struct Held {
    map: RwLock<Option<Map>>,
    /// Whether a write goes to a log, and may wait for it.
    is_slow: bool,
    pub waits: Arc<Waits>,
}

impl Held {
    pub fn new(map: Map, is_slow: bool, waits: Arc<Waits>) -> Arc<Self> {
        Arc::new(Held { map: RwLock::new(Some(map)), is_slow, waits })
    }

    /// Lets go of the map, and with it of the store. By a detached thread: calls end first.
    pub fn close(&self) {
        drop(self.map.write().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// As `close`, in a process that was forked: what a thread of the one before was using is left.
    pub fn close_in_a_fork(&self) {
        if let Ok(mut map) = self.map.try_write() {
            drop(map.take());
        }
    }

    /// The map, which is not closed while the guard is there. It does not wait: only `close` keeps others out, and
    /// a call that meets it has come too late.
    #[inline]
    fn lock(&self) -> PyResult<RwLockReadGuard<'_, Option<Map>>> {
        match self.map.try_read() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(error)) => Ok(error.into_inner()),
            Err(TryLockError::WouldBlock) => Err(closed()),
        }
    }

    /// Lets `run` use the map, unless it was closed. Nothing in there may attach or detach.
    #[inline]
    pub fn with<R>(&self, run: impl FnOnce(&Map) -> everleaf::Result<R>) -> PyResult<R> {
        run(self.lock()?.as_ref().ok_or_else(closed)?).map_err(raised)
    }

    /// A handle of its own, for iterators, views and batches: it keeps the store open.
    pub fn map(&self) -> PyResult<Map> {
        self.lock()?.clone().ok_or_else(closed)
    }

    /// Whether a read may have to wait.
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.waits.any()
    }

    /// Runs a write of one key, detached if it may wait or is long.
    #[inline]
    pub fn write<R: Send>(
        &self,
        py: Python<'_>,
        size: usize,
        run: impl FnOnce(&Map) -> everleaf::Result<R> + Send,
    ) -> PyResult<R> {
        if self.is_slow || size >= LONG_VALUE || self.waits.any() {
            return py.detach(|| self.with(run));
        }
        self.with(run)
    }
}
