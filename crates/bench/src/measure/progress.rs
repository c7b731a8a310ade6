//! What a run tells while it goes on.

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress<'p> {
    /// What is being done, such as "get uniform, 1 thread, round 2 of 5".
    pub what: &'p str,
    /// Measurements done.
    pub done: u64,
    /// Measurements in all.
    pub total: u64,
}
