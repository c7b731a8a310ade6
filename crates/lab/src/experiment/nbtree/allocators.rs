//! Figure 15: the paper's tree on the allocators, by counts and by the clock of one thread.

use everleaf_bench::BenchError;
use everleaf_bench::clock::thread_time;
use everleaf_bench::random::mix;
use everleaf_bench::report::Spread;
use everleaf_bench::statistics::Ratio;
use everleaf_designs::allocators;
use everleaf_index::{Domain as PoolDomain, Hardware, OrderedIndex, Pool};
use everleaf_lab_designs::OnAllocator;
use everleaf_lab_designs::count::blocks::{self, CALLOC};
use everleaf_lab_designs::count::{Counted, CountedOperation, pool_bytes, scaled_caches};
use everleaf_machine::simulated::Domain;
use everleaf_machine::simulated::counting::Tally;

use super::super::finding::{Bar, Chart, Figure, Grid, Series};
use super::super::{Context, Results};

/// The allocator that records nothing: what the others write beyond it are their metadata.
const CEILING: &str = "naive";

/// The parts of the figure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// (a): inserts.
    Inserts,
    /// (b): inserts and removals of other keys, in turn.
    Both,
}

impl Part {
    const ALL: [Part; 2] = [Part::Inserts, Part::Both];

    fn name(self) -> &'static str {
        match self {
            Part::Inserts => "(a) inserts",
            Part::Both => "(b) inserts and removals",
        }
    }

    /// The operation of this number on a tree with the keys below `keys`, and its key.
    fn operation(self, number: u64, keys: u64) -> (CountedOperation, u64) {
        match self {
            Part::Inserts => (CountedOperation::Insert, keys + number),
            Part::Both if number.is_multiple_of(2) => (CountedOperation::Insert, keys + number),
            Part::Both => (CountedOperation::Remove, number),
        }
    }
}

/// What a part does on an allocator, an operation.
struct Costs {
    allocator: &'static str,
    tally: Tally,
    /// Leaves allocated, and structural changes.
    allocated: u64,
    changes: u64,
    /// Bytes of the medium written, those at the end included.
    media: u64,
}

impl Costs {
    fn each(&self, sum: u64) -> f64 {
        self.tally.per_operation(sum)
    }
}

/// The figure.
pub(super) fn run(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let mut outcome = Results::default();
    let keys = context.scale.pick(12_000, 1_000_000);
    let mut changes = vec![];
    for part in Part::ALL {
        let (flushed, kept) =
            (count(context, part, Domain::Adr, keys)?, count(context, part, Domain::Eadr, keys)?);
        describe(&mut outcome, part, &flushed, &kept);
        judge_counts(&mut outcome, part, &kept);
        changes.push(find(&kept, CALLOC).map_or(f64::NAN, |costs| costs.each(costs.changes)));
    }
    let fewer = changes[0] / changes[1];
    outcome.figures.push(
        Figure::near("structural changes of an operation, (a) in multiples of (b)", 4.0, fewer, "", 0.25)
            .if_below(
                "of two operations one inserts; every insert takes a slot here, whether others of its leaf are \
                 empty, so removals spare only the second leaf of a replacement",
            ),
    );
    time(context, &mut outcome)?;
    outcome.notes.push(
        "The paper has 56 threads, whose writes share the bandwidth of the medium; here is one. Metadata are \
         what an allocator writes beyond the naive one, log and rings of the tree included."
            .to_owned(),
    );
    Ok(outcome)
}

/// Counts a part on every allocator.
fn count(
    context: &mut Context<'_>,
    part: Part,
    domain: Domain,
    keys: u64,
) -> Result<Vec<Costs>, BenchError> {
    let key = |number: u64| mix(number.wrapping_add(context.seed << 32));
    let one = |allocator: &'static str| {
        (context.tell)(&format!("counting {allocator}, {}", part.name()));
        let mut config = scaled_caches(keys, 16e6);
        config.domain = domain;
        let mut tree = blocks::counted(allocator, config, 2 * keys)?;
        for number in 0..keys {
            tree.fill(key(number))?;
        }
        tree.write_back_all();
        let before = marks(&tree);
        for number in 0..keys {
            let (operation, number) = part.operation(number, keys);
            tree.count(operation, key(number))?;
        }
        let mut tally = tree.tally(CountedOperation::Insert);
        tally += tree.tally(CountedOperation::Remove);
        let after = marks(&tree);
        let media = tally.media_written_bytes + tree.write_back_all();
        let [allocated, changes] = [0, 1].map(|at| after[at] - before[at]);
        Ok(Costs { allocator, tally, allocated, changes, media })
    };
    allocators::names().into_iter().map(one).collect()
}

