//! Reports of the bench as they are read back from files: from this program's, an older one's, or
//! that of the rivals.

use serde::Deserialize;
use serde_json::Value;

use everleaf_bench::report::Machine;

use crate::experiment::Series;

/// A figure that was measured several times.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SavedSpread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

/// One round.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SavedRound {
    pub per_second: f64,
    pub unit_ns: f64,
    pub misses: f64,
    pub busy_share: f64,
}

/// Latencies in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SavedLatency {
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
}

/// A workload.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SavedRow {
    pub workload: String,
    pub distribution: String,
    pub theta: Option<f64>,
    pub threads: usize,
    pub unit: String,
    pub per_second: SavedSpread,
    pub misses: SavedSpread,
    pub latency: SavedLatency,
    pub noisy_rounds: usize,
    pub preempted_rounds: usize,
    pub rounds: Vec<SavedRound>,
}

/// How it was measured.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SavedSetup {
    pub index: String,
    /// Which library, where the rivals say so.
    pub what: String,
    pub keys: u64,
    pub key_size_bytes: usize,
    pub value_size_bytes: usize,
    pub medium: String,
    pub domain: String,
    pub rounds: usize,
    pub scan_length: u32,
    pub batch: usize,
    pub upsert: bool,
}

/// What the index took.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SavedMemory {
    pub pool_used_bytes: u64,
    pub dram_bytes: u64,
}

/// A report.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SavedReport {
    #[serde(default)]
    pub machine: Machine,
    pub setup: SavedSetup,
    #[serde(default)]
    pub memory: SavedMemory,
    pub rows: Vec<SavedRow>,
}

impl SavedRow {
    /// Workload, keys and threads in a few words.
    pub fn name(&self) -> String {
        let skew = self.theta.map_or(String::new(), |theta| format!(" {theta}"));
        let keys = if self.distribution.is_empty() { "" } else { " " };
        let plural = if self.threads == 1 { "" } else { "s" };
        format!(
            "{}{keys}{}{skew}, {} thread{plural}",
            self.workload, self.distribution, self.threads
        )
    }

    /// Whether the machine disturbed some round.
    pub fn is_disturbed(&self) -> bool {
        self.noisy_rounds + self.preempted_rounds > 0
    }
}

impl SavedSetup {
    /// What else two reports of one program may differ in.
    fn rest(&self) -> String {
        let mut rest = String::new();
        for part in [&self.medium, &self.domain].into_iter().filter(|part| !part.is_empty()) {
            rest.push_str(&format!(", {part}"));
        }
        if self.scan_length > 0 {
            rest.push_str(&format!(", scans of {}", self.scan_length));
        }
        if self.batch > 0 {
            rest.push_str(&format!(", batches of {}", self.batch));
        }
        rest.push_str(if self.upsert { ", upserts" } else { "" });
        rest
    }
}

/// All reports in a JSON value, wherever they are in it.
pub(crate) fn reports_in(value: &Value) -> Vec<SavedReport> {
    let mut found = Vec::new();
    collect(value, &mut found);
    found
}

fn collect(value: &Value, found: &mut Vec<SavedReport>) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("setup")
                && fields.contains_key("rows")
                && let Ok(report) = SavedReport::deserialize(value)
            {
                return found.push(report);
            }
            fields.values().for_each(|field| collect(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

/// What a report is compared by: costs of units in dependent misses, and throughput of several
/// threads.
pub(crate) fn series_of(report: &SavedReport) -> Vec<Series> {
    let setup = &report.setup;
    let one = |row: &SavedRow| {
        let of_threads = row.threads > 1;
        let value = |round: &SavedRound| if of_threads { round.per_second } else { round.misses };
        // A cost in dm is CPU time, which waiting for a CPU does not change; throughput suffers from
        // slow memory too.
        let is_disturbed = if of_threads { row.is_disturbed() } else { row.noisy_rounds > 0 };
        Series {
            name: format!(
                "{} {}, {} keys of {}+{} B{}",
                setup.index,
                row.name(),
                setup.keys,
                setup.key_size_bytes,
                setup.value_size_bytes,
                setup.rest()
            ),
            unit: format!("{}/{}", if of_threads { "1/s" } else { "dm" }, row.unit),
            more_is_better: of_threads,
            is_exact: false,
            is_disturbed,
            values: row.rounds.iter().map(value).collect(),
        }
    };
    report.rows.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_bench::measure::{self, Case, Length, Settings};
    use everleaf_bench::{Distribution, Workload};

    #[test]
    fn a_report_of_the_bench_is_found_wherever_it_is() {
        let case = |threads| Case {
            workload: Workload::Get,
            distribution: Distribution::Uniform,
            threads,
        };
        let settings = Settings {
            keys: 500,
            rounds: 2,
            length: Length::Operations(200),
            cases: vec![case(1), case(2)],
            miss_region: 1 << 16,
            ..Settings::default()
        };
        let report = measure::run(&settings, &mut |_| {}).unwrap();
        let value = serde_json::json!({ "of": ["rivals", { "all": [report, report] }] });
        let found = reports_in(&value);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].rows[0].misses.median, report.rows[0].misses.median);
        assert_eq!(found[0].rows[1].name(), "get uniform, 2 threads");
        let series = series_of(&found[0]);
        assert_eq!((series[0].values.len(), series[0].more_is_better), (2, false));
        assert!(series[1].more_is_better && series[1].unit == "1/s/op");
        // Two lengths of scans, and two domains, had one name.
        let name = |change: fn(&mut SavedSetup)| {
            let mut other = found[0].clone();
            change(&mut other.setup);
            series_of(&other)[0].name.clone()
        };
        let names = [
            name(|_| {}),
            name(|setup| setup.scan_length += 1),
            name(|setup| setup.domain.push('x')),
            name(|setup| setup.batch += 1),
            name(|setup| setup.upsert = true),
        ];
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        let mut noisy = found[0].clone();
        for row in &mut noisy.rows {
            (row.noisy_rounds, row.preempted_rounds) = (1, 0);
        }
        assert!(series_of(&noisy).iter().all(|series| series.is_disturbed));
        assert!(reports_in(&serde_json::json!({ "setup": 1, "rows": 2 })).is_empty());
    }
}
