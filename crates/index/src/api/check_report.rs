//! What a check of all trees found.

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Keys in all trees.
    pub keys: u64,
    /// Leaves of all trees.
    pub leaves: u64,
    /// Whether the pool was closed cleanly and nothing that it held then was missing when it was
    /// opened. If not, and the pool is not new, entries or leaves may be missing that nothing tells
    /// of.
    pub is_complete: bool,
    /// If it is not known to be complete: leaves that were written since the last clean close. The
    /// others are as they were then.
    pub unproven_leaves: u64,
    /// What is wrong, in sentences; empty if nothing is.
    pub problems: Vec<String>,
    /// Damaged copies of what a pool keeps twice, in sentences: the other one serves, and opening the pool for writing
    /// mends them.
    pub damaged_copies: Vec<String>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty() && self.damaged_copies.is_empty()
    }
}
