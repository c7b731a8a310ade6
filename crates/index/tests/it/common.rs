//! Trees of integers against `BTreeMap`: one random operation of any kind.

use std::collections::BTreeMap;

use everleaf_index::build::{Change, Intent, Outcome};
use everleaf_index::{Exchange, Hardware, OrderedIndex, Session};
use rand::RngExt;
use rand::rngs::StdRng;

/// What a tree must hold.
type Model = BTreeMap<u64, u64>;

/// A key near the class boundaries or the ends, or one of `keys` spread over all.
fn pick(random: &mut StdRng, keys: u64) -> u64 {
    let special = [0, 1, (1 << 61) - 1, 1 << 61, (1 << 61) + 1, 7 << 61, u64::MAX - 1, u64::MAX];
    match random.random_range(0..4) {
        0 => special[random.random_range(0..special.len())],
        _ => random.random_range(0..keys).wrapping_mul(0x9E37_79B9_7F4A_7C15),
    }
}

/// One random operation on a tree and on the map that it must agree with.
pub(super) fn operate(
    tree: &dyn OrderedIndex<Hardware>,
    session: &mut Session<Hardware>,
    model: &mut Model,
    random: &mut StdRng,
    keys: u64,
) {
    let (key, value) = (pick(random, keys), random.random());
    let old = model.get(&key).copied();
    match random.random_range(0..13) {
        0..3 => {
            assert_eq!(tree.insert(session, key, value).expect("room"), old);
            model.entry(key).or_insert(value);
        }
        3 => {
            assert_eq!(tree.update(session, key, value).expect("room"), old);
            model.entry(key).and_modify(|v| *v = value);
        }
        4 => {
            assert_eq!(tree.upsert(session, key, value).expect("room"), old);
            model.insert(key, value);
        }
        5..8 => {
            assert_eq!(tree.remove(session, key).expect("room"), old);
            model.remove(&key);
        }
        8 => {
            let expected = if random.random() { old.unwrap_or(5) } else { 5 };
            let exchange = tree.compare_exchange(session, key, expected, value).expect("room");
            match old {
                None => assert_eq!(exchange, Exchange::Absent),
                Some(old) if old == expected => {
                    assert_eq!(exchange, Exchange::Done);
                    model.insert(key, value);
                }
                Some(old) => assert_eq!(exchange, Exchange::Mismatch(old)),
            }
        }
        9 => {
            let limit = random.random_range(0..300);
            let (mut up, mut down) = (vec![], vec![]);
            tree.scan(session, key, limit, &mut up).expect("scan");
            tree.scan_back(session, key, limit, &mut down).expect("scan");
            let pair = |(key, value): (&u64, &u64)| (*key, *value);
            assert_eq!(up, model.range(key..).take(limit).map(pair).collect::<Vec<_>>());
            assert_eq!(down, model.range(..=key).rev().take(limit).map(pair).collect::<Vec<_>>());
        }
        10 => {
            let keys: Vec<u64> = (0..40).map(|i| key.wrapping_add(i / 2)).collect();
            let mut values = vec![None; 40];
            tree.get_many(session, &keys, &mut values).expect("get");
            let expected: Vec<_> = keys.iter().map(|key| model.get(key).copied()).collect();
            assert_eq!(values, expected);
        }
        11 => write_many(tree, session, model, random, key),
        _ => assert_eq!(tree.get(session, key).expect("get"), old),
    }
}

/// Writes near each other, some of the same key, at once.
fn write_many(
    tree: &dyn OrderedIndex<Hardware>,
    session: &mut Session<Hardware>,
    model: &mut Model,
    random: &mut StdRng,
    key: u64,
) {
    let intents = [Intent::Insert, Intent::Update, Intent::Upsert, Intent::Remove];
    let change = |i: u64| {
        let (key, value) = (key.wrapping_add(i / 2), random.random());
        Change { key, intent: intents[random.random_range(0..4)], value }
    };
    let changes: Vec<Change> = (0..40).map(change).collect();
    let mut outcomes = vec![Outcome { changed: false, old: None }; changes.len()];
    tree.write_many(session, &changes, &mut outcomes).expect("room");
    for (change, outcome) in changes.iter().zip(outcomes) {
        let old = model.get(&change.key).copied();
        assert_eq!(outcome.old, old, "{change:?}");
        match (change.intent, old) {
            (Intent::Remove, _) => drop(model.remove(&change.key)),
            (Intent::Insert, Some(_)) | (Intent::Update, None) => {}
            _ => drop(model.insert(change.key, change.value)),
        }
    }
}
