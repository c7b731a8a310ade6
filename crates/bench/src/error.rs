//! Why a measurement was not made.

use std::fmt;
use std::io;

use everleaf_index::{IndexError, PoolError};

/// Why a measurement was not made. The message says what is wrong, where, and what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum BenchError {
    /// The settings do not go together. The text says which, and what to choose.
    Settings(String),
    /// The integer tree or its pool refused an operation.
    Index(IndexError),
    /// The store refused an operation.
    Store(everleaf::Error),
    /// An operation did not do what it must: the index is wrong. The text says which and how.
    Wrong(String),
    /// What is measured, not one of ours, refused an operation. The text says what it is, and why.
    Target(String),
    /// The operating system refused something. The text says what was tried.
    Io(String, io::Error),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Settings(text) | BenchError::Wrong(text) | BenchError::Target(text) => {
                f.write_str(text)
            }
            BenchError::Index(error) => error.fmt(f),
            BenchError::Store(error) => error.fmt(f),
            BenchError::Io(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for BenchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BenchError::Index(error) => Some(error),
            BenchError::Store(error) => Some(error),
            BenchError::Io(_, error) => Some(error),
            BenchError::Settings(_) | BenchError::Wrong(_) | BenchError::Target(_) => None,
        }
    }
}

impl From<IndexError> for BenchError {
    fn from(error: IndexError) -> Self {
        BenchError::Index(error)
    }
}

impl From<PoolError> for BenchError {
    fn from(error: PoolError) -> Self {
        BenchError::Index(error.into())
    }
}

impl From<everleaf::Error> for BenchError {
    fn from(error: everleaf::Error) -> Self {
        BenchError::Store(error)
    }
}
