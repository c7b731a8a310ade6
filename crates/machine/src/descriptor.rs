//! Descriptors of files that must not be taken for a standard stream.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The first number that is no standard stream.
const FIRST: i32 = 3;

/// A descriptor of the same open file that is no standard stream; closed in a program that is run.
///
/// A program that was started with its standard error closed (`2>&-`) gets the number 2 for the next file that it
/// opens, and whatever any library prints as an error is written to that file. So a file that holds data has another
/// number. Call it before the file is locked: the descriptor that is given up is closed.
///
/// *Complexity.* One system call for a standard stream, none for others. *Thread safety.* By any thread.
///
/// # Errors
/// `EMFILE`: the process has as many descriptors as it may have.
///
/// # Example
/// ```
/// use std::os::fd::AsRawFd;
/// let file = everleaf_machine::above_standard_streams(std::fs::File::open("/dev/null")?.into())?;
/// assert!(file.as_raw_fd() >= 3);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn above_standard_streams(descriptor: OwnedFd) -> io::Result<OwnedFd> {
    if descriptor.as_raw_fd() >= FIRST {
        return Ok(descriptor);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&descriptor, FIRST)?)
}
