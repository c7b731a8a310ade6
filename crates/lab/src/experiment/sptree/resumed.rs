//! Figure 10: the first lookup behind a crash by the size of the log, and what is served from then on.

use std::time::Duration;

use everleaf_bench::BenchError;
use everleaf_bench::statistics::median;
use everleaf_lab_designs::resumption::{Resumption, Served, resumptions, served};

use super::super::finding::{Axis, Chart, Figure, Grid, Line, Series};
use super::super::{Context, Results};

/// So many times as soon as with the plain log must the answer be of a tree that is opened at once: the paper says at
/// once.
const SOONER: f64 = 4.0;

/// With the largest log the answer of a tree that is opened at once may take so many times what it takes with the
/// smallest. The paper says as long.
const GROWS: f64 = 2.0;

const READS_CHECKPOINT: &str = "opening at once reads the last checkpoint, 24 bytes for each leaf that has an entry \
     there, and the head of each chunk of the log: both grow with the log, and the paper's upper layer in the pool \
     does not";

/// Of the tables of the first lookup.
const COLUMNS: [&str; 8] = [
    "log MB",
    "keys",
    "leaves left",
    "opening ms",
    "first lookup us",
    "first write us",
    "to the lookup, ms",
    "to the write, ms",
];

/// A design, and how it is opened behind its crash.
#[derive(Clone, Copy)]
struct Restart {
    design: &'static str,
    at_once: bool,
    /// What the log is called, and the opening where there are two.
    log: &'static str,
}

impl Restart {
    const fn new(design: &'static str, at_once: bool, log: &'static str) -> Self {
        Restart { design, at_once, log }
    }

    fn name(self) -> String {
        format!("{}{}", self.design, if self.at_once { ", at once" } else { "" })
    }
}

const WITHOUT: Restart = Restart::new("sptree", false, "no log");
const LINKED: Restart = Restart::new("sptree-buffered", false, "linked");
const WHOLE: Restart = Restart::new("sptree-checkpointed", false, "checkpointed");
const AT_ONCE: Restart = Restart::new("sptree-checkpointed", true, "checkpointed, at once");
const PLAIN: Restart = Restart::new("sptree-plain", false, "plain");

/// Medians of what one kind of restart took, by the sizes of the tree: seconds to the first lookup, and to the first
/// write behind it.
#[derive(Default)]
struct Times {
    lookup: Vec<f64>,
    write: Vec<f64>,
}

impl Times {
    /// The last of some times.
    fn last(times: &[f64]) -> f64 {
        times.last().copied().unwrap_or(f64::NAN)
    }

    /// The last of some times in multiples of the first.
    fn growth(times: &[f64]) -> f64 {
        times.first().map_or(f64::NAN, |first| Self::last(times) / first)
    }
}

/// Figure 10 a: a crash behind so many writes, then an opening, a lookup and a write. The tree without buffers has no
/// log: what the others take more is theirs.
pub(super) fn first_lookup(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let sizes: &[u64] =
        context.scale.pick(&[10_000, 40_000, 160_000], &[250_000, 1_000_000, 4_000_000]);
    let mut outcome = Results::default();
    let mut lines = vec![];
    let restarts = [WITHOUT, LINKED, WHOLE, AT_ONCE, PLAIN];
    let mut times: [Times; 5] = Default::default();
    for (restart, times) in restarts.into_iter().zip(&mut times) {
        let (line, grid) = by_sizes(context, restart, sizes, times, &mut outcome.series)?;
        outcome.tables.push(grid);
        if restart.design != WITHOUT.design {
            lines.push(line);
        }
    }
    outcome.charts.push(Chart::Lines {
        title: "first lookup behind a crash".to_owned(),
        across: Axis { name: "MB of the log".to_owned(), is_logarithmic: false },
        up: Axis { name: "ms".to_owned(), is_logarithmic: false },
        lines,
    });
    let most = sizes.last().copied().unwrap_or_default();
    outcome.figures = lookup_figures(&restarts, &times, most);
    outcome.notes.push(
        "Time of the CPU. A plain log is read as a whole, and a linked one without checkpoints; with checkpoints \
         opening reads the heads of the buffers and the records behind them. Each reads line 0 of each leaf and makes \
         the index above. Opened at once, a tree reads the checkpoint and the heads of the log's chunks only; leaves \
         are made known when they are touched, and \"leaves left\" are those that the checkpoint names. All logs here \
         are bounded by what is in buffers, so a longer log takes a larger tree, and what one adds to a whole opening \
         is the time above that of the tree without a log."
            .to_owned(),
    );
    Ok(outcome)
}

