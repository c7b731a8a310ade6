//! How far a batch came.

/// How far a batch came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchEnd {
    /// Bytes of the requests that were run.
    pub consumed: usize,
    /// True if it ended because the replies must be sent first, a command waits, or others have their turn.
    pub is_paused: bool,
    /// The command that was parsed and not run, to be done together with those of other connections.
    pub gathered: Option<usize>,
}

impl BatchEnd {
    pub(super) fn paused(consumed: usize) -> Self {
        BatchEnd { consumed, is_paused: true, gathered: None }
    }

    pub(super) fn done(consumed: usize) -> Self {
        BatchEnd { consumed, is_paused: false, gathered: None }
    }
}
