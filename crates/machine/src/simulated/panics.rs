//! Panics of the program under test become failures of the schedule, without a word on stderr.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use super::current;

thread_local! {
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the process's panic hook for everybody else and stays silent on a simulated machine.
pub fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| match current::core() {
            None => previous(info),
            Some(core) => {
                // Destructors that run now must not wait for others.
                core.dying.set(true);
                let place = info.location().map(ToString::to_string).unwrap_or_default();
                PLACE.with_borrow_mut(|kept| *kept = place);
            }
        }));
    });
}

/// Runs `work`; a panic becomes its message with its place.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        if let Some(core) = current::core() {
            core.dying.set(false);
        }
        let place = PLACE.with_borrow(Clone::clone);
        format!("panicked at {place}: {}", message(payload.as_ref()))
    })
}

fn message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no message)")
}
