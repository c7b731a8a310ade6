//! Whether the process was begun with a standard input and a standard output.
//!
//! The standard library opens `/dev/null` in place of a standard descriptor that is closed when a program begins, so
//! that no other file gets its number, and it takes the answer `EBADF` to a read for the end of the input and to a
//! write
//! for success. From then on nobody can tell that what is printed goes nowhere, or that what is read is no empty file:
//! a program that was begun with the null device looks the same. So it is looked at before that, by a function that the
//! loader calls ahead of `main`.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;

const STANDARD_INPUT: i32 = 0;
const STANDARD_OUTPUT: i32 = 1;
static INPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);
static OUTPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Called by the loader.
// SAFETY: the section holds pointers to functions of the C interface that return, which is what this is. `look` takes
// fewer arguments than some loaders pass, which that interface allows, and uses nothing that `main` would have to set
// up.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // Relaxed: written once, before there is a second thread.
    INPUT_WAS_CLOSED.store(was_closed(STANDARD_INPUT, OFlags::WRONLY), Ordering::Relaxed);
    // Relaxed: as the input.
    OUTPUT_WAS_CLOSED.store(was_closed(STANDARD_OUTPUT, OFlags::RDONLY), Ordering::Relaxed);
}

/// Whether there is nothing behind a number, or something that is open for the other direction alone.
fn was_closed(number: i32, other_direction: OFlags) -> bool {
    // SAFETY: the kernel is only asked how the number is open. Nobody else runs that could close it.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    match fcntl_getfl(descriptor) {
        Ok(flags) => flags & OFlags::RWMODE == other_direction || flags.contains(OFlags::PATH),
        Err(error) => error == Errno::BADF,
    }
}

/// Whether the standard input could not be read when the process began: what looks like its end is none.
pub fn standard_input_was_closed() -> bool {
    // Relaxed: written once, in `look`.
    INPUT_WAS_CLOSED.load(Ordering::Relaxed)
}

/// Whether the standard output could not be written when the process began: what is written to it is lost.
pub fn standard_output_was_closed() -> bool {
    // Relaxed: written once, in `look`.
    OUTPUT_WAS_CLOSED.load(Ordering::Relaxed)
}
