//! RNTree: Mengxing Liu, Jiankai Xing, Kang Chen, Yongwei Wu, "Building Scalable NVM-based B+tree with
//! HTM", ICPP 2019.

use everleaf_bench::calibrate::{Chase, REGION_SIZE_BYTES};
use everleaf_bench::statistics::median;
use everleaf_bench::{BenchError, Distribution, Workload};
use everleaf_machine::simulated::Domain;

use super::cores::{self, Field, SCAN_LENGTH, skewed};
use super::finding::{Axis, Chart, Figure, Grid, Line, Series};
use super::leaf_table::{self, Claim};
use super::model::Latencies;
use super::proof;
use super::recovery::series;
use super::timed::{self, Contest};
use super::waiting::{self, Setting};
use super::{Context, Entry, Family, Kind, Results};
use everleaf_lab_designs::count::{CountedOperation, leaf, load, scaled_caches};
use everleaf_lab_designs::openings::openings;

/// What RNTree's authors compare on many cores.
const RIVALS: &[&str] = &["rntree", "rntree-dual", "fptree", "nvtree"];

/// Figure 8, as far as the cores go.
static FIGURE_8: Field = Field {
    designs: RIVALS,
    cases: &[
        (Workload::YcsbA, Distribution::Uniform),
        (Workload::YcsbA, skewed(0.8)),
        (Workload::Writes { percent: 10 }, skewed(0.8)),
    ],
    claims: &[("fptree", 1, "1.8 with 24 threads")],
    scan_length: SCAN_LENGTH,
};

/// Figure 10, as far as the cores go.
static FIGURE_10: Field = Field {
    designs: RIVALS,
    cases: &[
        (Workload::YcsbA, skewed(0.5)),
        (Workload::YcsbA, skewed(0.7)),
        (Workload::YcsbA, skewed(0.9)),
        (Workload::YcsbA, skewed(0.99)),
    ],
    claims: &[("fptree", 3, "up to 2.3 with 8 threads")],
    scan_length: SCAN_LENGTH,
};

/// Operations a second of Figure 9: less than the slowest of its trees does.
const RATE: f64 = 400_000.0;

static FIGURE_9: Field = Field {
    designs: &["rntree-dual", "rntree", "fptree"],
    cases: &[
        (Workload::Writes { percent: 50 }, skewed(0.8)),
        (Workload::Writes { percent: 0 }, skewed(0.8)),
    ],
    claims: &[(
        "fptree",
        0,
        "latencies of reads: 15 us with FPTree, 6 with RNTree, < 1 with two arrays",
    )],
    scan_length: SCAN_LENGTH,
};

