//! `everleaf check`: reads everything in a pool and names what is damaged.

use crate::arguments::pool_and_rest;
use crate::failure::Failure;
use crate::global::Global;
use crate::open::{self, TrustArgs};
use crate::output::{Output, counted};
use clap::Args;
use everleaf::CheckReport;
use everleaf_server::CollectionReport;
use serde::Serialize;
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  everleaf check words.pool
  everleaf check words.pool --json | jq -r '.problems[]'

Ends with code 0 if the pool is sound, 1 if something in it is damaged, 4 if it cannot be opened, 5 if
another process has it open.";

/// Check that everything in a pool is sound
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// The pool file (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
    /// Whether to trust the pool.
    #[command(flatten)]
    pub trust: TrustArgs,
}

/// What is told as JSON.
#[derive(Serialize)]
struct Checked<'a> {
    collections: u64,
    complete: bool,
    damaged_copies: &'a [String],
    keys: u64,
    leaves: u64,
    problems: Vec<String>,
    put_aside: Vec<Cow<'a, str>>,
    sound: bool,
    unproven_leaves: u64,
}

/// Checks the pool and prints what was found.
pub fn run(args: CheckArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, _) = pool_and_rest(args.pool, Vec::new(), &[])?;
    let store = open::for_reading(&pool, &args.trust)?;
    let report = store.check()?;
    // What the pool itself has lost would be told once more of each collection.
    let collections = if report.problems.is_empty() {
        everleaf_server::check_collections(&store)?
    } else {
        CollectionReport::default()
    };
    let put_aside = store.put_aside_files()?;
    let found = Found { report, collections, put_aside };
    // What is damaged counts more than a reader that goes away.
    let told = tell(&found, global, out);
    judge(&pool, &found.report, &found.collections).and(told)
}

/// What a check has found.
struct Found {
    report: CheckReport,
    collections: CollectionReport,
    put_aside: Vec<PathBuf>,
}

/// Prints what was found.
fn tell(found: &Found, global: Global, out: &mut Output) -> Result<(), Failure> {
    let Found { report, collections, put_aside } = found;
    let is_sound = report.is_clean() && collections.problems.is_empty();
    if global.json {
        let problems = [&report.problems[..], &collections.problems[..]].concat();
        out.json(&Checked {
            collections: collections.collections,
            complete: report.is_complete,
            damaged_copies: &report.damaged_copies,
            keys: report.keys,
            leaves: report.leaves,
            problems,
            put_aside: put_aside.iter().map(|path| path.to_string_lossy()).collect(),
            sound: is_sound,
            unproven_leaves: report.unproven_leaves,
        })?;
    } else {
        let all = report.problems.iter().chain(&collections.problems);
        for problem in all.chain(&report.damaged_copies) {
            out.line(problem)?;
        }
        if is_sound && !global.quiet {
            let leaves = match report.leaves {
                1 => "1 leaf".to_string(),
                count => format!("{count} leaves"),
            };
            out.line(&format!("sound: {}, {leaves}", counted(report.keys, "key")))?;
        }
        if !report.is_complete && !global.quiet {
            out.line(&format!(
                "the pool was not closed cleanly: that no key is missing cannot be proven; {} of {} \
                 leaves were written since the last clean close",
                report.unproven_leaves, report.leaves
            ))?;
        }
        if !global.quiet {
            tell_put_aside(put_aside, out)?;
        }
    }
    Ok(())
}

/// Tells of files that were put aside, and what they are for.
fn tell_put_aside(put_aside: &[PathBuf], out: &mut Output) -> Result<(), Failure> {
    for file in put_aside {
        let name = file.file_name().unwrap_or_default();
        let why = match name.as_encoded_bytes().starts_with(b"damaged-log") {
            true => {
                "a damaged part of the log, or what followed it; what was acknowledged behind the \
                 damage, and the pool does not have, is only there: keep it until that is not missed"
            }
            false => {
                "it was damaged or belongs to what the log has lost; nothing needs it, so delete it when \
                 nobody wants to look at it"
            }
        };
        out.line(&format!("put aside: {}: {why}", file.display()))?;
    }
    Ok(())
}

/// What the command ends with.
fn judge(pool: &Path, report: &CheckReport, collections: &CollectionReport) -> Result<(), Failure> {
    match (report.problems.len(), collections.problems.len()) {
        (0, 0) if report.damaged_copies.is_empty() => Ok(()),
        (0, 0) => Err(Failure::not_found(format!(
            "what {} keeps twice is damaged once: nothing is lost; opening it for writing mends it, as `everleaf put` \
             and `everleaf serve` do",
            pool.display()
        ))),
        (0, count) => Err(Failure::not_found(format!(
            "{} in the collections of {}: the pool itself is sound; `everleaf export` shows what it \
             holds, and a server removes a collection that is named above with `DEL`",
            counted(count as u64, "problem"),
            pool.display()
        ))),
        (count, _) => Err(Failure::not_found(format!(
            "{} in {}: `everleaf repair` makes a new pool with all that can be proven",
            counted(count as u64, "problem"),
            pool.display()
        ))),
    }
}
