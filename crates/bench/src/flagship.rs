//! The tree with hashed leaves beside the fastest of the other designs, in one run, as a page: which
//! is first in which row, and which of its targets it meets.

use std::fmt::Write;

use crate::distribution::Distribution;
use crate::error::BenchError;
use crate::measure::contest::{self, Entrant};
use crate::measure::index_kind::{IndexKind, MeasuredDesign};
use crate::measure::{Case, Length, Progress, Settings};
use crate::presets::Verdict;
use crate::report::{Report, Row, Spread};
use crate::workload::Workload;
use everleaf_index::Domain;

/// The tree that is compared.
pub const OURS: &str = "hashed-leaf";
/// What it is compared with: of each paper the fastest design, and the tree before it.
pub const OTHERS: [&str; 4] = ["nbtree", "fptree", "sptree", "fast-fair-1024"];

const SKEWED: Distribution = Distribution::Zipfian { theta: Distribution::THETA_DEFAULT };
/// With uniform keys, on one thread and on two.
const UNIFORM: [Workload; 8] = [
    Workload::Get,
    Workload::GetAbsent,
    Workload::GetMany,
    Workload::Scan,
    Workload::Update,
    Workload::UpdateMany,
    Workload::Insert,
    Workload::Remove,
];
/// With skewed keys.
const WITH_SKEW: [Workload; 3] = [Workload::Get, Workload::Update, Workload::YcsbA];
/// Where every write is flushed, on one thread.
const FLUSHED: [Workload; 4] =
    [Workload::Update, Workload::YcsbA, Workload::Insert, Workload::Remove];

/// The most that one operation (of a batch, one key) may cost, in dependent misses.
const MISSES_MAX: [(Workload, f64); 7] = [
    (Workload::Get, 1.2),
    (Workload::GetAbsent, 1.0),
    (Workload::Update, 1.7),
    (Workload::Insert, 2.3),
    (Workload::Remove, 1.8),
    (Workload::GetMany, 0.40),
    (Workload::UpdateMany, 0.9),
];
/// The least million keys a second of a load of random keys on one thread.
const LOAD_MIN: f64 = 4.0;
/// The least that two threads do of what one does.
const SCALING_MIN: f64 = 1.8;
/// The most bytes of the pool that a key may take.
const POOL_BYTES_MAX: f64 = 24.5;
/// The most DRAM, in percent of the pool.
const DRAM_PERCENT_MAX: f64 = 12.0;

/// What to measure where stores need no flush. Each round of each design begins with a load.
pub fn settings(keys: u64) -> Settings {
    let case = |workload, distribution, threads| Case { workload, distribution, threads };
    let mut cases = vec![case(Workload::Load, Distribution::Uniform, 1)];
    for threads in [1, 2] {
        let uniform = UNIFORM.map(|workload| case(workload, Distribution::Uniform, threads));
        cases.extend(uniform);
        cases.extend(WITH_SKEW.map(|workload| case(workload, SKEWED, threads)));
    }
    let length = Length::Operations((keys / 20).clamp(1, 500_000));
    Settings { keys, cases, length, ..Settings::default() }
}

/// As [`settings`], where stores need a flush.
fn flushed(settings: &Settings) -> Settings {
    let case = |workload: Workload| Case {
        workload,
        distribution: workload.default_distribution(Distribution::THETA_DEFAULT),
        threads: 1,
    };
    let cases = FLUSHED.map(case).to_vec();
    Settings { cases, domain: Some(Domain::Adr), ..settings.clone() }
}

/// What both runs found: the reports of ours and of the others, in the order of their names.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Where stores need no flush.
    pub unflushed: Vec<Report>,
    /// Where they do.
    pub flushed: Vec<Report>,
}

