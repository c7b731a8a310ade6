//! `everleaf-lab list`.

use clap::Args;
use everleaf_cli::failure::Failure;
use everleaf_cli::global::Global;
use everleaf_cli::output::Output;
use everleaf_lab::experiment::{self, text};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  everleaf-lab list
  everleaf-lab list --json";

/// List the experiments: name, kind, time and what
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ListArgs {}

/// Prints the list.
pub fn run(global: Global, out: &mut Output) -> Result<(), Failure> {
    if !global.json {
        return out.bytes(text::list().as_bytes());
    }
    let entries: Vec<_> = experiment::entries()
        .map(|entry| {
            json!({
                "id": entry.id,
                "what": entry.what,
                "claim": entry.claim,
                "kinds": entry.letters(),
                "seconds_quick": entry.seconds.0,
                "seconds_full": entry.seconds.1,
            })
        })
        .collect();
    out.json(&json!(entries))
}
