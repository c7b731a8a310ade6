//! Several indexes measured side by side, in rounds, each round in another random order.

use crate::design;
use everleaf_bench::IndexKind;
use everleaf_bench::measure::{self, Case, Length, Settings, contest};
use everleaf_bench::report::{Report, Round, Row};
use everleaf_bench::statistics::Ratio;
use everleaf_bench::{BenchError, Distribution, Unit, Workload};

use super::finding::{Bar, Chart, Grid, Series};
use super::{Context, Results};

/// What is measured of each index.
#[derive(Clone, Debug)]
pub(super) struct Contest<'c> {
    /// Names of designs of the catalogue.
    pub designs: &'c [&'static str],
    /// Workloads on one thread, with uniform keys; each round loads a new tree first.
    pub workloads: &'c [Workload],
    pub keys: u64,
    pub operations: u64,
    pub scan_length: u32,
    pub rounds: usize,
}

/// Measures. The reports are in the order of the designs.
///
/// # Errors
/// The bench's.
pub(super) fn run(
    context: &mut Context<'_>,
    contest: &Contest<'_>,
) -> Result<Vec<Report>, BenchError> {
    let case = |workload: &Workload| Case {
        workload: *workload,
        distribution: Distribution::Uniform,
        threads: 1,
    };
    let settings = Settings {
        keys: contest.keys,
        rounds: contest.rounds,
        length: Length::Operations(contest.operations),
        scan_length: contest.scan_length,
        cases: contest.workloads.iter().map(case).collect(),
        seed: context.seed,
        ..Settings::default()
    };
    compete(context, contest.designs, &settings)
}

/// Measures the designs with these settings, the index aside. The reports are in their order.
///
/// # Errors
/// The bench's.
pub(super) fn compete(
    context: &mut Context<'_>,
    designs: &[&'static str],
    settings: &Settings,
) -> Result<Vec<Report>, BenchError> {
    let entered: Vec<_> = designs.iter().map(|design| (*design, settings)).collect();
    compete_each(context, &entered)
}

/// Measures designs, each with its settings, the index aside. Rounds and the memory that is walked are those of the
/// first. The reports are in their order.
///
/// # Errors
/// The bench's; that there is nothing to measure.
pub(super) fn compete_each(
    context: &mut Context<'_>,
    entered: &[(&'static str, &Settings)],
) -> Result<Vec<Report>, BenchError> {
    let Some((_, first)) = entered.first() else {
        return Err(BenchError::Settings("there is nothing to measure".to_owned()));
    };
    let enter = |(name, settings): &(&'static str, &Settings)| {
        let design = design(name).ok_or_else(|| {
            BenchError::Settings(format!("there is no design {name} in the catalogue"))
        })?;
        // Of a hash index, what needs no order.
        contest::ours(&settings.suited_to(IndexKind::Design(design)).0)
    };
    let entrants = entered.iter().map(enter).collect::<Result<Vec<_>, BenchError>>()?;
    let (rounds, seed) = (first.rounds, context.seed);
    let mut show = |name: &str, progress: measure::Progress<'_>| {
        (context.tell)(&format!("{name}: {}", progress.what));
    };
    contest::run(entrants, rounds, seed, first.miss_region, &mut show)
}

/// The costs of a workload in nanoseconds of CPU time, round by round.
pub(super) fn costs(report: &Report, workload: Workload) -> Vec<f64> {
    rounds_of(report, workload, |row| row.rounds.iter().map(|round| round.unit_ns).collect())
}

fn rounds_of(report: &Report, workload: Workload, of: fn(&Row) -> Vec<f64>) -> Vec<f64> {
    let row = report.rows.iter().find(|row| row.workload == workload.name());
    row.map(of).unwrap_or_default()
}

/// How often as fast as `slow` the index `fast` is, with the interval.
pub(super) fn advantage(slow: &Report, fast: &Report, workload: Workload) -> Ratio {
    let ratio = Ratio::of(&costs(slow, workload), &costs(fast, workload));
    ratio.unwrap_or(Ratio { ratio: f64::NAN, low: f64::NAN, high: f64::NAN })
}

/// The report of a design.
pub(super) fn of<'r>(reports: &'r [Report], design: &str) -> &'r Report {
    let found = reports.iter().find(|report| report.setup.index == design);
    found.expect("every design of the contest has a report")
}

