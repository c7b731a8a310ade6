//! The trees with buffers above their leaves: room in a full pool, what is restored in the background, and old logs.

use everleaf_designs::{SpTreeBuffered, SpTreeUnlogged};
use everleaf_index::{
    CreateMode, Design, Domain, OrderedIndex, Pool, Production, SingleTreePool, Tiny,
};

use super::common::{Model, open};

/// A leaf that is full, as is its buffer: with a key that is new, and with the removal of one that is there.
/// In a full pool the removal of another key was refused, because the new key was put in first.
fn removals_make_room<T: Design>(in_leaf: &[u64], new: u64) {
    let pool = Pool::in_memory(1 << 18, 1 << 18, Domain::Process).expect("memory");
    let single: SingleTreePool<T> = SingleTreePool::create_with_chunks(pool, 14).expect("room");
    let (tree, mut session) = (single.tree(), single.heap().session().expect("a free session"));
    let mut model = Model::new();
    for key in in_leaf {
        tree.insert(&mut session, *key, key + 100).expect("room");
        model.insert(*key, key + 100);
    }
    tree.persist_deferred(&mut session).expect("room");
    tree.insert(&mut session, new, 7).expect("room");
    model.insert(new, 7);
    tree.remove(&mut session, in_leaf[0]).expect("room");
    session.collect_all();
    for size in (1..=256).rev().map(|lines| lines * 64) {
        while session.allocate_record(size).is_ok() {}
    }
    for key in &in_leaf[..2] {
        let removed = tree.remove(&mut session, *key).expect("the first removal makes room");
        assert_eq!(removed.is_some(), *key != in_leaf[0]);
        model.remove(key);
    }
    for key in in_leaf.iter().chain([&new]) {
        assert_eq!(tree.get(&mut session, *key).expect("get"), model.get(key).copied());
    }
}

#[test]
fn a_full_pool_has_the_room_that_removals_in_a_buffer_make() {
    use everleaf_designs::cceh::variant as cceh;
    use everleaf_designs::fast_fair::variant::Small;
    use everleaf_designs::{Cceh, FastFair};
    removals_make_room::<FastFair<Small<3, 1, 9>>>(&[1, 2, 3], 4);
    removals_make_room::<FastFair<Small<3, 1, 11>>>(&[1, 2, 3], 4);
    // All in one part of the buffer of one segment.
    removals_make_room::<Cceh<cceh::Small<1, 2, 1, 9>>>(&[2, 4], 7);
    removals_make_room::<Cceh<cceh::Small<1, 2, 1, 11>>>(&[2, 4], 7);
    removals_make_room::<SpTreeUnlogged<Tiny<7, 3>>>(&[1, 2, 3, 4, 5, 6, 7], 8);
}

#[test]
fn buffers_are_restored_in_the_background() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let single = open::<SpTreeBuffered<Production>>(&path, CreateMode::New);
    let mut session = single.heap().session().expect("a free session");
    for number in 0..5000 {
        // In no order, so that most leaves have something in their buffers.
        let key = number * 7919 % 5000;
        single.tree().insert(&mut session, key * 7, key).expect("room");
    }
    drop(session);
    drop(single);
    let single = open::<SpTreeBuffered<Production>>(&path, CreateMode::Never);
    let tree = single.tree();
    let mut session = single.heap().session().expect("a free session");
    let all = tree.unrestored();
    assert!(all > 5 && tree.log_bytes() > 0, "{all} buffers");
    let (mut from, mut left) = (Some(0), all);
    let mut damaged = vec![];
    while let Some(key) = from {
        assert!(tree.unrestored() <= left);
        left = tree.unrestored();
        let known = (key / 7).min(4999);
        assert_eq!(tree.get(&mut session, known * 7).expect("get"), Some(known));
        from = tree.restore_next(&mut session, key, 3, &mut damaged).expect("whole");
    }
    assert_eq!((tree.unrestored(), tree.len(&mut session).expect("len")), (0, 5000));
    assert!(damaged.is_empty());
}

/// Chunks of the logs of other sessions, of an earlier opening, stayed for ever: 38 in place of 22.
#[test]
fn logs_that_nobody_writes_any_more_are_freed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let write = |single: &SingleTreePool<SpTreeBuffered<Production>>, sessions: usize| {
        let mut all: Vec<_> =
            (0..sessions).map(|_| single.heap().session().expect("a free session")).collect();
        for number in 0..40_000 {
            for session in &mut all {
                let _ = single.tree().upsert(session, number * 7919 % 5000, number).expect("room");
            }
        }
        single.tree().log_bytes() >> 16
    };
    let single = open::<SpTreeBuffered<Production>>(&path, CreateMode::New);
    let two = write(&single, 2);
    assert!((20..=40).contains(&two), "{two} chunks of two sessions");
    drop(single);
    let single = open::<SpTreeBuffered<Production>>(&path, CreateMode::Never);
    let one = write(&single, 1);
    assert!((10..=24).contains(&one), "{one} chunks of one session");
    let mut session = single.heap().session().expect("a free session");
    assert_eq!(single.tree().get(&mut session, 39_999 * 7919 % 5000).expect("get"), Some(39_999));
}
