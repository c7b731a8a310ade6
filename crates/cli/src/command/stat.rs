//! `everleaf stat`: figures about a pool.

use crate::arguments::pool_and_rest;
use crate::cli::Global;
use crate::failure::Failure;
use crate::open::{self, TrustArgs};
use crate::output::Output;
use clap::Args;
use everleaf::Statistics;
use serde_json::{Value, json};
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  everleaf stat words.pool
  everleaf stat words.pool --json | jq .keys";

/// Print figures about a pool
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct StatArgs {
    /// The pool file (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
    /// Whether to trust the pool.
    #[command(flatten)]
    pub trust: TrustArgs,
}

/// Prints the figures.
pub fn run(args: StatArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, _) = pool_and_rest(args.pool, Vec::new(), &[])?;
    let store = open::for_reading(&pool, &args.trust)?;
    let figures = figures(&store.statistics());
    if global.json {
        let mut object = serde_json::Map::new();
        object.insert("pool".to_string(), pool.to_string_lossy().into());
        object.extend(figures.into_iter().map(|(name, value)| (name.to_string(), value)));
        return out.json(&object.into());
    }
    out.line(&format!("{:<18} {}", "pool", pool.display()))?;
    for (name, value) in figures {
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Null => "unknown".to_string(),
            other => other.to_string(),
        };
        out.line(&format!("{name:<18} {text}"))?;
    }
    Ok(())
}

fn figures(statistics: &Statistics) -> Vec<(&'static str, Value)> {
    vec![
        ("keys", json!(statistics.keys)),
        ("maps", json!(statistics.maps)),
        ("domain", json!(statistics.domain)),
        ("pool_size_bytes", json!(statistics.pool_size_bytes)),
        ("pool_used_bytes", json!(statistics.pool_used_bytes)),
        ("pool_max_bytes", json!(statistics.pool_max_bytes)),
        ("memory_bytes", json!(statistics.memory_bytes)),
        ("height", json!(statistics.height)),
        ("splits", json!(statistics.splits)),
        ("merges", json!(statistics.merges)),
        ("recovery_ns", json!(statistics.recovery.as_nanos() as u64)),
        ("was_clean", json!(statistics.was_clean)),
    ]
}
