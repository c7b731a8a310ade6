//! A wall clock that a test has set, for the calling thread alone.

use std::cell::Cell;

thread_local! {
    static SET_MS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// What the clock was set to.
pub(super) fn set_ms() -> Option<u64> {
    SET_MS.get()
}

/// Sets it, or takes it back.
pub(super) fn set(ms: Option<u64>) {
    SET_MS.set(ms);
}
