//! The paper's NBTree on exact allocators: a power cut while replaced leaves have no name loses none of them.

use std::path::Path;

use everleaf_alloc::Audit;
use everleaf_designs::NbTreePublished;
use everleaf_index::{
    CheckReport, CreateMode, Design, Hardware, Heap, OrderedIndex, Pool, PoolOptions, Production,
};

type Tree = NbTreePublished<Production, Hardware>;

/// Ascending keys whose inserts replace more leaves than a ring has places.
const KEYS: u64 = 2000;

fn pool(path: &Path) -> Pool<Hardware> {
    let options = PoolOptions {
        create: CreateMode::IfMissing,
        max_size_bytes: 32 << 20,
        ..PoolOptions::default()
    };
    Pool::open(path, &options).expect("the pool opens")
}

/// What a check says of a tree whose power was cut when more leaves had been replaced than a ring names.
fn after_a_full_ring(allocator: &str, directory: &Path) -> CheckReport {
    let (path, image) = (directory.join("pool"), directory.join("image"));
    let heap = Heap::create(pool(&path)).expect("room");
    let mut session = heap.session().expect("a free session");
    let mut reader = heap.session().expect("a free session");
    let tree = Tree::create_on(&mut session, allocator, 400).expect("room");
    // A long scan: nothing that was replaced is free before it ends.
    reader.pin();
    for key in 1..=KEYS {
        tree.insert(&mut session, key, key).expect("room");
    }
    std::fs::copy(&path, &image).expect("the pool is copied");
    reader.unpin();
    let root = tree.root_value();
    drop((tree, session, reader, heap));

    let (heap, recovery) = Heap::open(pool(&image)).expect("the heap opens");
    let mut session = heap.session().expect("a free session");
    let tree = Tree::recover(&mut session, &recovery, root, 1).expect("the tree opens");
    recovery.finish(&heap);
    let audit = Audit::new(&heap).expect("an audit");
    let mut report = CheckReport::default();
    tree.check(&mut session, audit.used(), &mut report).expect("a check");
    report
}

/// The leaves that found the ring full stayed allocated for ever, and every check called the pool damaged.
#[test]
fn leaves_that_found_the_ring_full_are_free_after_a_crash() {
    for allocator in ["calloc", "pmdk-like", "nvm-malloc-like", "nvalloc-like"] {
        let directory = tempfile::tempdir().expect("a directory");
        let report = after_a_full_ring(allocator, directory.path());
        assert_eq!((report.problems, report.keys), (vec![], KEYS), "{allocator}");
    }
}
