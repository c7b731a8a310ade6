//! BzTree as the other designs are tested, and what it does without descriptors.

use everleaf_alloc::AllocError;
use everleaf_designs::BzTree;
use everleaf_designs::bztree::variant::{Compact, Small};
use everleaf_index::{
    CreateMode, Domain, IndexError, OrderedIndex, Pool, PoolOptions, SingleTreePool,
};

use super::hybrid_trees::{one_thread, open, reopened, shared};

#[test]
fn agrees_with_a_btreemap() {
    one_thread::<BzTree>(3000, 30_000);
    one_thread::<BzTree<Compact>>(40, 8_000);
}

#[test]
fn agrees_with_a_btreemap_in_small_nodes() {
    one_thread::<BzTree<Small<2>>>(40, 8_000);
    one_thread::<BzTree<Small<3, 4>>>(300, 8_000);
}

#[test]
fn survives_being_closed_and_opened() {
    reopened::<BzTree>();
}

#[test]
fn threads_share_it() {
    shared::<BzTree>(300, 10_000);
    shared::<BzTree<Small<3, 64>>>(30, 5_000);
}

/// A thread that stands still in an operation keeps all descriptors from being used again that were used since.
#[test]
fn writes_are_refused_when_no_descriptor_becomes_free_and_go_on_afterwards() {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
    let solo: SingleTreePool<BzTree<Small<9, 8>>> = SingleTreePool::create(pool).expect("room");
    let mut still = solo.heap().session().expect("a free session");
    let mut session = solo.heap().session().expect("a free session");
    still.pin();
    let mut done = 0;
    let error = loop {
        match solo.tree().insert(&mut session, done, done + 100) {
            Ok(_) => done += 1,
            Err(error) => break error,
        }
        assert!(done < 8, "an insert takes two descriptors");
    };
    assert!(matches!(error, IndexError::Alloc(AllocError::DescriptorsInUse(8))), "{error}");
    assert!(error.to_string().contains("all 8 descriptors"), "{error}");
    // Nothing was changed, and reads need none.
    assert_eq!(solo.tree().get(&mut session, done).expect("get"), None);
    assert_eq!(solo.tree().len(&mut session).expect("len"), done);
    still.unpin();
    for key in done..50 {
        assert_eq!(solo.tree().insert(&mut session, key, key + 100).expect("room"), None);
    }
    drop((still, session));
    assert_eq!(solo.check().expect("a check").problems, Vec::<String>::new());
}

#[test]
fn a_tree_opened_read_only_is_searched_and_scanned() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    {
        let solo = open::<BzTree>(&path, CreateMode::New);
        let mut session = solo.heap().session().expect("a free session");
        for key in 0..1000 {
            solo.tree().insert(&mut session, key * 3, key).expect("room");
        }
        solo.tree().remove(&mut session, 600).expect("a descriptor");
    }
    let options =
        PoolOptions { read_only: true, create: CreateMode::Never, ..PoolOptions::default() };
    let pool = Pool::open(&path, &options).expect("a pool");
    let solo = SingleTreePool::<BzTree>::open(pool, 1).expect("a tree");
    let mut session = solo.heap().session().expect("a free session");
    for key in 0..1000 {
        let value = Some(key).filter(|key| *key != 200);
        assert_eq!(solo.tree().get(&mut session, key * 3).expect("get"), value);
        assert_eq!(solo.tree().get(&mut session, key * 3 + 1).expect("get"), None);
    }
    let (mut up, mut down) = (vec![], vec![]);
    solo.tree().scan(&mut session, 599, 2, &mut up).expect("scan");
    solo.tree().scan_back(&mut session, 602, 2, &mut down).expect("scan");
    assert_eq!((up, down), (vec![(603, 201), (606, 202)], vec![(597, 199), (594, 198)]));
    assert!(matches!(solo.tree().insert(&mut session, 1, 1), Err(IndexError::ReadOnly)));
}

/// A link that leads nowhere is refused before recovery has changed anything.
#[test]
fn a_tree_with_a_damaged_link_is_refused_as_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let first_key = 0x5EED_0000_0000_0000_u64;
    {
        let solo = open::<BzTree<Small<3>>>(&path, CreateMode::New);
        let mut session = solo.heap().session().expect("a free session");
        for key in 0..30 {
            solo.tree().insert(&mut session, first_key + key * 2, key).expect("room");
        }
    }
    let mut damaged = std::fs::read(&path).expect("readable");
    let tag = damaged.windows(8).position(|word| word == b"EVLPBZT1").expect("an anchor");
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
