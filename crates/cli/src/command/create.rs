//! `everleaf create`: a new, empty pool.

use crate::arguments::{NewPoolArgs, pool_and_rest};
use crate::cli::Global;
use crate::failure::Failure;
use crate::output::Output;
use clap::Args;
use everleaf::Options;
use serde_json::json;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  everleaf create words.pool
  everleaf create words.pool --size 256M --max-size 10G
  everleaf create /mnt/pmem/words.pool --domain line

The pool is one file. It grows in place, up to the maximum size.";

/// Create a new, empty pool
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CreateArgs {
    /// The file to create; it must not exist (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
    /// The properties of the pool.
    #[command(flatten)]
    pub new_pool: NewPoolArgs,
}

/// Creates the pool.
pub fn run(args: CreateArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, _) = pool_and_rest(args.pool, Vec::new(), &[])?;
    let store = args.new_pool.apply(Options::new().create_new(true))?.open(&pool)?;
    let statistics = store.statistics();
    store.close()?;
    if global.json {
        out.json(&json!({
            "pool": pool.to_string_lossy(),
            "pool_size_bytes": statistics.pool_size_bytes,
            "pool_max_bytes": statistics.pool_max_bytes,
            "domain": statistics.domain,
        }))
    } else if global.quiet {
        Ok(())
    } else {
        out.line(&format!("created {}", pool.display()))
    }
}
