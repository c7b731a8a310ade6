//! `everleaf prove ablate`: which flushes and drains are missed?

use super::ProveArgs;
use crate::cli::Global;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use everleaf_prove::ablation::{Ablated, Effort, ablate};
use everleaf_prove::structure::STRUCTURES;
use serde_json::json;

/// Switches every flush and drain off in turn, for all structures, and prints the table.
pub fn run(args: &ProveArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let effort = Effort { schedules: args.schedules.min(1000), ..Effort::default() };
    let mut all: Vec<Ablated> = vec![];
    for structure in STRUCTURES {
        let results = ablate(structure, effort, &mut |_| {}).map_err(|found| {
            let (record, _) = *found;
            let what = format!("{} is wrong as it is: {}", record.structure, record.message);
            Failure::new(ExitCode::Violated, what)
        })?;
        merge(&mut all, results);
    }
    if !global.json {
        out.line("| call | | runs | missed | after |")?;
        out.line("|---|---|---|---|---|")?;
    }
    all.sort_by_key(|ablated| ablated.site);
    for ablated in &all {
        line(ablated, global, out)?;
    }
    let survivors = all.iter().filter(|ablated| ablated.missed.is_none()).count();
    if !global.json {
        out.line(&format!("\n{} calls, {survivors} not missed", all.len()))?;
    }
    Ok(())
}

/// Adds results of another structure: a call is needed if anybody misses it.
fn merge(all: &mut Vec<Ablated>, results: Vec<Ablated>) {
    for result in results {
        match all.iter_mut().find(|known| known.site == result.site) {
            None => all.push(result),
            Some(known) => {
                known.hits += result.hits;
                known.seconds += result.seconds;
                if known.missed.is_none() {
                    known.schedules += result.schedules;
                    known.missed = result.missed;
                }
            }
        }
    }
}

fn line(ablated: &Ablated, global: Global, out: &mut Output) -> Result<(), Failure> {
    let Ablated { site, kind, hits, schedules, missed, .. } = ablated;
    if global.json {
        return out.json(&json!({
            "file": site.file,
            "line": site.line,
            "kind": kind.to_string(),
            "hits": hits,
            "schedules": schedules,
            "seconds": ablated.seconds,
            "program": missed.as_ref().map(|(program, _)| program),
            "missed": missed.as_ref().map(|(_, failure)| failure.kind.to_string()),
        }));
    }
    let how = missed
        .as_ref()
        .map_or("**no**".to_owned(), |(program, failure)| format!("{} ({program})", failure.kind));
    out.line(&format!("| {}:{} | {kind} | {hits} | {how} | {schedules} |", site.file, site.line))
}
