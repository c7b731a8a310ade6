//! A wall clock that a test has set, for the calling thread alone.

use std::cell::Cell;

use super::Hardware;

thread_local! {
    static SET_MS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// What the clock was set to.
pub(super) fn set_ms() -> Option<u64> {
    SET_MS.get()
}

impl Hardware {
    /// Sets the wall clock of the calling thread to so many milliseconds since 1970-01-01 UTC; `None`: it is that
    /// of the system again.
    pub fn set_wall_clock_ms(ms: Option<u64>) {
        SET_MS.set(ms);
    }
}
