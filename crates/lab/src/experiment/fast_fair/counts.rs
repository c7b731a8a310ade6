//! What is counted: flushes, Figures 5 and 6.

use everleaf_bench::BenchError;
use everleaf_bench::statistics::median;
use everleaf_designs::FastFair;
use everleaf_designs::fast_fair::variant::{Standard, Unfenced};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::counting::{CountingConfig, Tally};

use super::super::finding::{Axis, Bar, Chart, Figure, Grid, Line, Series};
use super::super::model::Latencies;
use super::super::{Context, Results};
use super::times::SIZE_COUNT;
use everleaf_lab_designs::count::{Counted, CountedOperation, load, scaled_caches};

/// What random inserts and then reads of the designs cost, on caches in proportion.
fn counted(
    context: &mut Context<'_>,
    designs: &[&'static str],
) -> Result<Vec<(&'static str, Tally, Tally)>, BenchError> {
    let keys = context.scale.pick(100_000, 2_000_000);
    let config = scaled_caches(keys, 10e6);
    let count = |name: &&'static str| {
        (context.tell)(&format!("counting {name}"));
        let mut loaded = load::design(name, config, keys, context.seed)?;
        loaded.perform(CountedOperation::Get, keys / 4)?;
        let tally = |operation| loaded.tree.tally(operation);
        Ok((*name, tally(CountedOperation::Insert), tally(CountedOperation::Get)))
    };
    designs.iter().map(count).collect()
}

/// The latencies at which the figures are drawn, in nanoseconds.
const SWEEP: [f64; 4] = [300.0, 500.0, 700.0, 900.0];

/// Figure 5.
pub(super) fn breakdown(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let designs = ["fast-fair", "fast-fair-logging", "fptree", "wbtree", "wort", "p-skiplist"];
    let counts = counted(context, &designs)?;
    let mut outcome = Results::default();
    let columns = ["tree", "flushes", "misses to wait for", "DRAM misses", "search ns", "flush ns"];
    let latencies = Latencies { dram_ns: 90.0, pool_ns: 300.0, flush_ns: 300.0 };
    let mut grid = Grid::new("a random insert; persistent memory of 300 ns", &columns);
    let mut bars = Vec::new();
    for (name, insert, _) in &counts {
        let each = |sum| insert.per_operation(sum);
        grid.add(
            *name,
            [
                each(insert.flushes),
                each(insert.pool_chains),
                each(insert.dram_misses),
                latencies.searching(insert),
                latencies.flushing(insert),
            ],
        );
        let value = latencies.waiting(insert);
        bars.push(Bar { name: (*name).to_owned(), value, spread: None });
        let series =
            Series::count(format!("{name} random insert"), "flushes", each(insert.flushes));
        outcome.series.push(series);
    }
    let flushes = |at: usize| counts[at].1.per_operation(counts[at].1.flushes);
    outcome.figures.push(
        Figure::near("wB+Tree's flushes in multiples", 1.7, flushes(3) / flushes(0), "", 0.05)
            .if_below(
                "inner nodes are in DRAM here and a split logs one image of the leaf; the paper's \
                 wB+Tree keeps inner nodes in persistent memory and logs every node it changes",
            ),
    );
    let slower = SWEEP.map(|ns| {
        let latencies = Latencies { pool_ns: ns, flush_ns: ns, ..latencies };
        (latencies.waiting(&counts[1].1) / latencies.waiting(&counts[0].1) - 1.0) * 100.0
    });
    let ours = median(&slower).unwrap_or(f64::NAN);
    outcome.figures.push(Figure::within("logging costs", (7.0, 18.0), ours, "%", 0.05).if_below(
        "only the image of the node that is split is logged here, without a commit record and \
             without truncation",
    ));
    judge_rivals(&mut outcome, latencies, &counts);
    outcome.tables.push(grid);
    outcome.charts.push(Chart::Bars {
        title: "waiting in a random insert, persistent memory of 300 ns".to_owned(),
        unit: "ns".to_owned(),
        bars,
    });
    Ok(outcome)
}

