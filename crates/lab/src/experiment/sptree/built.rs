//! Our SPTree, counted and timed: its structures, Figure 9, and the footprint of section 5.

use everleaf_bench::BenchError;
use everleaf_bench::calibrate::{Chase, REGION_SIZE_BYTES};
use everleaf_bench::statistics::median;

use super::super::finding::{Figure, Grid, Series};
use super::super::nbtree::memory;
use super::super::recovery::series;
use super::super::{Context, Results, proof};
use crate::replay::PAPERS_KEYS;
use everleaf_lab_designs::count::{CountedOperation, load, scaled_caches};
use everleaf_lab_designs::openings::openings;

/// Bytes that a leaf takes in the pool, with those up to the next one.
const LEAF_BYTES: f64 = 1280.0;

/// Figure 9: what opening reads, by counts, and how long it takes.
pub(super) fn rebuilding(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let sizes: [u64; 3] =
        context.scale.pick([10_000, 20_000, 40_000], [250_000, 500_000, 1_000_000]);
    let columns = ["keys", "leaves", "media B read a leaf", "lines read a leaf"];
    let mut grid = Grid::new("opening a tree behind a crash", &columns);
    let mut outcome = Results::default();
    let mut read = Vec::new();
    for keys in sizes {
        (context.tell)(&format!("opening a tree of {keys} keys"));
        let config = scaled_caches(keys, PAPERS_KEYS);
        let mut tree = load::design("sptree", config, keys, context.seed)?.tree;
        let leaves = tree.leaves()? as f64;
        let recovery = tree.crash_and_recover()?.recovery();
        let bytes = recovery.media_read_bytes as f64;
        let lines = recovery.pool_lines_read as f64;
        grid.add(keys.to_string(), [leaves, bytes / leaves, lines / leaves]);
        let each = bytes / leaves;
        outcome.series.push(Series::count(format!("{keys} keys"), "media B a leaf", each));
        read.push((leaves, bytes));
    }
    outcome.tables.push(grid);
    // What is read of the pool itself, once, is not a leaf's.
    let of_a_leaf =
        |fewer: usize, more: usize| (read[more].1 - read[fewer].1) / (read[more].0 - read[fewer].0);
    outcome.figures = vec![
        Figure::near(
            "read of a leaf more, by the authors' data",
            286.0,
            of_a_leaf(0, 2),
            "B",
            0.15,
        ),
        // A line: each leaf more costs as much.
        Figure::near(
            "the same with twice the keys, in multiples",
            1.0,
            of_a_leaf(1, 2) / of_a_leaf(0, 1),
            "",
            0.15,
        ),
    ];
    rebuilding_time(context, &mut outcome)?;
    Ok(outcome)
}

/// Figure 9, in seconds.
fn rebuilding_time(context: &mut Context<'_>, outcome: &mut Results) -> Result<(), BenchError> {
    let sizes: [u64; 2] = context.scale.pick([100_000, 400_000], [2_500_000, 10_000_000]);
    let columns = ["keys", "after a crash, ms", "ns a key"];
    let mut grid = Grid::new("CPU time of opening a tree behind a crash, one thread", &columns);
    let mut chase = Chase::new(REGION_SIZE_BYTES);
    let mut each = Vec::new();
    for keys in sizes {
        (context.tell)(&format!("opening a tree of {keys} keys, timed"));
        let openings = openings("sptree", keys, context.scale.pick(3, 7), &mut chase)?;
        let seconds = median(&openings.crashed).unwrap_or(f64::NAN);
        let ns = seconds * 1e9 / keys as f64;
        grid.add(keys.to_string(), [seconds * 1e3, ns]);
        outcome.series.push(series(&openings, "sptree", keys));
        each.push(ns);
    }
    outcome.tables.push(grid);
    outcome.figures.push(
        Figure::near("250 M keys at the rate of the largest tree", 1.0, each[1] / 4.0, "s", 0.25)
            .if_above(
                "one thread follows the list of leaves; the paper's read at once the leaves that its upper layer \
                 in the pool names",
            ),
    );
    let growth = each[1] / each[0];
    outcome.figures.push(
        Figure::near("time a key with four times the keys", 1.0, growth, "", 0.3)
            .if_above("the larger tree's first lines do not fit into the caches")
            .if_below("what is opened once, the pool itself, is a smaller part of it"),
    );
    Ok(())
}

/// Section 5: DRAM as a share of the leaves, and how often a filter errs.
pub(super) fn footprint(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let mut outcome = Results::default();
    let keys = context.scale.pick(200_000, 5_000_000);
    for (design, claim) in [("sptree", 12.0), ("sptree-buffered", 33.0)] {
        (context.tell)(&format!("loading {design}"));
        let memory = memory(design, keys)?;
        let share = memory.dram_bytes as f64 / (memory.leaves as f64 * LEAF_BYTES) * 100.0;
        let what = format!("{design}: DRAM as a share of the leaves");
        outcome.figures.push(Figure::near(what, claim, share, "%", 0.15));
    }
    let counted = context.scale.pick(20_000, 500_000);
    let config = scaled_caches(counted, PAPERS_KEYS);
    let mut loaded = load::design("sptree", config, counted, context.seed)?;
    loaded.perform(CountedOperation::GetAbsent, counted)?;
    let tally = loaded.tree.tally(CountedOperation::GetAbsent);
    // One that a filter does not stop reads the leaf's first two lines.
    let share = tally.per_operation(tally.pool_lines_read) / 2.0 * 100.0;
    let figure = Figure::near("absent keys that a filter lets pass", 5.0, share, "%", 0.15);
    outcome.figures.push(figure.if_below(
        "512 bits with 4 probes and 48 keys err once in a hundred; the authors' data, 0.02 lines read for \
         an absent key, say the same",
    ));
    Ok(outcome)
}

/// Figures 1, 5 and 6: that the structures survive every step is proven, and what they take is measured.
pub(super) fn layout(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let mut outcome = proof::search(context, &["sptree-buffered"])?;
    let keys = context.scale.pick(100_000, 1_000_000);
    let columns = ["tree", "leaves", "keys of a leaf", "pool B a leaf", "DRAM B a leaf"];
    let mut grid = Grid::new(format!("{keys} random keys"), &columns);
    for design in ["sptree", "sptree-buffered"] {
        (context.tell)(&format!("loading {design}"));
        let memory = memory(design, keys)?;
        let of_leaf = |bytes: u64| bytes as f64 / memory.leaves as f64;
        let in_pool = of_leaf(memory.pool_used_bytes);
        let numbers = [memory.leaves as f64, of_leaf(keys), in_pool, of_leaf(memory.dram_bytes)];
        grid.add(design, numbers);
        if design == "sptree" {
            let figure =
                Figure::near("pool bytes of a leaf of 64 pairs", 1208.0, in_pool, "B", 0.1);
            outcome.figures.push(figure.if_above(
                "all that the pool uses is counted, chunks that are not full yet too; a leaf takes 1280 here",
            ));
        }
    }
    outcome.tables.push(grid);
    Ok(outcome)
}
