//! Bw-tree: what is different without a pool.

use everleaf_designs::BwTree;
use everleaf_index::{
    CreateMode, Domain, IndexError, OrderedIndex, Pool, PoolOptions, SingleTreePool,
};

use super::common::open;

/// As published, but for the removal of pages: one that became empty is still there, and found.
#[test]
fn pages_that_became_empty_stay_and_are_used_again() {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
    let single: SingleTreePool<BwTree> = SingleTreePool::create(pool).expect("room");
    let mut session = single.heap().session().expect("a free session");
    let mut leaves = vec![];
    for _ in 0..2 {
        for key in 0..20_000 {
            assert_eq!(single.tree().insert(&mut session, key, key).expect("memory"), None);
        }
        for key in 0..20_000 {
            assert_eq!(single.tree().remove(&mut session, key).expect("memory"), Some(key));
        }
        leaves.push(single.tree().shape(&mut session).expect("a shape").leaves);
    }
    assert!(leaves[0] > 200 && leaves[0] == leaves[1], "{leaves:?}");
    drop(session);
    assert_eq!(single.check().expect("a check").problems, Vec::<String>::new());
}

#[test]
fn a_pool_that_had_one_is_refused_with_a_sentence() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    drop(open::<BwTree>(&path, CreateMode::New));
    let pool = Pool::open(&path, &PoolOptions::default()).expect("the pool itself is whole");
    let error = SingleTreePool::<BwTree>::open(pool, 1).err().expect("nothing is left");
    assert!(matches!(error, IndexError::Volatile("bw-tree")), "{error}");
}
