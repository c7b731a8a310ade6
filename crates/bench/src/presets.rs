//! Runs that answer a question: does Everleaf cost what it is meant to cost?

use serde::Serialize;

use crate::distribution::Distribution;
use crate::measure::{Case, Length, Settings};
use crate::report::Report;
use crate::table::aligned;
use crate::workload::Workload;

/// Keys of the run, unless another number is asked for.
pub const TARGET_KEYS: u64 = 10_000_000;

/// The operations whose cost and scaling have a target.
const OPERATIONS: [Workload; 7] = [
    Workload::Get,
    Workload::GetAbsent,
    Workload::GetMany,
    Workload::Scan,
    Workload::Update,
    Workload::Remove,
    Workload::Insert,
];

/// The most that one operation (of a batch, one key) may cost, in dependent misses.
const MISSES_MAX: [(Workload, f64); 6] = [
    (Workload::Get, 1.8),
    (Workload::GetAbsent, 1.1),
    (Workload::Update, 1.9),
    (Workload::Insert, 2.6),
    (Workload::Remove, 2.2),
    (Workload::GetMany, 0.45),
];
/// The least that scans of 100 pairs deliver, in million keys a second.
const SCAN_MIN: f64 = 65.0;
/// The least that two threads do of what one thread does.
const SCALING_MIN: f64 = 1.7;
/// The most bytes of the pool that a key may take.
const POOL_BYTES_MAX: f64 = 25.0;
/// The most DRAM, in percent of the pool.
const DRAM_PERCENT_MAX: f64 = 16.0;

const SKEWED: Distribution = Distribution::Zipfian { theta: Distribution::THETA_DEFAULT };

/// What to measure: the integer tree in memory, each operation on one thread and on two, with
/// uniform and with skewed keys. Each round starts with an empty index and loads it.
pub fn targets(keys: u64) -> Settings {
    let mut cases =
        vec![Case { workload: Workload::Load, distribution: Distribution::Uniform, threads: 1 }];
    for workload in OPERATIONS {
        for distribution in [Distribution::Uniform, SKEWED] {
            // An insert takes a new key each time, whatever the distribution.
            if workload.has_fresh_keys() && distribution != Distribution::Uniform {
                continue;
            }
            // Side by side, so that they meet the same machine.
            cases.extend([1, 2].map(|threads| Case { workload, distribution, threads }));
        }
    }
    let length = Length::Operations((keys / 10).clamp(1, 1_000_000));
    Settings { keys, cases, length, ..Settings::default() }
}

/// A figure that has a target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What was measured.
    pub figure: String,
    /// The median; `None` if it was not measured.
    pub measured: Option<f64>,
    /// The unit of both numbers.
    pub unit: &'static str,
    /// Whether the target is a ceiling (`<=`) or a floor (`>=`).
    pub bound: &'static str,
    /// The target.
    pub target: f64,
    /// Whether the figure keeps to the target; `None` if it was not measured.
    pub holds: Option<bool>,
    /// Whether the machine disturbed some round of the measurement, so that the verdict is in
    /// doubt either way.
    pub is_disturbed: bool,
}

impl Verdict {
    pub(crate) fn new(
        figure: impl Into<String>,
        measured: Option<f64>,
        unit: &'static str,
        bound: &'static str,
        target: f64,
    ) -> Self {
        let holds =
            measured.map(|value| if bound == "<=" { value <= target } else { value >= target });
        Verdict { figure: figure.into(), measured, unit, bound, target, holds, is_disturbed: false }
    }

    pub(crate) fn disturbed(self, is_disturbed: bool) -> Self {
        Verdict { is_disturbed, ..self }
    }
}

/// Compares a report of [`targets`] with the targets.
pub fn judge(report: &Report) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (workload, most) in MISSES_MAX {
        let row = report.row(workload.name(), Distribution::Uniform.name(), 1);
        let unit = if workload == Workload::GetMany { "dm/key" } else { "dm" };
        let misses = row.map(|row| row.misses.median);
        let is_disturbed = row.is_some_and(|row| row.noisy_rounds > 0);
        verdicts
            .push(Verdict::new(workload.name(), misses, unit, "<=", most).disturbed(is_disturbed));
    }
    let scan = report.row(Workload::Scan.name(), Distribution::Uniform.name(), 1);
    let speed = scan.map(|row| row.per_second.median / 1e6);
    let name = format!("scan of {}", report.setup.scan_length);
    verdicts.push(
        Verdict::new(name, speed, "M keys/s", ">=", SCAN_MIN)
            .disturbed(scan.is_some_and(|row| row.preempted_rounds > 0)),
    );
    for distribution in [Distribution::Uniform, SKEWED] {
        verdicts.extend(OPERATIONS.iter().filter_map(|workload| {
            let is_repeated = workload.has_fresh_keys() && distribution != Distribution::Uniform;
            (!is_repeated).then(|| judge_scaling(report, *workload, distribution))
        }));
    }
    let memory = &report.memory;
    let (pool, dram) = (Some(memory.pool_bytes_per_key), Some(memory.dram_percent));
    verdicts.push(Verdict::new("pool", pool, "B/key", "<=", POOL_BYTES_MAX));
    verdicts.push(Verdict::new("DRAM", dram, "% of pool", "<=", DRAM_PERCENT_MAX));
    verdicts
}

fn judge_scaling(report: &Report, workload: Workload, distribution: Distribution) -> Verdict {
    let row = |threads| report.row(workload.name(), distribution.name(), threads);
    let scaling = row(2).and_then(|row| row.scaling).map(|scaling| scaling.median);
    let keys = match workload.has_fresh_keys() {
        true => "new".to_owned(),
        false => distribution.to_string(),
    };
    let was_preempted = |threads| row(threads).is_some_and(|row| row.preempted_rounds > 0);
    Verdict::new(format!("2 threads, {workload}, {keys}"), scaling, "x", ">=", SCALING_MIN)
        .disturbed(was_preempted(1) || was_preempted(2))
}

/// The verdicts as lines of text.
pub fn render(verdicts: &[Verdict]) -> String {
    let heading = ["figure", "measured", "target", "", "verdict"].map(str::to_owned);
    let mut cells = vec![heading.to_vec()];
    for verdict in verdicts {
        let measured =
            verdict.measured.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        let word = match verdict.holds {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not measured",
        };
        cells.push(vec![
            verdict.figure.clone(),
            measured,
            format!("{} {}", verdict.bound, verdict.target),
            verdict.unit.to_owned(),
            if verdict.is_disturbed { format!("{word} (disturbed)") } else { word.to_owned() },
        ]);
    }
    let met = verdicts.iter().filter(|verdict| verdict.holds == Some(true)).count();
    let table = aligned(&cells, &[true, false, false, true, true]);
    let disturbed = verdicts.iter().filter(|verdict| verdict.is_disturbed).count();
    let advice = match disturbed {
        0 => String::new(),
        count => format!("; {count} figures were disturbed: run it again on a quiet machine"),
    };
    format!("{table}\n{met} of {} targets met{advice}\n", verdicts.len())
}