pub(super) const FAMILY: Family = Family {
    name: "rntree",
    source: "Liu, Xing, Chen, Wu: Building Scalable NVM-based B+tree with HTM, ICPP 2019",
    setting: "two Xeon 6126 with 24 cores and transactions, memory modules with a battery (84/140 ns); \
              16 M keys, leaves of 64 entries",
    entries: &[
        Entry {
            id: "rntree.table1",
            what: "Table 1: persistent instructions of a modification",
            claim: "2, as NVTree, but sorted; FPTree 3, wB+Tree 4, CDDS as many as a leaf has entries",
            kinds: &[Kind::Counts],
            seconds: (12, 100),
            needs: &["rntree", "nvtree", "wbtree", "fptree"],
            make: table1,
        },
        Entry {
            id: "rntree.overlap",
            what: "section 4: flushes inside the critical section and outside",
            claim: "RNTree flushes its entry outside; FPTree flushes all inside",
            kinds: &[Kind::Counts],
            seconds: (3, 20),
            needs: &["rntree", "rntree-dual", "nvtree", "wbtree", "fptree"],
            make: overlap,
        },
        Entry {
            id: "rntree.steps",
            what: "Figures 1 to 3: layout, steps and where they take effect",
            claim: "durably linearizable",
            kinds: &[Kind::Crashes],
            seconds: proof::SECONDS_OF_TWO,
            needs: &[],
            make: |context| proof::search(context, &["rntree", "rntree-dual"]),
        },
        Entry {
            id: "rntree.fig4",
            what: "Figure 4: find, insert, update, remove and a mix of a quarter each, one thread",
            claim: "find 12 % faster than NVTree; FPTree best at removing; the mix 25 to 44 % faster \
                    than the others",
            kinds: &[Kind::Counts, Kind::Latency],
            seconds: (40, 1500),
            needs: &["rntree", "rntree-dual", "nvtree", "fptree", "wbtree", "wbtree-so"],
            make: single,
        },
        Entry {
            id: "rntree.fig5",
            what: "Figure 5: NVTree with conditional writes and without",
            claim: "19 % slower with them",
            kinds: &[Kind::Counts, Kind::Latency],
            seconds: (12, 400),
            needs: &["nvtree", "nvtree-blind"],
            make: conditional,
        },
        Entry {
            id: "rntree.fig6",
            what: "Figure 6: range queries by their length",
            claim: "4.2 times NVTree and FPTree at every length",
            kinds: &[Kind::Counts, Kind::Latency],
            seconds: (26, 2600),
            needs: &["rntree", "nvtree", "fptree"],
            make: ranges,
        },
        Entry {
            id: "rntree.fig7",
            what: "Figure 7: recovery by the number of keys",
            claim: "linear; 1.6 times as long after a crash as after a clean end",
            kinds: &[Kind::Recovery],
            seconds: (8, 200),
            needs: &["rntree"],
            make: recovery,
        },
        Entry {
            id: "rntree.fig8",
            what: "Figure 8: YCSB A uniform and zipfian .8, nine reads in ten, 1 to 24 threads",
            claim: "linear if uniform; with skew FPTree stops at 4 threads, RNTree has 1.8 times",
            kinds: &[Kind::ManyCores],
            seconds: (7, 800),
            needs: &[],
            make: |context| cores::run(context, &FIGURE_8),
        },
        Entry {
            id: "rntree.fig9",
            what: "Figure 9: latency at a given rate of requests, 24 workers",
            claim: "reads of 15 us with FPTree, 6 with RNTree, less than 1 with two slot arrays",
            kinds: &[Kind::ManyCores],
            seconds: (5, 500),
            needs: &["rntree", "rntree-dual", "fptree"],
            make: |context| cores::run_at(context, &FIGURE_9, Some(RATE)),
        },
        Entry {
            id: "rntree.fig10",
            what: "Figure 10: zipfian .5 to .99, 8 threads",
            claim: "up to 2.3 times",
            kinds: &[Kind::ManyCores],
            seconds: (9, 900),
            needs: &[],
            make: |context| cores::run(context, &FIGURE_10),
        },
    ],
};

fn table1(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let known = everleaf_designs::catalogue::names();
    let mut designs = vec!["rntree", "rntree-dual", "nvtree", "wbtree", "wbtree-so", "fptree"];
    designs.extend(["cdds"].into_iter().filter(|name| known.contains(name)));
    let mut outcome = Results::default();
    let measured = leaf_table::measure(context, &mut outcome, &designs, Domain::Adr)?;
    leaf_table::judge(&mut outcome, &measured, &[] as &[Claim]);
    for (design, claim) in [("rntree", 2.0), ("nvtree", 2.0), ("wbtree", 4.0), ("fptree", 3.0)] {
        let found = measured.iter().find(|(name, _)| *name == design);
        // A persistent instruction flushes and waits: what is counted is the waits.
        let drains = found.map_or(f64::NAN, |(_, costs)| {
            costs.each(CountedOperation::Insert, |tally| tally.drains)
        });
        let what = format!("{design}: persistent instructions of an insert");
        outcome.figures.push(Figure::near(what, claim, drains, "", 0.0));
    }
    if known.contains(&"cdds") {
        let trials = context.scale.pick(60, 1000);
        let at = |entries| leaf::insert_at("cdds", entries, trials, context.seed);
        let fills = [4, 16];
        let [few, many] =
            [at(fills[0])?, at(fills[1])?].map(|tally| tally.per_operation(tally.flushes));
        outcome.figures.push(Figure::statement(
            format!(
                "cdds: lines flushed by an insert into a leaf of {} and of {}",
                fills[0], fills[1]
            ),
            "grows with the entries of the leaf",
            format!("{few:.2} and {many:.2}"),
            many > few,
        ));
    }
    Ok(outcome)
}

