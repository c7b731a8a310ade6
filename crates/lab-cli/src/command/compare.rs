//! `everleaf-lab compare`.

use clap::Args;
use everleaf_cli::command::bench::failure_of;
use everleaf_cli::exit_code::ExitCode;
use everleaf_cli::failure::Failure;
use everleaf_cli::global::Global;
use everleaf_cli::output::{Output, remark};
use everleaf_lab::report::compare::{compare, read, render};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  everleaf-lab compare old.json new.json            what got slower beyond noise (exit code 1)
  everleaf-lab compare before after --tolerance 0.1";

/// Say what got slower between two runs, beyond noise; exit code 1 if something did
///
/// A run is a file or a folder: findings of `everleaf-lab run`, the output of `bench --json`, or of the
/// rivals. Exact counts must be equal to a thousandth. A time is slower if the interval of the ratio of the
/// medians lies above 1 by more than the tolerance; the intervals of all times that are compared hold
/// together in 95 of 100 cases.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// The run before
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// The run after
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    /// Differences of times below this share do not matter
    #[arg(long, value_name = "SHARE", default_value_t = 0.03)]
    pub tolerance: f64,
}

/// Compares, prints, and fails if something got slower.
pub fn run(args: &CompareArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    if !(0.0..1.0).contains(&args.tolerance) {
        return Err(Failure::usage("the tolerance is a share of 0 to 1, such as 0.03"));
    }
    let old = read(&args.old).map_err(failure_of)?;
    let new = read(&args.new).map_err(failure_of)?;
    let comparison = compare(&old, &new, args.tolerance);
    if !global.quiet {
        comparison.remarks.iter().for_each(|text| remark(text));
    }
    if global.json {
        out.json(&comparison)?;
    } else {
        out.bytes(render(&comparison).as_bytes())?;
    }
    if comparison.compared.is_empty() {
        let text = "the two runs have no measurement in common: nothing was compared";
        return Err(Failure::new(ExitCode::BadInput, text));
    }
    match comparison.has_slower() {
        true => Err(Failure::not_found("something got slower beyond noise")),
        false => Ok(()),
    }
}
