//! What skew does: conflicts on hot leaves (Figure 10), and persistent caches under half reads, half
//! writes (Figure 18), as far as counts and the threads there are can show it.

use everleaf_bench::measure::{Case, Length, Settings};
use everleaf_bench::report::{Report, Spread};
use everleaf_bench::statistics::Ratio;
use everleaf_bench::{BenchError, Distribution, Workload};
use everleaf_index::Domain as PoolDomain;
use everleaf_machine::simulated::Domain;
use everleaf_machine::topology;

use super::super::finding::{Bar, Chart, Figure, Grid, Series, number};
use super::super::model::Latencies;
use super::super::timed;
use super::super::{Context, Results};
use super::many::RIVALS;
use super::rivals::{PAPERS_TREE, is_published, rivals};
use everleaf_lab_designs::count::{load, scaled_caches, threads};

/// As in the paper.
const SKEWED: Distribution = Distribution::Zipfian { theta: Distribution::THETA_DEFAULT };

/// What two threads that update a tree did to each other, in thousandths of the updates, round by round.
struct Meetings {
    design: &'static str,
    /// Updates that met another thread.
    met: Vec<f64>,
    /// The same, on the leaf that has most of them.
    hottest: Vec<f64>,
}

/// Figure 10.
pub(super) fn conflicts(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let rounds = context.scale.pick(4, 15);
    let keys = context.scale.pick(10_000, 100_000);
    let operations = context.scale.pick(20_000, 200_000);
    let mut all = Vec::new();
    for design in rivals() {
        let mut meetings = Meetings { design, met: vec![], hottest: vec![] };
        for round in 0..rounds {
            (context.tell)(&format!("{design}, round {} of {rounds}", round + 1));
            let seed = context.seed ^ (round + 1) << 48;
            let found = threads::contend(design, 2, keys, operations, SKEWED, seed)?;
            let of_thousand = |count: u64| found.tally.per_operation(count) * 1000.0;
            meetings.met.push(of_thousand(found.by_leaf.iter().sum()));
            meetings.hottest.push(of_thousand(found.by_leaf.first().copied().unwrap_or(0)));
        }
        all.push(meetings);
    }
    let mut outcome = Results::default();
    let title = format!(
        "of 1000 updates of {keys} keys by two threads, {operations} each: those that met the other"
    );
    let mut grid = Grid::new(title, &["tree", "median", "least", "most", "on the hottest leaf"]);
    let mut bars = Vec::new();
    for one in &all {
        let spread = |values: &[f64]| Spread::of(values.iter().copied()).unwrap_or_default();
        let (met, hottest) = (spread(&one.met), spread(&one.hottest));
        grid.add(one.design, [met.median, met.min, met.max, hottest.median]);
        let name = one.design.to_owned();
        bars.push(Bar { name, value: met.median, spread: Some((met.min, met.max)) });
        outcome.series.push(Series {
            name: format!("{} updates that met another", one.design),
            unit: "of 1000".to_owned(),
            more_is_better: false,
            is_exact: false,
            is_disturbed: false,
            values: one.met.clone(),
        });
    }
    let pairs = [("fptree", "fast-fair"), ("rntree", "fast-fair"), ("fast-fair", "utree")];
    outcome.figures = pairs.map(|(more, less)| judge_conflicts(&all, more, less)).into();
    outcome.tables.push(grid);
    let title = "updates that met another thread".to_owned();
    outcome.charts.push(Chart::Bars { title, unit: "of 1000".to_owned(), bars });
    outcome.notes.push(
        "The paper counts 56 threads on 28 cores; here are two. An update that met another is one whose \
         exchange was refused or that waited; how often that happens is up to the scheduler, so the \
         spread of the rounds is shown."
            .to_owned(),
    );
    Ok(outcome)
}

/// Whether a tree's updates meet more often than those of another.
fn judge_conflicts(all: &[Meetings], more: &str, less: &str) -> Figure {
    let met = |name: &str| {
        let found = all.iter().find(|one| one.design == name);
        found.map_or(&[] as &[f64], |one| one.met.as_slice())
    };
    let what = format!("updates of {more} that met another, in multiples of {less}'s");
    match Ratio::of(met(more), met(less)) {
        Some(ratio) => Figure::above_one(what, &ratio),
        None => Figure::statement(what, "more than 1", format!("{less}'s never met"), false),
    }
}

