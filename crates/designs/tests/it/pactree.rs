//! PACTree as the other trees are tested, and its search layer: behind, and made to follow.

use everleaf_designs::PacTree;
use everleaf_designs::pactree::variant::Small;
use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};

use super::common::{one_thread, reopened, shared};

#[test]
fn agrees_with_a_btreemap() {
    one_thread::<PacTree>(3000, 30_000);
    one_thread::<PacTree>(40, 8_000);
}

#[test]
fn agrees_with_a_btreemap_in_small_nodes() {
    one_thread::<PacTree<Small<2, 0>, 1>>(300, 8_000);
    one_thread::<PacTree<Small<3, 2>, 2>>(300, 8_000);
}

#[test]
fn survives_being_closed_and_opened() {
    reopened::<PacTree>();
    reopened::<PacTree<Small<3, 2>, 2>>();
}

#[test]
fn threads_share_it() {
    shared::<PacTree>(300, 10_000);
    shared::<PacTree<Small<2, 0>, 1>>(30, 5_000);
}

#[test]
fn a_search_layer_that_is_behind_finds_everything() {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Adr).expect("memory");
    let solo: SingleTreePool<PacTree<Small<4, 60>, 2>> =
        SingleTreePool::create(pool).expect("room");
    let (tree, mut session) = (solo.tree(), solo.heap().session().expect("a free session"));
    for key in 0..100 {
        tree.insert(&mut session, key, key).expect("room");
    }
    let behind = tree.shape(&mut session).expect("shape").height;
    for key in 0..100 {
        assert_eq!(tree.get(&mut session, key).expect("get"), Some(key));
        assert_eq!(tree.remove(&mut session, key).expect("there"), Some(key));
        assert_eq!(tree.insert(&mut session, key, key + 1).expect("room"), None);
    }
    let learned = tree.update_search(&mut session).expect("room");
    assert!(learned > 20, "{learned} changes were in the log");
    assert_eq!(tree.update_search(&mut session).expect("room"), 0);
    assert!(tree.shape(&mut session).expect("shape").height > behind);
    for key in (0..100).rev() {
        assert_eq!(tree.remove(&mut session, key).expect("there"), Some(key + 1));
    }
    drop(session);
    let report = solo.check().expect("check");
    assert_eq!((report.problems, report.keys), (vec![], 0));
}
