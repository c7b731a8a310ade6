//! What NBTree's operations cost in lines, flushes and drains, exactly, outside and inside of splits.

#![allow(clippy::print_stdout, reason = "what was counted is the result")]

use std::collections::BTreeSet;

use everleaf_index::{Change, Production, Session, Trees};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::counting::{Counting, CountingConfig, Tally};
use everleaf_prove::machine::backing::new_pool_up_to;

type Forest = Trees<Production, Simulated>;

const POOL: usize = 64 << 20;
/// Slots of a leaf: so many keys of one class fit into the first leaf.
const SLOTS: u64 = 62;

fn forest(counting: &Counting) -> Forest {
    let pool = new_pool_up_to(counting.memory(), POOL as u64).expect("memory becomes a pool");
    Trees::create(pool).expect("room for a heap")
}

/// The fingerprint of a small key, as the leaves have it.
fn fingerprint(key: u64) -> u64 {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56).max(1)
}

/// `count` keys in a scattered order.
fn scattered(count: u64) -> Vec<u64> {
    (0..count).map(|index| 1 + index * 7919 % count).collect()
}

/// Lines read, lines written, flushes and drains of each operation.
fn costs(tally: &Tally) -> [f64; 4] {
    let sums = [tally.pool_lines_read, tally.pool_lines_written, tally.flushes, tally.drains];
    sums.map(|sum| tally.per_operation(sum))
}

#[test]
fn a_number_costs_one_line_one_flush_and_one_drain_per_write() {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let forest = forest(&counting);
    let tree = forest.u64_tree("numbers").expect("room for a tree");
    let session = &mut forest.heap().session().expect("a session");
    let keys = scattered(SLOTS);
    for &key in &keys {
        counting.operation("insert", || tree.insert(session, key, key)).expect("room");
    }
    for &key in &keys {
        counting.operation("update", || tree.update(session, key, key + 1)).expect("room");
        counting.operation("get", || tree.get(session, key)).expect("a tree");
    }
    // Few enough that no neighbour asks for a merge: there is none.
    for &key in &keys {
        counting.operation("remove", || tree.remove(session, key)).expect("room");
    }
    for kind in ["insert", "update", "remove"] {
        let tally = counting.tally(kind);
        assert_eq!(tally.operations, SLOTS);
        let [_, written, flushes, drains] = costs(&tally);
        assert_eq!([written, flushes, drains], [1.0, 1.0, 1.0], "{kind}: {tally:?}");
    }
}

#[test]
fn a_hit_reads_one_line_and_a_miss_only_equal_fingerprints() {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let forest = forest(&counting);
    let tree = forest.u64_tree("numbers").expect("room for a tree");
    let session = &mut forest.heap().session().expect("a session");
    // Keys whose fingerprints are all different; the others of the same leaf are never there.
    let mut seen = BTreeSet::new();
    let (present, absent): (Vec<u64>, Vec<u64>) =
        (1..400).partition(|key| seen.len() < SLOTS as usize && seen.insert(fingerprint(*key)));
    for &key in &present {
        tree.insert(session, key, key).expect("room");
    }
    for &key in &present {
        counting.operation("hit", || tree.get(session, key)).expect("a tree");
    }
    for &key in &absent {
        let kind = if seen.contains(&fingerprint(key)) { "twin" } else { "miss" };
        counting.operation(kind, || tree.get(session, key)).expect("a tree");
    }
    assert_eq!(costs(&counting.tally("hit")), [1.0, 0.0, 0.0, 0.0]);
    assert_eq!(costs(&counting.tally("miss")), [0.0; 4]);
    // An absent key that shares the fingerprint of one that is there costs a look at its entry.
    assert_eq!(costs(&counting.tally("twin")), [1.0, 0.0, 0.0, 0.0]);
    assert!(counting.tally("miss").operations > 100 && counting.tally("twin").operations > 50);
}

#[test]
fn splits_stay_within_their_budget() {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let forest = forest(&counting);
    let tree = forest.u64_tree("numbers").expect("room for a tree");
    let session = &mut forest.heap().session().expect("a session");
    for key in scattered(40_000) {
        counting.operation("insert", || tree.insert(session, key, key)).expect("room");
    }
    let leaves = forest.check().expect("a check").leaves;
    let tally = counting.tally("insert");
    // Every flush beyond the one of its insert belongs to a split, and each split makes one leaf
    // more, as nothing was removed.
    let splits = leaves - first_leaves(&counting);
    let flushes = (tally.flushes - tally.operations) as f64 / splits as f64;
    let drains = (tally.drains - tally.operations) as f64 / splits as f64;
    let written = (tally.pool_lines_written - tally.operations) as f64 / splits as f64;
    println!("{splits} splits: {flushes:.2} flushes, {drains:.2} drains, {written:.2} lines");
    // Two blocks of 16 lines and a drain each; the commit; two blocks that stand on their own; less
    // the flush and drain of the insert that the split carries. Chunks are the little more.
    assert!((34.0..34.1).contains(&flushes), "{flushes} flushes per split");
    assert!((4.0..4.1).contains(&drains), "{drains} drains per split");
    // The entries that are frozen, 31 entries and a header twice, and the three state words.
    assert!((38.0..42.0).contains(&written), "{written} lines per split");
}

/// The leaves of an empty tree.
fn first_leaves(counting: &Counting) -> u64 {
    let empty = Counting::new(CountingConfig::default(), counting.memory().size());
    let forest = forest(&empty);
    forest.u64_tree("numbers").expect("room for a tree");
    forest.check().expect("a check").leaves
}

#[test]
fn a_byte_string_costs_its_record_and_one_line() {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let forest = forest(&counting);
    let tree = forest.bytes_tree("words").expect("room for a tree");
    let session: &mut Session<Simulated> = &mut forest.heap().session().expect("a session");
    // Records of 40 bytes in slots of 48: one line or two each. The first allocation takes a chunk.
    let name = |key: u64| format!("word {key:011}");
    let value = [7u8; 16];
    let first = name(0);
    tree.change(session, &Change::insert(first.as_bytes(), &value)).expect("room");
    let keys = scattered(SLOTS - 8);
    for &key in &keys {
        let key = name(key);
        let insert = || tree.change(session, &Change::insert(key.as_bytes(), &value));
        counting.operation("insert", insert).expect("room");
    }
    for &key in &keys {
        let key = name(key);
        let get = || tree.get_with(session, key.as_bytes(), |_| ());
        assert!(counting.operation("get", get).expect("a tree").is_some());
    }
    for &key in &keys {
        let key = name(key);
        let remove = || tree.change(session, &Change::remove(key.as_bytes()));
        counting.operation("remove", remove).expect("room");
    }
    let [_, written, flushes, drains] = costs(&counting.tally("insert"));
    // The record, one drain; then the entry, another.
    assert_eq!(drains, 2.0);
    assert!((2.0..=3.0).contains(&flushes) && written == flushes, "{written} {flushes}");
    let [_, written, flushes, drains] = costs(&counting.tally("remove"));
    assert_eq!([written, flushes, drains], [1.0, 1.0, 1.0]);
    // The entry, and the record that it refers to.
    let [read, written, flushes, _] = costs(&counting.tally("get"));
    assert!((2.0..=3.0).contains(&read) && written == 0.0 && flushes == 0.0, "{read}");
}
