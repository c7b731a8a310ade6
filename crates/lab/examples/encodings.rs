//! Which encoding of byte-string keys is better: eight bytes of the key in the key word of an entry,
//! or none, so that every comparison follows the reference to the record?
//!
//! Run: `cargo run --release -p everleaf-lab --example encodings -- [KEYS]`. Prints, for each
//! workload and each shape of keys, nanoseconds an operation with both encodings (median of the
//! rounds, in turns) and their ratio.

use std::ops::Bound;
use std::time::Instant;

use everleaf_index::{BytesTree, Change, Domain, Hardware, Pool, Production, Session, Trees};
use everleaf_machine::random::mix;

const ROUNDS: usize = 5;
const OPERATIONS: usize = 200_000;
const SCANS: usize = 5_000;
const SCAN_LENGTH: usize = 100;

/// Keys that differ in their first bytes, or only after a long common prefix.
fn key(shape: &str, number: u64) -> Vec<u8> {
    match shape {
        "random" => [mix(number).to_be_bytes(), number.to_be_bytes()].concat(),
        _ => format!("user:profile:{:016}", mix(number) % 10_000_000_000_000_000).into_bytes(),
    }
}

/// Nanoseconds an operation: load, get, absent get, scan per key.
fn measure<const HEADS: bool>(
    tree: &BytesTree<Production, Hardware, HEADS>,
    session: &mut Session<Hardware>,
    shape: &str,
    keys: u64,
    round: usize,
) -> [f64; 3] {
    let pick = |i: usize| key(shape, mix((round * OPERATIONS + i) as u64) % keys);
    let present: Vec<_> = (0..OPERATIONS).map(pick).collect();
    let absent: Vec<_> =
        (0..OPERATIONS).map(|i| key(shape, keys + (round * OPERATIONS + i) as u64)).collect();
    let started = Instant::now();
    let mut found = 0;
    for key in &present {
        found += usize::from(tree.get_with(session, key, |_| ()).expect("a tree").is_some());
    }
    let get = started.elapsed().as_nanos() as f64 / OPERATIONS as f64;
    assert_eq!(found, OPERATIONS);
    let started = Instant::now();
    for key in &absent {
        found -= usize::from(tree.get_with(session, key, |_| ()).expect("a tree").is_none());
    }
    let miss = started.elapsed().as_nanos() as f64 / OPERATIONS as f64;
    assert_eq!(found, 0);
    let started = Instant::now();
    let mut visited = 0;
    for key in &present[..SCANS] {
        let mut count = 0;
        tree.scan(session, Bound::Included(key), Bound::Unbounded, false, |_, _| {
            count += 1;
            count < SCAN_LENGTH
        })
        .expect("a tree");
        visited += count;
    }
    let scan = started.elapsed().as_nanos() as f64 / visited.max(1) as f64;
    [get, miss, scan]
}

fn load<const HEADS: bool>(
    session: &mut Session<Hardware>,
    shape: &str,
    keys: u64,
) -> (BytesTree<Production, Hardware, HEADS>, f64) {
    let tree = BytesTree::temporary(session).expect("room");
    let input: Vec<_> = (0..keys).map(|number| key(shape, number)).collect();
    let started = Instant::now();
    for key in &input {
        tree.change(session, &Change::upsert(key, &[7; 100])).expect("room");
    }
    (tree, started.elapsed().as_nanos() as f64 / keys as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[expect(clippy::print_stdout, reason = "the result")]
fn main() {
    let keys = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    println!("{keys} keys, values of 100 bytes; ns an operation (scan: a key)");
    println!(
        "{:8} {:12} {:>10} {:>12} {:>7}",
        "keys", "workload", "with heads", "without", "ratio"
    );
    for shape in ["random", "prefixed"] {
        let pool = Pool::in_memory(1 << 20, 16 << 30, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        let mut session = trees.heap().session().expect("a free session");
        let (with, load_with) = load::<true>(&mut session, shape, keys);
        let (without, load_without) = load::<false>(&mut session, shape, keys);
        let mut results = vec![(vec![load_with], vec![load_without])];
        results.extend((0..3).map(|_| (vec![], vec![])));
        for round in 0..ROUNDS {
            let one = measure(&with, &mut session, shape, keys, round);
            let other = measure(&without, &mut session, shape, keys, round);
            for (place, (one, other)) in results[1..].iter_mut().zip(one.into_iter().zip(other)) {
                place.0.push(one);
                place.1.push(other);
            }
        }
        for (workload, (with, without)) in
            ["load", "get", "get-absent", "scan 100"].iter().zip(results)
        {
            let (with, without) = (median(with), median(without));
            let ratio = without / with;
            println!("{shape:8} {workload:12} {with:10.0} {without:12.0} {ratio:6.2}x");
        }
    }
}
