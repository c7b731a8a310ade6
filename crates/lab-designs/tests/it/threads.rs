//! Threads that update the same keys, counted.

use everleaf_bench::Distribution;
use everleaf_lab_designs::count::threads::{by_leaf, contend};

#[test]
fn every_thread_counts_its_own_updates_and_nothing_is_lost() {
    for design in ["nbtree", "fast-fair", "rntree", "fptree"] {
        let skewed = Distribution::Zipfian { theta: 0.99 };
        let contention = contend(design, 2, 500, 400, skewed, 1).unwrap();
        assert_eq!(contention.tally.operations, 800, "{design}");
        assert!(contention.tally.flushes >= 800, "{design}");
        let met: u64 = contention.by_leaf.iter().sum();
        assert!(met <= contention.tally.refused + contention.tally.spins, "{design}");
        assert!(contention.by_leaf.len() as u64 <= contention.leaves, "{design}");
    }
}

#[test]
fn meetings_are_added_up_by_runs_of_keys_as_long_as_a_leaf() {
    let all = vec![50, 10, 20, 30, 40, 60, 70];
    assert_eq!(by_leaf(all.clone(), &[10, 30, 20, 50, 50, 40, 60], 2), [4, 3]);
    assert_eq!(by_leaf(all.clone(), &[70, 70], 7), [2]);
    assert_eq!(by_leaf(all, &[], 1), [0; 0]);
}
