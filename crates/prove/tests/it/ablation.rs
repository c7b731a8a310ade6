//! Which flushes and drains are missed: a measurement of minutes, run by hand.
//!
//! `cargo test --release -p everleaf-prove --test it ablation:: -- --ignored --nocapture`, or, with the
//! product, `everleaf-lab prove ablate`.

#![allow(clippy::print_stdout, reason = "what was found is the result")]

use everleaf_prove::hunt::ablation::{Ablated, Effort, ablate};
use everleaf_prove::structures::find;

/// The environment variable that names the only structure to look at.
const VARIABLE: &str = "EVERLEAF_PROVE_STRUCTURE";

#[test]
#[ignore = "a long run"]
fn flushes_and_drains_are_missed() {
    let only = std::env::var(VARIABLE).ok();
    for name in ["alloc", "pool", "nbtree", "nbtree-bytes"] {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let structure = find(name).expect("one of the list");
        let mut needed = 0;
        let mut tell = |ablated: &Ablated| {
            let how = ablated.missed.as_ref();
            needed += u64::from(how.is_some());
            let how =
                how.map_or("no".to_owned(), |(by, failure)| format!("{} ({by})", failure.kind));
            let Ablated { site, kind, hits, schedules, .. } = ablated;
            println!("| {name} | {site} | {kind} | {hits} | {how} | {schedules} |");
        };
        let all = ablate(structure, Effort::default(), &mut tell);
        all.unwrap_or_else(|found| panic!("{name}: {}", found.1));
        assert!(needed > 0);
    }
}
