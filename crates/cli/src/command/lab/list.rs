//! `everleaf lab list`.

use crate::cli::Global;
use crate::failure::Failure;
use crate::output::Output;
use everleaf_lab::experiment::{self, text};
use serde_json::json;

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
                "not_yet": entry.method().err(),
            })
        })
        .collect();
    out.json(&json!(entries))
}
