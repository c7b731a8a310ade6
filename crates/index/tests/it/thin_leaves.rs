//! Thin leaves that removals from a full pool have to leave.

use everleaf_index::{Domain, Hardware, Pool, Session, Trees};

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
