//! Operations on trees with many keys, counted.

use everleaf_bench::Distribution;
use everleaf_lab_designs::count::CountedOperation;
use everleaf_lab_designs::count::load::design;
use everleaf_machine::simulated::Domain;
use everleaf_machine::simulated::counting::CountingConfig;

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

/// A fingerprint of another key sends a search to an entry only where the key itself could be: of all in a chunk, one
/// search in six would read one.
#[test]
fn absent_keys_of_hashed_leaves_cost_no_entry() {
    let mut loaded = design("hashed-leaf", CountingConfig::default(), 20_000, 1).unwrap();
    for (operation, expected) in
        [(CountedOperation::GetAbsent, 0.0..0.05), (CountedOperation::Get, 1.0..1.1)]
    {
        loaded.perform(operation, 2000).unwrap();
        let tally = loaded.tree.tally(operation);
        let lines = tally.per_operation(tally.pool_lines_read);
        assert!(expected.contains(&lines), "{lines} lines for {}", operation.name());
    }
}
