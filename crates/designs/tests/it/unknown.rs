//! A program that was built without a design says so, and what to do; it does not touch the tree.

use std::path::Path;

use everleaf_designs::registry;
use everleaf_index::{CreateMode, Hardware, IndexError, Pool, PoolOptions, Trees};

fn pool(path: &Path) -> Pool<Hardware> {
    let options = PoolOptions { create: CreateMode::IfMissing, ..PoolOptions::default() };
    Pool::open(path, &options).expect("a pool")
}

#[test]
fn a_pool_with_an_unknown_design_is_refused_and_kept() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("p");
    let trees: Trees = Trees::create_with(pool(&path), registry()).expect("a heap");
    let tree = trees.create_index("numbers", "fast-fair").expect("it is made");
    let mut session = trees.heap().session().expect("a session");
    tree.insert(&mut session, 7, 70).expect("there is room");
    drop((session, tree, trees));

    let trees: Result<Trees, _> = Trees::open(pool(&path), 1);
    let Err(error) = trees else { panic!("the design is not of this program") };
    assert!(matches!(&error, IndexError::ForeignDesign { map, .. } if map == "numbers"));
    assert!(error.to_string().contains("everleaf-lab check"), "{error}");

    let trees: Trees = Trees::open_with(pool(&path), 1, registry()).expect("the trees");
    let tree = trees.find_index("numbers").expect("numbers").expect("it is there");
    let mut session = trees.heap().session().expect("a session");
    assert_eq!(tree.get(&mut session, 7).expect("get"), Some(70));
}

#[test]
fn a_name_that_no_registry_has_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trees: Trees = Trees::create(pool(&folder.path().join("p"))).expect("a heap");
    let Err(error) = trees.create_index("numbers", "fast-fair") else { panic!("unknown") };
    assert!(matches!(&error, IndexError::UnknownDesign(name) if name == "fast-fair"));
    assert!(trees.create_index("numbers", "nbtree").is_ok(), "the flagship needs no registry");
}