/// Which flushes of a modification others wait for.
fn overlap(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let trials = context.scale.pick(20, 300);
    let mut outcome = Results::default();
    let columns = ["tree, operation", "flushes", "under the lock", "outside"];
    let mut grid = Grid::new("flushes of an operation on a leaf with room", &columns);
    let operations = [CountedOperation::Insert, CountedOperation::Update, CountedOperation::Remove];
    for design in ["rntree", "rntree-dual", "nvtree", "wbtree", "fptree"] {
        (context.tell)(&format!("counting {design}"));
        let costs = leaf::costs(design, Domain::Adr, trials, context.seed)?;
        for operation in operations {
            let all = costs.each(operation, |tally| tally.flushes);
            let inside = costs.each(operation, |tally| tally.flushes_under_lock);
            let name = format!("{design}, {}", operation.name());
            grid.add(name.clone(), [all, inside, all - inside]);
            outcome.series.push(Series::count(name, "flushes under the lock", inside));
            let claim = match (design, operation) {
                ("rntree" | "rntree-dual", _) | ("fptree", CountedOperation::Remove) => 1.0,
                ("fptree", _) => 3.0,
                _ => continue,
            };
            let what = format!("{design}, {}: flushes under the lock", operation.name());
            outcome.figures.push(Figure::near(what, claim, inside, "", 0.0));
        }
    }
    outcome.tables.push(grid);
    Ok(outcome)
}

fn single(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let designs = ["rntree", "rntree-dual", "nvtree", "fptree", "wbtree", "wbtree-so"];
    let workloads = [
        Workload::Get,
        Workload::Insert,
        Workload::Update,
        Workload::Remove,
        Workload::MixQuarters,
    ];
    let contest = Contest {
        designs: &designs,
        workloads: &workloads,
        keys: context.scale.pick(250_000, 16_000_000),
        operations: context.scale.pick(100_000, 1_000_000),
        scan_length: 1,
        rounds: context.scale.pick(3, 9),
    };
    let reports = timed::run(context, &contest)?;
    let mut outcome = Results::default();
    timed::describe(&mut outcome, &reports, &workloads);
    count_single(context, &designs, &mut outcome)?;
    let own = timed::of(&reports, "rntree");
    let machine = "the pool is in ordinary memory, where no line is flushed: what RNTree saves costs \
                   nothing here, and what it pays with, an appended entry and a copied slot array, does";
    let find = timed::advantage(timed::of(&reports, "nvtree"), own, Workload::Get);
    outcome.figures.push(
        Figure::near("find of NVTree in multiples of RNTree", 1.12, find.ratio, "", 0.1).if_below(
            "RNTree's bisection misses the cache once or twice a leaf; NVTree's log is read in one \
             go, which hardware fetches ahead",
        ),
    );
    let cost = |name: &str, workload| {
        median(&timed::costs(timed::of(&reports, name), workload)).unwrap_or(f64::INFINITY)
    };
    let least = designs
        .iter()
        .min_by(|one, other| cost(one, Workload::Remove).total_cmp(&cost(other, Workload::Remove)));
    let best = least.copied().unwrap_or("none");
    // Why it is another, if it is, was not measured.
    outcome.figures.push(Figure::statement(
        "the cheapest removal",
        "fptree",
        best,
        best == "fptree",
    ));
    for other in ["nvtree", "fptree", "wbtree"] {
        let ratio = timed::advantage(timed::of(&reports, other), own, Workload::MixQuarters);
        outcome.figures.push(
            Figure::within(
                format!("the mix of {other} in multiples of RNTree"),
                (1.25, 1.44),
                ratio.ratio,
                "",
                0.05,
            )
            .if_below(machine),
        );
    }
    Ok(outcome)
}

