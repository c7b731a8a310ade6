//! `everleaf maps`: the maps of a pool.

use crate::arguments::pool_and_rest;
use crate::failure::Failure;
use crate::format::tsv;
use crate::global::Global;
use crate::open::{self, TrustArgs};
use crate::output::Output;
use clap::Args;
use serde::Serialize;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  everleaf maps words.pool
  everleaf maps words.pool --json

Each line is the name of a map, a tab, and the number of its keys (`integers` for a map of 64-bit
integers, which the command line does not read). The first `everleaf put --map NAME`
or `everleaf load --map NAME` makes a map.";

/// List the maps of a pool
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct MapsArgs {
    /// The pool file (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
    /// Whether to trust the pool.
    #[command(flatten)]
    pub trust: TrustArgs,
}

/// What is told as JSON.
#[derive(Serialize)]
struct Listed<'a> {
    keys: Option<u64>,
    map: &'a str,
}

/// Prints the names and sizes.
pub fn run(args: MapsArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, _) = pool_and_rest(args.pool, Vec::new(), &[])?;
    let store = open::for_reading(&pool, &args.trust)?;
    for name in store.map_names() {
        let map = match store.existing_map(&name) {
            // A map of integers: it is there, and only the library can look into it.
            Err(everleaf::Error::BadName(_)) => None,
            map => map?,
        };
        let keys = map.map(|map| map.len());
        if global.json {
            out.json(&Listed { keys, map: &name })?;
        } else {
            let keys = keys.map_or_else(|| "integers".to_owned(), |keys| keys.to_string());
            tsv::write_field(out.writer(), name.as_bytes()).map_err(|e| Failure::output(&e))?;
            out.line(&format!("\t{keys}"))?;
        }
    }
    Ok(())
}
