//! Every design counted.

use everleaf_designs::catalogue;
use everleaf_index::Reads;
use everleaf_lab_designs::count::load::design;
use everleaf_lab_designs::count::{Counted, CountedOperation, pool_bytes, scaled_caches};
use everleaf_machine::simulated::Domain;
use everleaf_machine::simulated::counting::{Counting, CountingConfig};

#[test]
fn every_design_can_be_counted_and_finds_what_it_was_given() {
    for info in catalogue::designs() {
        let name = info.name;
        let mut tree = Counted::new(name, CountingConfig::default(), pool_bytes(10)).unwrap();
        for key in 1..=3 {
            tree.fill(key * 1000).unwrap();
        }
        tree.count(CountedOperation::Insert, 1500).unwrap();
        tree.count(CountedOperation::Update, 2000).unwrap();
        tree.count(CountedOperation::Remove, 1000).unwrap();
        tree.count(CountedOperation::Get, 1500).unwrap();
        tree.count(CountedOperation::GetAbsent, 1000).unwrap();
        for operation in CountedOperation::SINGLE {
            assert_eq!(tree.tally(operation).operations, 1, "{name} {operation:?}");
        }
        assert!(tree.count(CountedOperation::Get, 1000).is_err(), "{name}");
        if info.reads == Reads::Volatile {
            for operation in CountedOperation::SINGLE {
                let tally = tree.tally(operation);
                let touched = [tally.flushes, tally.drains, tally.pool_lines_read];
                assert_eq!(touched, [0; 3], "{name} {operation:?}");
            }
            assert!(tree.crash_and_recover().is_err(), "{name}");
            continue;
        }
        let defers = info.reads == Reads::Deferred;
        assert_eq!(tree.tally(CountedOperation::Insert).flushes == 0, defers, "{name}");
        let mut tree = tree.crash_and_recover().unwrap();
        assert!(tree.recovery().pool_lines_read > 0, "{name}");
        // A tree that defers had all of it in DRAM.
        assert_eq!(tree.count(CountedOperation::Get, 3000).is_err(), defers, "{name}");
    }
}

/// Nodes in DRAM share the caches with the pool, so counts used to depend on where the heap put them.
#[test]
fn counts_are_the_same_whatever_the_heap_is_like() {
    const KEYS: u64 = 600;
    // Nodes in DRAM, tables, fields that lie anywhere, and logs.
    let designs = ["nbtree-published", "hashed-leaf-2k", "f3-tree-100", "sptree-buffered"];
    for name in designs {
        let count = || {
            let config = CountingConfig { domain: Domain::Eadr, ..scaled_caches(KEYS, 16e6) };
            let mut loaded = design(name, config, KEYS, 1).unwrap();
            loaded.perform(CountedOperation::Remove, KEYS / 2).unwrap();
            let rest = loaded.tree.write_back_all();
            let kinds = [CountedOperation::Insert, CountedOperation::Remove];
            (kinds.map(|operation| loaded.tree.tally(operation)), rest)
        };
        let first = count();
        // Holes of all sizes, of which the next tree takes some.
        let piece = |number: usize| Some(vec![0_u8; 16 + number * 7919 % 2000]);
        let mut pieces: Vec<_> = (0..4000).map(piece).collect();
        pieces.iter_mut().step_by(3).for_each(|piece| *piece = None);
        assert_eq!(count(), first, "{name}");
        drop(pieces);
    }
}

#[test]
fn caches_shrink_with_the_tree() {
    let whole = scaled_caches(16_000_000, 16e6);
    let small = scaled_caches(160_000, 16e6);
    assert!(whole.l3.bytes > 41_000_000 && small.l3.bytes < 430_000, "{small:?}");
    // A machine can be made of them.
    Counting::new(small, 64);
    Counting::new(scaled_caches(1, 16e6), 64);
}
