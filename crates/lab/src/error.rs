//! Why a measurement was not made.

use std::fmt;
use std::io;

use everleaf_index::{IndexError, PoolError};

/// Why a measurement was not made. The message says what is wrong, where, and what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum LabError {
    /// The settings do not go together. The text says which, and what to choose.
    Settings(String),
    /// The integer tree or its pool refused an operation.
    Index(IndexError),
    /// The store refused an operation.
    Store(everleaf::Error),
    /// An operation did not do what it must: the index is wrong. The text says which and how.
    Wrong(String),
    /// What is measured, not one of ours, refused an operation. The text says who, and why.
    Target(String),
    /// The operating system refused something. The text says what was tried.
    Io(String, io::Error),
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabError::Settings(text) | LabError::Wrong(text) | LabError::Target(text) => {
                f.write_str(text)
            }
            LabError::Index(error) => error.fmt(f),
            LabError::Store(error) => error.fmt(f),
            LabError::Io(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LabError::Index(error) => Some(error),
            LabError::Store(error) => Some(error),
            LabError::Io(_, error) => Some(error),
            LabError::Settings(_) | LabError::Wrong(_) | LabError::Target(_) => None,
        }
    }
}

impl From<IndexError> for LabError {
    fn from(error: IndexError) -> Self {
        LabError::Index(error)
    }
}

impl From<PoolError> for LabError {
    fn from(error: PoolError) -> Self {
        LabError::Index(error.into())
    }
}

impl From<everleaf::Error> for LabError {
    fn from(error: everleaf::Error) -> Self {
        LabError::Store(error)
    }
}
