//! What an import has done.

use std::collections::BTreeMap;

use crate::output::counted;

/// What was done.
#[derive(Default)]
pub struct Report {
    pub keys: u64,
    pub expired: u64,
    /// Collections without members.
    pub empty: u64,
    pub skipped: u64,
    pub verified: u64,
    /// Keys that were copied and then removed at the source.
    pub removed: u64,
    pub by_database: BTreeMap<u64, u64>,
}

/// What is said of collections without members, if there were any.
pub fn told_of_empty(report: &Report) -> String {
    match report.empty {
        0 => String::new(),
        count => format!(", {} left away", counted(count, "empty collection")),
    }
}
