//! What a store does by itself, told to a program that wants to log it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use everleaf_index::human_size;

use crate::Error;
use crate::rebuilt::Rebuilt;

/// What an open store does without being asked, and how it ends; see [`Options::events`](crate::Options::events).
/// Its text is a line for a log.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A snapshot of so many pairs was written, because the log had become long or one was due, or owed since the
    /// process before died.
    Snapshot(u64),
    /// Such a snapshot could not be written. It is tried again; more failures are told only behind a success.
    SnapshotFailed(&'a Error),
    /// The log has failed: nothing can be written any more.
    LogFailed(&'a Error),
    /// The pool has lost its file: nothing can be written any more ([`Error::PoolGone`]).
    PoolGone(&'a Error),
    /// A batch that was cut short was finished, but for what a damaged record is in the way of: a key of which it
    /// changes the expiry alone keeps the one it had; in a full pool, one put and removals stay undone if that key's
    /// record is damaged. Such a key is [`Error::Corrupt`] for a program that verifies what it reads. Told while the
    /// store is opened, and once: a program that does not listen is told by nothing else
    /// ([`Statistics`](crate::Statistics) have no count).
    BatchLeft(&'a Error),
    /// The maximum size of the pool was raised to so many bytes while the store was opened: a batch was cut short while
    /// it was taken back, because it did not fit, and could only be finished. It stays so.
    MaximumRaised(u64),
    /// The pool was rebuilt from its log while the store was opened ([`Store::rebuilt`](crate::Store::rebuilt)).
    Rebuilt(&'a Rebuilt),
    /// The log was [salvaged](crate::Options::salvage_log) while the store was opened, and the pool, which has all that
    /// is lost of it, was not: what was damaged, and what was put aside.
    LogSalvaged(&'a [String]),
    /// A leaf that was [left](crate::Options::open_at_once) when the store was opened is damaged: what is in it is
    /// [`Error::Corrupt`] for an operation that touches it.
    Damage(&'a Error),
    /// All leaves that were left when the store was opened are restored, and what space is free is known.
    Restored,
    /// The last handle is gone, and the pool is closed: it can be opened again. (If the function itself dropped that
    /// handle, in a thread of the store's own, as soon as it has returned.)
    Closed,
    /// As [`Self::Closed`], but something went wrong: the next opening recovers the pool, or takes it for one whose
    /// machine crashed, if the disk refused a write.
    CloseFailed(&'a Error),
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Snapshot(pairs) => write!(f, "wrote a snapshot of {pairs} pairs"),
            Event::SnapshotFailed(error) => {
                write!(f, "a snapshot failed, and is tried again: {error}")
            }
            Event::LogFailed(error) => write!(f, "the log failed: {error}"),
            Event::PoolGone(error) => error.fmt(f),
            Event::BatchLeft(error) => {
                write!(
                    f,
                    "a batch that was cut short could not be finished where there is damage: {error}"
                )
            }
            Event::MaximumRaised(size) => write!(
                f,
                "the maximum size of the pool was raised to {}: a batch that was cut short did not fit otherwise",
                human_size(*size)
            ),
            Event::Rebuilt(rebuilt) => rebuilt.fmt(f),
            Event::LogSalvaged(damages) => {
                write!(f, "the log was salvaged: {}", damages.join("; "))
            }
            Event::Damage(error) => write!(f, "a part of a map cannot be read: {error}"),
            Event::Restored => f.write_str("everything that opening had left is restored"),
            Event::Closed => f.write_str("closed"),
            Event::CloseFailed(error) => write!(f, "closing failed: {error}"),
        }
    }
}

/// What is called with events.
#[derive(Clone, Default)]
pub(crate) struct EventFn(Option<Arc<Callback>>);

type Callback = dyn Fn(&Event<'_>) + Send + Sync;

impl EventFn {
    pub fn new(tell: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        EventFn(Some(Arc::new(tell)))
    }

    /// As this, of a store that is opened for a moment and that nobody is given: only what its opening did besides, and
    /// what it could not do.
    pub fn of_opening(&self) -> Self {
        EventFn(self.0.clone().map(|tell| {
            let only: Arc<Callback> = Arc::new(move |event: &Event<'_>| {
                if matches!(
                    event,
                    Event::BatchLeft(_)
                        | Event::MaximumRaised(_)
                        | Event::Rebuilt(_)
                        | Event::LogSalvaged(_)
                ) {
                    tell(event);
                }
            });
            only
        }))
    }

    /// A panic of the function ends with it: what the store does by itself, and its end, go on.
    pub fn tell(&self, event: &Event<'_>) {
        if let Some(tell) = &self.0 {
            // What a panic may leave half done is the function's own.
            if let Err(thrown) = catch_unwind(AssertUnwindSafe(|| tell(event))) {
                // To drop it is a call of the program's, which may panic again.
                std::mem::forget(thrown);
            }
        }
    }
}

impl fmt::Debug for EventFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventFn")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    /// The second panic left the end of the store half done.
    #[test]
    fn what_is_thrown_is_not_dropped() {
        EventFn::new(|_| std::panic::panic_any(Bomb)).tell(&Event::Closed);
    }
}