/// Leaves allocated and structural changes so far.
fn marks(tree: &Counted) -> [u64; 2] {
    let marks = tree.marks();
    ["nbtree_published.leaf_allocated", "nbtree_published.replaced"]
        .map(|name| marks.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count))
}

fn find<'c>(all: &'c [Costs], allocator: &str) -> Option<&'c Costs> {
    all.iter().find(|costs| costs.allocator == allocator)
}

/// The table of a part.
fn describe(outcome: &mut Results, part: Part, flushed: &[Costs], kept: &[Costs]) {
    let columns = [
        "allocator",
        "leaves allocated",
        "lines written, flushed",
        "metadata lines a leaf",
        "flushes",
        "drains",
        "media B, flushed",
        "media B, persistent caches",
    ];
    let mut grid = Grid::new(format!("{}: an operation, by counts", part.name()), &columns);
    let lines = |costs: &Costs| costs.each(costs.tally.pool_lines_written);
    let least = find(flushed, CEILING).map_or(f64::NAN, lines);
    let mut bars = vec![];
    for (flushed, kept) in flushed.iter().zip(kept) {
        let allocated = flushed.each(flushed.allocated);
        let media = [flushed.each(flushed.media), kept.each(kept.media)];
        grid.add(
            flushed.allocator,
            [
                allocated,
                lines(flushed),
                (lines(flushed) - least) / allocated,
                flushed.each(flushed.tally.flushes),
                flushed.each(flushed.tally.drains),
                media[0],
                media[1],
            ],
        );
        let name = format!("{} {}", flushed.allocator, part.name());
        outcome.series.push(Series::count(name, "media B written, persistent caches", media[1]));
        bars.push(Bar { name: flushed.allocator.to_owned(), value: media[1], spread: None });
    }
    outcome.tables.push(grid);
    let title = format!("{}: bytes of the medium an operation, persistent caches", part.name());
    outcome.charts.push(Chart::Bars { title, unit: "B".to_owned(), bars });
}

/// What the paper says of a part, by the bytes that the medium takes.
fn judge_counts(outcome: &mut Results, part: Part, kept: &[Costs]) {
    let media = |name: &str| find(kept, name).map_or(f64::NAN, |costs| costs.each(costs.media));
    let published = ["pmdk-like", "nvm-malloc-like", "nvalloc-like"];
    let (calloc, least) =
        (media(CALLOC), published.map(media).into_iter().fold(f64::INFINITY, f64::min));
    let what = format!("{}: media bytes, the published allocators' and Calloc's", part.name());
    let ours = format!("at least {least:.0} B, {calloc:.0} B with Calloc");
    outcome.figures.push(
        Figure::statement(what, "Calloc's are fewer", ours, calloc < least).because(
            "caches as large, for their tree, as the paper's absorb the metadata of all allocators",
        ),
    );
    let what =
        format!("{}: media bytes with Calloc in multiples of the naive allocator's", part.name());
    outcome.figures.push(Figure::near(what, 1.0, calloc / media(CEILING), "", 0.1).if_below(
        "the naive allocator uses no leaf again, so that every new leaf is written to new lines",
    ));
}

/// The CPU time of one thread on every allocator, round by round in turn.
fn time(context: &mut Context<'_>, outcome: &mut Results) -> Result<(), BenchError> {
    let keys = context.scale.pick(60_000, 4_000_000);
    let rounds = context.scale.pick(3, 9);
    let names = allocators::names();
    for part in Part::ALL {
        let mut spent: Vec<Vec<f64>> = vec![vec![]; names.len()];
        for round in 0..rounds {
            for turn in 0..names.len() {
                let at = (turn + round) % names.len();
                (context.tell)(&format!("{}, {}, round {}", names[at], part.name(), round + 1));
                spent[at].push(timed(names[at], part, keys, context.seed)?);
            }
        }
        describe_times(outcome, part, &names, &spent, keys);
    }
    Ok(())
}

