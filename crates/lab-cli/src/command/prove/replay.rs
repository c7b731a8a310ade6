//! `everleaf-lab prove --replay`: a failure again, step by step.

use everleaf_cli::exit_code::ExitCode;
use everleaf_cli::failure::Failure;
use everleaf_cli::global::Global;
use everleaf_cli::output::Output;
use everleaf_prove::search::record::Record;
use everleaf_prove_designs::structures::STRUCTURES;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// No failure file is as large as this; one that is, is something else.
const SIZE_MAX: u64 = 64 << 20;

/// A failure that was repeated, as JSON.
#[derive(Serialize)]
struct Replayed<'a> {
    kind: String,
    message: &'a str,
    plan: &'a str,
    structure: &'a str,
    program: &'a str,
    trace: &'a [String],
}

/// Repeats the failure of a file and prints its trace.
pub fn run(path: &Path, global: Global, out: &mut Output) -> Result<(), Failure> {
    let shown = path.display();
    let refuse = |error| Failure::io(&format!("cannot read {shown}"), &error);
    if fs::metadata(path).map_err(refuse)?.len() > SIZE_MAX {
        let what = format!("{shown} is not a failure written by `prove`: it is far too large");
        return Err(Failure::new(ExitCode::BadInput, what));
    }
    let bytes = fs::read(path).map_err(refuse)?;
    let bad = |what: String| Failure::new(ExitCode::BadInput, format!("{shown}: {what}"));
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| bad("not a failure written by `prove`: not text".to_owned()))?;
    let record = Record::from_text(text).map_err(|error| bad(error.to_string()))?;
    let replay = record.replay(STRUCTURES).map_err(|error| bad(error.to_string()))?;
    let again = replay.failure.as_ref();
    if replay.diverged || again.is_none() {
        let what = "it does not happen in this version: mended, or the program has changed";
        return Err(bad(format!("{} ({}) was recorded; {what}", record.kind, record.message)));
    }
    let failure = again.expect("checked above");
    if global.json {
        out.json(&Replayed {
            kind: failure.kind.to_string(),
            message: &failure.message,
            plan: &failure.plan,
            structure: &record.structure,
            program: &record.program,
            trace: &replay.trace,
        })?;
    } else {
        for line in &replay.trace {
            out.line(line)?;
        }
        out.line("")?;
        out.line("plan:")?;
        out.line(failure.plan.trim_end())?;
        out.line(&format!("{}: {}", failure.kind, failure.message))?;
    }
    let what = format!("{} is wrong: {}", record.structure, failure.kind);
    Err(Failure::new(ExitCode::Violated, what))
}