/// What an operation of half reads, half updates costs by whether caches lose their contents.
struct Costs {
    design: &'static str,
    flushes: f64,
    /// Nanoseconds of waiting: lines flushed, persistent caches.
    waits: [f64; 2],
    /// Bytes of the medium written: the same.
    media: [f64; 2],
}

/// Figure 18.
pub(super) fn domains(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let keys = context.scale.pick(40_000, 2_000_000);
    let mut all = Vec::new();
    for design in rivals() {
        (context.tell)(&format!("counting {design}"));
        let mut costs = Costs { design, flushes: 0.0, waits: [0.0; 2], media: [0.0; 2] };
        for (at, domain) in [Domain::Adr, Domain::Eadr].into_iter().enumerate() {
            let mut config = scaled_caches(keys, 16e6);
            config.domain = domain;
            let mut loaded = load::design(design, config, keys, context.seed)?;
            let (tally, written) = loaded.read_and_update(SKEWED, keys)?;
            costs.waits[at] = Latencies::MODULES.waiting(&tally);
            costs.media[at] = tally.per_operation(written);
            if domain == Domain::Adr {
                costs.flushes = tally.per_operation(tally.flushes);
            }
        }
        all.push(costs);
    }
    let mut outcome = judge_domains(&all, keys);
    measure_domains(context, &mut outcome, keys)?;
    Ok(outcome)
}

/// What the paper says of a tree's gain. The published NBTree is for one thread, so ours stands for it.
fn claimed_gain(design: &str) -> &'static str {
    match design {
        "nbtree" => "most of all with 56 threads",
        "rntree" | "fptree" | "bztree" => "none with 56 threads",
        _ => "",
    }
}

/// The throughput of as many threads as there are CPUs, with flushes and without.
fn measure_domains(
    context: &mut Context<'_>,
    outcome: &mut Results,
    keys: u64,
) -> Result<(), BenchError> {
    let threads = topology::allowed_cpus().len().max(1);
    let workload = Workload::Writes { percent: 50 };
    let flushed = Settings {
        keys,
        rounds: context.scale.pick(3, 7),
        length: Length::Operations(context.scale.pick(40_000, 2_000_000)),
        cases: vec![Case { workload, distribution: SKEWED, threads }],
        seed: context.seed,
        domain: Some(PoolDomain::Adr),
        ..Settings::default()
    };
    let kept = Settings { domain: Some(PoolDomain::Eadr), ..flushed.clone() };
    let entered: Vec<_> =
        RIVALS.iter().flat_map(|design| [(*design, &flushed), (*design, &kept)]).collect();
    let reports = timed::compete_each(context, &entered)?;
    let columns = ["tree", "flushed", "persistent caches", "the latter by the former"];
    let title =
        format!("half reads, half updates, zipfian .99, {threads} threads, {keys} keys: M/s");
    let mut grid = Grid::new(title, &columns);
    for (design, both) in RIVALS.iter().zip(reports.chunks(2)) {
        let speeds = [0, 1].map(|at| speeds(&both[at]));
        let median = |at: usize| Spread::of(speeds[at].iter().copied()).unwrap_or_default().median;
        let gain = Ratio::of(&speeds[1], &speeds[0]);
        let shown = gain.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        let numbers = [0, 1].map(|at| number(median(at)));
        grid.rows.push([vec![(*design).to_owned()], numbers.into(), vec![shown.clone()]].concat());
        let what = format!(
            "{design}: throughput with persistent caches in multiples of that with flushes"
        );
        let figure = Figure::statement(what, claimed_gain(design), shown, true);
        outcome.figures.push(figure.without_verdict());
        let mut rows = both.iter().flat_map(|report| &report.rows);
        let is_disturbed = rows.any(|row| row.noisy_rounds + row.preempted_rounds > 0);
        for (what, values) in ["flushed", "persistent caches"].into_iter().zip(speeds) {
            outcome.series.push(Series {
                name: format!("{design}, {what}, {threads} threads"),
                unit: "M/s".to_owned(),
                more_is_better: true,
                is_exact: false,
                is_disturbed,
                values,
            });
        }
    }
    outcome.tables.push(grid);
    outcome.notes.push(format!(
        "Throughput is that of {threads} CPUs, not the paper's 28 cores, with a pool in ordinary memory, to which a \
         flush costs less than to the paper's modules: it has no verdict."
    ));
    Ok(())
}

