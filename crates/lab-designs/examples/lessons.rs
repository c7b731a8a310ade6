//! What three ideas of SPTree would bring to NBTree, the tree of the store: a filter of absent keys, a small write
//! buffer, and resumption before everything is restored. Counted on the model of caches and media, the same in every
//! run; nothing looks at a clock.
//!
//! `cargo run --release -p everleaf-lab-designs --example lessons [KEYS]`

#![expect(clippy::print_stdout, reason = "what was counted is the result")]

use everleaf_bench::BenchError;
use everleaf_lab_designs::count::{CountedOperation, load, scaled_caches};
use everleaf_machine::simulated::Domain;
use everleaf_machine::simulated::counting::{CountingConfig, Tally};

/// Keys that the caches of the model are meant for.
const REFERENCE: f64 = 121e6;

/// Ours, that of the store first; the other with none of the ideas, with filters, with buffers, with both, and with
/// checkpoints of its log too.
const TREES: [&str; 7] = [
    "nbtree",
    "hashed-leaf",
    "sptree-unfiltered",
    "sptree",
    "sptree-buffered-unfiltered",
    "sptree-buffered",
    "sptree-checkpointed",
];

const OPERATIONS: [CountedOperation; 4] = [
    CountedOperation::Insert,
    CountedOperation::Update,
    CountedOperation::Get,
    CountedOperation::GetAbsent,
];

fn table(domain: Domain, keys: u64) -> Result<(), BenchError> {
    println!("\nmedium: {domain:?}\n");
    println!(
        "| tree | operation | flushes | drains | pool lines read | misses to the pool | to DRAM | media B read | \
         written |\n|---|---|---|---|---|---|---|---|---|"
    );
    for tree in TREES {
        let config = CountingConfig { domain, ..scaled_caches(keys, REFERENCE) };
        let mut loaded = load::design(tree, config, keys, 1)?;
        for operation in OPERATIONS {
            if operation != CountedOperation::Insert {
                loaded.perform(operation, keys / 2)?;
            }
            let tally = loaded.tree.tally(operation);
            let each = |sum: fn(&Tally) -> u64| tally.per_operation(sum(&tally));
            println!(
                "| {tree} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} | {:.0} |",
                operation.name(),
                each(|sum| sum.flushes),
                each(|sum| sum.drains),
                each(|sum| sum.pool_lines_read),
                each(|sum| sum.pool_misses),
                each(|sum| sum.dram_misses),
                each(|sum| sum.media_read_bytes),
                each(|sum| sum.media_written_bytes),
            );
        }
    }
    Ok(())
}

/// What an opening behind a crash reads before the first answer.
fn openings(keys: u64) -> Result<(), BenchError> {
    println!(
        "\nopening behind a crash\n\n| tree | leaves | pool lines read a leaf | media B read a leaf | a key |\n\
         |---|---|---|---|---|"
    );
    for tree in TREES {
        let mut counted = load::design(tree, scaled_caches(keys, REFERENCE), keys, 1)?.tree;
        let leaves = counted.leaves()? as f64;
        let tally = counted.crash_and_recover()?.recovery();
        let bytes = tally.media_read_bytes as f64;
        println!(
            "| {tree} | {leaves} | {:.2} | {:.0} | {:.1} |",
            tally.pool_lines_read as f64 / leaves,
            bytes / leaves,
            bytes / keys as f64
        );
    }
    Ok(())
}

fn main() -> Result<(), BenchError> {
    let keys = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200_000);
    println!("{keys} random keys of 8 bytes, values of 8 bytes, one thread, seed 1");
    for domain in [Domain::Adr, Domain::Eadr] {
        table(domain, keys)?;
    }
    openings(keys)
}
