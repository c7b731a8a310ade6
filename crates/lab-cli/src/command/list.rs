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

/// List the experiments: name, kind, time and what
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ListArgs {}

/// An experiment, for a program.
#[derive(Serialize)]
struct Listed {
    claim: &'static str,
    id: &'static str,
    kinds: String,
    seconds_full: u32,
    seconds_quick: u32,
    what: &'static str,
}

/// Prints the list.
pub fn run(global: Global, out: &mut Output) -> Result<(), Failure> {
    if !global.json {
        return out.bytes(text::list().as_bytes());
    }
    let entries: Vec<_> = experiment::entries()
        .map(|entry| Listed {
            claim: entry.claim,
            id: entry.id,
            kinds: entry.letters(),
            seconds_full: entry.seconds.1,
            seconds_quick: entry.seconds.0,
            what: entry.what,
        })
        .collect();
    out.json(&entries)
}
