//! What an import has done.

use std::collections::BTreeMap;

/// What was done.
#[derive(Default)]
pub struct Report {
    pub keys: u64,
    pub expired: u64,
    pub skipped: u64,
    pub verified: u64,
    /// Keys that were copied and then removed at the source.
    pub removed: u64,
    pub by_database: BTreeMap<u64, u64>,
}