/// Adds a table in dependent misses, one of ratios to the first report, a picture of each workload,
/// and the series of all.
pub(super) fn describe(outcome: &mut Results, reports: &[Report], workloads: &[Workload]) {
    let names: Vec<&str> =
        std::iter::once("tree").chain(workloads.iter().map(|one| one.name())).collect();
    let mut misses = Grid::new("CPU time of a unit in dependent misses (dm), median", &names);
    let base = &reports[0];
    let title = format!(
        "CPU time in multiples of {}'s, with the interval that holds the ratio in 95 of 100 cases",
        base.setup.index
    );
    let mut ratios = Grid::new(title, &names);
    for report in reports {
        let row =
            |workload: &Workload| report.rows.iter().find(|row| row.workload == workload.name());
        let name = report.setup.index.to_owned();
        misses.add(
            name.clone(),
            workloads.iter().map(|one| row(one).map_or(f64::NAN, |row| row.misses.median)),
        );
        let ratio = |one: &Workload| advantage(report, base, *one).to_string();
        ratios.rows.push(std::iter::once(name).chain(workloads.iter().map(ratio)).collect());
    }
    outcome.tables.extend([misses, ratios]);
    for workload in workloads {
        outcome.charts.push(bars(reports, *workload));
    }
    outcome.series.extend(reports.iter().flat_map(series));
    let disturbed = reports.iter().flat_map(|report| &report.rows);
    let disturbed: usize = disturbed.map(|row| row.noisy_rounds + row.preempted_rounds).sum();
    if disturbed > 0 {
        outcome.notes.push(format!(
            "The machine disturbed {disturbed} of the measurements (other programs ran, or the \
             memory changed its speed)."
        ));
    }
}

/// A bar for each index: the cost of a workload.
pub(super) fn bars(reports: &[Report], workload: Workload) -> Chart {
    let bar = |report: &Report| {
        let row = report.rows.iter().find(|row| row.workload == workload.name())?;
        let misses = row.misses;
        let name = report.setup.index.to_owned();
        Some(Bar { name, value: misses.median, spread: Some((misses.min, misses.max)) })
    };
    let per = if workload.unit() == Unit::Key { "a key" } else { "an operation" };
    Chart::Bars {
        title: format!("{workload}: CPU time of {per}"),
        unit: "dm".to_owned(),
        bars: reports.iter().filter_map(bar).collect(),
    }
}

/// What runs are compared by: the costs of each row of one thread, in dependent misses, and the throughput of several
/// threads.
pub(crate) fn series(report: &Report) -> Vec<Series> {
    let one = |row: &Row| {
        let of_threads = row.threads > 1;
        let value = |round: &Round| if of_threads { round.per_second } else { round.misses };
        let is_preempted = of_threads && row.preempted_rounds > 0;
        let skew = row.theta.map_or(String::new(), |theta| format!(" {theta}"));
        Series {
            name: format!(
                "{} {} {}{skew} x{}, {} keys of {}+{} B",
                report.setup.index,
                row.workload,
                row.distribution,
                row.threads,
                report.setup.keys,
                report.setup.key_size_bytes,
                report.setup.value_size_bytes
            ),
            unit: format!("{}/{}", if of_threads { "1/s" } else { "dm" }, row.unit),
            more_is_better: of_threads,
            is_exact: false,
            is_disturbed: row.noisy_rounds > 0 || is_preempted,
            values: row.rounds.iter().map(value).collect(),
        }
    };
    report.rows.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both skews had one name, and threads that wait for each other cost no CPU time.
    #[test]
    fn skews_have_names_and_threads_are_compared_by_throughput() {
        let case = |theta, threads| Case {
            workload: Workload::Get,
            distribution: Distribution::Zipfian { theta },
            threads,
        };
        let settings = Settings {
            keys: 500,
            rounds: 2,
            length: Length::Operations(200),
            cases: vec![case(0.5, 1), case(0.9, 1), case(0.9, 2)],
            miss_region: 1 << 16,
            ..Settings::default()
        };
        let mut report = measure::run(&settings, &mut |_| {}).unwrap();
        report.rows.iter_mut().for_each(|row| (row.noisy_rounds, row.preempted_rounds) = (0, 1));
        let found = series(&report);
        assert_ne!(found[0].name, found[1].name);
        assert_eq!((found[1].unit.as_str(), found[1].more_is_better), ("dm/op", false));
        assert_eq!((found[2].unit.as_str(), found[2].more_is_better), ("1/s/op", true));
        assert_eq!(found[2].values[1], report.rows[2].rounds[1].per_second);
        assert_eq!([found[1].is_disturbed, found[2].is_disturbed], [false, true]);
    }
}
