//! Maps in the tree with hashed leaves: what a store does with them, and the way from one tree to the other.

use std::collections::BTreeMap;
use std::path::Path;

use everleaf::{Durability, Expiry, Options, Store, Tree, WriteBatch};
use everleaf_index::{OrderedIndex, Pool, PoolOptions, Trees};

const LATER: u64 = 4_000_000_000_000;

fn create(path: &Path, tree: Tree) -> Store {
    let options = Options::new().create_new(true).max_size_bytes(1 << 30);
    options.tree(tree).open(path).expect("a new pool")
}

fn open(path: &Path) -> Store {
    Options::new().open(path).expect("the pool opens")
}

/// The feature bits in the two copies of the header of a pool.
fn features(path: &Path) -> u64 {
    let bytes = std::fs::read(path).expect("the pool file");
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    word(16) | word(4096 + 16)
}

fn pairs(store: &Store, map: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let map = store.map(map).expect("there");
    map.iter().map(|pair| pair.expect("nothing is damaged")).collect()
}

fn assert_sound(store: &Store) {
    assert_eq!(store.check().expect("the check runs").problems, Vec::<String>::new());
}

/// Writes what maps can have, one by one and in batches; what is left of it in the map `other`.
fn fill(store: &Store) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let map = store.map("other").expect("room");
    let mut left = BTreeMap::new();
    for number in 0..3000u32 {
        let key = number.wrapping_mul(0x9E37_79B9).to_be_bytes();
        let mut batch = WriteBatch::new();
        batch.put(&map, key, number.to_le_bytes());
        batch.put(store.default_map(), key, b"twice");
        store.write(&batch).expect("room");
        left.insert(key.to_vec(), number.to_le_bytes().to_vec());
    }
    for key in left.keys().step_by(2).cloned().collect::<Vec<_>>() {
        assert!(map.remove(&key).expect("no room needed"));
        left.remove(&key);
    }
    map.put_with_expiry(b"late", vec![7; 5000], Expiry::from_unix_ms(LATER)).expect("room");
    left.insert(b"late".to_vec(), vec![7; 5000]);
    map.put_with_expiry(b"past", b"gone", Expiry::from_unix_ms(1)).expect("room");
    left
}

#[test]
fn a_pool_says_its_tree_and_a_compaction_changes_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let store = create(&path, Tree::HashedLeaf);
    let left = fill(&store);
    assert_eq!(pairs(&store, "other"), left);
    assert_sound(&store);
    store.close().expect("nobody holds it");
    let hashed = features(&path);
    // `FEATURE_HASHED_LEAVES`.
    assert_eq!(hashed & 8, 8);
    let store = open(&path);
    assert!(store.check().expect("the check runs").is_complete);
    assert_eq!(pairs(&store, "other"), left);
    store.close().expect("nobody holds it");
    for (tree, bit) in [(None, 8), (Some(Tree::NbTree), 0), (None, 0), (Some(Tree::HashedLeaf), 8)]
    {
        let options = tree.map_or(Options::new(), |tree| Options::new().tree(tree));
        options.compact(&path, |_| {}).expect("room");
        assert_eq!(features(&path) & 8, bit, "{tree:?}");
        let store = open(&path);
        assert_eq!(pairs(&store, "other"), left, "{tree:?}");
        assert_eq!(store.default_map().len(), 3000);
        assert_sound(&store);
        store.map("other").expect("there").clear().expect("room");
        store.map("other").expect("there").put(b"k", b"v").expect("room");
        assert_sound(&store);
        assert_eq!(pairs(&store, "other").len(), 1);
        let map = store.map("other").expect("there");
        map.remove(b"k").expect("no room needed");
        for (key, value) in &left {
            map.put(key, value).expect("room");
        }
        drop(map);
        store.close().expect("nobody holds it");
    }
}

