//! What was done where a pool was rebuilt from its log.

use std::fmt;
use std::path::PathBuf;

/// What a rebuilding did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rebuilt {
    /// Pairs from the snapshot.
    pub snapshot_pairs: u64,
    /// Groups (a write or a batch each) that were replayed from the log.
    pub replayed: u64,
    /// Why newer snapshots were passed over.
    pub skipped: Vec<String>,
    /// What was damaged in the log, if it was [salvaged](crate::Options::salvage_log): what was logged behind the
    /// first of it is lost.
    pub damages: Vec<String>,
    /// Where the file is that was replaced, if it may be another pool, or have what the log has not. Nothing removes
    /// it but a later one of the same pool, which takes its place.
    pub kept: Option<PathBuf>,
}

/// A line for a log.
impl fmt::Display for Rebuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rebuilt { snapshot_pairs: pairs, replayed, skipped, damages, kept } = self;
        write!(
            f,
            "rebuilt the pool from {pairs} pairs of a snapshot and {replayed} commits of the log"
        )?;
        if !skipped.is_empty() {
            write!(f, "; newer snapshots were passed over: {}", skipped.join("; "))?;
        }
        if !damages.is_empty() {
            write!(f, "; what was logged behind damage is lost: {}", damages.join("; "))?;
        }
        match kept {
            Some(kept) => write!(
                f,
                "; the file that was there may have more, and is kept as {}",
                kept.display()
            ),
            None => Ok(()),
        }
    }
}
