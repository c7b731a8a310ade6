//! What the papers measure on many cores, as far as those of this machine go: throughput and tails of
//! one thread and of all together. There is no verdict: two cores say nothing about fifty-six.

use everleaf_bench::measure::{Case, Length, Settings};
use everleaf_bench::report::{Report, Row};
use everleaf_bench::statistics::Ratio;
use everleaf_bench::{Arrivals, BenchError, Distribution, Workload};
use everleaf_machine::topology;

use super::finding::{Bar, Chart, Figure, Grid, Scale, number};
use super::timed;
use super::{Context, Results};

/// What is measured, and what the paper says of it.
pub(super) struct Field {
    /// The first is what the others are compared with.
    pub designs: &'static [&'static str],
    pub cases: &'static [(Workload, Distribution)],
    /// How many times as fast as a design the first is in a case, in the paper's words.
    pub claims: &'static [(&'static str, usize, &'static str)],
    /// Pairs of a scan.
    pub scan_length: u32,
}

/// Zipfian keys.
pub(super) const fn skewed(theta: f64) -> Distribution {
    Distribution::Zipfian { theta }
}

/// Pairs of a scan where a paper has none.
pub(super) const SCAN_LENGTH: u32 = 100;

/// Cases of which each gets a picture.
const PICTURES_MAX: usize = 4;

/// Measures, on one thread and on as many as there are CPUs.
pub(super) fn run(context: &mut Context<'_>, field: &Field) -> Result<Results, BenchError> {
    run_at(context, field, None)
}

/// The same, with so many operations a second that arrive whatever the index does; latencies count from
/// when they are due.
pub(super) fn run_at(
    context: &mut Context<'_>,
    field: &Field,
    per_second: Option<f64>,
) -> Result<Results, BenchError> {
    let cpus = topology::allowed_cpus().len().max(1);
    let threads: Vec<usize> = if cpus > 1 { vec![1, cpus] } else { vec![1] };
    let chosen = chosen(field, context.scale);
    let each = |index: &usize| {
        let (workload, distribution) = field.cases[*index];
        threads.iter().map(move |&threads| Case { workload, distribution, threads })
    };
    let settings = Settings {
        keys: context.scale.pick(100_000, 16_000_000),
        rounds: context.scale.pick(3, 7),
        length: Length::Operations(context.scale.pick(40_000, 2_000_000)),
        scan_length: field.scan_length,
        cases: chosen.iter().flat_map(each).collect(),
        seed: context.seed,
        arrivals: per_second.map(|per_second| Arrivals { per_second, burst: 1 }),
        ..Settings::default()
    };
    let reports = timed::compete(context, field.designs, &settings)?;
    let mut outcome = Results::default();
    for (place, &index) in chosen.iter().enumerate() {
        let case = &field.cases[index];
        let rows = |report: &'_ Report| -> Vec<Row> {
            report.rows[place * threads.len()..][..threads.len()].to_vec()
        };
        let of_case: Vec<(&str, Vec<Row>)> =
            reports.iter().map(|report| (report.setup.index, rows(report))).collect();
        describe(&mut outcome, case, &of_case, field.cases.len() <= PICTURES_MAX);
        for (design, _, claim) in field.claims.iter().filter(|claim| claim.1 == index) {
            let compare = if per_second.is_some() { tails_beside } else { beside };
            outcome.figures.push(compare(case, &of_case, design, claim));
        }
    }
    outcome.series = reports.iter().flat_map(timed::series).collect();
    outcome.notes.push(format!(
        "{cpus} CPUs, not the paper's machine: figures are shown beside the paper's without a verdict."
    ));
    Ok(outcome)
}

/// The cases that are measured, by their numbers: of many, a quick run takes those of which the paper gives a
/// figure, if it does of any.
fn chosen(field: &Field, scale: Scale) -> Vec<usize> {
    let has_claim = |case: &usize| field.claims.iter().any(|claim| claim.1 == *case);
    let all = 0..field.cases.len();
    let is_short = scale == Scale::Quick && field.cases.len() > PICTURES_MAX;
    let claimed: Vec<usize> = all.clone().filter(has_claim).collect();
    if is_short && !claimed.is_empty() { claimed } else { all.collect() }
}

/// Workload and keys.
fn name(&(workload, distribution): &(Workload, Distribution)) -> String {
    if workload.has_distribution() {
        format!("{workload} {distribution}")
    } else {
        workload.to_string()
    }
}

