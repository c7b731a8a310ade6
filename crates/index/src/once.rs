//! Code that hardware has in each place from which it is called, and the simulated machine in one.

/// Calls `body`, which is not compiled into the caller.
///
/// On hardware a write of a key is compiled into all that write: the way down begins with a key in registers. On the
/// simulated machine, which runs trees of many sizes for moments, that code would be most of a build, so the functions
/// that are on everybody's way are called there instead (`if M::SIMULATED`).
#[inline(never)]
pub(crate) fn once<R>(body: impl FnOnce() -> R) -> R {
    body()
}
