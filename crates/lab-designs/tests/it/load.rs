//! Operations on trees with many keys, counted.

use everleaf_bench::Distribution;
use everleaf_lab_designs::count::load::design;
use everleaf_lab_designs::count::{CountedOperation, scaled_caches};
use everleaf_machine::simulated::Domain;
use everleaf_machine::simulated::counting::{CountingConfig, Tally};

/// Hot lines are flushed again and again, or written to the medium once.
#[test]
fn persistent_caches_gather_the_writes_of_hot_keys() {
    let written = |domain| {
        let config = CountingConfig { domain, ..CountingConfig::default() };
        let mut loaded = design("fptree", config, 5000, 1).unwrap();
        let skewed = Distribution::Zipfian { theta: 0.99 };
        let (tally, written) = loaded.read_and_update(skewed, 8000).unwrap();
        assert_eq!(tally.operations, 8000);
        written
    };
    let (flushed, kept) = (written(Domain::Adr), written(Domain::Eadr));
    assert!(kept > 0 && flushed > 3 * kept, "{flushed} and {kept}");
}

#[test]
fn operations_on_a_loaded_tree_are_counted_without_its_inserts() {
    let mut loaded = design("rntree", CountingConfig::default(), 2000, 3).unwrap();
    for operation in [CountedOperation::Get, CountedOperation::GetAbsent, CountedOperation::Remove]
    {
        loaded.perform(operation, 100).unwrap();
        assert_eq!(loaded.tree.tally(operation).operations, 100);
    }
    loaded.perform(CountedOperation::Scan(10), 10).unwrap();
    assert_eq!(loaded.tree.tally(CountedOperation::Insert).operations, 2000);
    // Leaves of 62 entries split about every 43 inserts.
    let splits = loaded.tree.leaves().unwrap() - loaded.leaves_first;
    assert!((35..60).contains(&splits), "{splits}");
}

/// A search that is likely to find nothing does not ask for the entry; one that was wrong about it is the last.
#[test]
fn absent_keys_of_hashed_leaves_cost_no_entry() {
    let config = scaled_caches(20_000, 10e6);
    let mut loaded = design("hashed-leaf", config, 20_000, 1).unwrap();
    loaded.perform(CountedOperation::GetAbsent, 1000).unwrap();
    loaded.perform(CountedOperation::Get, 1000).unwrap();
    let per = |operation, sum: fn(&Tally) -> u64| {
        let tally = loaded.tree.tally(operation);
        tally.per_operation(sum(&tally))
    };
    let (absent, present) = (CountedOperation::GetAbsent, CountedOperation::Get);
    let lines = |tally: &Tally| tally.prefetches;
    let saved = per(present, lines) - per(absent, lines);
    assert!((0.95..1.0).contains(&saved), "{saved}");
    // A fingerprint of another key sends it to an entry now and then, and the first ones asked for theirs.
    let missed = per(absent, |tally| tally.pool_misses);
    assert!(missed < 0.2, "{missed}");
    assert!(per(present, |tally| tally.pool_misses) > 0.8);
}
