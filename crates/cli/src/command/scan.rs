//! `everleaf scan`: pairs in key order.

use crate::arguments::{EncodingArgs, KeyRange, RangeArgs, pool_and_rest};
use crate::failure::Failure;
use crate::format::Format;
use crate::global::Global;
use crate::open::{self, MapArgs};
use crate::output::{Output, counted};
use clap::Args;
use everleaf::Map;
use everleaf_server::CollectionHeaders;
use serde::Serialize;
use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;

const EXAMPLES: &str = "\
Examples:
  everleaf scan words.pool                          everything, in the byte order of the keys
  everleaf scan words.pool --prefix ap --limit 10
  everleaf scan words.pool --from a --to c          from a on, up to but without c
  everleaf scan words.pool --reverse --limit 1      the last pair
  everleaf scan words.pool --prefix ap --count      how many
  everleaf scan words.pool --json | jq .key

Each line is KEY<tab>VALUE, as `everleaf load --format tsv` reads it: \\t \\n \\r \\\\ stand for
tab, line feed, carriage return and backslash. --json prints one JSON object per line.
Ends with code 1 if keys that hold collections were left out.";

/// Print pairs in the order of their keys
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ScanArgs {
    /// The pool file (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
    /// Which keys.
    #[command(flatten)]
    pub range: RangeArgs,
    /// From the last key to the first
    #[arg(long)]
    pub reverse: bool,
    /// At most this many pairs
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Leave the values out
    #[arg(long)]
    pub keys_only: bool,
    /// Print only how many pairs there are
    #[arg(long, conflicts_with = "keys_only")]
    pub count: bool,
    /// Which map.
    #[command(flatten)]
    pub map: MapArgs,
    /// How keys and values are written.
    #[command(flatten)]
    pub encoding: EncodingArgs,
}

/// What is told as JSON.
#[derive(Serialize)]
struct Counted {
    count: u64,
}

/// Prints the pairs.
pub fn run(args: ScanArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, _) = pool_and_rest(args.pool, Vec::new(), &[])?;
    let range = args.range.bounds(&args.encoding)?;
    let store = open::for_reading(&pool, &args.map.trust)?;
    let map = open::existing_map(&store, &pool, args.map.map.as_deref())?;
    let selection = Selection { range, reverse: args.reverse, limit: args.limit };
    if args.count {
        let count = selection.visit(&map, |_, _| Ok(()))?.map_err(|e| Failure::output(&e))?;
        return match global.json {
            true => out.json(&Counted { count }),
            false => out.line(&count.to_string()),
        };
    }
    let headers = CollectionHeaders::of(&store)?;
    let mut left_out = 0;
    // Of a key that holds a collection there is no value to show.
    let mut is_shown = |value: &[u8]| {
        let is_shown = args.keys_only || headers.kind(value).is_none();
        left_out += u64::from(!is_shown);
        is_shown
    };
    let format = if global.json { Format::Jsonl } else { Format::Tsv };
    let mut lines = format.writer(out.writer(), args.keys_only);
    let encoding = &args.encoding;
    let visited = if global.json || encoding.is_plain() {
        let write = |key: &[u8], value: &[u8]| match is_shown(value) {
            true => lines.write(key, value),
            false => Ok(()),
        };
        selection.visit(&map, write)?
    } else {
        let write = |key: &[u8], value: &[u8]| match is_shown(value) {
            true => lines.write(&encoding.encode(key), &encoding.encode(value)),
            false => Ok(()),
        };
        selection.visit(&map, write)?
    };
    // What the pair writer holds goes to the output, which is written out when the command ends.
    visited.and_then(|_| lines.flush()).map_err(|error| Failure::output(&error))?;
    drop(lines);
    match left_out {
        0 => Ok(()),
        _ => Err(Failure::not_found(format!(
            "{} with lists, hashes or sets left out: --keys-only shows their keys, `everleaf export --format resp` \
             their members",
            counted(left_out, "key")
        ))),
    }
}

/// Which pairs, and in which order.
pub struct Selection {
    /// The keys; `None` if there are none.
    pub range: Option<KeyRange>,
    /// From the last to the first.
    pub reverse: bool,
    /// At most so many.
    pub limit: Option<u64>,
}

impl Selection {
    /// Calls `f` for each pair until it fails: how many pairs there were, or why `f` failed.
    ///
    /// The outer error is the store's, the inner one is of `f`.
    ///
    /// `f` runs inside the store's scan: the process has the pool for itself, so that nothing waits
    /// while `f` writes to a slow pipe.
    pub fn visit(
        &self,
        map: &Map,
        mut f: impl FnMut(&[u8], &[u8]) -> io::Result<()>,
    ) -> Result<io::Result<u64>, Failure> {
        let limit = self.limit.unwrap_or(u64::MAX);
        let (Some(range), true) = (&self.range, limit > 0) else { return Ok(Ok(0)) };
        let mut count = 0;
        let mut written = Ok(());
        let scan = map.scan(range.as_bounds()).limit(usize::try_from(limit).unwrap_or(usize::MAX));
        let scan = if self.reverse { scan.reverse() } else { scan };
        scan.visit(|key, value| {
            written = f(key, value);
            if written.is_err() {
                return ControlFlow::Break(());
            }
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(written.map(|()| count))
    }
}
