//! A pool that many threads have filled and emptied, each of them for a few operations: it has nine tenths of the room
//! of a new one at least, for whatever comes.
//!
//! What was lost: where nothing else was free, removals found no space to merge the leaves that they had emptied, since
//! what there was belonged to threads that had gone, and nobody tried again. Those leaves stayed, and the chunks that
//! they were in served for nothing else: a third of the pool.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everleaf::{Error, Map, Options, Store, Tree};

const THREADS: usize = 64;
/// Operations of one thread.
const OPERATIONS: usize = 24;
const MAX_SIZE: u64 = 16 << 20;
const SMALL: usize = 100;
const TINY: u64 = 60_000;
const LARGE: usize = 64 << 10;
/// A prime that is larger than the number of values: its multiples are all of them.
const STEP: u64 = 1_000_003;

fn key(number: u64) -> [u8; 16] {
    // Anywhere among the others.
    (u128::from(number) << 64 | u128::from(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
        .rotate_left(64)
        .to_be_bytes()
}

/// Puts as many values as there is room for; how many that is.
fn fill(map: &Map, size: usize) -> usize {
    let value = vec![7; size];
    let is_put = |number: &u64| match map.put(key(*number), &value) {
        Ok(_) => true,
        Err(Error::PoolFull(_)) => false,
        Err(error) => panic!("{error}"),
    };
    (0..).take_while(is_put).count()
}

/// Puts many values of no bytes, and removes nearly all, so that their chunks have room for as many.
fn make_room_for_tiny(map: &Map) {
    for number in 0..TINY {
        map.put(key(number), "").expect("room");
    }
    for number in (0..TINY).filter(|number| number % 100 != 0) {
        map.remove(key(number)).expect("no space is needed");
    }
}

/// Has threads do `operate` with ascending numbers, each a few, until one says that it is the end.
fn by_many_threads(operate: impl Fn(u64) -> bool + Sync) {
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    // Relaxed (all): distinct numbers, and an end that may be seen late.
    while !is_over.load(Ordering::Relaxed) {
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..OPERATIONS {
                        if !operate(next.fetch_add(1, Ordering::Relaxed)) {
                            is_over.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
    }
}

fn emptied_pool_has_room(tree: Tree) {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |name: &str| -> Store {
        let options = Options::new().create(true).max_size_bytes(MAX_SIZE).tree(tree).sweep(false);
        options.open(folder.path().join(name)).expect("a pool")
    };
    let expected = fill(open("new").default_map(), LARGE);

    let store = open("emptied");
    let map = store.default_map();
    let other = store.map("other").expect("room");
    make_room_for_tiny(&other);
    let (last, is_full) = (AtomicU64::new(0), AtomicBool::new(false));
    // Relaxed (all): the threads are joined before it counts.
    by_many_threads(|number| {
        last.fetch_max(number, Ordering::Relaxed);
        match map.put(key(number), [1; SMALL]) {
            Ok(_) => {}
            Err(Error::PoolFull(_)) => is_full.store(true, Ordering::Relaxed),
            Err(error) => panic!("{error}"),
        }
        !is_full.load(Ordering::Relaxed)
    });
    let last = last.into_inner();
    // Another map has what was left of free leaves while the values go.
    fill(&other, 0);
    by_many_threads(|number| {
        // In another order: what lies together is not removed together.
        map.remove(key(number * STEP % (last + 1))).expect("a removal needs no space");
        number < last
    });
    assert_eq!(map.len(), 0);
    drop(other);
    assert!(store.drop_map("other").expect("writable"));
    let leaves = store.statistics().leaves;
    let room = fill(map, LARGE);
    // Some leaves stay where several were merged at the same time, and each keeps a chunk.
    assert!(
        room * 10 >= expected * 9,
        "{room} large values instead of {expected}, when {leaves} leaves were left"
    );
    assert_eq!(store.check().expect("a check").problems, Vec::<String>::new());
}

#[test]
fn a_pool_emptied_by_many_threads_has_room() {
    emptied_pool_has_room(Tree::NbTree);
}

#[test]
fn a_pool_of_hashed_leaves_emptied_by_many_has_room() {
    emptied_pool_has_room(Tree::HashedLeaf);
}
