//! The search layer of PACTree: behind, and made to follow.

use everleaf_designs::PacTree;
use everleaf_designs::pactree::variant::Small;
use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};

#[test]
fn a_search_layer_that_is_behind_finds_everything() {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Adr).expect("memory");
    let single: SingleTreePool<PacTree<Small<4, 60>, 2>> =
        SingleTreePool::create(pool).expect("room");
    let (tree, mut session) = (single.tree(), single.heap().session().expect("a free session"));
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
    let report = single.check().expect("check");
    assert_eq!((report.problems, report.keys), (vec![], 0));
}
