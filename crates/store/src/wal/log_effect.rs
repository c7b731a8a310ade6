//! What a write did, for the log.

/// What a write did to its key, for the log.
#[derive(Clone, Copy)]
pub enum LogEffect<'v> {
    /// No change: nothing to log.
    Unchanged,
    /// The key has this value now, which never expires.
    Value(&'v [u8]),
    /// The key was removed.
    Removed,
    /// The key has the value that it had, and expires at this time (0: never).
    Expiry(u64),
    /// The key has another record now: it has to be read again from the tree.
    Reread,
}

impl LogEffect<'_> {
    /// A record to be read again, if it `changed`.
    pub fn if_changed(changed: bool) -> Self {
        if changed { LogEffect::Reread } else { LogEffect::Unchanged }
    }

    /// An expiry that is this one now, if it `changed`.
    pub fn expiry_if_changed(changed: bool, expiry_ms: u64) -> Self {
        if changed { LogEffect::Expiry(expiry_ms) } else { LogEffect::Unchanged }
    }
}