/// The table of a case, and a picture of all threads.
fn describe(
    outcome: &mut Results,
    case: &(Workload, Distribution),
    of_case: &[(&str, Vec<Row>)],
    has_picture: bool,
) {
    let count = of_case.first().and_then(|(_, rows)| rows.last()).map_or(1, |row| row.threads);
    let all = format!("{count} threads, M/s");
    let tail = format!("{count} threads, 99th percentile us");
    let columns = ["tree", "1 thread, M/s", "99th percentile us", &all, &tail, "all by one"];
    let mut grid = Grid::new(name(case), &columns);
    let mut bars = Vec::new();
    for (design, rows) in of_case {
        let (Some(one), Some(many)) = (rows.first(), rows.last()) else { continue };
        let speed = |row: &Row| row.per_second.median / 1e6;
        let slow = |row: &Row| row.latency.p99_ns as f64 / 1e3;
        let scaling = many.scaling.map_or(1.0, |scaling| scaling.median);
        grid.add(*design, [speed(one), slow(one), speed(many), slow(many), scaling]);
        let spread = Some((many.per_second.min / 1e6, many.per_second.max / 1e6));
        bars.push(Bar { name: (*design).to_owned(), value: speed(many), spread });
    }
    outcome.tables.push(grid);
    if has_picture {
        let title = format!("{}, {count} threads", name(case));
        outcome.charts.push(Chart::Bars { title, unit: "M/s".to_owned(), bars });
    }
}

/// The first design in multiples of another, with all threads.
fn beside(
    case: &(Workload, Distribution),
    of_case: &[(&str, Vec<Row>)],
    other: &str,
    claim: &str,
) -> Figure {
    let speeds = |design: &str| -> Vec<f64> {
        let found = of_case.iter().find(|(name, _)| *name == design);
        let row = found.and_then(|(_, rows)| rows.last());
        row.map_or(vec![], |row| row.rounds.iter().map(|round| round.per_second).collect())
    };
    let first = of_case.first().map_or("", |(design, _)| design);
    let ratio = Ratio::of(&speeds(first), &speeds(other));
    let ours = ratio.map_or_else(|| "-".to_owned(), |ratio| ratio.to_string());
    let what = format!("{}: throughput of {first} in multiples of {other}'s", name(case));
    Figure::statement(what, claim, ours, true).without_verdict()
}

/// The 99th percentile of a design in multiples of the first's, with all threads. In an open loop throughput is what
/// arrives, whatever the designs do.
fn tails_beside(
    case: &(Workload, Distribution),
    of_case: &[(&str, Vec<Row>)],
    other: &str,
    claim: &str,
) -> Figure {
    let tail = |design: &str| {
        let found = of_case.iter().find(|(name, _)| *name == design);
        found.and_then(|(_, rows)| rows.last()).map_or(f64::NAN, |row| row.latency.p99_ns as f64)
    };
    let first = of_case.first().map_or("", |(design, _)| design);
    let ours = number(tail(other) / tail(first));
    let what = format!(
        "{}: 99th percentile of all operations, {other}'s in multiples of {first}'s",
        name(case)
    );
    Figure::statement(what, claim, ours, true).without_verdict()
}

#[cfg(test)]
mod tests {
    use super::super::tests::quick;
    use super::*;

    #[test]
    fn a_quick_run_of_many_cases_takes_those_with_a_figure() {
        const CASES: [(Workload, Distribution); 6] = [(Workload::Get, Distribution::Uniform); 6];
        let field = |claims| Field {
            designs: &["nbtree"],
            cases: &CASES,
            claims,
            scan_length: SCAN_LENGTH,
        };
        let some = field(&[("fptree", 5, "twice"), ("fptree", 2, "twice")]);
        assert_eq!(chosen(&some, Scale::Quick), [2, 5]);
        assert_eq!(chosen(&some, Scale::Full), [0, 1, 2, 3, 4, 5]);
        assert_eq!(chosen(&field(&[]), Scale::Quick).len(), 6);
    }

    #[test]
    fn every_case_has_a_table_for_one_thread_and_all_and_no_verdict() {
        static FIELD: Field = Field {
            designs: &["nbtree", "fptree"],
            cases: &[(Workload::Get, Distribution::Uniform), (Workload::YcsbA, skewed(0.99))],
            claims: &[("fptree", 1, "1.5 to 5.0 with 56 threads")],
            scan_length: SCAN_LENGTH,
        };
        let outcome = run(&mut quick(&mut |_| ()), &FIELD).unwrap();
        assert_eq!((outcome.tables.len(), outcome.charts.len()), (2, 2));
        assert_eq!(outcome.tables[0].rows.len(), 2);
        assert!(outcome.figures.len() == 1 && !outcome.figures[0].differs());
        assert!(outcome.figures[0].ours.contains(" to "), "{:?}", outcome.figures);
        // Throughput stood beside a claim about latencies, and was 1 whatever the trees did.
        let open = run_at(&mut quick(&mut |_| ()), &FIELD, Some(400_000.0)).unwrap();
        assert!(open.figures[0].what.contains("99th percentile"), "{:?}", open.figures);
    }
}
