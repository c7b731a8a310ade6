//! `everleaf-lab list`.

use clap::Args;
use everleaf_cli::failure::Failure;
use everleaf_cli::global::Global;
use everleaf_cli::output::Output;
use everleaf_lab::experiment::{self, text};
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  everleaf-lab list
  everleaf-lab list --json";

/// List the experiments: name, kind, time and what; and those that cannot be run
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ListArgs {}

/// An experiment, for a program. One that cannot be run has no kinds and no times.
#[derive(Serialize)]
struct Listed {
    claim: &'static str,
    id: &'static str,
    kinds: String,
    seconds_full: Option<u32>,
    seconds_quick: Option<u32>,
    what: &'static str,
    why_not: Option<&'static str>,
}

/// Prints the list.
pub fn run(global: Global, out: &mut Output) -> Result<(), Failure> {
    if !global.json {
        return out.bytes(text::list().as_bytes());
    }
    let entries = experiment::entries().map(|entry| Listed {
        claim: entry.claim,
        id: entry.id,
        kinds: entry.letters(),
        seconds_full: Some(entry.seconds.1),
        seconds_quick: Some(entry.seconds.0),
        what: entry.what,
        why_not: None,
    });
    let absent = experiment::CANNOT_RUN.iter().map(|one| Listed {
        claim: one.claim,
        id: one.id,
        kinds: String::new(),
        seconds_full: None,
        seconds_quick: None,
        what: one.what,
        why_not: Some(one.why_not),
    });
    out.json(&entries.chain(absent).collect::<Vec<_>>())
}