/// Nanoseconds of an operation of a part on a new tree of `keys` keys.
fn timed(allocator: &str, part: Part, keys: u64, seed: u64) -> Result<f64, BenchError> {
    let key = |number: u64| mix(number.wrapping_add(seed << 32));
    let leaves = blocks::leaf_count(2 * keys);
    let most = (pool_bytes(2 * keys) + leaves * 1600) as u64;
    let pool = Pool::in_memory(2 << 20, most.next_multiple_of(2 << 20), PoolDomain::Eadr)?;
    let tree = OnAllocator::<Hardware>::create(pool, allocator, leaves)?;
    let mut session = tree.session()?;
    for number in 0..keys {
        let _ = tree.tree().insert(&mut session, key(number), number + 1)?;
    }
    let started = thread_time();
    for number in 0..keys {
        let (operation, number) = part.operation(number, keys);
        let was_there = if operation == CountedOperation::Insert {
            tree.tree().insert(&mut session, key(number), number + 1)?.is_some()
        } else {
            tree.tree().remove(&mut session, key(number))?.is_none()
        };
        if was_there {
            return Err(BenchError::Wrong(format!(
                "{allocator}: key {number} is not as it was left"
            )));
        }
    }
    Ok((thread_time() - started).as_nanos() as f64 / keys as f64)
}

/// The table, the picture and the comparisons of a part.
fn describe_times(
    outcome: &mut Results,
    part: Part,
    names: &[&'static str],
    spent: &[Vec<f64>],
    keys: u64,
) {
    let title = format!("{}: CPU time of an operation, one thread, {keys} keys", part.name());
    let mut grid = Grid::new(&title, &["allocator", "ns, median", "least", "most"]);
    let mut bars = vec![];
    let of_calloc = spent.first().cloned().unwrap_or_default();
    for (name, spent) in names.iter().zip(spent) {
        let spread = Spread::of(spent.iter().copied()).unwrap_or_default();
        grid.add(*name, [spread.median, spread.min, spread.max]);
        let of_bar = Some((spread.min, spread.max));
        bars.push(Bar { name: (*name).to_owned(), value: spread.median, spread: of_bar });
        outcome.series.push(Series {
            name: format!("{name} {}", part.name()),
            unit: "ns".to_owned(),
            more_is_better: false,
            is_exact: false,
            is_disturbed: false,
            values: spent.clone(),
        });
        // The first is Calloc. The paper's figures are of 56 threads on persistent memory: other quantities.
        if let Some(ratio) = Ratio::of(spent, &of_calloc).filter(|_| *name != CALLOC) {
            let what = format!("{}: CPU time with {name} in multiples of Calloc's", part.name());
            let figure =
                Figure::statement(what, "up to 6.5 on 56 threads", ratio.to_string(), true);
            outcome.figures.push(figure.without_verdict());
        }
    }
    outcome.tables.push(grid);
    outcome.charts.push(Chart::Bars { title, unit: "ns".to_owned(), bars });
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::quick;
    use super::*;

    #[test]
    fn the_naive_allocator_writes_least_and_replaces_as_often() {
        let mut tell = |_: &str| ();
        let context = &mut quick(&mut tell);
        for part in Part::ALL {
            let all = count(context, part, Domain::Adr, 2000).unwrap();
            assert_eq!(all.len(), 6);
            let naive = find(&all, CEILING).unwrap();
            for costs in &all {
                assert_eq!(costs.tally.operations, 2000);
                let both = (costs.allocated, costs.changes);
                assert!(costs.changes > 5, "{}: {both:?}", costs.allocator);
                assert_eq!(both, (naive.allocated, naive.changes), "{}", costs.allocator);
                let lines = costs.tally.pool_lines_written;
                assert!(lines >= naive.tally.pool_lines_written, "{}", costs.allocator);
            }
            let mut outcome = Results::default();
            describe(&mut outcome, part, &all, &all);
            judge_counts(&mut outcome, part, &all);
            assert_eq!((outcome.tables[0].rows.len(), outcome.figures.len()), (6, 2));
        }
    }

    #[test]
    fn every_allocator_is_timed() {
        for name in allocators::names() {
            for part in Part::ALL {
                assert!(timed(name, part, 3000, 1).unwrap() > 0.0, "{name}");
            }
        }
    }
}
