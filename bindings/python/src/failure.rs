//! Errors as exceptions.

use std::io::ErrorKind;

use pyo3::exceptions::{PyException, PyMemoryError, PyOverflowError};
use pyo3::{PyErr, create_exception};

create_exception!(
    everleaf,
    Error,
    PyException,
    "What went wrong in a store, and what to do about it."
);
create_exception!(everleaf, NotFound, Error, "There is no pool at the path.");
create_exception!(everleaf, Locked, Error, "Another process has the pool.");
create_exception!(
    everleaf,
    Forked,
    Error,
    "The store belongs to the process this one was forked from."
);
create_exception!(everleaf, Closed, Error, "The store was closed.");
create_exception!(everleaf, ReadOnly, Error, "The store was opened read-only.");
create_exception!(everleaf, Full, Error, "The disk is full, or the pool is at its maximum size.");
create_exception!(everleaf, Corrupt, Error, "Something in the pool is damaged.");
create_exception!(
    everleaf,
    NotAPool,
    Error,
    "The file is no pool, or its header is damaged, or of a version that is newer than this one: the text says which."
);
create_exception!(everleaf, AlreadyExists, Error, "There is a pool at the path already.");
create_exception!(
    everleaf,
    MachineCrashed,
    Error,
    "The machine crashed while the pool, which has no log, was open: `trust_after_machine_crash` of `everleaf.open`."
);
create_exception!(
    everleaf,
    ViewLost,
    Error,
    "The view was given up: what was kept for views took more than `view_memory` bytes."
);
create_exception!(everleaf, MapDropped, Error, "The map was dropped.");
create_exception!(
    everleaf,
    PoolGone,
    Error,
    "The file of the pool was removed, or another lies in its place: nothing is written any more. What there is can be \
     saved."
);

/// The exception for an error of the library.
pub fn raised(error: everleaf::Error) -> PyErr {
    use everleaf::Error as Of;
    let text = error.to_string();
    match error {
        Of::NotFound(_) => NotFound::new_err(text),
        Of::Locked(_) => Locked::new_err(text),
        Of::Forked(_) => Forked::new_err(text),
        Of::ReadOnly => ReadOnly::new_err(text),
        Of::DiskFull(_) | Of::PoolFull(_) | Of::LogFull(_) => Full::new_err(text),
        Of::Io(_, error) if is_full(&error) => Full::new_err(text),
        Of::OutOfMemory(_) => PyMemoryError::new_err(text),
        Of::PoolGone(_) => PoolGone::new_err(text),
        Of::Corrupt(_) => Corrupt::new_err(text),
        Of::NotAPool(_) => NotAPool::new_err(text),
        Of::AlreadyExists(_) => AlreadyExists::new_err(text),
        Of::MachineCrashed(_) => MachineCrashed::new_err(text),
        Of::ViewLost(_) => ViewLost::new_err(text),
        Of::MapDropped => MapDropped::new_err(text),
        Of::Overflow => PyOverflowError::new_err(text),
        _ => Error::new_err(text),
    }
}

/// Whether the system says so of a disk.
fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// The exception for the use of what was closed.
pub fn closed() -> PyErr {
    Closed::new_err("the store was closed: open it again")
}
