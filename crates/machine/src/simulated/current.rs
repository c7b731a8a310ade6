//! The machine that this OS thread simulates now, if any.

use std::cell::Cell;
use std::ptr;

use super::core::Core;

thread_local! {
    static CURRENT: Cell<*const Core> = const { Cell::new(ptr::null()) };
}

/// The simulated machine of this OS thread; none outside of a run.
#[inline(always)]
pub fn core<'a>() -> Option<&'a Core> {
    // SAFETY: the pointer is set only by `enter`, whose guard clears it before the core goes away;
    // callers are machine operations, which end (or are abandoned with their fiber) before that.
    unsafe { CURRENT.get().as_ref() }
}

/// Makes `core` current until the guard is dropped.
pub fn enter(core: &Core) -> Entered<'_> {
    Entered { previous: CURRENT.replace(core), core }
}

/// See [`enter`].
pub struct Entered<'a> {
    previous: *const Core,
    #[expect(dead_code, reason = "keeps the core borrowed as long as it is current")]
    core: &'a Core,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        CURRENT.set(self.previous);
    }
}
