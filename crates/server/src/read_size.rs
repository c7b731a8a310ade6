//! How many bytes of values this thread has read.
//!
//! A value is summed as a whole each time that it is looked at, whatever the answer is: a command that should be fast
//! takes long with a long value. That is told by its bytes, since reading the clock takes as long as a part of a
//! short command.

use std::cell::Cell;

/// Bytes that take some microseconds.
const LARGE: usize = 64 << 10;

thread_local! {
    static SIZE: Cell<usize> = const { Cell::new(0) };
}

/// Counts a value that was read, and gives it back.
#[inline]
pub fn counted(value: &[u8]) -> &[u8] {
    SIZE.set(SIZE.get().saturating_add(value.len()));
    value
}

/// Whether so much was read that it may have taken long.
#[inline]
pub fn is_large() -> bool {
    SIZE.get() >= LARGE
}

/// Begins anew.
pub fn forget() {
    SIZE.set(0);
}
