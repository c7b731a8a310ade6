//! `everleaf stat`: figures about a pool.

use crate::arguments::pool_and_rest;
use crate::failure::Failure;
use crate::global::Global;
use crate::open::{self, TrustArgs};
use crate::output::{Output, counted, human_duration};
use clap::Args;
use everleaf::{MapStatistics, Statistics, human_size};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  everleaf stat words.pool
  everleaf stat words.pool --json | jq .keys";

const NOT_CAUGHT_UP: &str =
    "lacks the last writes of the process that died; the next opening for writing adds them";

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
    let statistics = store.statistics();
    if global.json {
        return out.json(&Figures::of(&statistics, &pool));
    }
    out.line(&format!("{:<12} {}", "pool", pool.display()))?;
    for (name, text) in as_text(&statistics) {
        out.line(&format!("{name:<12} {text}"))?;
    }
    Ok(())
}

/// The figures for people: sizes and times in their units.
fn as_text(statistics: &Statistics) -> Vec<(&'static str, String)> {
    let size = |bytes| human_size(bytes);
    let closed = if statistics.was_clean { "closed" } else { "not closed" };
    let leaves = match statistics.leaves {
        1 => "1 leaf".to_string(),
        count => format!("{count} leaves"),
    };
    let mut figures = vec![
        ("keys", statistics.keys.to_string()),
        ("maps", statistics.maps.to_string()),
        ("domain", statistics.domain.to_string()),
        ("durability", statistics.durability.to_string()),
        (
            "size",
            format!(
                "{}: {} used, {} returned to the file system, {} at most",
                size(statistics.pool_size_bytes),
                size(statistics.pool_used_bytes),
                size(statistics.pool_returned_bytes),
                size(statistics.pool_max_bytes)
            ),
        ),
        ("memory", format!("{} for inner nodes and leaf metadata", size(statistics.memory_bytes))),
        ("trees", format!("{leaves}, {} at most", counted(statistics.height, "level"))),
        (
            "opened",
            format!(
                "in {}; it was {closed} cleanly",
                human_duration(statistics.recovery.as_secs_f64())
            ),
        ),
    ];
    if statistics.log_bytes > 0 {
        figures.push(("log", format!("{} since the last snapshot", size(statistics.log_bytes))));
    }
    if statistics.log_owes_snapshot {
        figures.push(("log", NOT_CAUGHT_UP.to_string()));
    }
    figures
}

/// The figures for programs: bytes and nanoseconds.
#[derive(Serialize)]
struct Figures {
    by_map: BTreeMap<String, MapFigures>,
    domain: String,
    durability: String,
    height: u64,
    keys: u64,
    leaves: u64,
    log_bytes: u64,
    log_owes_snapshot: bool,
    maps: u64,
    memory_bytes: u64,
    merges: u64,
    pool: String,
    pool_max_bytes: u64,
    pool_returned_bytes: u64,
    pool_size_bytes: u64,
    pool_used_bytes: u64,
    recovered_batches: u64,
    recovery_ns: u64,
    splits: u64,
    was_clean: bool,
}

/// The figures of a map.
#[derive(Serialize)]
struct MapFigures {
    expiring_keys: u64,
    expiring_mean_ns: u64,
    height: u64,
    keys: u64,
    leaves: u64,
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl MapFigures {
    fn of(map: &MapStatistics) -> Self {
        MapFigures {
            expiring_keys: map.expiring_keys,
            expiring_mean_ns: nanoseconds(map.expiring_mean),
            height: map.height,
            keys: map.keys,
            leaves: map.leaves,
        }
    }
}

impl Figures {
    fn of(statistics: &Statistics, pool: &Path) -> Self {
        let of_map = |(name, map): (&String, &MapStatistics)| (name.clone(), MapFigures::of(map));
        Figures {
            by_map: statistics.by_map.iter().map(of_map).collect(),
            domain: statistics.domain.to_string(),
            durability: statistics.durability.to_string(),
            height: statistics.height,
            keys: statistics.keys,
            leaves: statistics.leaves,
            log_bytes: statistics.log_bytes,
            log_owes_snapshot: statistics.log_owes_snapshot,
            maps: statistics.maps,
            memory_bytes: statistics.memory_bytes,
            merges: statistics.merges,
            pool: pool.to_string_lossy().into_owned(),
            pool_max_bytes: statistics.pool_max_bytes,
            pool_returned_bytes: statistics.pool_returned_bytes,
            pool_size_bytes: statistics.pool_size_bytes,
            pool_used_bytes: statistics.pool_used_bytes,
            recovered_batches: statistics.recovered_batches,
            recovery_ns: nanoseconds(statistics.recovery),
            splits: statistics.splits,
            was_clean: statistics.was_clean,
        }
    }
}
