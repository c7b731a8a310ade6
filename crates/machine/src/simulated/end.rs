//! How a life on the simulated machine ends.

/// What ended a life, for the one that follows on the next level.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The power failed: what was not durable is lost.
    PowerCut,
    /// The process died: what was not durable is in the caches still.
    Killed,
}

impl End {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            End::PowerCut => "a crash",
            End::Killed => "a kill of the process, whose caches are kept,",
        }
    }
}
