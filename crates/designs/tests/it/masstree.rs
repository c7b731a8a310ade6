//! Masstree: what is different without a pool.

use everleaf_designs::Masstree;
use everleaf_index::{CreateMode, IndexError, OrderedIndex, Pool, PoolOptions, SingleTreePool};

use super::common::open;

/// Keys that come in order fill nodes, and nodes that become empty go, but for the first of each parent.
#[test]
fn a_window_that_slides_leaves_few_nodes_behind() {
    let pool = Pool::in_memory(1 << 20, 1 << 30, everleaf_index::Domain::Process).expect("memory");
    let single: SingleTreePool<Masstree> = SingleTreePool::create(pool).expect("room");
    let mut session = single.heap().session().expect("a free session");
    for key in 0..150_000 {
        assert_eq!(single.tree().insert(&mut session, key, key).expect("memory"), None);
    }
    assert_eq!(single.tree().shape(&mut session).expect("a shape").leaves, 10_000);
    for key in 0..149_000 {
        assert_eq!(single.tree().remove(&mut session, key).expect("memory"), Some(key));
    }
    let shape = single.tree().shape(&mut session).expect("a shape");
    assert_eq!(shape.keys, 1000);
    assert!(shape.leaves < 10_000 / 7, "{} leaves are left", shape.leaves);
    drop(session);
    assert_eq!(single.check().expect("a check").problems, Vec::<String>::new());
}

#[test]
fn a_pool_that_had_one_is_refused_with_a_sentence() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    drop(open::<Masstree>(&path, CreateMode::New));
    let pool = Pool::open(&path, &PoolOptions::default()).expect("the pool itself is whole");
    let error = SingleTreePool::<Masstree>::open(pool, 1).err().expect("nothing is left");
    assert!(matches!(error, IndexError::Volatile("masstree")), "{error}");
    assert!(error.to_string().contains("kept in DRAM"), "{error}");
}
