//! `everleaf create`: a new, empty pool.

use crate::arguments::{NewPoolArgs, TreeArg, pool_and_rest};
use crate::command::serve::DurabilityArg;
use crate::failure::Failure;
use crate::global::Global;
use crate::output::Output;
use clap::Args;
use everleaf::Options;
use serde::Serialize;
use std::borrow::Cow;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  everleaf create words.pool
  everleaf create words.pool --size 256M --max-size 10G
  everleaf create /mnt/pmem/words.pool --domain adr
  everleaf create words.pool --durability interval

The pool is one file. It grows in place, up to the maximum size. Everything acknowledged survives
`kill -9`. On an ordinary disk a pool that is open when the machine crashes is refused afterwards,
unless it has a log: --durability interval or power gives it one.";

/// Create a new, empty pool
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CreateArgs {
    /// The file to create; it must not exist (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
    /// What survives: `process` (the death of the process), `interval` (a crash of the machine loses the
    /// last --interval), or `power` (also a crash of the machine) [default: process]
    #[arg(long, value_enum)]
    pub durability: Option<DurabilityArg>,
    /// How much a crash of the machine may lose with `--durability interval` [default: 1000]
    #[arg(long, value_name = "MILLISECONDS", requires = "durability")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub interval: Option<u64>,
    /// The tree that maps are in [default: nbtree]
    #[arg(long, value_enum)]
    pub tree: Option<TreeArg>,
    /// The properties of the pool.
    #[command(flatten)]
    pub new_pool: NewPoolArgs,
}

/// What is told as JSON.
#[derive(Serialize)]
struct Created<'a> {
    domain: String,
    pool: Cow<'a, str>,
    pool_max_bytes: u64,
    pool_size_bytes: u64,
}

/// Creates the pool.
pub fn run(args: CreateArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, _) = pool_and_rest(args.pool, Vec::new(), &[])?;
    let mut options = args.new_pool.apply(Options::new().create_new(true))?;
    if let Some(durability) = args.durability {
        options = options.durability(durability.with(args.interval)?);
    }
    if let Some(tree) = args.tree {
        options = options.tree(tree.into());
    }
    let store = options.open(&pool)?;
    let statistics = store.statistics();
    store.close()?;
    if global.json {
        out.json(&Created {
            domain: statistics.domain.to_string(),
            pool: pool.to_string_lossy(),
            pool_max_bytes: statistics.pool_max_bytes,
            pool_size_bytes: statistics.pool_size_bytes,
        })
    } else if global.quiet {
        Ok(())
    } else {
        out.line(&format!("created {}", pool.display()))
    }
}
