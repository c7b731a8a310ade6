//! What an evaluation of the F3-tree costs in the pool, exactly: key by key, and as a leaf.

use everleaf_designs::F3Tree;
use everleaf_designs::f3tree::variant::{Nodes500, Objects500, Variant};
use everleaf_index::{OrderedIndex, SingleTreePool};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::counting::{Counting, CountingConfig};
use everleaf_prove::machine::backing::new_pool_up_to;

type M = Simulated;

const POOL: usize = 16 << 20;

/// Ascending keys of an evaluation: as many as a leaf of the global tree holds.
const KEYS: u64 = 28;

/// Flushes and drains of the third evaluation of so many ascending keys, and the leaves afterwards.
fn evaluated<V: Variant>() -> ((u64, u64), u64) {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let pool = new_pool_up_to(counting.memory(), POOL as u64).expect("memory becomes a pool");
    let tree_pool: SingleTreePool<F3Tree<V, M>, M> = SingleTreePool::create(pool).expect("room");
    let (tree, mut session) = (tree_pool.tree(), tree_pool.heap().session().expect("a session"));
    for round in 0..3 {
        for key in 1..=KEYS {
            tree.insert(&mut session, round * KEYS + key, key).expect("room");
        }
        let kind = if round == 2 { "evaluate" } else { "before" };
        let count = counting.operation(kind, || tree.evaluate(&mut session).expect("room"));
        assert_eq!(count as u64, KEYS);
    }
    let leaves = tree.shape(&mut session).expect("a shape").leaves;
    let tally = counting.tally("evaluate");
    ((tally.flushes, tally.drains), leaves)
}

#[test]
fn a_run_of_keys_is_one_leaf_and_two_links() {
    // The leaf's eight lines, its left neighbour's link, its separator, and the word that frees the
    // entries, each with a drain.
    assert_eq!(evaluated::<Nodes500>(), ((8 + 1 + 1 + 1, 4), 3));
    // Key by key: a line for each, and one for the word; two splits of the three leaves' worth.
    let ((flushes, drains), leaves) = evaluated::<Objects500>();
    assert!(flushes > KEYS && drains > KEYS && leaves > 3, "{flushes}, {drains}, {leaves}");
}