/// Restarts of one kind with trees of these sizes.
fn by_sizes(
    context: &mut Context<'_>,
    restart: Restart,
    sizes: &[u64],
    times: &mut Times,
    series: &mut Vec<Series>,
) -> Result<(Line, Grid), BenchError> {
    let name = restart.name();
    let rounds = context.scale.pick(3, 7);
    let mut grid = Grid::new(format!("{name} behind a crash"), &COLUMNS);
    let mut line = Line { name: name.clone(), points: vec![] };
    for &keys in sizes {
        (context.tell)(&format!("{name}: {keys} keys, as many updates, a crash"));
        let made = resumptions(restart.design, restart.at_once, keys, rounds)?;
        let of = |part: fn(&Resumption) -> f64| {
            median(&made.iter().map(part).collect::<Vec<_>>()).unwrap_or(f64::NAN)
        };
        let (opening, unknown) = (of(|one| one.opening), of(|one| one.unknown as f64));
        let log = of(|one| one.log_bytes as f64) / 1e6;
        let lookup = of(|one| one.opening + one.lookup);
        let write = of(|one| one.opening + one.lookup + one.write);
        let firsts = [of(|one| one.lookup) * 1e6, of(|one| one.write) * 1e6];
        let [first_lookup, first_write] = firsts;
        let all = [lookup * 1e3, write * 1e3];
        let row = [keys as f64, unknown, opening * 1e3, first_lookup, first_write, all[0], all[1]];
        grid.add(format!("{log:.2}"), row);
        line.points.push((log, lookup * 1e3));
        times.lookup.push(lookup);
        times.write.push(write);
        series.push(Series {
            name: format!("{name} first lookup behind a crash, {keys} keys"),
            unit: "ms".to_owned(),
            more_is_better: false,
            is_exact: false,
            is_disturbed: false,
            values: made.iter().map(|one| (one.opening + one.lookup) * 1e3).collect(),
        });
    }
    Ok((line, grid))
}

/// What Figure 10 a says, and what was found with trees of up to `most` keys.
fn lookup_figures(restarts: &[Restart; 5], times: &[Times; 5], most: u64) -> Vec<Figure> {
    let [without, _, whole, at_once, plain] = times;
    let grows = |what: &str, times: &[f64]| {
        let growth = Times::growth(times);
        Figure::statement(
            format!("opened at once: time to the {what} with the largest log, in multiples of the smallest"),
            "1: about nothing with any log",
            format!("{growth:.2}"),
            growth <= GROWS,
        )
        .because(READS_CHECKPOINT)
    };
    let (soon, late) = (Times::last(&at_once.lookup), Times::last(&plain.lookup));
    let mut figures = vec![
        grows("first lookup", &at_once.lookup),
        grows("first write", &at_once.write),
        Figure::statement(
            format!("the plain log's time in multiples of that of opening at once, {most} keys"),
            "far above 1 with 1.8 GB of log",
            format!("{:.2}", late / soon),
            late > soon * SOONER,
        )
        .because(READS_CHECKPOINT),
        Figure::shown(
            format!(
                "the whole opening's time in multiples of that of opening at once, {most} keys"
            ),
            Times::last(&whole.lookup) / soon,
            "",
        ),
    ];
    for (restart, times) in restarts.iter().zip(times) {
        if restart.at_once {
            continue;
        }
        let what =
            format!("{}: time with the largest tree, in multiples of the smallest", restart.log);
        figures.push(Figure::shown(what, Times::growth(&times.lookup), ""));
        if restart.design != WITHOUT.design {
            let what = format!("what the {} log adds to an opening of {most} keys", restart.log);
            let added = Times::last(&times.lookup) - Times::last(&without.lookup);
            figures.push(Figure::shown(what, added * 1e3, "ms"));
        }
    }
    figures
}

/// What was found of one kind of restart: medians.
struct Median {
    first_ms: f64,
    restored_ms: f64,
    rate_before: f64,
    rate_behind: f64,
    /// Lookups by the end of each slice.
    lookups: Vec<f64>,
}

