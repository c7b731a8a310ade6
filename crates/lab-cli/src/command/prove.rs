//! `everleaf-lab prove`: runs the structures on the simulated machine and judges every schedule and
//! every crash it can reach.

mod ablate;
mod apart;
mod args;
mod faults;
mod mutants;
mod page;
mod replay;
mod show;

pub use args::ProveArgs;

use args::{mutant_of, structures_of};
use everleaf_cli::exit_code::ExitCode;
use everleaf_cli::failure::Failure;
use everleaf_cli::global::Global;
use everleaf_cli::output::Output;
use everleaf_cli::target_file::TargetFile;
use everleaf_prove::search::campaign::{self, Budget, Settings, Verdict};
use everleaf_prove_designs::structures::STRUCTURES;
use serde::Serialize;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;

/// Proves, or does what else is asked for.
pub fn run(args: ProveArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    if args.list {
        return show::list(global, out);
    }
    if let Some(path) = &args.replay {
        return replay::run(path, global, out);
    }
    if let (Some(printed), Some(page)) = (&args.printed, &args.page) {
        return faults::keep_printed(&args, printed, page);
    }
    if let Some(count) = args.faults {
        return faults::run(&args, count, global, out);
    }
    match args.structure.as_deref() {
        Some("mutants") => mutants::run(&args, global, out),
        Some("ablate") => ablate::run(&args, global, out),
        _ => search(&args, global, out),
    }
}

/// What came of a search, as JSON.
#[derive(Serialize)]
struct Searched {
    clean: bool,
    verdict: String,
    seed: u64,
    structures: Vec<Value>,
    failure: Option<Value>,
}

/// What each structure gets if all are searched, and what one gets.
const USUAL_OF_ALL: Duration = Duration::from_secs(5);
const USUAL_OF_ONE: Duration = Duration::from_secs(120);

fn search(args: &ProveArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    match apart::run()? {
        apart::Part::Search => search_here(args, global, out),
        apart::Part::Report(record) => {
            let sentence = show::sentence(&[], Some(&record));
            if global.json {
                let failure = Some(show::record_as_json(&record));
                let (verdict, seed, structures) = (sentence, args.seed, Vec::new());
                out.json(&Searched { clean: false, verdict, seed, structures, failure })?;
            } else {
                out.line(&format!("found: {} in program {}", record.message, record.program))?;
                out.line(&sentence)?;
            }
            let what = format!("{} is wrong: {}", record.structure, record.message);
            Err(Failure::new(ExitCode::Violated, what))
        }
    }
}

fn search_here(args: &ProveArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let mutant = mutant_of(args)?;
    let structures = structures_of(args, mutant)?;
    // Opened before the search, which may take long.
    let target = args.out.as_deref().map(TargetFile::create).transpose()?;
    let usual = if structures.len() > 1 { USUAL_OF_ALL } else { USUAL_OF_ONE };
    let settings = Settings {
        budget: args.budget.unwrap_or(Budget::Cpu(usual)),
        seed: args.seed,
        fixed: args.fixed(),
        mutant: mutant.map(|mutant| mutant.name),
        fault: args.fault.as_deref().map(faults::fault_of).transpose()?,
        schedules: args.schedules,
        preemptions: (!args.random_only).then_some(args.preemptions),
    };
    let bar = show::Bar::new(global.wants_progress());
    let mut verdicts: Vec<Verdict> = vec![];
    for structure in structures {
        let mut tell = |verdict: &Verdict| bar.show(verdict, settings.budget);
        let verdict = campaign::run(structure, &settings, &mut tell);
        let is_clean = verdict.is_clean();
        verdicts.push(verdict);
        if !is_clean {
            break;
        }
    }
    bar.clear();
    let last = verdicts.last_mut().expect("there is at least one structure");
    let failure = last.failure.take();
    let is_clean = failure.is_none();
    let mut found = None;
    if let Some((record, failure)) = failure {
        let small =
            if args.no_shrink { None } else { record.shrunk(STRUCTURES, &failure, 300).ok() };
        let record = small.unwrap_or(record);
        if let Some(mut target) = target {
            let written = target.writer().write_all(record.to_text().as_bytes());
            written.map_err(|error| target.failure(&error))?;
            target.finish()?;
        }
        found = Some((record, failure));
    }
    if global.json {
        let record = found.as_ref().map(|(record, _)| record);
        out.json(&Searched {
            clean: is_clean,
            verdict: show::sentence(&verdicts, record),
            seed: args.seed,
            structures: verdicts.iter().map(show::as_json).collect(),
            failure: record.map(show::record_as_json),
        })?;
    } else {
        for verdict in &verdicts {
            show::verdict(verdict, out)?;
        }
    }
    match found {
        None if global.json => Ok(()),
        None => out.line(&show::sentence(&verdicts, None)),
        Some((record, _)) => {
            if !global.json {
                show::failure(&record, args.out.as_deref(), out)?;
                out.line(&show::sentence(&verdicts, Some(&record)))?;
            }
            let what =
                format!("{} is wrong: {}: {}", record.structure, record.kind, record.message);
            Err(Failure::new(ExitCode::Violated, what))
        }
    }
}
