//! What is timed: Figures 3, 4 and 7.

use everleaf_bench::report::Report;
use everleaf_bench::statistics::median;
use everleaf_bench::{BenchError, TpccMix, Workload};

use super::super::finding::{Axis, Chart, Figure, Grid, Line, Series};
use super::super::timed::{self, Contest};
use super::super::waiting;
use super::super::{Context, Results};
use super::counts;

/// Sizes of nodes that are looked at.
pub(super) const SIZE_COUNT: usize = 5;

/// The designs by size of node, with the size.
const SIZES: [(&str, f64); SIZE_COUNT] = [
    ("fast-fair-256", 256.0),
    ("fast-fair", 512.0),
    ("fast-fair-1024", 1024.0),
    ("fast-fair-2048", 2048.0),
    ("fast-fair-4096", 4096.0),
];

/// Figure 3.
pub(super) fn node_sizes(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let designs: Vec<&str> =
        SIZES.iter().map(|(name, _)| *name).chain(["fast-fair-binary"]).collect();
    let workloads = [Workload::Get, Workload::Insert];
    let contest = Contest {
        designs: &designs,
        workloads: &workloads,
        keys: 1_000_000,
        operations: context.scale.pick(200_000, 500_000),
        scan_length: 1,
        rounds: context.scale.pick(3, 9),
    };
    let reports = timed::run(context, &contest)?;
    let mut outcome = Results::default();
    timed::describe(&mut outcome, &reports, &workloads);
    let cost = |name: &str, workload| {
        median(&timed::costs(timed::of(&reports, name), workload)).unwrap_or(f64::NAN)
    };
    let line = |workload: Workload| Line {
        name: workload.to_string(),
        points: SIZES.iter().map(|(name, size)| (*size, cost(name, workload))).collect(),
    };
    outcome.charts = vec![Chart::Lines {
        title: "one operation by the size of a node".to_owned(),
        across: Axis { name: "bytes of a node".to_owned(), is_logarithmic: true },
        up: Axis { name: "ns of CPU time".to_owned(), is_logarithmic: false },
        lines: workloads.map(line).into(),
    }];
    outcome.figures = judge_sizes(&reports, &cost);
    counts::node_sizes(context, &SIZES, &mut outcome)?;
    Ok(outcome)
}

