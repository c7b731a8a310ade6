//! Every operation, one thread, random, against `BTreeMap`: all kinds, geometries and domains, with
//! a check of all invariants and of the allocator at the end.

#![expect(clippy::print_stdout, reason = "a failing run must say its seed")]

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use everleaf_index::{
    Answer, BytesTree, Change, Decision, Domain, Geometry, IndexError, Pool, Production, Session,
    Tiny, Trees,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::common::operate;

const EVERYDAY: Range<u64> = 0..1;
/// At landings.
const MORE: Range<u64> = 1..4;

fn trees<G: Geometry>(domain: Domain) -> Trees<G> {
    let pool = Pool::in_memory(1 << 20, 1 << 30, domain).expect("memory");
    Trees::create(pool).expect("a new pool has room")
}

fn trees_with<G: Geometry>(domain: Domain, hashed: bool) -> Trees<G> {
    let trees = trees::<G>(domain);
    if hashed {
        trees.make_hashed_leaves().expect("writable");
    }
    trees
}

fn u64_operations<G: Geometry>(
    hashed: bool,
    domain: Domain,
    seed: u64,
    keys: u64,
    operations: usize,
) {
    println!("seed {seed}, {keys} keys, hashed: {hashed}");
    let trees = trees_with::<G>(domain, hashed);
    let tree = trees.u64_tree("t").expect("room");
    let mut session = trees.heap().session().expect("a free session");
    let mut model = BTreeMap::new();
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..operations {
        operate(&*tree, &mut session, &mut model, &mut random, keys);
    }
    assert_eq!(tree.len(&mut session).expect("len"), model.len() as u64);
    let mut all = vec![];
    tree.scan(&mut session, 0, usize::MAX, &mut all).expect("scan");
    assert_eq!(all, model.into_iter().collect::<Vec<_>>());
    drop(session);
    let report = trees.check().expect("check");
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn u64_trees_agree_with_a_btreemap() {
    u64_in_all_domains(false, EVERYDAY);
}

#[test]
fn u64_trees_with_hashed_leaves_agree_with_a_btreemap() {
    u64_in_all_domains(true, EVERYDAY);
}

#[test]
#[ignore = "guards a landing"]
fn landing_u64_trees_agree_with_a_btreemap_on_more_seeds() {
    u64_in_all_domains(false, MORE);
    u64_in_all_domains(true, MORE);
}

fn u64_in_all_domains(hashed: bool, seeds: Range<u64>) {
    for seed in seeds {
        for domain in [Domain::Process, Domain::Adr] {
            u64_in_all_geometries(hashed, domain, seed);
        }
    }
}

fn u64_in_all_geometries(hashed: bool, domain: Domain, seed: u64) {
    u64_operations::<Production>(hashed, domain, seed, 3000, 40_000);
    u64_operations::<Production>(hashed, domain, seed, 40, 10_000);
    u64_operations::<Tiny<3, 3>>(hashed, domain, seed, 300, 10_000);
    u64_operations::<Tiny<2, 4>>(hashed, domain, seed, 30, 10_000);
    u64_operations::<Tiny<5, 3>>(hashed, domain, seed, 2000, 20_000);
}

fn random_key(random: &mut StdRng, keys: u32) -> Vec<u8> {
    let number = random.random_range(0..keys);
    match random.random_range(0..6) {
        0 => format!("user:profile:{number:012}").into_bytes(),
        1 => number.to_be_bytes().to_vec(),
        2 => vec![0; (number % 40) as usize],
        3 => format!("a very long common prefix that fits no node {}/{number}", number % 7)
            .into_bytes(),
        4 => number.to_le_bytes()[..(number % 4) as usize].to_vec(),
        _ => format!("{number:x}").into_bytes(),
    }
}

fn bytes_operations<G: Geometry>(
    hashed: bool,
    domain: Domain,
    seed: u64,
    keys: u32,
    operations: usize,
) {
    println!("seed {seed}, {keys} keys, hashed leaves: {hashed}");
    let trees = trees_with::<G>(domain, hashed);
    let tree = trees.bytes_tree("t").expect("room");
    let mut session = trees.heap().session().expect("a free session");
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..operations {
        let key = random_key(&mut random, keys);
        let length =
            if random.random_range(0..500) == 0 { 300_000 } else { random.random_range(0..200) };
        let value: Vec<u8> = vec![random.random(); length];
        bytes_operation(&tree, &mut session, &mut model, &mut random, &key, &value);
    }
    assert_eq!(tree.len(&mut session).expect("len"), model.len() as u64);
    let mut all = vec![];
    tree.scan(&mut session, Bound::Unbounded, Bound::Unbounded, false, |key, value| {
        all.push((key.to_vec(), value.to_vec()));
        true
    })
    .expect("scan");
    assert!(all.into_iter().eq(model));
    drop(session);
    let report = trees.check().expect("check");
    assert_eq!(report.problems, Vec::<String>::new());
}

fn bytes_operation<G: Geometry>(
    tree: &BytesTree<G>,
    session: &mut Session<everleaf_index::Hardware>,
    model: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    random: &mut StdRng,
    key: &[u8],
    value: &[u8],
) {
    let old = model.get(key).cloned();
    let mut change = |change: Change<'_>, changed: bool| {
        let own = |answer, old: Option<&[u8]>| (answer, old.map(<[u8]>::to_vec));
        let seen = tree.change_seeing(session, &change, own);
        let answer = Answer { changed, old_size: old.as_ref().map(Vec::len) };
        assert_eq!(seen.expect("room"), (answer, old.clone()), "{change:?}");
    };
    match random.random_range(0..12) {
        0..3 => {
            change(Change::insert(key, value), old.is_none());
            model.entry(key.to_vec()).or_insert(value.to_vec());
        }
        3 => {
            change(Change::update(key, value), old.is_some());
            model.entry(key.to_vec()).and_modify(|v| *v = value.to_vec());
        }
        4 => {
            change(Change::upsert(key, value), true);
            model.insert(key.to_vec(), value.to_vec());
        }
        5..8 => {
            change(Change::remove(key), old.is_some());
            model.remove(key);
        }
        8 => {
            let expected = if random.random() { old.clone() } else { None };
            let new = random.random::<bool>().then_some(value);
            let done = tree.exchange(session, key, expected.as_deref(), new, |done, found| {
                assert_eq!(found.map(<[u8]>::to_vec), old);
                done
            });
            assert_eq!(done.expect("room"), expected == old);
            match (expected == old, new) {
                (false, _) => {}
                (true, Some(new)) => drop(model.insert(key.to_vec(), new.to_vec())),
                (true, None) => drop(model.remove(key)),
            }
        }
        9 => bytes_ranges(tree, session, model, key, random),
        10 => {
            let mut seen = None;
            tree.decide(session, key, |value| {
                seen = value.map(<[u8]>::to_vec);
                Decision::Put([value.unwrap_or(b""), b"+"].concat())
            })
            .expect("room");
            assert_eq!(seen, old);
            model.entry(key.to_vec()).or_default().push(b'+');
        }
        _ => {
            assert_eq!(tree.get_with(session, key, <[u8]>::to_vec).expect("get"), old);
            let keys = [key, b"none", key];
            let mut found = vec![];
            tree.get_many(session, keys, everleaf_index::Verify::Sum, |_, value| {
                found.push(value.map(<[u8]>::to_vec))
            })
            .expect("get");
            assert_eq!(found, [old.clone(), model.get(&b"none"[..]).cloned(), old]);
        }
    }
}

fn bytes_ranges<G: Geometry>(
    tree: &BytesTree<G>,
    session: &mut Session<everleaf_index::Hardware>,
    model: &BTreeMap<Vec<u8>, Vec<u8>>,
    key: &[u8],
    random: &mut StdRng,
) {
    let bounds = [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded];
    let bound = bounds[random.random_range(0..3)];
    let owned = bound.map(<[u8]>::to_vec);
    for (from, to, reverse) in [
        (bound, Bound::Unbounded, false),
        (Bound::Unbounded, bound, true),
        (Bound::Unbounded, bound, false),
        (bound, Bound::Unbounded, true),
    ] {
        let mut seen = vec![];
        tree.scan(session, from, to, reverse, |key, value| {
            seen.push((key.to_vec(), value.to_vec()));
            seen.len() < 9
        })
        .expect("scan");
        let pair = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
        let unbounded = Bound::<Vec<u8>>::Unbounded;
        let range = if from == Bound::Unbounded {
            model.range((unbounded, owned.clone()))
        } else {
            model.range((owned.clone(), unbounded))
        };
        let expected: Vec<_> = if reverse {
            range.rev().take(9).map(pair).collect()
        } else {
            range.take(9).map(pair).collect()
        };
        assert_eq!(seen, expected, "from {from:?} to {to:?} reverse {reverse}");
    }
}

#[test]
fn bytes_trees_agree_with_a_btreemap() {
    bytes_in_all_domains(false, EVERYDAY);
}

#[test]
fn bytes_trees_with_hashed_leaves_agree_with_a_btreemap() {
    bytes_in_all_domains(true, EVERYDAY);
}

#[test]
#[ignore = "guards a landing"]
fn landing_bytes_trees_agree_with_a_btreemap_on_more_seeds() {
    bytes_in_all_domains(false, MORE);
    bytes_in_all_domains(true, MORE);
}

fn bytes_in_all_domains(hashed: bool, seeds: Range<u64>) {
    for seed in seeds {
        for domain in [Domain::Process, Domain::Adr] {
            bytes_in_all_geometries(hashed, domain, seed);
        }
    }
}

fn bytes_in_all_geometries(hashed: bool, domain: Domain, seed: u64) {
    bytes_operations::<Production>(hashed, domain, seed, 2000, 20_000);
    bytes_operations::<Production>(hashed, domain, seed, 20, 5_000);
    bytes_operations::<Tiny<3, 3>>(hashed, domain, seed, 200, 5_000);
    bytes_operations::<Tiny<2, 4>>(hashed, domain, seed, 20, 5_000);
    bytes_operations::<Tiny<5, 3>>(hashed, domain, seed, 1000, 10_000);
}

#[test]
fn a_bulk_load_is_a_tree_like_any_other() {
    bulk_loads(false);
    bulk_loads(true);
}

fn bulk_loads(hashed: bool) {
    let trees = trees_with::<Production>(Domain::Process, hashed);
    let pairs = |count: u64| (0..count).map(|i| (i * (u64::MAX / 50_000), i));
    let tree = trees.load_u64_tree("sorted", pairs(50_000)).expect("sorted input");
    let mut session = trees.heap().session().expect("a free session");
    for (key, value) in pairs(50_000) {
        assert_eq!(tree.get(&mut session, key).expect("get"), Some(value));
        assert_eq!(tree.get(&mut session, key + 1).expect("get"), None);
    }
    for (key, value) in pairs(50_000) {
        assert_eq!(tree.upsert(&mut session, key + 1, value).expect("room"), None);
    }
    assert_eq!(tree.len(&mut session).expect("len"), 100_000);
    let strings = (0..50_000).map(|i| (format!("key:{i:09}"), format!("value {i}")));
    let words = trees.load_bytes_tree("strings", strings).expect("sorted input");
    for i in (0..50_000).step_by(7) {
        let value = words
            .get_with(&mut session, format!("key:{i:09}").as_bytes(), <[u8]>::to_vec)
            .expect("get");
        assert_eq!(value, Some(format!("value {i}").into_bytes()));
    }
    // Pieces of different sizes, one of them empty.
    let lows = ["000000017", "000000018", "000002999x", "000003000", "000040000"];
    let lows = lows.map(|low| format!("key:{low}").into_bytes());
    let bounds = [0, 17, 18, 3_000, 3_000, 40_000, 50_000];
    let partitions =
        trees.load_partitions::<IndexError>("partitions", &lows, 3, |partition, sink| {
            (bounds[partition]..bounds[partition + 1]).try_for_each(|i| {
                sink(format!("key:{i:09}").as_bytes(), format!("value {i}").as_bytes(), 0)
            })
        });
    let partitions = partitions.expect("sorted input");
    assert_eq!(partitions.len(&mut session).expect("len"), 50_000);
    let mut next = 0;
    let all = (Bound::Unbounded, Bound::Unbounded);
    let count = partitions.scan(&mut session, all.0, all.1, false, |key, value| {
        assert_eq!(key, format!("key:{next:09}").as_bytes());
        assert_eq!(value, format!("value {next}").as_bytes());
        next += 1;
        true
    });
    count.expect("scan");
    assert_eq!(next, 50_000);
    for i in 0..50_000 {
        let key = format!("key:{i:09}x");
        let new = partitions.change(&mut session, &Change::insert(key.as_bytes(), b""));
        assert!(new.expect("room").changed);
    }
    drop(session);
    assert!(trees.load_u64_tree("bad", [(1, 1), (1, 2)]).is_err());
    assert_eq!(trees.check().expect("check").problems, Vec::<String>::new());
}

#[test]
fn a_queue_of_ten_keys_keeps_few_leaves() {
    let trees = trees::<Production>(Domain::Process);
    let tree = trees.u64_tree("queue").expect("room");
    let mut session = trees.heap().session().expect("a free session");
    for key in 0..200_000u64 {
        tree.insert(&mut session, key << 20, key).expect("room");
        if key >= 10 {
            assert_eq!(tree.remove(&mut session, (key - 10) << 20).expect("room"), Some(key - 10));
        }
    }
    drop(session);
    let report = trees.check().expect("check");
    assert_eq!(report.problems, Vec::<String>::new());
    // Eight leaves exist from the start; the queue needs one or two and the trail some.
    assert!(report.leaves <= 24, "{} leaves for 10 keys", report.leaves);
}

#[test]
fn clearing_and_removing_give_everything_back() {
    clear_and_remove(false);
    clear_and_remove(true);
}

fn clear_and_remove(hashed: bool) {
    let trees = trees_with::<Production>(Domain::Process, hashed);
    let tree = trees.bytes_tree("t").expect("room");
    let mut session = trees.heap().session().expect("a free session");
    for round in 0..3 {
        for i in 0..5000u32 {
            let value = vec![7; (i % 300) as usize];
            tree.change(&mut session, &Change::upsert(format!("{i}").as_bytes(), &value))
                .expect("room");
        }
        if round < 2 {
            tree.clear(&mut session).expect("room");
            assert_eq!(tree.len(&mut session).expect("len"), 0);
        }
    }
    let used = trees.heap().used_bytes();
    assert!(trees.remove("t").expect("writable"));
    assert!(tree.get_with(&mut session, b"1", |_| ()).is_err(), "the handle says that it is gone");
    drop(session);
    assert_eq!(trees.check().expect("check").problems, Vec::<String>::new());
    assert!(used < 6 << 20, "{used} bytes after clearing twice");
}
