//! Our SPTree, counted: Figure 9 and the footprint of section 5.

use everleaf_bench::BenchError;

use super::super::finding::{Figure, Grid, Series};
use super::super::nbtree::memory;
use super::super::{Context, Outcome};
use crate::replay::PAPERS_KEYS;
use everleaf_lab_designs::count::{Operation, load, scaled_caches};

/// Bytes of a leaf in the pool.
const LEAF_BYTES: f64 = 1216.0;

/// Figure 9, by counts: what opening reads.
pub(super) fn rebuilding(context: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let sizes: [u64; 2] = context.scale.pick([10_000, 40_000], [250_000, 1_000_000]);
    let columns = ["keys", "leaves", "media B read a leaf", "lines read a leaf"];
    let mut grid = Grid::new("opening a tree behind a crash", &columns);
    let mut outcome = Outcome::default();
    let mut read = Vec::new();
    for keys in sizes {
        (context.tell)(&format!("opening a tree of {keys} keys"));
        let config = scaled_caches(keys, PAPERS_KEYS);
        let mut tree = load::design("sptree", config, keys, context.seed)?.tree;
        let leaves = tree.leaves()? as f64;
        let recovery = tree.crash_and_recover()?.recovery();
        let bytes = recovery.media_read_bytes as f64 / leaves;
        grid.add(keys.to_string(), [leaves, bytes, recovery.pool_lines_read as f64 / leaves]);
        outcome.series.push(Series::count(format!("{keys} keys"), "media B a leaf", bytes));
        read.push(bytes);
    }
    outcome.tables.push(grid);
    outcome.figures = vec![
        Figure::near("read of a leaf, by the authors' data", 286.0, read[1], "B", 0.15),
        Figure::near("the same with four times the keys", read[0], read[1], "B", 0.15),
    ];
    Ok(outcome)
}

/// Section 5: DRAM as a share of the leaves, and how often a filter errs.
pub(super) fn footprint(context: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let mut outcome = Outcome::default();
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
    loaded.perform(Operation::GetAbsent, counted)?;
    let tally = loaded.tree.tally(Operation::GetAbsent);
    // One that a filter does not stop reads the leaf's first two lines.
    let share = tally.per_operation(tally.pool_lines_read) / 2.0 * 100.0;
    let figure = Figure::near("absent keys that a filter lets pass", 5.0, share, "%", 0.15);
    outcome.figures.push(figure.if_below(
        "512 bits with 4 probes and 48 keys err once in a hundred; the authors' data, 0.02 lines read for \
         an absent key, say the same",
    ));
    Ok(outcome)
}
