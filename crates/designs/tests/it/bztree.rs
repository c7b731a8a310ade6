//! BzTree: what it does without descriptors, in a full pool and with damage.

use std::sync::Arc;

use everleaf_alloc::AllocError;
use everleaf_designs::BzTree;
use everleaf_designs::bztree::variant::Small;
use everleaf_index::{
    CreateMode, Design, Domain, IndexError, OrderedIndex, Pool, PoolOptions, SingleTreePool,
};

use super::common::open;

/// A thread that stands still in an operation keeps all descriptors from being used again that were used since.
#[test]
fn writes_are_refused_until_a_descriptor_becomes_free() {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
    let single: SingleTreePool<BzTree<Small<9, 8>>> = SingleTreePool::create(pool).expect("room");
    let mut still = single.heap().session().expect("a free session");
    let mut session = single.heap().session().expect("a free session");
    still.pin();
    let mut done = 0;
    let error = loop {
        match single.tree().insert(&mut session, done, done + 100) {
            Ok(_) => done += 1,
            Err(error) => break error,
        }
        assert!(done < 8, "an insert takes two descriptors");
    };
    assert!(matches!(error, IndexError::Alloc(AllocError::DescriptorsInUse(8))), "{error}");
    assert!(error.to_string().contains("all 8 descriptors"), "{error}");
    // Nothing was changed, and reads need none.
    assert_eq!(single.tree().get(&mut session, done).expect("get"), None);
    assert_eq!(single.tree().len(&mut session).expect("len"), done);
    still.unpin();
    for key in done..50 {
        assert_eq!(single.tree().insert(&mut session, key, key + 100).expect("room"), None);
    }
    drop((still, session));
    assert_eq!(single.check().expect("a check").problems, Vec::<String>::new());
}

/// A scan has a pin for each leaf, so that it keeps few descriptors from being used again.
#[test]
fn writes_go_on_beside_scans_without_end() {
    const KEYS: u64 = 60_000;
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
    let single: SingleTreePool<BzTree<Small<9, 32>>> = SingleTreePool::create(pool).expect("room");
    let mut session = single.heap().session().expect("a free session");
    for key in 0..KEYS {
        single.tree().insert(&mut session, key, key).expect("room");
    }
    let writing = Arc::new(());
    let watch = Arc::downgrade(&writing);
    let single = &single;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut session = single.heap().session().expect("a free session");
            while watch.strong_count() > 0 {
                let mut pairs = vec![];
                single.tree().scan(&mut session, 0, usize::MAX, &mut pairs).expect("scan");
                assert!(pairs.len() as u64 >= KEYS);
                pairs.clear();
                single
                    .tree()
                    .scan_back(&mut session, u64::MAX, usize::MAX, &mut pairs)
                    .expect("scan");
                assert!(pairs.len() as u64 >= KEYS);
                assert!(single.tree().shape(&mut session).expect("a shape").leaves > KEYS / 9);
            }
        });
        let written: Vec<_> =
            (0..10_000).map(|key| single.tree().upsert(&mut session, key * 7, key)).collect();
        drop(writing);
        let refused: Vec<_> = written.into_iter().filter_map(Result::err).collect();
        assert!(refused.is_empty(), "{} refused: {}", refused.len(), refused[0]);
    });
}

/// A tree that fills its pool, another one in there, and keys in the order in which they were added.
fn full() -> (SingleTreePool<BzTree>, BzTree<Small<42>>, Vec<u64>) {
    let pool = Pool::in_memory(1 << 20, 1 << 20, Domain::Process).expect("memory");
    let single: SingleTreePool<BzTree> =
        SingleTreePool::create_with_chunks(pool, 14).expect("room");
    let mut session = single.heap().session().expect("a free session");
    let other = <BzTree<Small<42>> as Design>::create(&mut session).expect("room");
    let mut keys = vec![];
    loop {
        let key = keys.len() as u64 * 7919 % 1_000_003;
        match single.tree().insert(&mut session, key, key) {
            Ok(_) => keys.push(key),
            Err(error) => {
                assert!(error.lacks_space(), "{error}");
                break;
            }
        }
    }
    drop(session);
    assert!(keys.len() > 5000, "{} keys", keys.len());
    (single, other, keys)
}

#[test]
fn a_full_pool_gets_its_room_back_by_removals() {
    for order in 0..3 {
        let (single, other, keys) = full();
        let (tree, mut session) = (single.tree(), single.heap().session().expect("a free session"));
        let mut going = keys.clone();
        match order {
            0 => going.sort_unstable(),
            1 => going.sort_unstable_by_key(|key| std::cmp::Reverse(*key)),
            _ => {}
        }
        for key in going {
            assert_eq!(tree.remove(&mut session, key).expect("no room needed"), Some(key));
        }
        let leaves = tree.shape(&mut session).expect("a shape").leaves;
        assert!(leaves < 5, "order {order}: {leaves} leaves without a key");
        // Another tree of the pool has it, too.
        for key in &keys[..keys.len() / 2] {
            assert_eq!(other.insert(&mut session, *key, 1).expect("room"), None);
        }
        other.free_all(&mut session);
        for key in &keys[..keys.len() * 9 / 10] {
            assert_eq!(tree.insert(&mut session, *key, *key).expect("room"), None);
        }
        drop(session);
        assert_eq!(single.check().expect("a check").problems, Vec::<String>::new());
    }
}

