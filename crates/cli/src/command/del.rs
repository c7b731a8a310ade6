//! `everleaf del`: removes keys.

use super::get::missing;
use crate::arguments::{EncodingArgs, pool_and_rest};
use crate::failure::Failure;
use crate::global::Global;
use crate::open::{self, MapArgs};
use crate::output::Output;
use clap::Args;
use serde::Serialize;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  everleaf del words.pool apple
  everleaf del words.pool apple pear plum
  everleaf del words.pool 00ff --hex

Ends with code 1 if a key was not there; the other keys are removed nevertheless.
With EVERLEAF_POOL set, POOL may be left out when one key is given.";

/// Remove keys
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, override_usage = "everleaf del [OPTIONS] [POOL] <KEY>...")]
pub struct DelArgs {
    /// The pool file (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
    /// The keys
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    pub keys: Vec<OsString>,
    /// Which map.
    #[command(flatten)]
    pub map: MapArgs,
    /// How keys are written.
    #[command(flatten)]
    pub encoding: EncodingArgs,
}

/// What is told as JSON.
#[derive(Serialize)]
struct Deleted {
    absent: usize,
    removed: usize,
}

/// Removes the keys.
pub fn run(args: DelArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, words) = pool_and_rest(args.pool, args.keys, &["KEY"])?;
    let decode = |word| args.encoding.decode("KEY", word);
    let keys = words.iter().map(|word| decode(word)).collect::<Result<Vec<_>, _>>()?;
    let store = open::for_writing(&pool, &args.map.trust, global)?;
    let map = open::existing_map(&store, &pool, args.map.map.as_deref())?;
    let mut absent = None;
    let mut removed = 0;
    for (key, word) in keys.iter().zip(&words) {
        if map.remove(key)? {
            removed += 1;
        } else {
            absent.get_or_insert(word);
        }
    }
    drop(map);
    store.close()?;
    if global.json {
        out.json(&Deleted { absent: keys.len() - removed, removed })?;
    } else if !global.quiet {
        out.line(&format!("removed {removed}"))?;
    }
    match absent {
        Some(word) => Err(missing(word, args.map.map.as_deref())),
        None => Ok(()),
    }
}
