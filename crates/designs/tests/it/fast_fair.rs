//! FAST & FAIR: what it gives back and refuses, a pool that is opened at once, and leaves that are split without a log.

use everleaf_designs::FastFair;
use everleaf_designs::fast_fair::variant::{Buffered, OutOfPlace, Variant};
use everleaf_index::{
    CreateMode, Domain, IndexError, OrderedIndex, Pool, PoolOptions, SingleTreePool,
};

use super::common::{Model, assert_same, new_single};

const VALUE_MAX: u64 = (1 << 56) - 1;

fn clean<V: Variant>(single: &SingleTreePool<FastFair<V>>) {
    assert_eq!(single.check().expect("check").problems, Vec::<String>::new());
}

#[test]
fn an_emptied_tree_has_given_its_nodes_back() {
    let single = new_single::<FastFair>(Domain::Process);
    let mut session = single.heap().session().expect("a free session");
    let tree = single.tree();
    for key in 0..50_000 {
        tree.insert(&mut session, key, key).expect("room");
    }
    let full = tree.shape(&mut session).expect("shape");
    assert!(full.height >= 4 && full.leaves > 1700, "{full:?}");
    for key in 0..50_000 {
        tree.remove(&mut session, key).expect("remove");
    }
    let empty = tree.shape(&mut session).expect("shape");
    assert!(empty.height == 1 && empty.leaves == 1, "{empty:?}");
}

#[test]
fn a_value_of_more_than_56_bits_is_refused() {
    let single = new_single::<FastFair>(Domain::Process);
    let mut session = single.heap().session().expect("a free session");
    let refused = single.tree().insert(&mut session, 1, VALUE_MAX + 1);
    assert!(matches!(refused, Err(IndexError::ValueOutOfRange(value)) if value == VALUE_MAX + 1));
    assert_eq!(single.tree().get(&mut session, 1).expect("get"), None);
}

#[test]
fn a_pool_opened_at_once_uses_its_free_space_after_a_sweep() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let options = PoolOptions { create: CreateMode::IfMissing, ..PoolOptions::default() };
    let open = || Pool::open(&path, &options).expect("the pool");
    let single: SingleTreePool<FastFair> = SingleTreePool::create(open()).expect("room");
    let mut session = single.heap().session().expect("a free session");
    for key in 0..20_000 {
        single.tree().insert(&mut session, key, 1).expect("room");
    }
    for key in 0..20_000 {
        if key % 64 != 0 {
            single.tree().remove(&mut session, key).expect("remove");
        }
    }
    drop(session);
    drop(single);

    let single: SingleTreePool<FastFair> = SingleTreePool::open_at_once(open()).expect("the tree");
    let mut session = single.heap().session().expect("a free session");
    let used = single.heap().used_bytes();
    for key in 0..2000 {
        assert_eq!(
            single.tree().upsert(&mut session, key * 64, 2).expect("room").is_some(),
            key < 313
        );
    }
    assert!(single.heap().used_bytes() > used, "old space was used before it was known to be free");
    assert_eq!(single.sweep().expect("no damage"), None, "the session may hold anything");
    drop(session);
    let found = single.sweep().expect("no damage").expect("nobody has a session");
    assert!(found > 500, "{found}");
    clean(&single);
    assert_eq!(single.check().expect("check").keys, 2000);
    assert_eq!(single.sweep().expect("no damage"), Some(0));
}

/// When the log found no space, a write went to its leaf. A leaf that was split then began with number 0, though
/// it said that it had all up to its half's: what was logged for it later, by a thread whose log had room, was
/// taken for old after a crash. Acknowledged writes were lost.
#[test]
fn what_is_logged_for_leaves_split_without_a_log_survives() {
    fn run<V: Variant>() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let options = PoolOptions {
            create: CreateMode::IfMissing,
            initial_size_bytes: 2 << 20,
            max_size_bytes: 2 << 20,
            ..PoolOptions::default()
        };
        let pool = Pool::open(&path, &options).expect("a new pool");
        let single: SingleTreePool<FastFair<V>> =
            SingleTreePool::create_with_chunks(pool, 16).expect("room");
        let tree = single.tree();
        let mut one = single.heap().session().expect("a free session");
        let mut other = single.heap().session().expect("a free session");
        let mut model = Model::new();
        for key in 1..=100 {
            tree.upsert(&mut one, key * 10, key).expect("room");
            model.insert(key * 10, key);
        }
        // Nobody gets another chunk for a log, which is as large as one of the pool.
        let mut taken = vec![];
        while let Ok(place) = other.allocate_record(1 << 16) {
            taken.push(place);
        }
        let leaves = tree.shape(&mut other).expect("shape").leaves;
        for key in (1..1000).filter(|key| key % 10 != 0 && key % 2 == 0) {
            tree.upsert(&mut other, key, key)
                .expect("its leaf is durable, and has room or is split");
            model.insert(key, key);
        }
        let split = tree.shape(&mut other).expect("shape").leaves - leaves;
        assert!(split > 10, "{split} leaves were split");
        for place in taken {
            other.free_record(place, 1 << 16);
        }
        // So few of each leaf that its buffer has room.
        for (key, value) in model.iter_mut().step_by(9) {
            *value += 1;
            tree.upsert(&mut one, *key, *value).expect("its log has room");
        }
        drop((one, other));
        clean(&single);
        // As the death of the process.
        drop(single);
        let pool = Pool::open(&path, &options).expect("the pool");
        let single: SingleTreePool<FastFair<V>> = SingleTreePool::open(pool, 1).expect("the tree");
        assert_same(&single, &model);
    }
    run::<Buffered>();
    run::<OutOfPlace>();
}