#[test]
fn a_pool_with_a_log_and_hashed_leaves_is_rebuilt_from_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let options = Options::new().create_new(true).max_size_bytes(1 << 30).tree(Tree::HashedLeaf);
    let store = options.durability(Durability::Power).open(&path).expect("a new pool");
    let left = fill(&store);
    store.close().expect("nobody holds it");
    std::fs::remove_file(&path).expect("it was there");
    // It was NBTree again, unless the tree was named once more.
    let store = Options::new().open(&path).expect("it is rebuilt");
    assert_eq!(pairs(&store, "other"), left);
    assert_sound(&store);
    store.close().expect("nobody holds it");
    assert_eq!(features(&path) & 8, 8);
    // So it was, until the next opening, if a compaction had changed the tree.
    for (tree, bit) in [(Tree::NbTree, 0), (Tree::HashedLeaf, 8)] {
        Options::new().tree(tree).compact(&path, |_| {}).expect("room");
        assert_eq!(features(&path) & 8, bit, "{tree:?}");
        std::fs::remove_file(&path).expect("it was there");
        let store = open(&path);
        assert_eq!(pairs(&store, "other"), left, "{tree:?}");
        store.close().expect("nobody holds it");
        assert_eq!(features(&path) & 8, bit, "{tree:?}");
    }
}

fn open_trees(path: &Path) -> Trees {
    let pool = Pool::open(path, &PoolOptions::default()).expect("the pool opens");
    Trees::open(pool, 2).expect("nothing is damaged")
}

/// The tree and the pairs of a map of integers.
fn integers(path: &Path) -> (&'static str, Vec<(u64, u64)>) {
    let trees = open_trees(path);
    let tree = trees.find_u64_tree("numbers").expect("of integers").expect("there");
    let mut pairs = vec![];
    let mut session = trees.heap().session().expect("a session");
    tree.scan(&mut session, 0, usize::MAX, &mut pairs).expect("there");
    let report = trees.check().expect("the check runs");
    assert!(report.is_complete && report.problems.is_empty(), "{report:?}");
    let name = tree.info().name;
    drop((session, tree));
    trees.close().expect("nobody holds it");
    (name, pairs)
}

/// Maps of integers are made by programs that use the libraries below the store; a user who copied a pool with one
/// was refused.
#[test]
fn a_copy_has_the_maps_of_integers_in_the_wanted_tree() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("pool"), folder.path().join("copy"));
    create(&path, Tree::NbTree).close().expect("nobody holds it");
    // Several readings, the last of which ends with the last key that there can be.
    let spread = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut pairs: BTreeMap<u64, u64> = (0..4095).map(|number| (spread(number), number)).collect();
    pairs.insert(u64::MAX, 7);
    let pairs: Vec<(u64, u64)> = pairs.into_iter().collect();
    assert_eq!(pairs.len(), 4096);
    let trees = open_trees(&path);
    let tree = trees.u64_tree("numbers").expect("room");
    let mut session = trees.heap().session().expect("a session");
    for (key, value) in &pairs {
        assert_eq!(tree.insert(&mut session, *key, *value).expect("room"), None);
    }
    drop((session, tree));
    trees.close().expect("nobody holds it");
    drop(trees);
    let (nbtree, hashed) = (Some(Tree::NbTree), Some(Tree::HashedLeaf));
    let names = ["nbtree", "hashed-leaf", "hashed-leaf", "nbtree"];
    for (tree, name) in [None, hashed, None, nbtree].into_iter().zip(names) {
        let options = tree.map_or(Options::new(), |tree| Options::new().tree(tree));
        let copied = options.compact(&path, |_| {}).expect("room");
        assert_eq!((copied.maps, copied.keys), (2, 4096));
        assert_eq!(integers(&path), (name, pairs.clone()), "{tree:?}");
    }
    let store = open(&path);
    store.default_map().put(b"k", b"v").expect("room");
    assert_eq!(store.backup(&copy, |_| {}).expect("room").keys, 4097);
    assert!(store.drop_map("numbers").expect("writable"));
    assert_sound(&store);
    store.close().expect("nobody holds it");
    std::fs::remove_file(&path).expect("it was there");
    Store::restore(&copy, &path, |_| {}).expect("room");
    assert_eq!(integers(&path), ("nbtree", pairs));
}

