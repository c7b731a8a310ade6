//! `everleaf snapshot`: a short log.

use crate::arguments::pool_and_rest;
use crate::failure::Failure;
use crate::global::Global;
use crate::open::{self, TrustArgs};
use crate::output::{Output, counted};
use clap::Args;
use serde::Serialize;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  everleaf snapshot words.pool
  redis-cli -p 6399 bgsave                          while a server has the pool

Only for a pool with a log (durability `interval` or `power`). If the pool is lost, or the machine crashed
while it was open, opening it rebuilds it from the log first. Snapshots are also written automatically as the
log grows.";

/// Write a snapshot of a pool that has a log, or rebuild a lost pool
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SnapshotArgs {
    /// The pool file (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
    /// Whether to trust the pool.
    #[command(flatten)]
    pub trust: TrustArgs,
}

/// What is told as JSON.
#[derive(Serialize)]
struct Snapshot {
    keys: u64,
}

/// Writes the snapshot.
pub fn run(args: SnapshotArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, _) = pool_and_rest(args.pool, Vec::new(), &[])?;
    let store = open::for_writing(&pool, &args.trust, global)?;
    let pairs = store.snapshot()?;
    store.close()?;
    if global.json {
        return out.json(&Snapshot { keys: pairs });
    }
    if global.quiet {
        return Ok(());
    }
    out.line(&format!("wrote a snapshot of {}", counted(pairs, "key")))
}
