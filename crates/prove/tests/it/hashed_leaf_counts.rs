//! What an operation of the tree with hashed leaves costs in the pool, exactly, outside of splits.

use std::ops::Bound;

use everleaf_index::build::{Change, Intent, Outcome};
use everleaf_index::{HashedLeafTree, OrderedIndex, Production, SingleTreePool, Trees, U64Kind};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::counting::{Counting, CountingConfig, Tally};
use everleaf_prove::machine::backing::new_pool_up_to;

type M = Simulated;
type Tree = HashedLeafTree<U64Kind, Production, M>;

const POOL: usize = 16 << 20;
/// Few enough that no line of a leaf is full.
const KEYS: u64 = 100;

/// Lines flushed, drains, lines written and lines read, if they are the same for all operations.
fn each(tally: &Tally) -> (u64, u64, u64, u64) {
    let each = |sum: u64| {
        assert_eq!(sum % tally.operations, 0, "{sum} of {} operations", tally.operations);
        sum / tally.operations
    };
    (
        each(tally.flushes),
        each(tally.drains),
        each(tally.pool_lines_written),
        each(tally.pool_lines_read),
    )
}

#[test]
fn an_operation_writes_and_flushes_one_line_and_reads_one() {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let pool = new_pool_up_to(counting.memory(), POOL as u64).expect("memory becomes a pool");
    let tree_pool: SingleTreePool<Tree, M> = SingleTreePool::create(pool).expect("room");
    let (tree, mut session) = (tree_pool.tree(), tree_pool.heap().session().expect("a session"));
    let session = &mut session;
    for key in 0..KEYS {
        counting.operation("insert", || tree.insert(session, key, key).expect("room"));
    }
    for key in 0..KEYS {
        counting.operation("hit", || tree.get(session, key).expect("get"));
        counting.operation("update", || tree.update(session, key, 1).expect("no error"));
        counting.operation("refused", || tree.insert(session, key, 1).expect("no error"));
    }
    for key in 0..KEYS / 2 {
        counting.operation("remove", || tree.remove(session, key * 2).expect("no error"));
    }
    let written = |name: &str| {
        let (flushes, drains, written, _) = each(&counting.tally(name));
        (flushes, drains, written)
    };
    assert_eq!(written("insert"), (1, 1, 1));
    assert_eq!(written("update"), (1, 1, 1));
    assert_eq!(written("remove"), (1, 1, 1));
    assert_eq!(written("refused"), (0, 0, 0));
    assert_eq!(written("hit"), (0, 0, 0));
    for key in KEYS..2 * KEYS {
        counting.operation("miss", || tree.get(session, key).expect("get"));
    }
    let (hit, miss) = (counting.tally("hit"), counting.tally("miss"));
    assert!(hit.pool_lines_read >= KEYS && hit.pool_lines_read <= KEYS + KEYS / 10, "{hit:?}");
    assert!(miss.pool_lines_read <= KEYS, "{miss:?}");
    assert_eq!((miss.flushes, miss.pool_lines_written), (0, 0));
}

#[test]
fn many_keys_at_once_cost_the_pool_what_they_cost_one_by_one() {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let pool = new_pool_up_to(counting.memory(), POOL as u64).expect("memory becomes a pool");
    let tree_pool: SingleTreePool<Tree, M> = SingleTreePool::create(pool).expect("room");
    let (tree, mut session) = (tree_pool.tree(), tree_pool.heap().session().expect("a session"));
    let session = &mut session;
    let mut outcomes = [Outcome { changed: false, old: None }; KEYS as usize];
    let changes = |intent| -> Vec<Change> {
        (0..KEYS).map(|key| Change { key, intent, value: key }).collect()
    };
    let mut write = |name, intent| {
        let changes = changes(intent);
        let made = counting.operation(name, || tree.write_many(session, &changes, &mut outcomes));
        made.expect("room");
        assert!(outcomes.iter().all(|outcome| outcome.changed), "{name}");
        let tally = counting.tally(name);
        assert_eq!((tally.flushes, tally.drains), (KEYS, KEYS), "{name}");
    };
    write("insert", Intent::Insert);
    write("update", Intent::Update);
    let keys: Vec<u64> = (0..KEYS).collect();
    let mut values = vec![None; KEYS as usize];
    counting.operation("get", || tree.get_many(session, &keys, &mut values).expect("get"));
    assert!(values.iter().zip(&keys).all(|(value, key)| *value == Some(*key)));
    let got = counting.tally("get");
    assert_eq!((got.flushes, got.pool_lines_written), (0, 0));
    assert!(got.pool_lines_read <= KEYS + KEYS / 10, "{got:?}");
}

/// The start of a scan was looked for record by record among keys whose first eight bytes are the same.
#[test]
fn a_scan_among_equal_heads_finds_its_start_in_few_records() {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let pool = new_pool_up_to(counting.memory(), POOL as u64).expect("memory becomes a pool");
    let trees: Trees<Production, M> = Trees::create(pool).expect("room");
    trees.make_hashed_leaves().expect("it has no trees");
    let tree = trees.bytes_tree("words").expect("room");
    let mut session = trees.heap().session().expect("a session");
    let key = |number: u32| format!("one head of {number:03}");
    for number in 0..200 {
        let (key, value) = (key(number), number.to_le_bytes());
        let change = everleaf_index::Change::insert(key.as_bytes(), &value);
        tree.change_seeing(&mut session, &change, |_, _| ()).expect("room");
    }
    // Some were removed, so that the search meets them.
    for number in [50, 98, 99, 100, 101, 150, 197, 198] {
        let key = key(number);
        let change = everleaf_index::Change::remove(key.as_bytes());
        tree.change_seeing(&mut session, &change, |_, _| ()).expect("a removal");
    }
    let mut scan = |name, from: u32| {
        let (from, mut first) = (key(from), None);
        let low = Bound::Included(from.as_bytes());
        counting.operation(name, || {
            let see = |key: &[u8], _: &[u8]| {
                first = Some(String::from_utf8_lossy(key).into_owned());
                false
            };
            tree.scan(&mut session, low, Bound::Unbounded, false, see).expect("a scan");
        });
        first
    };
    for number in 0..200 {
        let removed = [50, 98, 99, 100, 101, 150, 197, 198];
        let first = (number..200).find(|number| !removed.contains(number)).map(key);
        assert_eq!(scan("once", number), first, "from {number}");
    }
    assert_eq!(scan("last", 199), Some(key(199)));
    let read = counting.tally("last").pool_lines_read;
    assert!(read < 70, "{read} lines read");
}