/// Figure 4 by counts: what an operation waits for on the paper's memory modules.
fn count_single(
    context: &mut Context<'_>,
    designs: &[&'static str],
    outcome: &mut Results,
) -> Result<(), BenchError> {
    let setting = Setting {
        keys: context.scale.pick(50_000, 2_000_000),
        reference: 16e6,
        domain: Domain::Adr,
        // The paper's modules: a read takes as long as one of DRAM.
        latencies: Latencies { dram_ns: 84.0, pool_ns: 84.0, flush_ns: 140.0 },
    };
    let waits = waiting::count(context, designs, setting)?;
    let title = "waiting for memory by counts, ns: reads of 84 ns, write-backs of 140 ns";
    waiting::describe(outcome, &waits, title);
    let (best, wait) = waiting::least(&waits, CountedOperation::Remove, |_| true);
    let theirs = waiting::find(&waits, "fptree")[2];
    outcome.figures.push(
        Figure::statement(
            "least waiting of a removal, by counts",
            "fptree",
            format!("{best}, {wait:.0} ns; fptree {theirs:.0} ns"),
            best == "fptree",
        )
        .because("it flushes one line, as others do, and what it reads before decides"),
    );
    let mean = |name: &str| {
        let found = waits.iter().find(|waits| waits.design == name);
        found.map_or(f64::NAN, waiting::Waits::mean)
    };
    for other in ["nvtree", "fptree", "wbtree"] {
        let what = format!("waiting of the mix of {other} in multiples of RNTree's, by counts");
        let figure = Figure::within(what, (1.25, 1.44), mean(other) / mean("rntree"), "", 0.05);
        outcome.figures.push(figure.if_below(
            "what RNTree saves in flushes, from NVTree nothing, it pays in lines read: those that the \
             bisection of its slot array touches",
        ));
    }
    Ok(())
}

fn conditional(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let designs = ["nvtree-blind", "nvtree"];
    let workloads = [Workload::Update, Workload::Put];
    let contest = Contest {
        designs: &designs,
        workloads: &workloads,
        keys: context.scale.pick(500_000, 16_000_000),
        operations: context.scale.pick(100_000, 1_000_000),
        scan_length: 1,
        rounds: context.scale.pick(5, 9),
    };
    let reports = timed::run(context, &contest)?;
    let mut outcome = Results::default();
    timed::describe(&mut outcome, &reports, &workloads);
    let (blind, checked) = (timed::of(&reports, designs[0]), timed::of(&reports, designs[1]));
    let ratio = timed::advantage(checked, blind, Workload::Put);
    let slower = (1.0 - 1.0 / ratio.ratio) * 100.0;
    outcome.figures.push(
        Figure::near("throughput lost by conditional writes", 19.0, slower, "%", 0.3)
            .if_below("an append waits for the same lines that the search before it brings"),
    );
    let keys = context.scale.pick(50_000, 1_000_000);
    let mut grid = Grid::new("lines of the pool read by an update", &["tree", "lines"]);
    for design in designs {
        let mut loaded = load::design(design, scaled_caches(keys, 16e6), keys, context.seed)?;
        loaded.perform(CountedOperation::Update, keys / 5)?;
        let tally = loaded.tree.tally(CountedOperation::Update);
        let read = tally.per_operation(tally.pool_lines_read);
        grid.add(design, [read]);
        outcome.series.push(Series::count(format!("{design} update"), "pool lines read", read));
    }
    outcome.tables.push(grid);
    Ok(outcome)
}

/// Pairs of a range query.
const LENGTHS: [u32; 4] = [10, 100, 1_000, 10_000];

fn ranges(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let designs = ["rntree", "nvtree", "fptree", "nbtree"];
    let keys = context.scale.pick(200_000, 16_000_000);
    let mut outcome = Results::default();
    let mut lines: Vec<Line> =
        designs.iter().map(|name| Line { name: (*name).to_owned(), points: vec![] }).collect();
    let columns = ["pairs", "nvtree", "fptree", "nbtree"];
    let title = "time of a query in multiples of RNTree's, with the interval";
    let mut ratios = Grid::new(title, &columns);
    let mut figures = Vec::new();
    for length in LENGTHS {
        let contest = Contest {
            designs: &designs,
            workloads: &[Workload::Scan],
            keys,
            // A scan counts as ten operations.
            operations: (context.scale.pick(200_000, 4_000_000) / u64::from(length)).max(500),
            scan_length: length,
            rounds: context.scale.pick(3, 9),
        };
        let reports = timed::run(context, &contest)?;
        let base = timed::of(&reports, "rntree");
        let mut row = vec![length.to_string()];
        for (line, name) in lines.iter_mut().zip(designs) {
            let report = timed::of(&reports, name);
            let cost = median(&timed::costs(report, Workload::Scan)).unwrap_or(f64::NAN);
            line.points.push((f64::from(length), cost));
            if name != "rntree" {
                let ratio = timed::advantage(report, base, Workload::Scan);
                row.push(ratio.to_string());
                if name != "nbtree" {
                    figures.push(judge_range(name, length, ratio.ratio));
                }
            }
            outcome.series.extend(timed::series(report).into_iter().map(|series| Series {
                name: format!("{}, {length} pairs", series.name),
                ..series
            }));
        }
        ratios.rows.push(row);
    }
    outcome.figures = figures;
    outcome.tables.push(ratios);
    let counted = context.scale.pick(50_000, 1_000_000);
    waiting::ranges(context, &designs, (counted, 16e6, 1000), &mut outcome)?;
    outcome.charts.push(Chart::Lines {
        title: "a pair of a range query".to_owned(),
        across: Axis { name: "pairs of a query".to_owned(), is_logarithmic: true },
        up: Axis { name: "ns of CPU time".to_owned(), is_logarithmic: true },
        lines,
    });
    Ok(outcome)
}

/// The claim holds for every length, so each is judged by itself.
fn judge_range(tree: &str, length: u32, ratio: f64) -> Figure {
    let what = format!("a query of {length} pairs of {tree} in multiples of RNTree's");
    let figure = Figure::near(what, 4.2, ratio, "", 0.2);
    // Both directions are seen in the costs of a pair, by length.
    let figure = if length <= 100 {
        figure.if_below(
            "the descent, which every tree has, is most of a short query (see the picture)",
        )
    } else {
        figure
    };
    figure.if_above(
        "the others sort every leaf for every query, and in a long one RNTree has little else to do: \
         the pool is in ordinary memory",
    )
}

fn recovery(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let millions: &[f64] = context.scale.pick(&[0.25, 0.5, 1.0, 2.0], &[1.0, 2.0, 4.0, 8.0, 16.0]);
    let columns = ["million keys", "after a crash, ms", "after a clean end, ms", "ns a key"];
    let mut grid = Grid::new("opening an RNTree on one thread", &columns);
    let mut outcome = Results::default();
    let mut crashed = Line { name: "after a crash".to_owned(), points: vec![] };
    let mut chase = Chase::new(REGION_SIZE_BYTES);
    let mut clean = Line { name: "after a clean end".to_owned(), points: vec![] };
    for million in millions {
        (context.tell)(&format!("opening {million} M keys"));
        let keys = (million * 1e6) as u64;
        let openings = openings("rntree", keys, context.scale.pick(3, 7), &mut chase)?;
        let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN) * 1e3;
        let pair = [middle(&openings.crashed), middle(&openings.clean)];
        grid.add(million.to_string(), [pair[0], pair[1], pair[0] * 1e6 / keys as f64]);
        crashed.points.push((*million, pair[0]));
        clean.points.push((*million, pair[1]));
        outcome.series.push(series(&openings, "rntree", keys));
    }
    let each = |line: &Line, at: usize| line.points[at].1 / line.points[at].0;
    let last = millions.len() - 1;
    let growth = each(&crashed, last) / each(&crashed, 0);
    outcome.figures.push(
        Figure::near("time a key, largest tree in multiples of the smallest", 1.0, growth, "", 0.3)
            .if_above("the larger tree does not fit into the caches and the page tables' either"),
    );
    let ratio = crashed.points[last].1 / clean.points[last].1;
    outcome.figures.push(
        Figure::near("after a crash in multiples of a clean end", 1.6, ratio, "", 0.15).if_below(
            "nothing is kept at a clean end that would spare work: both openings read the slot \
             arrays and rebuild the same words",
        ),
    );
    outcome.tables.push(grid);
    outcome.charts.push(Chart::Lines {
        title: "opening an RNTree on one thread".to_owned(),
        across: Axis { name: "million keys".to_owned(), is_logarithmic: false },
        up: Axis { name: "ms".to_owned(), is_logarithmic: false },
        lines: vec![crashed, clean],
    });
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::super::tests::quick;
    use super::*;

    /// Flushes under a lock and outside of one used to be counted as one.
    #[test]
    fn rntree_flushes_its_entry_outside_of_the_lock() {
        let outcome = overlap(&mut quick(&mut |_| ())).unwrap();
        assert_eq!(outcome.tables[0].rows.len(), 15);
        assert_eq!(outcome.figures.len(), 9);
        for figure in &outcome.figures {
            assert!(!figure.differs(), "{figure:?}");
        }
    }
}
