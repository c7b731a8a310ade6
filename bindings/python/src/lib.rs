//! The compiled part of the Python package `everleaf`: stores, maps, views, batches and iterators, and how
//! objects become bytes. What need not be fast is Python (`python/everleaf`), in subclasses.
//!
//! Whatever may wait or takes long lets other Python threads run meanwhile; a get or put of one key takes
//! less time than that would, and does not, unless there is something to wait for (`held.rs`). Errors are
//! exceptions of the class `everleaf.Error`, with the text of the library. Everything is thread-safe, also
//! without the interpreter's lock.

mod codec;
mod columns;
mod failure;
mod files;
mod held;
mod many;
mod map;
mod numbers;
mod open_store;
mod opening;
mod pairs;
mod reader;
mod room;
mod store;
mod turns;
mod view;
mod watch;

use pyo3::prelude::*;

/// The compiled part of `everleaf`.
#[pymodule(gil_used = false)]
mod _everleaf {
    #[pymodule_export]
    use super::failure::{
        AlreadyExists, Closed, Corrupt, Error, Forked, Full, Locked, MachineCrashed, MapDropped,
        NotAPool, NotFound, PoolGone, ReadOnly, ViewLost,
    };
    #[pymodule_export]
    use super::files::{compact, repair, restore, upgrade};
    #[pymodule_export]
    use super::map::RawMap;
    #[pymodule_export]
    use super::open_store::RawStore;
    #[pymodule_export]
    use super::pairs::Pairs;
    #[pymodule_export]
    use super::store::RawBatch;
    #[pymodule_export]
    use super::view::RawView;
    #[pymodule_export]
    use super::watch::RawWatch;

    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