/// What the paper says of the time of an insert with the other designs of Figure 5.
fn judge_rivals(
    outcome: &mut Results,
    latencies: Latencies,
    counts: &[(&'static str, Tally, Tally)],
) {
    let waiting = |name: &str| {
        let found = counts.iter().find(|one| one.0 == name);
        found.map_or(f64::NAN, |one| latencies.waiting(&one.1))
    };
    let ratio = |name: &str| waiting(name) / waiting("fast-fair");
    let what = |name: &str| {
        format!("waiting in an insert of {name} in multiples of FAST & FAIR's, 300 ns")
    };
    for (design, name) in [("fptree", "FPTree"), ("wort", "WORT")] {
        // "Comparable": up to a quarter more or less.
        let figure = Figure::within(what(name), (0.75, 1.25), ratio(design), "", 0.0);
        outcome.figures.push(figure);
    }
    for (design, name) in [("wbtree", "wB+Tree"), ("p-skiplist", "the skip list")] {
        let ours = ratio(design);
        // "By a large margin": by more than what is still comparable.
        let claim = "by a large margin: more than 1.25";
        let figure = Figure::statement(what(name), claim, format!("{ours:.2}"), ours > 1.25);
        outcome.figures.push(figure);
    }
}

/// Figure 3 by counts: what an insert and a search wait for by the size of a node, both kinds of search.
pub(super) fn node_sizes(
    context: &mut Context<'_>,
    sizes: &[(&'static str, f64); SIZE_COUNT],
    outcome: &mut Results,
) -> Result<(), BenchError> {
    let designs: Vec<&str> =
        sizes.iter().map(|(name, _)| *name).chain(["fast-fair-binary"]).collect();
    let counts = counted(context, &designs)?;
    let latencies = Latencies { dram_ns: 90.0, pool_ns: 300.0, flush_ns: 300.0 };
    let columns = [
        "tree",
        "flushes, insert",
        "stores, insert",
        "lines read, insert",
        "lines read, search",
        "insert, ns",
        "search, ns",
    ];
    let title = "by counts; waiting with persistent memory of 300 ns";
    let mut grid = Grid::new(title, &columns);
    for (name, insert, get) in &counts {
        let waits = [latencies.waiting(insert), latencies.waiting(get)];
        let each = |sum| insert.per_operation(sum);
        let calls = [insert.flushes, insert.stores, insert.pool_lines_read].map(each);
        let read = get.per_operation(get.pool_lines_read);
        grid.add(*name, [calls[0], calls[1], calls[2], read, waits[0], waits[1]]);
        for (what, wait) in ["insert", "get"].into_iter().zip(waits) {
            outcome.series.push(Series::count(format!("{name} {what}"), "ns modelled", wait));
        }
    }
    outcome.tables.push(grid);
    let wait = |at: usize| [latencies.waiting(&counts[at].1), latencies.waiting(&counts[at].2)];
    let inserts: Vec<f64> = (0..SIZE_COUNT).map(|at| wait(at)[0]).collect();
    // Of 512 bytes and more: the smallest nodes have more levels to split.
    let grows = inserts[1..].windows(2).all(|pair| pair[0] < pair[1]);
    let shown: Vec<String> = inserts.iter().map(|ns| format!("{ns:.0}")).collect();
    let what = "waiting of an insert with nodes of 256 to 4096 bytes, by counts, ns";
    let statement = "grows with the node from 512 bytes on";
    outcome.figures.push(Figure::statement(what, statement, shown.join(", "), grows));
    let best = inserts.iter().zip(sizes).min_by(|one, other| one.0.total_cmp(other.0));
    let best = best.map_or(f64::NAN, |(_, (_, size))| *size);
    outcome.figures.push(
        Figure::within("size of a node with the least, bytes", (512.0, 1024.0), best, "", 0.0)
            .if_below(
                "shifts flush fewer lines of a small node, and its more levels are near the root, where \
                 they stay in the caches",
            ),
    );
    let halving = wait(SIZE_COUNT)[1] / wait(1)[1];
    let what = "waiting of a search by halving in multiples of linear, 512 bytes, by counts";
    outcome.figures.push(Figure::shown(what, halving, ""));
    Ok(())
}

/// Section 6.4.
pub(super) fn flushes(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let keys = context.scale.pick(200_000, 1_000_000);
    let config = CountingConfig::default();
    let seed = context.seed;
    let mut each = |what: &str, loaded: Result<load::Loaded, BenchError>| {
        (context.tell)(what);
        let tally = loaded?.tree.tally(CountedOperation::Insert);
        Ok::<_, BenchError>(tally.per_operation(tally.flushes))
    };
    let published = each(
        "FAST & FAIR as published",
        load::random(
            |bytes| Counted::of::<FastFair<Unfenced, Simulated>>(config, bytes),
            keys,
            seed,
        ),
    )?;
    let fenced = each(
        "FAST & FAIR with low fences",
        load::random(
            |bytes| Counted::of::<FastFair<Standard, Simulated>>(config, bytes),
            keys,
            seed,
        ),
    )?;
    let fptree = each("FPTree", load::design("fptree", config, keys, seed))?;
    let figures = vec![
        Figure::near("flushes of an insert, published layout", 4.2, published, "lines", 0.01),
        Figure::shown("flushes of an insert, with low fences", fenced, "lines"),
        Figure::near("flushes of an insert, FPTree", 4.8, fptree, "lines", 0.05).if_below(
            "a split makes a new leaf and shrinks the old one by two words here; 4.8 is what a \
             split that logs, rewrites and copies a leaf of 1 KB gives (3 + 50 / 28)",
        ),
    ];
    let mut outcome = Results { figures, ..Results::default() };
    for (name, value) in [("published", published), ("low fences", fenced), ("fptree", fptree)] {
        outcome.series.push(Series::count(format!("{name} random insert"), "flushes", value));
    }
    outcome.notes.push(format!(
        "{keys} random keys, nodes of 512 bytes. One record of a node less, for the low fence, \
         makes shifts shorter and splits more frequent."
    ));
    Ok(outcome)
}

/// Figure 6c.
pub(super) fn barriers(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let keys = context.scale.pick(100_000, 1_000_000);
    let mut outcome = Results::default();
    let columns = ["tree", "fences of shifts", "persistence points", "barriers"];
    let mut grid = Grid::new(format!("a random insert of {keys}, splits included"), &columns);
    let claims = [("fast-fair-fenced", Some(16.2)), ("fptree", Some(6.6)), ("wbtree", None)];
    for (name, claim) in claims {
        (context.tell)(&format!("counting {name}"));
        let loaded = load::design(name, CountingConfig::default(), keys, context.seed)?;
        let tally = loaded.tree.tally(CountedOperation::Insert);
        let [fences, drains] = [tally.fences, tally.drains].map(|sum| tally.per_operation(sum));
        let barriers = fences + 2.0 * drains;
        grid.add(name, [fences, drains, barriers]);
        let what = format!("{name}: barriers of an insert");
        outcome.figures.push(match claim {
            Some(claim) => Figure::near(what, claim, barriers, "", 0.1).if_above(
                "a barrier follows both of the two stores that move a record here; see below for one",
            ),
            None => Figure::shown(what, barriers, ""),
        });
        outcome.series.push(Series::count(format!("{name} random insert"), "barriers", barriers));
        if fences > 0.0 {
            let what = format!("{name}: with one barrier for each record that is moved");
            outcome.figures.push(Figure::shown(what, fences / 2.0 + 2.0 * drains, ""));
        }
    }
    outcome.tables.push(grid);
    outcome.notes.push(
        "A barrier follows every store of a shift, and stands before and after whatever is written \
         back. Nodes of 512 bytes with words of 8 hold as many records as the paper's 256 with words \
         of 4. Times need a machine that reorders stores."
            .to_owned(),
    );
    Ok(outcome)
}

/// The lines of a sweep: waiting of an operation by latency.
fn sweep(
    counts: &[(&'static str, Tally, Tally)],
    title: &str,
    across: &str,
    waiting: impl Fn(&(&'static str, Tally, Tally), f64) -> f64,
) -> Chart {
    let line = |one: &(&'static str, Tally, Tally)| Line {
        name: one.0.to_owned(),
        points: SWEEP.iter().map(|ns| (*ns, waiting(one, *ns))).collect(),
    };
    Chart::Lines {
        title: title.to_owned(),
        across: Axis { name: across.to_owned(), is_logarithmic: false },
        up: Axis { name: "ns of waiting".to_owned(), is_logarithmic: false },
        lines: counts.iter().map(line).collect(),
    }
}

/// Figure 6a.
pub(super) fn read_latency(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let counts = counted(context, &["fast-fair", "fptree", "wbtree", "wort", "p-skiplist"])?;
    let mut outcome = Results::default();
    let columns = ["tree", "misses", "to persistent memory", "of these to wait for"];
    let mut grid = Grid::new("a search of a key that is there", &columns);
    for (name, _, get) in &counts {
        let each = |sum| get.per_operation(sum);
        let misses = each(get.dram_misses + get.pool_misses);
        grid.add(*name, [misses, each(get.pool_misses), each(get.pool_chains)]);
        outcome.series.push(Series::count(format!("{name} get"), "misses", misses));
    }
    let waiting =
        |get: &Tally, ns| Latencies { dram_ns: 90.0, pool_ns: ns, flush_ns: 0.0 }.searching(get);
    let get = &counts[0].2;
    let misses = get.per_operation(get.dram_misses + get.pool_misses);
    outcome.figures.push(Figure::near("cache misses of a search", 8.3, misses, "", 0.2).if_below(
        "the paper's machine fetches lines that the search does not read, and shares its cache of \
         20 MB with nothing of the size of this model's",
    ));
    for ns in [700.0, 900.0] {
        let ratio = waiting(&counts[0].2, ns) / waiting(&counts[1].2, ns);
        outcome.figures.push(
            // "Slightly": up to a quarter.
            Figure::within(
                format!("waiting of FAST & FAIR in multiples of FPTree's at {ns} ns"),
                (1.0, 1.25),
                ratio,
                "",
                0.0,
            )
            .if_below(
                "a node is asked for whole here, so that a search waits once for each node that is \
                 not cached; FPTree waits for the head of its leaf, and then for the entry",
            ),
        );
    }
    let misses = counts[3].2.per_operation(counts[3].2.dram_misses + counts[3].2.pool_misses);
    outcome.figures.push(Figure::shown(
        "WORT: cache misses of a search (the paper: 4.9)",
        misses,
        "",
    ));
    let ratio = waiting(&counts[3].2, 900.0) / waiting(&counts[0].2, 900.0);
    let what = "waiting of WORT in multiples of FAST & FAIR's at 900 ns (the paper: 2)";
    outcome.figures.push(Figure::shown(what, ratio, ""));
    outcome.tables.push(grid);
    let title = "waiting of a search";
    outcome.charts.push(sweep(&counts, title, "ns of a read", |one, ns| waiting(&one.2, ns)));
    let ratio = waiting(&counts[4].2, 900.0) / waiting(&counts[0].2, 900.0);
    let what = "waiting of the skip list in multiples of FAST & FAIR's at 900 ns";
    outcome.figures.push(Figure::shown(what, ratio, ""));
    Ok(outcome)
}

/// Figure 6b.
pub(super) fn write_latency(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let counts = counted(context, &["fast-fair", "fptree", "wbtree", "wort", "p-skiplist"])?;
    let mut outcome = Results::default();
    let waiting = |insert: &Tally, ns| {
        Latencies { dram_ns: 90.0, pool_ns: 90.0, flush_ns: ns }.waiting(insert)
    };
    for (at, name) in [(1, "FPTree"), (2, "wB+Tree")] {
        let ratios = SWEEP.map(|ns| waiting(&counts[at].1, ns) / waiting(&counts[0].1, ns));
        let shown = ratios.map(|ratio| format!("{ratio:.2}")).join(", ");
        outcome.figures.push(
            Figure::statement(
                format!("{name} in multiples of FAST & FAIR at 300, 500, 700 and 900 ns"),
                "more than 1 at each",
                shown,
                ratios.iter().all(|ratio| *ratio > 1.0),
            )
            .because("it flushes fewer lines here than in the paper: see fast-fair.flushes"),
        );
    }
    let shown = |at: usize| {
        let ratios = SWEEP.map(|ns| waiting(&counts[at].1, ns) / waiting(&counts[0].1, ns));
        ratios.map(|ratio| format!("{ratio:.2}")).join(", ")
    };
    outcome.notes.push(format!(
        "WORT in multiples of FAST & FAIR at 300, 500, 700 and 900 ns: {} (the paper: below 1 when \
         writes are slow); the skip list: {}.",
        shown(3),
        shown(4)
    ));
    let title = "waiting of a random insert";
    outcome.charts.push(sweep(&counts, title, "ns of a write-back", |one, ns| waiting(&one.1, ns)));
    Ok(outcome)
}
