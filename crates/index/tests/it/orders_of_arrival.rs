//! Keys that arrive in order, at one place or in many, fill the leaves of an NBTree; others half.

use everleaf_index::{Change, Domain, Pool, Production, Trees};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const SLOTS: u64 = 62;

fn trees() -> Trees<Production> {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
    Trees::create(pool).expect("a new pool has room")
}

/// The leaves of a tree of integers behind these inserts, as parts of those it needs at least.
fn leaves(keys: impl Iterator<Item = u64>) -> f64 {
    let trees = trees();
    let tree = trees.u64_tree("t").expect("room");
    let mut session = trees.heap().session().expect("a free session");
    let mut count = 0;
    for key in keys {
        assert_eq!(tree.insert(&mut session, key, !key).expect("room"), None);
        count += 1;
    }
    let shape = tree.shape(&mut session).expect("a shape");
    assert_eq!(shape.keys, count);
    let mut all = vec![];
    tree.scan(&mut session, 0, usize::MAX, &mut all).expect("scan");
    assert!(all.is_sorted() && all.len() as u64 == count);
    assert!(all.iter().all(|(key, value)| *value == !key));
    drop(session);
    assert_eq!(trees.check().expect("check").problems, Vec::<String>::new());
    shape.leaves as f64 * SLOTS as f64 / count as f64
}

/// The keys of `series` series, one of each in turn, the `number`-th by `key`.
fn series(series: u64, length: u64, key: impl Fn(u64) -> u64) -> impl Iterator<Item = u64> {
    (0..length).flat_map(move |number| {
        let key = key(number);
        (0..series).map(move |series| (series << 40) + key)
    })
}

#[test]
fn keys_that_arrive_in_order_fill_leaves() {
    let up = leaves(0..20_000);
    let down = leaves((0..20_000).rev());
    let many_up = leaves(series(20, 2_000, |number| number));
    let many_down = leaves(series(20, 2_000, |number| 1_000_000 - number));
    println!("{up:.2} {down:.2} {many_up:.2} {many_down:.2}");
    assert!([up, down, many_up, many_down].iter().all(|parts| *parts < 1.25));
}

#[test]
fn other_keys_fill_leaves_as_far_as_before() {
    let mut random = StdRng::seed_from_u64(1);
    let scattered = leaves((0..40_000).map(|_| random.random()));
    // Those of odd numbers between those of even ones, both in order.
    let between = leaves((0..20_000).map(|n| 2 * n).chain((0..20_000).map(|n| 2 * n + 1)));
    // Down into a gap above the middle of a full leaf, and up into it.
    let loaded = || (0..20_000).map(|n| n << 20);
    let down = leaves(loaded().chain((1..20_000).map(|n| (10_000 << 20) - n)));
    let up = leaves(loaded().chain((1..20_000).map(|n| (10_000 << 20) + n)));
    println!("{scattered:.2} {between:.2} {down:.2} {up:.2}");
    assert!(scattered < 1.5 && between < 2.1 && down < 1.6 && up < 1.3);
}

/// The leaves that hold lists of these lengths, in parts of those they need at least; one element is
/// pushed to each list in turn, to its end if `is_end`, or else to its beginning.
fn leaves_of_lists(lists: u64, length: u64, is_end: impl Fn(u64) -> bool) -> f64 {
    let trees = trees();
    let tree = trees.bytes_tree("t").expect("room");
    let mut session = trees.heap().session().expect("a free session");
    for number in 0..length {
        for list in 0..lists {
            let index = if is_end(list) { (1 << 62) + number } else { (1 << 62) - number };
            let mut key = [0; 17];
            key[..8].copy_from_slice(&(list << 40).to_be_bytes());
            key[9..].copy_from_slice(&index.to_be_bytes());
            let put = tree.change(&mut session, &Change::upsert(&key, &key));
            assert!(put.expect("room").changed);
        }
    }
    let shape = tree.shape(&mut session).expect("a shape");
    assert_eq!(shape.keys, lists * length);
    drop(session);
    assert_eq!(trees.check().expect("check").problems, Vec::<String>::new());
    shape.leaves as f64 * SLOTS as f64 / shape.keys as f64
}

#[test]
fn elements_that_are_pushed_fill_leaves() {
    let at_ends = leaves_of_lists(20, 2_000, |_| true);
    let at_beginnings = leaves_of_lists(20, 2_000, |_| false);
    // Every second gap between two lists is filled from both sides.
    let mixed = leaves_of_lists(20, 2_000, |list| list % 2 == 0);
    println!("{at_ends:.2} {at_beginnings:.2} {mixed:.2}");
    assert!(at_ends < 1.25 && at_beginnings < 1.25 && mixed < 1.4);
}
