//! The one way to the standard input, which `-` stands for in place of a file.
//!
//! A standard input that was closed from the start (`<&-`) is no empty one, nor is one that is open for writing alone:
//! a command that takes a value from there would replace it by nothing.

use crate::failure::Failure;
use everleaf::standard_input_was_closed;
use std::io::{self, StdinLock};

/// The standard input, locked until it is dropped: there is one at a time.
pub fn standard_input() -> Result<StdinLock<'static>, Failure> {
    match standard_input_was_closed() {
        true => Err(Failure::io("cannot read -", &io::Error::from_raw_os_error(libc::EBADF))),
        false => Ok(io::stdin().lock()),
    }
}
