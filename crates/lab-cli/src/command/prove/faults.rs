//! `everleaf-lab prove STRUCTURE --faults`: every access spoilt in turn, and who misses it.

use super::{ProveArgs, show, structures_of};
use everleaf_cli::cli::Global;
use everleaf_cli::exit_code::ExitCode;
use everleaf_cli::failure::Failure;
use everleaf_cli::output::Output;
use everleaf_prove::Fault;
use everleaf_prove::arguments::{Argument, KEPT, Sources, argued, parse};
use everleaf_prove::campaign::{Budget, Verdict};
use everleaf_prove::mutation::{STEPS, faults_of, hunt, spread};
use everleaf_prove::structure::Structure;
use serde_json::json;
use std::collections::HashMap;
use std::time::Duration;

/// What the search for one access gets.
const USUAL: Budget = Budget::Cpu(Duration::from_secs(10));

/// What came of all of them.
#[derive(Default)]
struct Sum {
    found: usize,
    argued: usize,
    /// Those that nobody missed, without an argument.
    alive: Vec<Fault>,
    /// Those that were missed in spite of an argument.
    refuted: Vec<Fault>,
}

/// Spoils `count` accesses of the structure that is asked for, one after the other, and prints a table.
pub fn run(
    args: &ProveArgs,
    count: usize,
    global: Global,
    out: &mut Output,
) -> Result<(), Failure> {
    let structures = structures_of(args, None)?;
    let arguments = parse(KEPT).map_err(wrong_list)?;
    let mut sums = vec![];
    for structure in structures {
        let listed = faults_of(structure, STEPS).map_err(|found| {
            let what = format!("{} is wrong as it is: {}", structure.name, found.1.message);
            Failure::new(ExitCode::Violated, what)
        })?;
        let mut sources = Sources::below(&args.sources);
        let argued =
            argued(structure.name, &arguments, &listed, &mut sources).map_err(wrong_list)?;
        let at = args.at.as_deref().unwrap_or_default();
        let place = |fault: &&Fault| fault.site.to_string().contains(at);
        let wanted: Vec<Fault> = listed.iter().filter(place).copied().collect();
        let chosen = spread(&wanted, count);
        let mut table = Table { structure, args, global, arguments: &arguments, argued };
        let sum = table.fill(&chosen, out)?;
        if !global.json {
            let sentence = sum.sentence(structure.name, chosen.len(), listed.len());
            out.line(&format!("\n{sentence}"))?;
        }
        sums.push((structure.name, sum));
    }
    let wrong = sums.iter().filter(|(_, sum)| !sum.alive.is_empty() || !sum.refuted.is_empty());
    let names: Vec<_> = wrong.map(|(name, _)| *name).collect();
    if names.is_empty() {
        return Ok(());
    }
    let what = format!("some spoilt accesses are neither found nor argued: {}", names.join(", "));
    Err(Failure::new(ExitCode::Violated, what))
}

fn wrong_list(what: String) -> Failure {
    Failure::new(ExitCode::BadInput, format!("crates/prove/equivalent.txt: {what}"))
}

impl Sum {
    fn sentence(&self, structure: &str, chosen: usize, listed: usize) -> String {
        let mut text = format!(
            "{structure}: {chosen} of {listed} spoilt accesses searched: {} found, {} argued, \
             {} not found",
            self.found,
            self.argued,
            self.alive.len(),
        );
        for fault in &self.refuted {
            text.push_str(&format!("\n  argued, and found: {} {}", fault.kind, fault.site));
        }
        text
    }
}

struct Table<'a> {
    structure: &'static Structure,
    args: &'a ProveArgs,
    global: Global,
    arguments: &'a [Argument],
    argued: HashMap<Fault, usize>,
}

impl Table<'_> {
    fn fill(&mut self, faults: &[Fault], out: &mut Output) -> Result<Sum, Failure> {
        if !self.global.json {
            out.line("| access | spoilt | found by | program | schedules | CPU s |")?;
            out.line("|---|---|---|---|---|---|")?;
        }
        let budget = self.args.budget.unwrap_or(USUAL);
        let mut sum = Sum::default();
        for (number, fault) in (1..).zip(faults) {
            let bar = show::Bar::new(self.global.wants_progress());
            let title = format!("{number}/{} {} {}", faults.len(), fault.kind, fault.site);
            let mut tell = |verdict: &Verdict| bar.show_as(&title, verdict, budget);
            let verdict = hunt(self.structure, *fault, budget, self.args.seed, &mut tell);
            bar.clear();
            let why = self.argued.get(fault).map(|index| self.arguments[*index].why.as_str());
            match (verdict.is_clean(), why) {
                (false, None) => sum.found += 1,
                (false, Some(_)) => sum.refuted.push(*fault),
                (true, Some(_)) => sum.argued += 1,
                (true, None) => sum.alive.push(*fault),
            }
            self.line(*fault, &verdict, why, out)?;
            // Each line as it comes: the whole takes a while.
            out.flush()?;
        }
        Ok(sum)
    }

    fn line(
        &self,
        fault: Fault,
        verdict: &Verdict,
        why: Option<&str>,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let found = verdict.failure.as_ref().map(|(record, _)| record);
        let schedules = verdict.report.counts.schedules;
        if self.global.json {
            return out.json(&json!({
                "structure": self.structure.name,
                "file": fault.site.file,
                "line": fault.site.line,
                "column": fault.site.column,
                "kind": fault.kind.to_string(),
                "found": found.map(|record| &record.kind),
                "program": found.map(|record| &record.program),
                "argued": why,
                "schedules": schedules,
                "cpu_seconds": verdict.seconds,
            }));
        }
        let (how, program) = match (found, why) {
            (Some(record), _) => (record.kind.as_str(), format!("`{}`", record.program)),
            (None, Some(why)) => ("argued", why.replace('|', "\\|")),
            (None, None) => ("**not found**", String::new()),
        };
        let (site, kind, seconds) = (fault.site, fault.kind, verdict.seconds);
        out.line(&format!("| {site} | {kind} | {how} | {program} | {schedules} | {seconds:.1} |"))
    }
}