/// Millions of operations a second, round by round.
fn speeds(report: &Report) -> Vec<f64> {
    let rounds = report.rows.first().map_or(&[] as &[_], |row| row.rounds.as_slice());
    rounds.iter().map(|round| round.per_second / 1e6).collect()
}

/// The table, the pictures, and the paper's statement.
fn judge_domains(all: &[Costs], keys: u64) -> Results {
    let mut outcome = Results::default();
    let columns = [
        "tree",
        "flushes",
        "media B, flushed",
        "media B, persistent caches",
        "waiting ns, flushed",
        "waiting ns, persistent caches",
    ];
    let title = format!("an operation of half reads, half updates, zipfian .99, on {keys} keys");
    let mut grid = Grid::new(title, &columns);
    for one in all {
        let numbers = [one.flushes, one.media[0], one.media[1], one.waits[0], one.waits[1]];
        grid.add(one.design, numbers);
        for (what, bytes) in ["flushed", "persistent caches"].into_iter().zip(one.media) {
            let name = format!("{}, {what}", one.design);
            outcome.series.push(Series::count(name, "media B written", bytes));
        }
    }
    outcome.tables.push(grid);
    let chart = |title: &str, unit: &str, value: fn(&Costs) -> f64| Chart::Bars {
        title: title.to_owned(),
        unit: unit.to_owned(),
        bars: all
            .iter()
            .map(|one| Bar { name: one.design.to_owned(), value: value(one), spread: None })
            .collect(),
    };
    outcome.charts = vec![
        chart("media bytes of an operation, lines flushed", "B", |one| one.media[0]),
        chart("media bytes of an operation, persistent caches", "B", |one| one.media[1]),
    ];
    let gain = |one: &Costs| one.waits[0] / one.waits[1];
    let published = all.iter().filter(|one| is_published(one.design));
    let most = published.max_by(|one, other| gain(one).total_cmp(&gain(other)));
    let best = most.map_or("none", |one| one.design);
    let of = |name: &str| {
        let found = all.iter().find(|one| one.design == name);
        found.map_or_else(|| "-".to_owned(), |one| number(gain(one)))
    };
    outcome.figures.push(
        Figure::statement(
            "the published tree that gains most from persistent caches, by counts",
            PAPERS_TREE,
            format!("{best} ({}); {PAPERS_TREE} {}", of(best), of(PAPERS_TREE)),
            best == PAPERS_TREE,
        )
        .because(
            "by counts of one thread what flushes most has most to gain; the paper's gain is that of 56 \
             threads, which wait for each other where a leaf is locked",
        ),
    );
    for name in ["rntree", "fptree"] {
        let found = all.iter().find(|one| one.design == name);
        let gain = found.map_or(f64::NAN, gain);
        let what = format!("{name}: waiting with flushes in multiples of that without");
        outcome.figures.push(Figure::shown(what, gain, ""));
    }
    outcome.notes.push(
        "What is left in the caches at the end is written back and counted with the operations."
            .to_owned(),
    );
    outcome
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::quick;
    use super::*;

    #[test]
    fn the_threads_there_are_run_with_flushes_and_without() {
        let mut outcome = Results::default();
        measure_domains(&mut quick(&mut |_| ()), &mut outcome, 2000).unwrap();
        let [grid] = outcome.tables.as_slice() else { panic!("{:?}", outcome.tables) };
        assert_eq!(grid.rows.len(), RIVALS.len());
        assert!(grid.rows.iter().all(|row| row.len() == grid.columns.len()));
        assert_eq!((outcome.figures.len(), outcome.series.len()), (RIVALS.len(), 2 * RIVALS.len()));
        assert!(outcome.series.iter().all(|one| one.values.iter().all(|speed| *speed > 0.0)));
    }
}