/// Measures ours and the others of these designs side by side. `progress` is told which design comes
/// next and what it does.
///
/// # Errors
/// One of the designs is missing; as soon as one of them fails.
pub fn run(
    settings: &Settings,
    designs: &[&'static MeasuredDesign],
    progress: &mut dyn FnMut(&str, Progress<'_>),
) -> Result<Findings, BenchError> {
    let mut side_by_side = |settings: &Settings| {
        let entrants = entrants(settings, designs)?;
        contest::run(entrants, settings.rounds, settings.seed, settings.miss_region, progress)
    };
    let unflushed = side_by_side(settings)?;
    Ok(Findings { unflushed, flushed: side_by_side(&flushed(settings))? })
}

fn entrants(
    settings: &Settings,
    designs: &[&'static MeasuredDesign],
) -> Result<Vec<Box<dyn Entrant>>, BenchError> {
    let entrant = |name: &str| {
        let index = IndexKind::of_name(name, designs).ok_or_else(|| {
            BenchError::Settings(format!(
                "there is no design {name} here: ask `everleaf-lab bench`"
            ))
        })?;
        contest::ours(&Settings { index, ..settings.clone() })
    };
    std::iter::once(OURS).chain(OTHERS).map(entrant).collect()
}

/// A row of all designs.
struct Line<'r> {
    name: String,
    rows: Vec<&'r Row>,
    /// Our throughput relative to the best other one, of the rounds in which both were measured.
    ratio: Spread,
}

impl<'r> Line<'r> {
    fn all(reports: &'r [Report], keys: &str) -> Vec<Line<'r>> {
        let count = reports.first().map_or(0, |report| report.rows.len());
        (0..count).filter_map(|at| Line::of(reports, at, keys)).collect()
    }

    fn of(reports: &'r [Report], at: usize, keys: &str) -> Option<Line<'r>> {
        let rows: Vec<&Row> = reports.iter().map(|report| &report.rows[at]).collect();
        let (ours, others) = rows.split_first()?;
        let speed = |row: &&&Row| row.per_second.median;
        let best = others.iter().max_by(|a, b| speed(a).total_cmp(&speed(b)))?;
        let rounds = ours.rounds.iter().zip(&best.rounds);
        let ratio = Spread::of(rounds.map(|(ours, best)| ours.per_second / best.per_second))?;
        let skew = match (ours.theta, ours.distribution) {
            (Some(theta), name) => format!(", {name} {theta}"),
            (None, _) => String::new(),
        };
        let threads = if ours.threads == 1 { "" } else { ", 2 threads" };
        Some(Line { name: format!("{}{skew}{threads}{keys}", ours.workload), rows, ratio })
    }

    fn is_first(&self) -> bool {
        self.ratio.median >= 1.0
    }

    fn is_disturbed(&self) -> bool {
        self.rows.iter().any(|row| row.noisy_rounds + row.preempted_rounds > 0)
    }
}

/// The figures of ours that have a target.
pub fn judge(findings: &Findings) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let lines = Line::all(&findings.unflushed, "");
    let flushed = Line::all(&findings.flushed, ", flushed");
    for line in lines.iter().chain(&flushed) {
        let name = format!("{}: beside the best of the others", line.name);
        let verdict = Verdict::new(name, Some(line.ratio.median), "x", ">=", 1.0);
        verdicts.push(verdict.disturbed(line.is_disturbed()));
    }
    let Some(ours) = findings.unflushed.first() else { return verdicts };
    let uniform = Distribution::Uniform.name();
    for (workload, most) in MISSES_MAX {
        let row = ours.row(workload.name(), uniform, 1);
        let unit = if workload.is_batched() { "dm/key" } else { "dm" };
        let (name, misses) = (format!("cost of {workload}"), row.map(|row| row.misses.median));
        let verdict = Verdict::new(name, misses, unit, "<=", most);
        verdicts.push(verdict.disturbed(row.is_some_and(|row| row.noisy_rounds > 0)));
    }
    let load = ours.row(Workload::Load.name(), uniform, 1);
    let speed = load.map(|row| row.per_second.median / 1e6);
    let verdict = Verdict::new("speed of load", speed, "M keys/s", ">=", LOAD_MIN);
    verdicts.push(verdict.disturbed(load.is_some_and(|row| row.preempted_rounds > 0)));
    for row in ours.rows.iter().filter(|row| row.threads == 2) {
        let name = match row.theta {
            Some(theta) => format!("2 threads, {}, {} {theta}", row.workload, row.distribution),
            None => format!("2 threads, {}", row.workload),
        };
        let scaling = row.scaling.map(|scaling| scaling.median);
        let verdict = Verdict::new(name, scaling, "x", ">=", SCALING_MIN);
        verdicts.push(verdict.disturbed(row.preempted_rounds > 0));
    }
    let (pool, dram) = (ours.memory.pool_bytes_per_key, ours.memory.dram_percent);
    verdicts.push(Verdict::new("pool", Some(pool), "B/key", "<=", POOL_BYTES_MAX));
    verdicts.push(Verdict::new("DRAM", Some(dram), "% of pool", "<=", DRAM_PERCENT_MAX));
    verdicts
}

/// The page of what was found, in Markdown. `command`: how it was made.
pub fn page(findings: &Findings, command: &str) -> String {
    let Some(ours) = findings.unflushed.first() else { return String::new() };
    let lines = Line::all(&findings.unflushed, "");
    let flushed = Line::all(&findings.flushed, "");
    let all = || lines.iter().chain(&flushed);
    let first = all().filter(|line| line.is_first()).count();
    let machine = &ours.machine;
    let mut text = format!(
        "# The tree with hashed leaves beside the fastest designs\n\nMade by `{command}`, and not by \
         hand. {} M random keys of 8 + 8 bytes; {} rounds, in each of which every design makes a new \
         pool in memory, loads it and does all rows, one design after the other in an order that is \
         drawn; medians.\n\n{}, {} CPUs, caches {}, {}{}.\n\n",
        ours.setup.keys as f64 / 1e6,
        ours.setup.rounds,
        machine.cpu,
        machine.cpu_count,
        machine.caches,
        machine.system,
        if machine.is_virtual { ", virtual" } else { "" },
    );
    if !machine.is_optimized {
        text.push_str("**Built without optimisation: its figures mean nothing.**\n\n");
    }
    let disturbed = all().filter(|line| line.is_disturbed()).count();
    let _ = write!(
        text,
        "`{OURS}` is first in {first} of {} rows. In {disturbed} of them something else kept threads \
         from running, or the memory changed its speed while some design was measured: marked ~.\n\n",
        all().count()
    );
    let _ = write!(
        text,
        "## Million operations a second\n\nOf `get-many`, `update-many` and `scan`: million keys. \
         Batches have {} keys, scans {} pairs. The ratio is that to the best of the others: the \
         median of the ratios of each round.\n\n",
        ours.setup.batch, ours.setup.scan_length
    );
    text.push_str(&table(&lines, &findings.unflushed, speed_of));
    text.push_str("\nWhere every write is flushed (domain `adr`), one thread:\n\n");
    text.push_str(&table(&flushed, &findings.flushed, speed_of));
    text.push_str(
        "\n## Dependent misses\n\nTime on a CPU of one operation, or key, in the time of one read of \
         ordinary memory that has to wait for the one before (dm).\n\n",
    );
    text.push_str(&table(&lines, &findings.unflushed, misses_of));
    text.push_str("\n## Memory\n\n| design | pool, bytes a key | DRAM, % of the pool | leaves |\n");
    text.push_str("|---|---|---|---|\n");
    for report in &findings.unflushed {
        let memory = &report.memory;
        let (pool, dram) = (memory.pool_bytes_per_key, memory.dram_percent);
        let name = report.setup.index;
        let _ = writeln!(text, "| {name} | {pool:.1} | {dram:.1} | {} |", memory.leaves);
    }
    text.push_str("\n## Targets\n\n");
    text.push_str(&verdict_table(&judge(findings)));
    text
}

fn speed_of(row: &Row) -> String {
    format!("{:.2}", row.per_second.median / 1e6)
}

fn misses_of(row: &Row) -> String {
    format!("{:.2}", row.misses.median)
}

fn table(lines: &[Line<'_>], reports: &[Report], cell: impl Fn(&Row) -> String) -> String {
    let names: Vec<&str> = reports.iter().map(|report| report.setup.index).collect();
    let mut text = format!("| | {} | ratio |\n", names.join(" | "));
    let _ = writeln!(text, "|---|{}---|", "---|".repeat(names.len()));
    for line in lines {
        let cells: Vec<String> = line.rows.iter().map(|row| cell(row)).collect();
        let mark = if line.is_disturbed() { "~" } else { "" };
        let name = &line.name;
        let _ =
            writeln!(text, "| {name} | {} | {mark}{:.2} |", cells.join(" | "), line.ratio.median);
    }
    text
}

fn verdict_table(verdicts: &[Verdict]) -> String {
    let met = verdicts.iter().filter(|verdict| verdict.holds == Some(true)).count();
    let mut text = format!("{met} of {} are met.\n\n", verdicts.len());
    text.push_str("| figure | measured | target | verdict |\n|---|---|---|---|\n");
    for verdict in verdicts {
        let measured = verdict.measured.map_or("-".to_owned(), |value| format!("{value:.2}"));
        let word = match verdict.holds {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "not measured",
        };
        let mark = if verdict.is_disturbed { ", disturbed" } else { "" };
        let Verdict { figure, bound, target, unit, .. } = verdict;
        let _ =
            writeln!(text, "| {figure} | {measured} | {bound} {target} {unit} | {word}{mark} |");
    }
    text
}
