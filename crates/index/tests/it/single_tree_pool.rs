//! What `SingleTreePool` does with a pool that has something else in it, or whose tree has lost its name: what none
//! of its trees leads to would be free space.

use std::path::{Path, PathBuf};

use everleaf_alloc::Heap;
use everleaf_index::{
    CreateMode, Design, Hardware, HashedLeafTree, IndexError, OrderedIndex, Pool, PoolOptions,
    SingleTreePool, Trees, U64Kind, U64Tree,
};

type Hashed = HashedLeafTree<U64Kind>;
type Opening<T> = fn(Pool<Hardware>) -> Result<SingleTreePool<T>, IndexError>;

/// Bytes in front of the pool's directory.
const HEADERS: usize = 8192;

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    (folder, path)
}

fn pool(path: &Path) -> Pool<Hardware> {
    let options = PoolOptions { create: CreateMode::IfMissing, ..PoolOptions::default() };
    Pool::open(path, &options).expect("the pool")
}

/// No way to open the pool, or to make it anew, is allowed: the error has these words, and nothing is changed.
#[track_caller]
fn assert_refused<T: Design>(path: &Path, words: &[&str]) {
    let ways: [Opening<T>; 3] = [
        |pool| SingleTreePool::open(pool, 1),
        SingleTreePool::open_at_once,
        SingleTreePool::create,
    ];
    // All but the header, which says how the pool was opened.
    let data = || std::fs::read(path).expect("the file").split_off(HEADERS);
    let before = data();
    for (number, way) in ways.into_iter().enumerate() {
        let error = way(pool(path)).err().expect("it must be refused").to_string();
        let is_named = number == 2 || words.iter().all(|word| error.contains(word));
        assert!(is_named, "way {number}: {error}");
        assert!(data() == before, "way {number} has written");
    }
}

/// Before this was looked at, all other maps were free space, and written over.
#[test]
fn a_pool_with_other_maps_is_refused_and_left_as_it_was() {
    for (name, closes) in [("numbers", false), ("numbers", true), ("index", false)] {
        let (_folder, path) = scratch();
        {
            let trees: Trees = Trees::open(pool(&path), 1).expect("room");
            trees.bytes_tree("default").expect("room");
            let tree = trees.u64_tree(name).expect("room");
            let mut session = trees.heap().session().expect("a free session");
            for key in 0..1000 {
                tree.insert(&mut session, key, key).expect("room");
            }
            drop(session);
            if closes {
                trees.close().expect("it is written");
            }
        }
        assert_refused::<U64Tree>(&path, &["'default'", "something else"]);
        assert_refused::<Hashed>(&path, &["'default'", "something else"]);
        let trees: Trees = Trees::open(pool(&path), 1).expect("all is there");
        assert_eq!(trees.check().expect("a check").problems, Vec::<String>::new());
    }
}

/// A tree of another design is not this one's.
#[test]
fn a_pool_of_another_design_is_refused_and_left_as_it_was() {
    let (_folder, path) = scratch();
    let made: SingleTreePool<Hashed> = SingleTreePool::open(pool(&path), 1).expect("room");
    made.close().expect("it is written");
    drop(made);
    assert_refused::<U64Tree>(&path, &["'index'", "kind 60"]);
}

/// The place of the word in the pool's directory that makes the tree's name count.
fn commit_word(bytes: &[u8]) -> usize {
    let name = b"index\0\0\0";
    bytes.windows(name.len()).position(|window| window == name).expect("the name") - 8
}

/// A commit word that is zero is also what a kill in the middle of the making may leave.
#[test]
fn a_tree_whose_name_was_lost_is_not_taken_for_free_space() {
    fn lost<T: Design>(closes: bool) {
        let (_folder, path) = scratch();
        {
            let made: SingleTreePool<T> = SingleTreePool::open(pool(&path), 1).expect("room");
            let mut session = made.heap().session().expect("a free session");
            for key in 0..1000 {
                made.tree().insert(&mut session, key, key).expect("room");
            }
            drop(session);
            if closes {
                made.close().expect("it is written");
            }
        }
        let whole = std::fs::read(&path).expect("the file");
        let mut bytes = whole.clone();
        let place = commit_word(&bytes);
        bytes[place..place + 8].fill(0);
        std::fs::write(&path, &bytes).expect("the file");
        assert_refused::<T>(&path, &["damaged", "'index'"]);
        std::fs::write(&path, &whole).expect("the file");
        let opened: SingleTreePool<T> = SingleTreePool::open(pool(&path), 1).expect("the tree");
        let mut session = opened.heap().session().expect("a free session");
        assert_eq!(opened.tree().len(&mut session).expect("len"), 1000);
    }
    for closes in [false, true] {
        lost::<U64Tree>(closes);
        lost::<Hashed>(closes);
    }
}

/// Without the word that says that there is a heap, the pool looked like a new one.
#[test]
fn a_tree_whose_heap_was_lost_is_not_made_anew() {
    let (_folder, path) = scratch();
    let made: SingleTreePool<Hashed> = SingleTreePool::open(pool(&path), 1).expect("room");
    let place = made.heap().pool().data_start() as usize;
    drop(made);
    let mut bytes = std::fs::read(&path).expect("the file");
    bytes[place] ^= 1;
    std::fs::write(&path, &bytes).expect("the file");
    assert_refused::<Hashed>(&path, &["damaged", "'index'"]);
}

/// Where a kill may have ended the making: before there is a heap, a name, all of a tree, its root value.
#[test]
fn a_making_that_was_cut_short_is_completed() {
    for (stage, at_once) in [0, 1, 2, 3].into_iter().flat_map(|n| [(n, false), (n, true)]) {
        let (_folder, path) = scratch();
        let first = pool(&path);
        if stage == 0 {
            drop(first);
        } else {
            let heap = Heap::create(first).expect("room");
            if stage > 1 {
                let kind = <Hashed as Design>::INFO.kind;
                heap.pool().create_root("index", kind, u32::MAX).expect("a free place");
            }
            if stage > 2 {
                let mut session = heap.session().expect("a free session");
                <Hashed as Design>::create(&mut session).expect("room");
                session.allocate_record(100).expect("room");
            }
        }
        let open: Opening<Hashed> = match at_once {
            true => SingleTreePool::open_at_once,
            false => |pool| SingleTreePool::open(pool, 1),
        };
        for keys in [0, 1, 2] {
            let opened = open(pool(&path)).expect("it is completed");
            let mut session = opened.heap().session().expect("a free session");
            assert_eq!(opened.tree().len(&mut session).expect("len"), keys, "stage {stage}");
            opened.tree().insert(&mut session, keys, keys).expect("room");
            drop(session);
            let problems = opened.check().expect("a check").problems;
            assert_eq!(problems, Vec::<String>::new(), "stage {stage}");
        }
    }
}
