//! The values of roots mean different things to different designs, and may be equal.

use everleaf_designs::registry;
use everleaf_index::{CreateMode, Pool, PoolOptions, Trees};

#[test]
fn a_tree_whose_id_is_another_designs_place_is_found_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("p");
    let options = PoolOptions { create: CreateMode::IfMissing, ..PoolOptions::default() };
    let pool = Pool::open(&path, &options);
    let trees: Trees = Trees::create_with(pool.expect("a new pool"), registry()).expect("a heap");
    trees.create_index("other", "rntree").expect("it is made");
    let place = trees.heap().pool().roots()[0].value;
    while trees.heap().pool().next_id().expect("an id") + 1 < place {}
    let numbers = trees.u64_tree("numbers").expect("it is made");
    let roots = trees.heap().pool().roots();
    assert_eq!(roots[0].value, roots[1].value, "the numbers must meet for this to test anything");
    let mut session = trees.heap().session().expect("a session");
    for key in 0..1000 {
        numbers.insert(&mut session, key, key).expect("there is room");
    }
    drop((session, numbers, trees));

    let pool = Pool::open(&path, &options).expect("the pool");
    let trees: Trees = Trees::open_with(pool, 2, registry()).expect("the trees");
    let mut session = trees.heap().session().expect("a session");
    let numbers = trees.u64_tree("numbers").expect("it is there");
    assert_eq!(numbers.len(&mut session).expect("the tree is there"), 1000);
    drop(session);
    assert_eq!(trees.check().expect("a check").problems, Vec::<String>::new());
}