/// The memory of hashed leaves was in no number of a store: of 100,000 keys it told of a few inner nodes.
#[test]
fn statistics_have_the_memory_of_leaves_of_either_tree() {
    for tree in [Tree::NbTree, Tree::HashedLeaf] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = create(&folder.path().join("pool"), tree);
        let map = store.map("other").expect("room");
        let empty = store.statistics();
        for number in 0..20_000u32 {
            let _ =
                map.put(number.wrapping_mul(0x9E37_79B9).to_be_bytes(), b"value").expect("room");
        }
        let full = store.statistics();
        let (leaves, bytes) = (full.leaves - empty.leaves, full.memory_bytes - empty.memory_bytes);
        assert!(leaves > 80, "{leaves} leaves");
        // A line or more for fingerprints and one for the rest.
        assert!(bytes >= leaves * 128, "{tree:?}: {bytes} bytes for {leaves} leaves");
        if tree == Tree::HashedLeaf {
            assert!(bytes >= leaves * 320, "{bytes} bytes for {leaves} leaves");
            map.iter().for_each(|pair| assert!(pair.is_ok()));
            let scanned = store.statistics().memory_bytes - empty.memory_bytes;
            assert!(scanned >= leaves * 600, "{scanned} bytes for {leaves} leaves");
        }
    }
}

/// A map with a damaged leaf that opening at once has left counted as empty for a thread that reads while nobody else
/// writes.
#[test]
fn keys_of_a_damaged_map_are_counted_alike_while_alone() {
    const LIVE: u64 = 2 << 61 | ((1 << 30) - 1) << 31 | ((1 << 30) - 1) << 1;
    let folder = tempfile::tempdir().expect("a folder");
    let (path, killed) = (folder.path().join("pool"), folder.path().join("killed"));
    let store = create(&path, Tree::HashedLeaf);
    for map in [store.default_map(), &store.map("other").expect("room")] {
        for number in 0..3000u32 {
            let _ =
                map.put(number.wrapping_mul(0x9E37_79B9).to_be_bytes(), b"value").expect("room");
        }
    }
    // As if the process were killed now.
    let mut bytes = std::fs::read(&path).expect("the pool file");
    store.close().expect("nobody holds it");
    let word = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    };
    let leaves = (0..bytes.len()).step_by(4096).filter(|at| word(&bytes, *at) == LIVE);
    let is_live = |at: &usize| word(&bytes, *at) >> 61 == 2;
    // Where the states of live entries are.
    let live = |leaf: usize| -> Vec<usize> {
        (leaf + 40..leaf + 4096).step_by(16).filter(is_live).collect()
    };
    // Not those that opening itself reads.
    let full: Vec<_> = leaves.map(live).filter(|live| live.len() > 40).collect();
    assert!(full.len() > 10, "{} leaves", full.len());
    // In some leaves of both maps an entry gets a state that is none.
    for live in full.iter().step_by(2) {
        bytes[live[0] + 7] ^= 0b101 << 5;
    }
    std::fs::write(&killed, &bytes).expect("room");
    let options = Options::new().open_at_once(true).sweep(false);
    let store = options.open(&killed).expect("it is damaged within leaves only");
    let map = store.map("other").expect("there");
    let counts = [store.default_map().len(), map.len()];
    assert!(counts.iter().all(|count| (1..3000).contains(count)), "{counts:?}");
    store
        .write_alone(|alone, _| {
            assert_eq!([alone.len(), alone.on(&map)?.len()], counts);
            assert!(!alone.is_empty());
            Ok::<(), everleaf::Error>(())
        })
        .expect("nothing is written");
}
