//! An embedded ordered key-value store whose operations survive the death of the process.

#![forbid(unsafe_code)]

mod error;
mod placeholder;

pub use error::{Error, KEY_SIZE_MAX, VALUE_SIZE_MAX};
pub use placeholder::*;

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, Error>;
