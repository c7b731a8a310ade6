//! What a search and a failure look like, for a person and for a program.

use everleaf_cli::failure::Failure;
use everleaf_cli::global::Global;
use everleaf_cli::output::Output;
use everleaf_prove::hunt::mutants::{self, HARMLESS};
use everleaf_prove::machine::configure::{domain_name, memory_name};
use everleaf_prove::machine::dimensions;
use everleaf_prove::search::campaign::{Budget, Verdict};
use everleaf_prove::search::coverage::{Coverage, DOMAINS};
use everleaf_prove::search::record::Record;
use everleaf_prove_designs::structures::STRUCTURES;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A bar over the budget of a structure's search.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar; hidden unless `enabled`.
    pub fn new(enabled: bool) -> Self {
        if !enabled {
            return Bar(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{wide_bar} {msg}")
            .expect("the template is constant and tested")
            .progress_chars("=> ");
        Bar(ProgressBar::new(0).with_style(style))
    }

    /// Shows how far a search has come.
    pub fn show(&self, verdict: &Verdict, budget: Budget) {
        let title = verdict.structure;
        let counts = &verdict.report.counts;
        let (position, length) = match budget {
            Budget::Cpu(time) => ((1000.0 * verdict.seconds) as u64, time.as_millis() as u64),
            Budget::Schedules(schedules) => (counts.schedules, schedules),
        };
        self.0.set_length(length);
        self.0.set_position(position);
        self.0.set_message(format!(
            "{title}: {} schedules ({}/s), {} crash states ({}/s)",
            short(counts.schedules as f64),
            short(rate(counts.schedules, verdict)),
            short(counts.images as f64),
            short(rate(counts.images, verdict)),
        ));
    }

    /// Says what is being done.
    pub fn say(&self, text: &str) {
        self.0.set_message(text.to_owned());
        self.0.tick();
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

fn rate(count: u64, verdict: &Verdict) -> f64 {
    count as f64 / verdict.seconds.max(1e-9)
}

/// A number without decimals, in the largest unit of which there are ten.
fn short(number: f64) -> String {
    match number {
        n if n >= 1e10 => format!("{:.0} G", n / 1e9),
        n if n >= 1e7 => format!("{:.0} M", n / 1e6),
        n if n >= 1e4 => format!("{:.0} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// Prints what was explored and covered.
pub fn verdict(verdict: &Verdict, out: &mut Output) -> Result<(), Failure> {
    let counts = &verdict.report.counts;
    out.line(&format!(
        "{:<14} {} schedules ({}/s), {} crash states ({}/s), {} recovered, {} lives after crashes",
        verdict.structure,
        counts.schedules,
        short(rate(counts.schedules, verdict)),
        counts.images,
        short(rate(counts.images, verdict)),
        counts.recoveries,
        counts.nested_runs,
    ))?;
    let (done, of) = verdict.exhausted;
    out.line(&format!(
        "{MARGIN}{done} of {of} small programs in every order, {} programs by chance, {:.1} CPU s",
        verdict.programs, verdict.seconds,
    ))?;
    out.line(&format!("{MARGIN}lives after crashes, by depth: {}", lives(&verdict.coverage)))?;
    out.line(&format!("{MARGIN}{}", pairs(&verdict.coverage)))?;
    if !verdict.report.marks.is_empty() {
        let marks = &verdict.report.marks;
        let list: Vec<_> = marks.iter().map(|(name, count)| format!("{name} {count}")).collect();
        out.line(&format!("{MARGIN}rare branches: {}", list.join(", ")))?;
    }
    Ok(())
}

/// What lines about a structure begin with, but for the first.
const MARGIN: &str = "               ";
/// Pairs that are named when they are missing.
const PAIRS_NAMED: usize = 8;

/// Lives after crashes of the random search, by domain.
fn lives(coverage: &Coverage) -> String {
    let of_domain = |(domain, lives): (_, &[u64; 4])| {
        format!("{} {}/{}/{}", domain_name(domain), lives[0], lives[1], lives[2])
    };
    let all: Vec<_> = DOMAINS.into_iter().zip(coverage.lives()).map(of_domain).collect();
    all.join(", ")
}

/// Which pairs of dimensions the random search has not had.
fn pairs(coverage: &Coverage) -> String {
    let (all, missing) = (coverage.possible().len(), coverage.missing());
    if missing.is_empty() {
        return format!("all {all} pairs of dimensions seen");
    }
    let named: Vec<_> = missing.iter().take(PAIRS_NAMED).map(pair_name).collect();
    let more = if missing.len() > PAIRS_NAMED { ", .." } else { "" };
    let count = missing.len();
    format!("{count} of {all} pairs of dimensions not seen: {}{more}", named.join("; "))
}

fn pair_name(((first, one), (second, two)): &(dimensions::Value, dimensions::Value)) -> String {
    format!("{first} {one} with {second} {two}")
}

/// What came of everything, in a sentence.
pub fn sentence(verdicts: &[Verdict], found: Option<&Record>) -> String {
    if let Some(record) = found {
        return format!("verdict: {} is wrong ({})", record.structure, record.kind);
    }
    let sum = |of: fn(&Verdict) -> u64| verdicts.iter().map(of).sum::<u64>();
    let names = match verdicts {
        [one] => one.structure.to_owned(),
        all => format!("{} structures", all.len()),
    };
    format!(
        "verdict: nothing wrong found in {names}: {} schedules, {} crash states, {} recoveries",
        sum(|verdict| verdict.report.counts.schedules),
        sum(|verdict| verdict.report.counts.images),
        sum(|verdict| verdict.report.counts.recoveries),
    )
}

/// Prints how to see a failure again.
pub fn failure(record: &Record, file: Option<&Path>, out: &mut Output) -> Result<(), Failure> {
    let config = &record.config;
    out.line("")?;
    out.line(&format!("found: {}: {}", record.kind, record.message))?;
    out.line(&format!(
        "  program {}, domain {}, memory {}, seed {:#x}, {} choices",
        record.program,
        domain_name(config.domain),
        memory_name(config.memory),
        record.seed,
        record.choices.len(),
    ))?;
    if let Ok(replay) = record.replay(STRUCTURES)
        && let Some(failure) = &replay.failure
    {
        out.line("plan:")?;
        out.line(failure.plan.trim_end())?;
    }
    match file {
        Some(file) => {
            out.line(&format!("repeat it: everleaf-lab prove --replay {}", file.display()))
        }
        None => out.line("run it again with --out FILE, to keep it and see it step by step"),
    }
}

/// A verdict, for a program.
#[derive(Serialize)]
struct Shown<'a> {
    accesses: u64,
    cpu_seconds: f64,
    crash_points: u64,
    crash_states: u64,
    crash_states_per_second: f64,
    lives_after_crashes: BTreeMap<&'static str, &'a [u64; 4]>,
    marks: BTreeMap<&'a str, u64>,
    nested_runs: u64,
    pairs: usize,
    pairs_missing: usize,
    pairs_not_seen: Vec<String>,
    programs: u64,
    recoveries: u64,
    schedules: u64,
    schedules_per_second: f64,
    small_programs: usize,
    small_programs_exhausted: usize,
    steps: u64,
    structure: &'static str,
}

/// A verdict for a program.
pub fn as_json(verdict: &Verdict) -> Value {
    let counts = &verdict.report.counts;
    let (coverage, marks) = (&verdict.coverage, &verdict.report.marks);
    let shown = Shown {
        accesses: counts.accesses,
        cpu_seconds: verdict.seconds,
        crash_points: counts.crash_points,
        crash_states: counts.images,
        crash_states_per_second: rate(counts.images, verdict),
        lives_after_crashes: DOMAINS.map(domain_name).into_iter().zip(coverage.lives()).collect(),
        marks: marks.iter().map(|(name, count)| (*name, *count)).collect(),
        nested_runs: counts.nested_runs,
        pairs: coverage.possible().len(),
        pairs_missing: coverage.missing().len(),
        pairs_not_seen: coverage.missing().iter().map(pair_name).collect(),
        programs: verdict.programs,
        recoveries: counts.recoveries,
        schedules: counts.schedules,
        schedules_per_second: rate(counts.schedules, verdict),
        small_programs: verdict.exhausted.1,
        small_programs_exhausted: verdict.exhausted.0,
        steps: counts.steps,
        structure: verdict.structure,
    };
    serde_json::to_value(shown).expect("it has only names as keys")
}

/// A failure for a program: what the file would hold.
pub fn record_as_json(record: &Record) -> Value {
    serde_json::from_str(&record.to_text()).expect("a record is written as JSON")
}

/// What can be proven, and the planted bugs, for a program.
#[derive(Serialize)]
struct Listed {
    harmless: Vec<&'static str>,
    mutants: Vec<ListedMutant>,
    structures: Vec<ListedStructure>,
}

#[derive(Serialize)]
struct ListedMutant {
    name: &'static str,
    structure: &'static str,
}

#[derive(Serialize)]
struct ListedStructure {
    about: &'static str,
    name: &'static str,
}

/// Prints what can be proven, and the planted bugs.
pub fn list(global: Global, out: &mut Output) -> Result<(), Failure> {
    if global.json {
        let structures = STRUCTURES.iter();
        return out.json(&Listed {
            harmless: HARMLESS.iter().map(|one| one.name).collect(),
            mutants: mutants::all()
                .map(|one| ListedMutant { name: one.name, structure: one.structure })
                .collect(),
            structures: structures
                .map(|one| ListedStructure { about: one.about, name: one.name })
                .collect(),
        });
    }
    out.line("Structures:")?;
    for structure in STRUCTURES {
        out.line(&format!("  {:<14} {}", structure.name, structure.about))?;
    }
    out.line("\nPlanted bugs, and the structure that misses what they take away:")?;
    for mutant in mutants::all() {
        out.line(&format!("  {:<30} {}", mutant.name, mutant.structure))?;
    }
    out.line("\nPlanted changes that harm nothing:")?;
    for mutant in HARMLESS {
        out.line(&format!("  {:<30} {}", mutant.name, mutant.structure))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 999.0, 1234.0, 2.5e6, 7.125e9].map(short);
        assert_eq!(texts, ["0", "999", "1234", "2500 k", "7125 M"]);
    }

    #[test]
    fn the_bar_is_valid() {
        Bar::new(true).clear();
    }
}
