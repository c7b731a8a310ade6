//! The paper's NBTree on exact allocators: a power cut while replaced leaves have no name loses none of them, and
//! replacements that need each other need one entry of a log.

use std::path::Path;
use std::sync::Arc;

use everleaf_alloc::Audit;
use everleaf_designs::NbTreePublished;
use everleaf_index::{
    CheckReport, CreateMode, Design, Hardware, Heap, OrderedIndex, Pool, PoolOptions, Production,
    Session,
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
    check_of(&image, root)
}

/// What a check says of a tree in a pool that was not closed.
fn check_of(image: &Path, root: u32) -> CheckReport {
    let (heap, recovery) = Heap::open(pool(image)).expect("the heap opens");
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

/// The leaf in front of which a chain begins, of those with 31 keys that ascending inserts leave.
const FIRST: u64 = 10;

/// Bytes of a stack on which an insert fits, and not one more for each of 250 leaves.
const STACK: usize = 128 << 10;

/// Fills a leaf of a full pool between its first key and the next, until an insert would have to replace it.
fn fill(tree: &Tree, session: &mut Session<Hardware>, leaf: u64) -> u64 {
    let first = (31 * leaf + 1) * 100;
    for key in first + 1..first + 99 {
        if let Err(error) = tree.insert(session, key, key) {
            assert!(error.lacks_space(), "{error}");
            return key;
        }
    }
    panic!("leaf {leaf} was replaced in a full pool");
}

/// A tree in a pool that was full once: a chain of so many neighbours lacked room for their replacement, and there is
/// room again.
struct Chain {
    heap: Arc<Heap<Hardware>>,
    tree: Tree,
    /// A key whose insert replaces the last of them.
    wanted: u64,
}

impl Chain {
    fn new(path: &Path, allocator: &str, blocks: usize, count: u64) -> Self {
        let heap = Heap::create(pool(path)).expect("room");
        let mut session = heap.session().expect("a free session");
        let mut reader = heap.session().expect("a free session");
        let tree = Tree::create_on(&mut session, allocator, blocks).expect("room");
        // A long scan: nothing that was replaced is free before it ends.
        reader.pin();
        let ascending = (100..).step_by(100);
        let refused = ascending.take_while(|key| tree.insert(&mut session, *key, *key).is_ok());
        assert!(refused.count() as u64 > 31 * (FIRST + count), "{allocator}");
        let mut wanted = 0;
        (FIRST..FIRST + count).for_each(|leaf| wanted = fill(&tree, &mut session, leaf));
        reader.unpin();
        (0..3).for_each(|_| heap.advance_epoch());
        drop((session, reader));
        Chain { heap, tree, wanted }
    }

    fn insert(&self, allocator: &str) {
        let mut session = self.heap.session().expect("a free session");
        self.tree.insert(&mut session, self.wanted, self.wanted).expect(allocator);
    }
}

/// Five neighbours whose replacement was refused for want of room are replaced by one insert, the first one first. The
/// fifth found the log's four entries taken by the others, and the insert was refused in a pool with room.
#[test]
fn a_chain_of_leaves_that_lacked_room_needs_one_log_entry() {
    for allocator in ["calloc", "pmdk-like", "nvm-malloc-like", "nvalloc-like", "everleaf"] {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, image) = (directory.path().join("pool"), directory.path().join("image"));
        let chain = Chain::new(&path, allocator, 80, 5);
        chain.insert(allocator);

        std::fs::copy(&path, &image).expect("the pool is copied");
        let Chain { heap, tree, .. } = chain;
        let mut session = heap.session().expect("a free session");
        let (root, keys) = (tree.root_value(), tree.len(&mut session).expect("a count"));
        drop((tree, session, heap));
        let report = check_of(&image, root);
        assert_eq!((report.problems, report.keys), (vec![], keys), "{allocator}");
    }
}

/// A long chain is replaced on a short stack. Each of its leaves had waited on it for the one in front.
#[test]
fn a_long_chain_of_leaves_needs_no_long_stack() {
    let directory = tempfile::tempdir().expect("a directory");
    let chain = Chain::new(&directory.path().join("pool"), "everleaf", 1200, 250);
    std::thread::scope(|scope| {
        let short = std::thread::Builder::new().stack_size(STACK);
        let thread = short.spawn_scoped(scope, || chain.insert("everleaf")).expect("a thread");
        thread.join().expect("no panic");
    });
    let mut session = chain.heap.session().expect("a free session");
    assert_eq!(chain.tree.get(&mut session, chain.wanted).expect("get"), Some(chain.wanted));
}
