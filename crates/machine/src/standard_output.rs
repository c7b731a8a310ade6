//! Whether the process was begun with a standard output.
//!
//! The standard library opens `/dev/null` in place of a standard descriptor that is closed when a program begins, so
//! that no other file gets its number. From then on nobody can tell that what is printed goes nowhere: a program that
//! was begun with the null device looks the same. So it is looked at before that, by a function that the loader calls
//! ahead of `main`.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, fcntl_getfd};

const STANDARD_OUTPUT: i32 = 1;
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Called by the loader.
// SAFETY: the section holds pointers to functions of the C interface that return, which is what this is. `look` takes
// fewer arguments than some loaders pass, which that interface allows, and uses nothing that `main` would have to set
// up.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: the kernel is only asked whether the number is of an open file. Nobody else runs that could close it.
    let output = unsafe { BorrowedFd::borrow_raw(STANDARD_OUTPUT) };
    let was_closed = matches!(fcntl_getfd(output), Err(Errno::BADF));
    // Relaxed: written once, before there is a second thread.
    WAS_CLOSED.store(was_closed, Ordering::Relaxed);
}

/// Whether the standard output was closed when the process began, so that what is written to it is lost.
pub fn standard_output_was_closed() -> bool {
    // Relaxed: written once, in `look`.
    WAS_CLOSED.load(Ordering::Relaxed)
}
