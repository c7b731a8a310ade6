//! `everleaf-lab prove ablate`: which flushes and drains are missed?

use super::args::{ProveArgs, structures_of};
use everleaf_cli::exit_code::ExitCode;
use everleaf_cli::failure::Failure;
use everleaf_cli::global::Global;
use everleaf_cli::output::Output;
use everleaf_prove::hunt::ablation::{Ablated, Effort, ablate};
use serde::Serialize;
use std::collections::BTreeMap;

/// A call that was switched off, as JSON.
#[derive(Serialize)]
struct AblatedSite<'a> {
    structure: &'a str,
    file: &'static str,
    line: u32,
    kind: String,
    hits: u64,
    schedules: u64,
    seconds: f64,
    program: Option<&'a str>,
    missed: Option<String>,
}

/// Switches every flush and drain off in turn, for every structure, and prints what follows.
pub fn run(args: &ProveArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let effort = Effort { schedules: args.schedules.min(1000), ..Effort::default() };
    let all = ProveArgs { structure: None, ..args.clone() };
    let mut missed: BTreeMap<_, bool> = BTreeMap::new();
    if !global.json {
        out.line("| structure | call | | runs | missed | schedules |")?;
        out.line("|---|---|---|---|---|---|")?;
    }
    for structure in structures_of(&all, None)? {
        let mut end = Ok(());
        let mut tell = |ablated: &Ablated| {
            *missed.entry(ablated.site).or_default() |= ablated.missed.is_some();
            // Each line as it comes: the whole takes a while.
            let told = line(structure.name, ablated, global, out).and_then(|()| out.flush());
            end = std::mem::replace(&mut end, Ok(())).and(told);
        };
        let result = ablate(structure, effort, &mut tell);
        end?;
        result.map_err(|found| {
            let (record, _) = *found;
            let what = format!("{} is wrong as it is: {}", record.structure, record.message);
            Failure::new(ExitCode::Violated, what)
        })?;
    }
    if global.json {
        return Ok(());
    }
    let superfluous: Vec<_> = missed.iter().filter(|(_, missed)| !**missed).collect();
    out.line(&format!("\n{} calls, {} missed by nobody", missed.len(), superfluous.len()))?;
    superfluous.into_iter().try_for_each(|(site, _)| out.line(&format!("  {site}")))
}

fn line(
    structure: &str,
    ablated: &Ablated,
    global: Global,
    out: &mut Output,
) -> Result<(), Failure> {
    let Ablated { site, kind, hits, schedules, missed, .. } = ablated;
    if global.json {
        return out.json(&AblatedSite {
            structure,
            file: site.file,
            line: site.line,
            kind: kind.to_string(),
            hits: *hits,
            schedules: *schedules,
            seconds: ablated.seconds,
            program: missed.as_ref().map(|(program, _)| &**program),
            missed: missed.as_ref().map(|(_, failure)| failure.kind.to_string()),
        });
    }
    let how = missed
        .as_ref()
        .map_or("no".to_owned(), |(program, failure)| format!("{} ({program})", failure.kind));
    let call = format!("{}:{}", site.file, site.line);
    out.line(&format!("| {structure} | {call} | {kind} | {hits} | {how} | {schedules} |"))
}
