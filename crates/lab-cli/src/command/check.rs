//! `everleaf-lab check`: the check of a pool with trees of any design.

use clap::Args;
use everleaf_cli::arguments::pool_and_rest;
use everleaf_cli::command::bench::failure_of;
use everleaf_cli::failure::Failure;
use everleaf_cli::global::Global;
use everleaf_cli::output::{Output, counted};
use serde::Serialize;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  everleaf-lab check numbers.pool
  everleaf-lab check numbers.pool --json | jq -r '.problems[]'

Ends with code 0 if the pool is sound, 1 if something in it is damaged, 4 if it cannot be opened.";

/// Check that everything in a pool is sound, trees of published designs too
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// The pool file (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
}

/// What was found, as JSON.
#[derive(Serialize)]
struct Checked<'a> {
    sound: bool,
    keys: u64,
    leaves: u64,
    problems: &'a [String],
}

/// Checks the pool and prints what was found.
pub fn run(args: CheckArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, _) = pool_and_rest(args.pool, Vec::new(), &[])?;
    let report = everleaf_lab::check_pool(&pool).map_err(failure_of)?;
    let problems = [&report.problems[..], &report.damaged_copies[..]].concat();
    if global.json {
        let (sound, problems) = (report.is_clean(), &problems);
        out.json(&Checked { sound, keys: report.keys, leaves: report.leaves, problems })?;
    } else {
        for problem in &problems {
            out.line(problem)?;
        }
        if report.is_clean() && !global.quiet {
            out.line(&format!("sound: {}, {} leaves", counted(report.keys, "key"), report.leaves))?;
        }
    }
    match problems.len() {
        0 => Ok(()),
        count => {
            let problems = counted(count as u64, "problem");
            Err(Failure::not_found(format!("{problems} in {}", pool.display())))
        }
    }
}
