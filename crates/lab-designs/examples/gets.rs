//! What a get does in trees that promise the same: loads, exchanges, fences, allocations, lines, and misses that wait
//! for each other. Counted on the model of caches, the same in every run; nothing looks at a clock.
//!
//! `cargo run --release -p everleaf-lab-designs --example gets [KEYS]`

#![expect(clippy::print_stdout, reason = "what was counted is the result")]

use everleaf_bench::BenchError;
use everleaf_lab_designs::count::{CountedOperation, load, scaled_caches};
use everleaf_machine::simulated::counting::Tally;

/// Keys that the caches of the model are meant for.
const REFERENCE: f64 = 10e6;

/// The two that are slower than their authors' programs, and what they are beside.
const TREES: [&str; 5] = ["pactree", "utree", "nbtree", "hashed-leaf", "sptree"];

/// A column: its heading, and the figure of a tally.
type Column = (&'static str, fn(&Tally) -> u64);

const COLUMNS: [Column; 12] = [
    ("loads", |tally| tally.loads),
    ("stores", |tally| tally.stores),
    ("locked", |tally| tally.locked),
    ("fences", |tally| tally.fences),
    ("nodes allocated", |tally| tally.nodes),
    ("lines asked for", |tally| tally.prefetches),
    ("pool lines read", |tally| tally.pool_lines_read),
    ("DRAM lines read", |tally| tally.other_lines_read),
    ("misses of L2", |tally| tally.l2_misses),
    ("pool lines missed", |tally| tally.pool_misses),
    ("one after the other", |tally| tally.pool_chains),
    ("DRAM lines missed", |tally| tally.dram_misses),
];

fn main() -> Result<(), BenchError> {
    let keys = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200_000);
    println!("{keys} random keys of 8 bytes, values of 8 bytes, one thread, seed 1\n");
    let names: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).collect();
    println!("| tree | operation | levels | {} |", names.join(" | "));
    println!("|---|---|---|{}", "---|".repeat(COLUMNS.len()));
    for tree in TREES {
        let mut loaded = load::design(tree, scaled_caches(keys, REFERENCE), keys, 1)?;
        for operation in [CountedOperation::Get, CountedOperation::GetAbsent] {
            loaded.perform(operation, keys / 2)?;
            let tally = loaded.tree.tally(operation);
            let each = COLUMNS.map(|(_, sum)| format!("{:.2}", tally.per_operation(sum(&tally))));
            let levels = loaded.tree.height()?;
            println!("| {tree} | {} | {levels} | {} |", operation.name(), each.join(" | "));
        }
    }
    Ok(())
}
