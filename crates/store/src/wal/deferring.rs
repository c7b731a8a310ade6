//! Writes of a thread that are waited for together.

use std::cell::Cell;

use everleaf_log::Lsn;

use super::StoreLog;
use crate::Result;

/// What a thread waits for later.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Deferred {
    /// The log whose writes these are, by its number.
    log: u64,
    /// The last of them; 0: none.
    last: Lsn,
    /// Whether the thread was told that the wait for them has failed.
    is_told: bool,
}

thread_local! {
    static DEFERRED: Cell<Option<Deferred>> = const { Cell::new(None) };
}

impl StoreLog {
    /// Lets writes of this thread return at once, to be waited for together. What nobody has waited for stays noted.
    pub fn defer(&self) {
        let last = match DEFERRED.get() {
            Some(deferred) if deferred.log == self.id && deferred.is_told => 0,
            Some(deferred) if deferred.log == self.id => deferred.last,
            // What was noted for this log, if anything was, has made way for that of another.
            Some(_) => self.log.last_lsn(),
            None => 0,
        };
        DEFERRED.set(Some(Deferred { log: self.id, last, is_told: false }));
    }

    /// Whether a write of this thread is to be waited for later; takes note of it.
    #[inline]
    pub fn defers(&self, lsn: Lsn) -> bool {
        match DEFERRED.get() {
            Some(deferred) if deferred.log == self.id => {
                let last = deferred.last.max(lsn);
                DEFERRED.set(Some(Deferred { last, is_told: false, ..deferred }));
                true
            }
            _ => false,
        }
    }

    /// Waits for the writes of this thread that were deferred.
    #[inline]
    pub fn wait_deferred(&self) -> Result<()> {
        match DEFERRED.get() {
            Some(deferred) if deferred.last != 0 && deferred.log == self.id => {
                let waited = match self.mutant("store.deferred_unwaited") {
                    true => Ok(()),
                    false => self.wait(deferred.last),
                };
                if DEFERRED.get() == Some(deferred) {
                    let last = if waited.is_ok() { 0 } else { deferred.last };
                    DEFERRED.set(Some(Deferred { last, is_told: waited.is_err(), ..deferred }));
                }
                waited
            }
            // As in `defer`.
            Some(deferred) if deferred.log != self.id => self.wait(self.log.last_lsn()),
            _ => Ok(()),
        }
    }
}