/// Nodes that the session has retired are used again, also those of a bag that is not full.
#[test]
fn writes_to_a_full_pool_take_the_nodes_that_they_have_replaced() {
    let (single, other, keys) = full();
    let (tree, mut session) = (single.tree(), single.heap().session().expect("a free session"));
    let mut sorted = keys;
    sorted.sort_unstable();
    for key in sorted.iter().skip(1).step_by(2) {
        assert_eq!(tree.remove(&mut session, *key).expect("no room needed"), Some(*key));
    }
    // Again and again, so that leaves are full of what is gone; no leaf has to be split.
    for round in 0..20 {
        for key in sorted.iter().skip(1).step_by(4) {
            let old = tree.insert(&mut session, *key, round).expect("no more room than there was");
            assert_eq!(old, None, "{key}");
            assert_eq!(tree.remove(&mut session, *key).expect("no room needed"), Some(round));
        }
    }
    other.free_all(&mut session);
    drop(session);
    assert_eq!(single.check().expect("a check").problems, Vec::<String>::new());
}

/// A link that leads nowhere is refused before recovery has changed anything.
#[test]
fn a_tree_with_a_damaged_link_is_refused_as_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let first_key = 0x5EED_0000_0000_0000_u64;
    {
        let single = open::<BzTree<Small<3>>>(&path, CreateMode::New);
        let mut session = single.heap().session().expect("a free session");
        for key in 0..30 {
            single.tree().insert(&mut session, first_key + key * 2, key).expect("room");
        }
    }
    let mut damaged = std::fs::read(&path).expect("readable");
    let tag = damaged.windows(8).position(|word| word == b"EVLPBZT1").expect("a root object");
    let root = u64::from_le_bytes(damaged[tag + 16..tag + 24].try_into().expect("a word"));
    // The root is an inner node: its second child.
    let link = root as usize + 16 + 16 + 8;
    damaged[link..link + 8].copy_from_slice(&40_u64.to_le_bytes());
    std::fs::write(&path, &damaged).expect("room");
    let pool = Pool::open(&path, &PoolOptions::default()).expect("the pool itself is whole");
    let error = SingleTreePool::<BzTree<Small<3>>>::open(pool, 1).err().expect("damage is refused");
    assert!(error.to_string().contains("no node of a tree can be here"), "{error}");
    let after = std::fs::read(&path).expect("readable");
    assert!(after[root as usize..][..64] == damaged[root as usize..][..64]);
}

/// A descriptor that says of a word what no value can be is damage, and recovery stores nothing of it.
#[test]
fn a_descriptor_with_a_value_that_is_none_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    {
        let single = open::<BzTree<Small<3>>>(&path, CreateMode::New);
        let mut session = single.heap().session().expect("a free session");
        single.tree().insert(&mut session, 0x5EED_0001, 77).expect("room");
    }
    let whole = std::fs::read(&path).expect("readable");
    let tag = whole.windows(8).position(|word| word == b"EVLPBZT1").expect("a root object");
    let word = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().expect("a word"));
    let (root, descriptor) = (word(tag + 16), word(tag + 24) as usize);
    // A leaf of three pairs: status, shape, metadata, a word that is not used, and the first pair.
    let value = root as usize + 48 + 8;
    assert_eq!((word(value - 8), word(value)), (0x5EED_0001, 77));
    let (pointer, marker) = (1_u64 << 62, 1_u64 << 61);
    for (link, old) in [(pointer, 1 << 61), (pointer, u64::MAX), (marker, 1 << 63), (1 << 63, 7)] {
        let mut damaged = whole.clone();
        let mut put = |at: usize, word: u64| {
            damaged[at..at + 8].copy_from_slice(&word.to_le_bytes());
        };
        // The first descriptor in its life 9, undecided, with one word.
        put(value, link | if link == pointer { 9 << 12 } else { 0 });
        for (index, word) in [9 << 3, 1, value as u64, old, 5].into_iter().enumerate() {
            put(descriptor + 8 * index, word);
        }
        std::fs::write(&path, &damaged).expect("room");
        let pool = Pool::open(&path, &PoolOptions::default()).expect("the pool itself is whole");
        let error = SingleTreePool::<BzTree<Small<3>>>::open(pool, 1).err().expect("damage");
        assert!(error.to_string().contains("leads to no descriptor of its own"), "{error}");
        let after = std::fs::read(&path).expect("readable");
        assert!(after[value..value + 8] == damaged[value..value + 8], "it was changed");
    }
}
