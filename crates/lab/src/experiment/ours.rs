//! Experiments of our own: every design of the catalogue, counted and timed.

use everleaf_bench::{BenchError, Distribution, Workload};
use everleaf_machine::simulated::Domain;
use everleaf_machine::simulated::counting::Tally;

use super::finding::{Bar, Chart, Grid, Series, number};
use super::timed::{self, Contest};
use super::{Context, Entry, Family, Kind, Results};
use everleaf_lab_designs::count::{
    CountedOperation, conditional_designs, leaf, leaf::LeafCosts, load, scaled_caches, threads,
};

pub(super) const FAMILY: Family = Family {
    name: "everleaf",
    source: "Everleaf: every design of the catalogue",
    setting: "keys and values of 8 bytes; pool in memory",
    entries: &[
        Entry {
            id: "everleaf.counts",
            what: "what operations cost on leaves with room and with all splits: calls, lines, \
                   bytes of the medium, allocations",
            claim: "exact counts of one thread on the model of caches and media; the same in every \
                    run",
            kinds: &[Kind::Counts],
            seconds: (31, 900),
            needs: &[],
            make: counts,
        },
        Entry {
            id: "everleaf.side-by-side",
            what: "CPU time of single operations, every design in the same run",
            claim: "times of one thread, in dependent misses and relative to NBTree",
            kinds: &[Kind::Latency],
            seconds: (60, 3200),
            needs: &[],
            make: side_by_side,
        },
        Entry {
            id: "everleaf.contention",
            what: "two threads that update the same few keys: exchanges refused, turns of waiting, \
                   help and retries, and on which leaves they met",
            claim: "counts of two threads on keys chosen zipfian .99; how often they meet is up to \
                    the scheduler",
            kinds: &[Kind::Counts],
            seconds: (6, 200),
            needs: &[],
            make: contention,
        },
    ],
};

/// A column: its heading, and the figure of a tally.
type Column = (&'static str, fn(&Tally) -> u64);

/// What is shown of a leaf operation.
const LEAF_COLUMNS: [Column; 7] = [
    ("flushes", |tally| tally.flushes),
    ("drains", |tally| tally.drains),
    ("pool lines written", |tally| tally.pool_lines_written),
    ("pool lines read", |tally| tally.pool_lines_read),
    ("locked", |tally| tally.locked),
    ("DRAM lines written", |tally| tally.other_lines_written),
    ("DRAM lines read", |tally| tally.other_lines_read),
];

/// What is shown of random inserts with all splits.
const LOAD_COLUMNS: [Column; 9] = [
    ("flushes", |tally| tally.flushes),
    ("drains", |tally| tally.drains),
    ("fences", |tally| tally.fences),
    ("lines written", |tally| tally.pool_lines_written),
    ("lines read", |tally| tally.pool_lines_read),
    ("media B written", |tally| tally.media_written_bytes),
    ("media B read", |tally| tally.media_read_bytes),
    ("pool pieces", |tally| tally.pieces),
    ("DRAM nodes", |tally| tally.nodes),
];

fn headings(columns: &[Column]) -> Vec<&'static str> {
    std::iter::once("tree").chain(columns.iter().map(|(name, _)| *name)).collect()
}

fn counts(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let trials = context.scale.pick(40, 400);
    let keys = context.scale.pick(30_000, 1_000_000);
    let mut outcome = Results::default();
    let mut on_leaf: Vec<Grid> = CountedOperation::SINGLE
        .iter()
        .map(|operation| {
            let title = format!("{} on a leaf with room, on average", operation.name());
            Grid::new(title, &headings(&LEAF_COLUMNS))
        })
        .collect();
    let mut heading = headings(&LOAD_COLUMNS);
    heading.extend(["levels", "splits"]);
    let title = format!("random inserts of {keys} keys with all splits, an insert on average");
    let mut loads = Grid::new(title, &heading);
    let mut rare = Grid::new("rare branches met by these inserts, with counts", &["tree", "marks"]);
    let mut flushes = Vec::new();
    let mut without_leaves = Vec::new();
    for name in conditional_designs() {
        (context.tell)(&format!("counting {name}"));
        match leaf::costs_if_any(name, Domain::Adr, trials, context.seed)? {
            Some(costs) => add_leaf_costs(&mut outcome, &mut on_leaf, name, &costs),
            None => without_leaves.push(name),
        }
        let mut loaded = load::design(name, scaled_caches(keys, 16e6), keys, context.seed)?;
        let tally = loaded.tree.tally(CountedOperation::Insert);
        // Nothing is removed, so that every leaf more is a split.
        let splits = loaded.tree.leaves()? - loaded.leaves_first;
        let marks = loaded.tree.marks();
        let marks: Vec<_> = marks.iter().map(|(name, count)| format!("{name} {count}")).collect();
        rare.rows.push(vec![name.to_owned(), marks.join(", ")]);
        let columns = LOAD_COLUMNS.iter().map(|(_, sum)| tally.per_operation(sum(&tally)));
        loads.add(name, columns.chain([loaded.tree.height()? as f64, splits as f64]));
        let each = tally.per_operation(tally.flushes);
        flushes.push(Bar { name: name.to_owned(), value: each, spread: None });
        outcome.series.push(Series::count(format!("{name} random insert"), "flushes", each));
    }
    outcome.tables = on_leaf;
    outcome.tables.extend([loads, rare]);
    outcome.charts.push(Chart::Bars {
        title: "flushes of a random insert, splits included".to_owned(),
        unit: "lines".to_owned(),
        bars: flushes,
    });
    outcome.notes.push(
        "Lines written include the line of a lock in the pool, which is not flushed. The caches of \
         the model are as much smaller than those of a server as the tree is smaller than one of \
         16 M keys."
            .to_owned(),
    );
    if !without_leaves.is_empty() {
        outcome.notes.push(format!(
            "Not on a leaf with room: {}. They grow with each key, or what is written waits outside of \
             the leaves, and none of them fills up by 4,096 keys.",
            without_leaves.join(", ")
        ));
    }
    Ok(outcome)
}

