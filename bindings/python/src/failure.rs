//! Errors as exceptions.

use pyo3::exceptions::{PyException, PyMemoryError};
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
        Of::DiskFull(_) | Of::PoolFull(_) => Full::new_err(text),
        Of::OutOfMemory(_) => PyMemoryError::new_err(text),
        Of::PoolGone(_) => PoolGone::new_err(text),
        Of::Corrupt(_) | Of::NotAPool(_) => Corrupt::new_err(text),
        _ => Error::new_err(text),
    }
}

/// The exception for the use of what was closed.
pub fn closed() -> PyErr {
    Closed::new_err("the store was closed: open it again")
}
