//! `everleaf upgrade`: a pool of an older version gets what this one can do.

use crate::arguments::pool_and_rest;
use crate::failure::Failure;
use crate::global::Global;
use crate::open::{Rebuilding, without_trust};
use crate::output::Output;
use clap::Args;
use everleaf::Options;
use serde::Serialize;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  everleaf upgrade words.pool

A pool of an older version works without this command: each new feature is noted in the pool when it is
first used. From then on, or after `everleaf upgrade`, older versions refuse the pool.";

/// Upgrade a pool from an older version, after which older versions refuse it
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct UpgradeArgs {
    /// The pool file (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
}

/// What is told as JSON.
#[derive(Serialize)]
struct Upgraded<'a> {
    new: &'a [&'static str],
}

/// Upgrades the pool.
pub fn run(args: UpgradeArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, _) = pool_and_rest(args.pool, Vec::new(), &[])?;
    let rebuilding = Rebuilding::new(global);
    let new = rebuilding.shown_by(Options::new()).upgrade(&pool).map_err(without_trust)?;
    drop(rebuilding);
    if global.json {
        return out.json(&Upgraded { new: &new });
    }
    match new.as_slice() {
        _ if global.quiet => Ok(()),
        [] => out.line(&format!("{} is up to date", pool.display())),
        new => out.line(&format!("{} now has {}", pool.display(), new.join(" and "))),
    }
}