/// The paper's statements about the size of a node.
fn judge_sizes(reports: &[Report], cost: &dyn Fn(&str, Workload) -> f64) -> Vec<Figure> {
    let mut figures = Vec::new();
    let advantage = |slow: &str, fast: &str, workload| {
        timed::advantage(timed::of(reports, slow), timed::of(reports, fast), workload)
    };
    let larger = advantage("fast-fair-4096", "fast-fair", Workload::Insert);
    figures.push(Figure::above_one("insert with nodes of 4 KB in multiples of 512 bytes", &larger));
    let halving = advantage("fast-fair-binary", "fast-fair", Workload::Get);
    figures.push(
        Figure::above_one("search by halving in multiples of linear search, 512 bytes", &halving)
        .if_below(
            "all lines of a node are asked for at once here, so that both searches wait equally long",
        ),
    );
    let best = |workload, among: &[(&'static str, f64)]| {
        let least = among
            .iter()
            .min_by(|one, other| cost(one.0, workload).total_cmp(&cost(other.0, workload)));
        *least.expect("there are sizes")
    };
    for workload in [Workload::Get, Workload::Insert] {
        let (cheapest, size) = best(workload, &SIZES);
        // Another size contradicts the paper only if it is cheaper beyond noise.
        let (claimed, of) = best(workload, &SIZES[1..3]);
        let excess = advantage(claimed, cheapest, workload);
        figures.push(
            Figure::statement(
                format!("size of a node with the cheapest {workload}"),
                "512 or 1024 bytes",
                format!("{size} bytes; {of} bytes cost {excess} times that"),
                size == of || excess.low <= 1.0,
            )
            .on_side(size > 1024.0)
            .if_above(
                "this machine fetches neighbouring lines ahead, and its memory is further away \
                 than the paper's: fewer levels weigh more than more lines",
            ),
        );
    }
    figures
}

/// Shares of the keys that a query selects.
const SELECTIONS: [f64; 3] = [0.001, 0.005, 0.01];

/// Figure 4.
pub(super) fn ranges(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let designs = ["fast-fair-1024", "fptree", "wbtree", "p-skiplist"];
    let keys = context.scale.pick(500_000, 10_000_000);
    let mut outcome = Results::default();
    let mut lines: Vec<Line> =
        designs.iter().map(|name| Line { name: (*name).to_owned(), points: vec![] }).collect();
    let mut ratios = Grid::new(
        "time of a query in multiples of FAST & FAIR's, with the interval",
        &["selected", "fptree", "wbtree", "p-skiplist"],
    );
    let mut all = Vec::new();
    for selection in SELECTIONS {
        let contest = Contest {
            designs: &designs,
            workloads: &[Workload::Scan],
            keys,
            operations: context.scale.pick(5_000, 2_000),
            scan_length: (keys as f64 * selection) as u32,
            rounds: context.scale.pick(3, 9),
        };
        let reports = timed::run(context, &contest)?;
        for (line, name) in lines.iter_mut().zip(designs) {
            let cost = median(&timed::costs(timed::of(&reports, name), Workload::Scan));
            line.points.push((selection * 100.0, cost.unwrap_or(f64::NAN)));
        }
        let base = timed::of(&reports, designs[0]);
        let ratio = |name| timed::advantage(timed::of(&reports, name), base, Workload::Scan);
        let others = ["fptree", "wbtree", "p-skiplist"].map(ratio);
        let row = std::iter::once(format!("{} %", selection * 100.0));
        ratios.rows.push(row.chain(others.iter().map(ToString::to_string)).collect());
        all.push(others.map(|ratio| ratio.ratio));
        for report in &reports {
            outcome.series.extend(timed::series(report).into_iter().map(|series| Series {
                name: format!("{}, {selection} of the keys", series.name),
                ..series
            }));
        }
    }
    let middle = |at: usize| median(&all.iter().map(|ratios| ratios[at]).collect::<Vec<_>>());
    let sorting = "a leaf of FPTree is sorted for every query, which costs more beside DRAM than \
                   beside memory of 300 ns";
    let slots = "the slot array gives the order of a leaf of wB+Tree for nothing, and reading entries \
                 out of order costs little in DRAM";
    let claims = [(0, "FPTree", (1.06, 1.27)), (1, "wB+Tree", (1.25, 1.33))];
    for (at, name, claim) in claims {
        let ours = middle(at).unwrap_or(f64::NAN);
        let what = format!("a range query of {name} in multiples of FAST & FAIR's");
        let figure = Figure::within(what, claim, ours, "", 0.05);
        outcome.figures.push(if at == 0 {
            figure.if_above(sorting)
        } else {
            figure.if_below(slots)
        });
    }
    let most = all.iter().map(|ratios| ratios[2]).fold(f64::NAN, f64::max);
    let what =
        "a range query of the skip list in multiples of FAST & FAIR's, at most (the paper: 20)";
    outcome.figures.push(Figure::shown(what, most, ""));
    outcome.tables.push(ratios);
    outcome.charts.push(Chart::Lines {
        title: "a pair of a range query".to_owned(),
        across: Axis { name: "% of the keys selected".to_owned(), is_logarithmic: true },
        up: Axis { name: "ns of CPU time".to_owned(), is_logarithmic: false },
        lines,
    });
    let counted = context.scale.pick(50_000, 1_000_000);
    let half_a_percent = counted as usize / 200;
    waiting::ranges(context, &designs, (counted, 10e6, half_a_percent), &mut outcome)?;
    outcome.notes.push("The pool is in ordinary memory, not in memory of 300 ns.".to_owned());
    Ok(outcome)
}

/// Figure 7.
pub(super) fn transactions(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let designs = ["fast-fair", "fptree", "wbtree", "wort", "p-skiplist", "nbtree"];
    let mixes = [TpccMix::W1, TpccMix::W2, TpccMix::W3, TpccMix::W4].map(Workload::Tpcc);
    let contest = Contest {
        designs: &designs,
        workloads: &mixes,
        keys: context.scale.pick(200_000, 5_000_000),
        operations: context.scale.pick(150_000, 5_000_000),
        scan_length: 1,
        rounds: context.scale.pick(3, 9),
    };
    let reports = timed::run(context, &contest)?;
    let mut outcome = Results::default();
    timed::describe(&mut outcome, &reports, &mixes);
    let own = timed::of(&reports, "fast-fair");
    let peers =
        [("fptree", "FPTree"), ("wbtree", "wB+Tree"), ("wort", "WORT"), ("p-skiplist", "SkipList")];
    for (design, name) in peers {
        let ratios = mixes.map(|mix| timed::advantage(timed::of(&reports, design), own, mix));
        let shown: Vec<String> = ratios.iter().map(|ratio| format!("{:.2}", ratio.ratio)).collect();
        outcome.figures.push(
            Figure::statement(
                format!("a transaction of {name} in multiples, W1 to W4"),
                "more than 1 in all",
                shown.join(", "),
                ratios.iter().all(|ratio| ratio.ratio > 1.0),
            )
            .because(
                "the paper's memory takes 300 ns and a flush as long; here a flush costs nothing, \
                 and inner nodes in DRAM are small and asked for ahead",
            ),
        );
    }
    outcome.notes.push("The pool is in ordinary memory.".into());
    Ok(outcome)
}
