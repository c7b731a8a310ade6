//! Figure 10: the first lookup behind a crash by the size of the log, and what is served from then on.

use std::time::Duration;

use everleaf_bench::BenchError;
use everleaf_bench::statistics::median;
use everleaf_lab_designs::resumption::{Resumption, Served, resumptions, served};

use super::super::finding::{Axis, Chart, Figure, Grid, Line, Series};
use super::super::{Context, Results};

/// So many times as soon as with the plain log must the answer with checkpoints be: the paper says at once.
const SOONER: f64 = 4.0;

const READS_LEAVES: &str = "opening reads line 0 of each leaf, since the upper layer is made anew; of the log, with \
     checkpoints, the heads of buffers and the records behind them, without them all records";

/// Of the tables of the first lookup.
const COLUMNS: [&str; 6] =
    ["log MB", "keys", "opening ms", "first lookup us", "first write us", "to the lookup, ms"];

/// Figure 10 a: a crash behind so many writes, then an opening and a lookup. The tree without buffers has no
/// log: what the others take more is theirs.
pub(super) fn first_lookup(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let sizes: &[u64] =
        context.scale.pick(&[10_000, 40_000, 160_000], &[250_000, 1_000_000, 4_000_000]);
    let times = context.scale.pick(3, 7);
    let mut outcome = Results::default();
    let (mut last, mut lines) = ([f64::NAN; 4], vec![]);
    let designs = ["sptree", "sptree-buffered", "sptree-checkpointed", "sptree-plain"];
    for (place, design) in designs.into_iter().enumerate() {
        let mut grid = Grid::new(format!("{design} behind a crash"), &COLUMNS);
        let mut line = Line { name: design.to_owned(), points: vec![] };
        for &keys in sizes {
            (context.tell)(&format!("{design}: {keys} keys, as many updates, a crash"));
            let made = resumptions(design, keys, times)?;
            let of = |part: fn(&Resumption) -> f64| {
                median(&made.iter().map(part).collect::<Vec<_>>()).unwrap_or(f64::NAN)
            };
            let (opening, lookup) = (of(|one| one.opening), of(|one| one.lookup));
            let write = of(|one| one.write);
            let log = of(|one| one.log_bytes as f64) / 1e6;
            let both = opening + lookup;
            let row = [keys as f64, opening * 1e3, lookup * 1e6, write * 1e6, both * 1e3];
            grid.add(format!("{log:.2}"), row);
            line.points.push((log, both * 1e3));
            outcome.series.push(Series {
                name: format!("{design} first lookup behind a crash, {keys} keys"),
                unit: "ms".to_owned(),
                more_is_better: false,
                is_exact: false,
                is_disturbed: false,
                values: made.iter().map(|one| (one.opening + one.lookup) * 1e3).collect(),
            });
            last[place] = both;
        }
        outcome.tables.push(grid);
        if place > 0 {
            lines.push(line);
        }
    }
    outcome.charts.push(Chart::Lines {
        title: "first lookup behind a crash".to_owned(),
        across: Axis { name: "MB of the log".to_owned(), is_logarithmic: false },
        up: Axis { name: "ms".to_owned(), is_logarithmic: false },
        lines,
    });
    let [without, linked, checkpointed, plain] = last;
    let most = sizes.last().copied().unwrap_or_default();
    let what = format!("the plain log's time in multiples of the checkpointed one's, {most} keys");
    let figure = Figure::statement(
        what,
        "far above 1 with 1.8 GB of log",
        format!("{:.2}", plain / checkpointed),
        plain > checkpointed * SOONER,
    );
    outcome.figures.push(figure.because(READS_LEAVES));
    for (log, time) in [("linked", linked), ("checkpointed", checkpointed), ("plain", plain)] {
        let what = format!("what the {log} log adds to an opening of {most} keys");
        outcome.figures.push(Figure::shown(what, (time - without) * 1e3, "ms"));
    }
    outcome.notes.push(
        "The opening reads line 0 of each leaf, where the paper's upper layer is in the pool. Of a plain log, and of a \
         linked one without checkpoints, it reads all records; with checkpoints, the heads of the buffers and the \
         records behind them. All logs here are bounded by what is in buffers, so a longer log takes a larger tree, \
         and what one adds is the time above that of the tree without a log."
            .to_owned(),
    );
    Ok(outcome)
}

/// Figure 10 b: lookups served by the time since the opening began, while a thread in the background restores
/// the buffers.
pub(super) fn served_lookups(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let keys: u64 = context.scale.pick(160_000, 8_000_000);
    let slice = Duration::from_millis(context.scale.pick(5, 20));
    let rounds = context.scale.pick(3, 7);
    let slices = 100;
    let mut outcome = Results::default();
    let columns =
        ["log", "MB of it", "first answer ms", "buffers left then", "all restored ms", "lookups"];
    let mut grid = Grid::new(
        format!("{keys} keys, as many updates, a crash; lookups of {:?}", slice * slices as u32),
        &columns,
    );
    let (mut lines, mut firsts) = (vec![], vec![]);
    let designs = [
        ("sptree-buffered", "linked"),
        ("sptree-checkpointed", "checkpointed"),
        ("sptree-plain", "plain"),
    ];
    for (design, log) in designs {
        let mut made = vec![];
        for round in 1..=rounds {
            (context.tell)(&format!("{design}: a crash and an opening, round {round}"));
            made.push(served(design, keys, slice, slices)?);
        }
        let of = |part: fn(&Served) -> f64| {
            median(&made.iter().map(part).collect::<Vec<_>>()).unwrap_or(f64::NAN)
        };
        let first = of(|one| one.first.as_secs_f64() * 1e3);
        let restored = of(|one| one.restored.as_secs_f64() * 1e3);
        let lookups = |at: usize| {
            let all: Vec<f64> = made.iter().map(|one| one.lookups[at] as f64).collect();
            median(&all).unwrap_or(f64::NAN)
        };
        let size = of(|one| one.log_bytes as f64) / 1e6;
        let left = of(|one| one.buffers as f64);
        grid.add(log, [size, first, left, restored, lookups(slices - 1)]);
        let point = |at: usize| ((at + 1) as f64 * slice.as_secs_f64() * 1e3, lookups(at) / 1e3);
        lines.push(Line { name: format!("{log} log"), points: (0..slices).map(point).collect() });
        outcome.series.push(Series {
            name: format!("{design} first answer behind a crash, two threads"),
            unit: "ms".to_owned(),
            more_is_better: false,
            is_exact: false,
            is_disturbed: false,
            values: made.iter().map(|one| one.first.as_secs_f64() * 1e3).collect(),
        });
        firsts.push(first);
    }
    outcome.tables.push(grid);
    outcome.charts.push(Chart::Lines {
        title: "lookups served since the opening began".to_owned(),
        across: Axis { name: "ms".to_owned(), is_logarithmic: false },
        up: Axis { name: "thousands of lookups".to_owned(), is_logarithmic: false },
        lines,
    });
    let figure = Figure::statement(
        "the first answer with a plain log and with a checkpointed one",
        "after 1.4 s with 1.8 GB of it, and at once",
        format!("{:.1} ms and {:.1} ms", firsts[2], firsts[1]),
        firsts[2] > firsts[1] * SOONER,
    );
    outcome.figures.push(figure.because(READS_LEAVES));
    outcome.notes.push(
        "Time of the clock, two threads: one looks for keys at random, one restores buffers until none is left. The \
         first answer waits for the opening, which reads line 0 of each leaf and, without checkpoints, all records of \
         the log; what the links alone spare is bringing the records to their buffers."
            .to_owned(),
    );
    Ok(outcome)
}