/// Figure 10 b: lookups served by the time since the opening began, while a thread in the background restores
/// the buffers, and the index above the leaves where opening has left it.
pub(super) fn served_lookups(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let keys: u64 = context.scale.pick(160_000, 8_000_000);
    let slice = Duration::from_millis(context.scale.pick(5, 20));
    let slices = 100;
    let mut outcome = Results::default();
    let columns = [
        "log",
        "MB of it",
        "first answer ms",
        "left then",
        "all restored ms",
        "lookups",
        "M/s until restored",
        "M/s behind",
    ];
    let mut grid = Grid::new(
        format!("{keys} keys, as many updates, a crash; lookups of {:?}", slice * slices as u32),
        &columns,
    );
    let mut lines = vec![];
    let mut found = vec![];
    for restart in [LINKED, WHOLE, AT_ONCE, PLAIN] {
        let one = one_served(context, restart, keys, (slice, slices), &mut outcome, &mut grid)?;
        let point =
            |at: usize| ((at + 1) as f64 * slice.as_secs_f64() * 1e3, one.lookups[at] / 1e3);
        lines.push(Line { name: restart.log.to_owned(), points: (0..slices).map(point).collect() });
        found.push(one);
    }
    outcome.tables.push(grid);
    outcome.charts.push(Chart::Lines {
        title: "lookups served since the opening began".to_owned(),
        across: Axis { name: "ms".to_owned(), is_logarithmic: false },
        up: Axis { name: "thousands of lookups".to_owned(), is_logarithmic: false },
        lines,
    });
    if let [_, whole, at_once, plain] = &found[..] {
        outcome.figures = served_figures(whole, at_once, plain, slice);
    }
    outcome.notes.push(
        "Time of the clock, two threads: one looks for keys at random, one restores leaves and buffers until none is \
         left. The first answer waits for the opening, which reads line 0 of each leaf and, without checkpoints, all \
         records of the log; what the links alone spare is bringing the records to their buffers. Opened at once, the \
         tree has none of its leaves but the first, and both threads make them known. What else runs on the machine \
         is in these times."
            .to_owned(),
    );
    Ok(outcome)
}

/// Restarts of one kind, with their row of the table.
fn one_served(
    context: &mut Context<'_>,
    restart: Restart,
    keys: u64,
    (slice, slices): (Duration, usize),
    outcome: &mut Results,
    grid: &mut Grid,
) -> Result<Median, BenchError> {
    let name = restart.name();
    let rounds = context.scale.pick(3, 7);
    let mut made = vec![];
    for round in 1..=rounds {
        (context.tell)(&format!("{name}: a crash and an opening, round {round}"));
        made.push(served(restart.design, restart.at_once, keys, slice, slices)?);
    }
    // A rate that there is none of, since nothing was left or time was over, does not count.
    let of = |part: fn(&Served) -> f64| {
        let all: Vec<f64> = made.iter().map(part).filter(|value| !value.is_nan()).collect();
        median(&all).unwrap_or(f64::NAN)
    };
    let lookups = |at: usize| {
        let all: Vec<f64> = made.iter().map(|one| one.lookups[at] as f64).collect();
        median(&all).unwrap_or(f64::NAN)
    };
    let found = Median {
        first_ms: of(|one| one.first.as_secs_f64() * 1e3),
        restored_ms: of(|one| one.restored.as_secs_f64() * 1e3),
        rate_before: of(|one| one.rate_before),
        rate_behind: of(|one| one.rate_behind),
        lookups: (0..slices).map(lookups).collect(),
    };
    let rates = [found.rate_before / 1e6, found.rate_behind / 1e6];
    let size = of(|one| one.log_bytes as f64) / 1e6;
    let sum = found.lookups.last().copied().unwrap_or(f64::NAN);
    let left = of(|one| one.left as f64);
    let row = [size, found.first_ms, left, found.restored_ms, sum, rates[0], rates[1]];
    grid.add(restart.log, row);
    outcome.series.push(Series {
        name: format!("{name} first answer behind a crash, two threads"),
        unit: "ms".to_owned(),
        more_is_better: false,
        is_exact: false,
        is_disturbed: false,
        values: made.iter().map(|one| one.first.as_secs_f64() * 1e3).collect(),
    });
    Ok(found)
}

/// What Figure 10 b says, and what was found.
fn served_figures(
    whole: &Median,
    at_once: &Median,
    plain: &Median,
    slice: Duration,
) -> Vec<Figure> {
    // Of the slices that had ended when the plain log gave its first answer; of all, if that was behind them.
    let ended = (plain.first_ms / 1e3 / slice.as_secs_f64()) as usize;
    let early = at_once.lookups.iter().take(ended).next_back().copied().unwrap_or(0.0);
    vec![
        Figure::statement(
            "the first answer with a plain log, and opened at once",
            "after 1.4 s with 1.8 GB of it, and at once",
            format!("{:.1} ms and {:.1} ms", plain.first_ms, at_once.first_ms),
            plain.first_ms > at_once.first_ms * SOONER,
        )
        .because(READS_CHECKPOINT),
        Figure::statement(
            "lookups that a tree opened at once has answered by the plain log's first one",
            "many: it serves from the start",
            format!("{early:.0}"),
            early > 0.0,
        )
        .because("the plain log's first answer came in the same slice of time, or before"),
        Figure::shown(
            "opened at once: lookups a second until all is restored, as a share of those behind it",
            at_once.rate_before / at_once.rate_behind,
            "",
        ),
        Figure::shown(
            "until all is restored, opened at once in multiples of the whole opening",
            at_once.restored_ms / whole.restored_ms,
            "",
        ),
        Figure::shown(
            "the first answer of the whole opening in multiples of that of opening at once",
            whole.first_ms / at_once.first_ms,
            "",
        ),
    ]
}