/// What a design's single operations cost on leaves with room: a row in each table, and series.
fn add_leaf_costs(outcome: &mut Results, tables: &mut [Grid], name: &str, costs: &LeafCosts) {
    for (grid, operation) in tables.iter_mut().zip(CountedOperation::SINGLE) {
        grid.add(name, LEAF_COLUMNS.iter().map(|(_, sum)| costs.each(operation, *sum)));
        let each = costs.each(operation, |tally| tally.flushes);
        let what = format!("{name} {} on a leaf with room", operation.name());
        outcome.series.push(Series::count(what.clone(), "flushes", each));
        let each = costs.each(operation, |tally| tally.pool_lines_read);
        outcome.series.push(Series::count(what, "pool lines read", each));
    }
}

fn side_by_side(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let designs = conditional_designs();
    let workloads = [
        Workload::Get,
        Workload::GetAbsent,
        Workload::Update,
        Workload::Insert,
        Workload::Remove,
        Workload::Scan,
    ];
    let contest = Contest {
        designs: &designs,
        workloads: &workloads,
        keys: context.scale.pick(100_000, 10_000_000),
        operations: context.scale.pick(30_000, 1_000_000),
        scan_length: 100,
        rounds: context.scale.pick(2, 9),
    };
    let reports = timed::run(context, &contest)?;
    let mut outcome = Results::default();
    timed::describe(&mut outcome, &reports, &workloads);
    Ok(outcome)
}

fn contention(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let keys = context.scale.pick(10_000, 100_000);
    let operations = context.scale.pick(10_000, 200_000);
    let skewed = Distribution::Zipfian { theta: Distribution::THETA_DEFAULT };
    let columns = ["tree", "locked", "refused", "turns of waiting", "help", "retries", "marks met"];
    let title = format!("of 1000 updates of {keys} keys by two threads, {operations} each");
    let mut grid = Grid::new(title, &columns);
    let columns =
        ["tree", "updates that met", "on leaves", "of leaves", "of these, on the hottest, %"];
    let title = "updates whose exchange was refused or that waited, of 1000, and their leaves";
    let mut by_leaf = Grid::new(title, &columns);
    for name in conditional_designs() {
        (context.tell)(&format!("contending for {name}"));
        let found = threads::contend(name, 2, keys, operations, skewed, context.seed)?;
        let tally = found.tally;
        let of_thousand = |sum: u64| tally.per_operation(sum) * 1000.0;
        let marked = |words: &[&str]| {
            let is_one = |name: &str| words.iter().any(|word| name.contains(word));
            found.marks.iter().filter(|(name, _)| is_one(name)).map(|(_, count)| count).sum::<u64>()
        };
        let numbers = [
            of_thousand(tally.locked),
            of_thousand(tally.refused),
            of_thousand(tally.spins),
            of_thousand(marked(&["help"])),
            of_thousand(marked(&["again", "lost", "overtaken"])),
        ];
        let shown = numbers.iter().map(|value| number(*value));
        let marks: Vec<&str> = found.marks.iter().map(|(name, _)| *name).collect();
        let row = std::iter::once(name.to_owned()).chain(shown).chain([marks.join(", ")]);
        grid.rows.push(row.collect());
        let met = found.by_leaf.iter().sum::<u64>();
        let hottest = found.by_leaf.first().map_or(f64::NAN, |most| *most as f64 / met as f64);
        let places = [found.by_leaf.len() as u64, found.leaves].map(|count| count as f64);
        by_leaf.add(name, [of_thousand(met), places[0], places[1], hottest * 100.0]);
    }
    let notes = vec![
        "The keys are taken to be spread evenly over the leaves, in order: leaf by leaf the counts are \
         off by a few keys at its ends. Leaves are those before the updates."
            .to_owned(),
        "Help and retries are the coverage marks of these meanings; a design without such marks \
         shows 0. Refused exchanges and turns of waiting are counted in every design."
            .to_owned(),
    ];
    Ok(Results { tables: vec![grid, by_leaf], notes, ..Results::default() })
}
