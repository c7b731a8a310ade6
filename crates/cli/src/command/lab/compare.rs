//! `everleaf lab compare`.

use super::CompareArgs;
use crate::cli::Global;
use crate::command::bench::failure_of;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::{Output, remark};
use everleaf_lab::report::compare::{compare, read, render};
use serde_json::json;

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
        out.json(&json!(comparison))?;
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
