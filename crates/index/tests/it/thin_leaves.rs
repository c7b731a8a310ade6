//! Thin leaves that removals from a full pool have to leave.

use everleaf_index::{CreateMode, Domain, Hardware, Pool, PoolOptions, Session, Trees};

const KEYS: u64 = 20_000;

/// While all free blocks are held by somebody else no leaf is merged; then all are.
fn thin_leaves_are_merged(hashes: bool) {
    let pool = Pool::in_memory(1 << 20, 4 << 20, Domain::Process).expect("memory");
    let trees: Trees = Trees::create(pool).expect("room");
    let class = if hashes { 2 } else { 0 };
    if hashes {
        trees.make_hashed_leaves().expect("writable");
    }
    let tree = trees.u64_tree("numbers").expect("room");
    let mut session = trees.heap().session().expect("a session");
    let leaves = |session: &mut Session<Hardware>| tree.shape(session).expect("a tree").leaves;
    let of_empty = leaves(&mut session);
    for key in 0..KEYS {
        assert_eq!(tree.insert(&mut session, key, key).expect("room"), None);
    }
    session.collect_all();
    session.give_back();
    let mut hoarder = trees.heap().session().expect("a session");
    let hoard: Vec<u32> = std::iter::from_fn(|| hoarder.allocate_block_of(class).ok()).collect();
    let of_full = leaves(&mut session);
    for key in 0..KEYS {
        assert_eq!(tree.remove(&mut session, key).expect("no space is needed"), Some(key));
    }
    assert_eq!(leaves(&mut session), of_full, "there was no space to merge any");

    let (freed, kept) = hoard.split_at(2);
    freed.iter().for_each(|block| hoarder.free_block_of(class, *block));
    hoarder.give_back();
    let (mut questions, mut merged) = (0, 0);
    trees.merge_thin(0, &mut |new| {
        trees.merge_thin(0, &mut |_| unreachable!("one at a time"));
        assert!(new <= 256, "others may use what was freed");
        (questions, merged) = (questions + 1, merged + new as u64);
        true
    });
    assert_eq!((leaves(&mut session), merged), (of_empty, of_full - of_empty));
    assert!(questions > 1, "it is asked also where nothing was merged");
    trees.merge_thin(0, &mut |_| unreachable!("nothing is left to be merged"));

    kept.iter().for_each(|block| hoarder.free_block_of(class, *block));
    drop((session, hoarder));
    assert_eq!(trees.check().expect("a check").problems, Vec::<String>::new());
}

#[test]
fn thin_leaves_of_a_full_pool_are_merged_later() {
    thin_leaves_are_merged(false);
}

#[test]
fn thin_hashed_leaves_of_a_full_pool_are_merged_later() {
    thin_leaves_are_merged(true);
}

/// What was lost: a thread that merges thin leaves passed those that opening at once had left, and noted that all were
/// gone through; they stayed for good.
#[test]
fn thin_leaves_that_opening_has_left_are_merged_when_restored() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = || {
        let (create, domain) = (CreateMode::IfMissing, Some(Domain::Process));
        let options = PoolOptions { create, domain, max_size_bytes: 4 << 20, ..Default::default() };
        Pool::open(&folder.path().join("pool"), &options).expect("the pool")
    };
    let of_full = {
        let trees: Trees = Trees::create(pool()).expect("room");
        trees.make_hashed_leaves().expect("writable");
        let tree = trees.u64_tree("numbers").expect("room");
        let mut session = trees.heap().session().expect("a session");
        for key in 0..KEYS {
            tree.insert(&mut session, key, key).expect("room");
        }
        session.collect_all();
        session.give_back();
        let mut hoarder = trees.heap().session().expect("a session");
        while hoarder.allocate_block_of(2).is_ok() {}
        for key in 0..KEYS {
            tree.remove(&mut session, key).expect("no space is needed");
        }
        tree.shape(&mut session).expect("a tree").leaves
    };
    let trees: Trees = Trees::open_at_once(pool(), 1).expect("the trees");
    assert!(trees.unrestored() > 50);
    trees.merge_thin(0, &mut |_| true);
    trees.reclaim_opening();
    trees.merge_thin(0, &mut |_| true);
    let mut session = trees.heap().session().expect("a session");
    let tree = trees.find_u64_tree("numbers").expect("integers").expect("there");
    let left = tree.shape(&mut session).expect("a tree").leaves;
    assert!(left < of_full / 4, "{left} of {of_full} leaves are left");
    drop(session);
    assert_eq!(trees.check().expect("a check").problems, Vec::<String>::new());
}

/// Leaves that have twenty neighbours each at last, removed from behind: in scaled leaves these are in one chunk, and
/// no removal saw that its leaf was thin.
#[test]
fn thin_leaves_whose_keys_are_in_one_chunk_are_merged() {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
    let trees: Trees = Trees::create(pool).expect("room");
    trees.make_hashed_leaves().expect("writable");
    let tree = trees.u64_tree("numbers").expect("room");
    let mut session = trees.heap().session().expect("a session");
    for key in 0..KEYS {
        tree.insert(&mut session, key, key).expect("room");
    }
    // One for each class besides.
    let leaves = |session: &mut Session<Hardware>| tree.shape(session).expect("a tree").leaves - 7;
    let before = leaves(&mut session);
    // Nine tenths of a full leaf and the key that splits it.
    let in_leaf = 230;
    assert_eq!(before, KEYS.div_ceil(in_leaf));
    for key in (0..KEYS).rev().filter(|key| key % in_leaf >= 20) {
        tree.remove(&mut session, key).expect("no room needed");
    }
    let after = leaves(&mut session);
    assert!(after * 2 < before, "{after} of {before} leaves are left");
    drop(session);
    assert_eq!(trees.check().expect("a check").problems, Vec::<String>::new());
}
