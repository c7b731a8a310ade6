//! The promises of the F3-tree: bounded objects, entries in the order of their numbers, a full pool.

use everleaf_designs::F3Tree;
use everleaf_designs::f3tree::variant::{Nodes500, Objects500, Small, Unlimited, Variant};
use everleaf_index::{
    CreateMode, Domain, IndexError, OrderedIndex, Pool, PoolOptions, SingleTreePool,
};
use everleaf_machine::Ordering;

use super::common::open;

/// What the table says of pending keys is what the entries say.
#[test]
fn a_key_is_found_without_the_table_too() {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Adr).expect("memory");
    let single: SingleTreePool<F3Tree<Objects500>> = SingleTreePool::create(pool).expect("room");
    let mut sessions: Vec<_> =
        (0..3).map(|_| single.heap().session().expect("a free session")).collect();
    let tree = single.tree();
    for number in 0..4000_u64 {
        let key = number * 7919 % 500;
        let session = &mut sessions[number as usize % 3];
        if number % 5 == 3 {
            let _ = tree.remove(session, key).expect("room");
        } else {
            let _ = tree.upsert(session, key, number).expect("room");
        }
        if number % 700 == 699 {
            tree.evaluate(session).expect("room");
        }
        if number % 100 == 0 {
            for key in 0..510 {
                let found = tree.get_without_table(session, key).expect("get");
                assert_eq!(found, tree.get(session, key).expect("get"), "key {key} at {number}");
            }
        }
    }
}

/// Ascending keys in runs: those before, between and behind what is there, and one that crosses it.
fn runs<V: Variant>() -> u64 {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Adr).expect("memory");
    let single: SingleTreePool<F3Tree<V>> = SingleTreePool::create(pool).expect("room");
    let mut session = single.heap().session().expect("a free session");
    let mut all = std::collections::BTreeMap::new();
    for run in [1000..1300, 5000..5300, 3000..3200, 100..300, 1250..1400, 2990..3210, 0..6000] {
        for key in run {
            // Values that repeat: the words of a leaf differ all the same.
            let value = key % 3;
            let old = single.tree().upsert(&mut session, key, value).expect("room");
            assert_eq!(old, all.insert(key, value), "key {key}");
        }
        single.tree().evaluate(&mut session).expect("room");
        let mut pairs = vec![];
        single.tree().scan(&mut session, 0, 10_000, &mut pairs).expect("a scan");
        assert_eq!(pairs, all.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>());
    }
    let leaves = single.tree().shape(&mut session).expect("a shape").leaves;
    drop(session);
    assert_eq!(single.check().expect("check").problems, Vec::<String>::new());
    leaves
}

#[test]
fn runs_of_keys_become_leaves_of_their_own() {
    let (by_key, by_leaf) = (runs::<Objects500>(), runs::<Nodes500>());
    assert!(by_leaf < by_key, "{by_leaf} leaves and {by_key}");
}

/// A number that nobody wrote was believed: with a smaller one entries counted that had been replaced since,
/// with a larger one those that were pending were gone.
#[test]
fn a_number_of_evaluated_entries_that_nobody_wrote_is_refused() {
    type Tree = F3Tree<Small<3, 4>>;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let single = open::<Tree>(&path, CreateMode::New);
    let mut session = single.heap().session().expect("a free session");
    for round in 0..200 {
        let _ = single.tree().upsert(&mut session, round % 40, round + 1).expect("room");
    }
    single.tree().evaluate(&mut session).expect("evaluates");
    drop((session, single));
    let whole = std::fs::read(&path).expect("readable");
    let root_object = whole.windows(8).position(|word| word == b"EVLF3TRE").expect("there");
    let at = root_object + 24;
    let word = u64::from_le_bytes(whole[at..at + 8].try_into().expect("eight bytes"));
    let number = word & ((1 << 52) - 1);
    assert!(number > 100, "{number}");
    for wrong in [1, 2, number - 1, number + 1, number + 1000, 1 << 61, word ^ 4, word ^ 1 << 60, 0]
    {
        let mut damaged = whole.clone();
        damaged[at..at + 8].copy_from_slice(&wrong.to_le_bytes());
        std::fs::write(&path, damaged).expect("room");
        let pool = Pool::open(&path, &PoolOptions::default()).expect("the pool itself is whole");
        let Err(error) = SingleTreePool::<Tree>::open(pool, 1) else {
            panic!("{wrong:#x} is believed");
        };
        assert!(error.to_string().contains("are evaluated"), "{error}");
    }
    std::fs::write(&path, whole).expect("room");
    drop(open::<Tree>(&path, CreateMode::Never));
}

/// So many threads that evaluate, two that write and read, and one that scans.
fn evaluation_beside_writers<V: Variant>(evaluators: usize) {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
    let single: SingleTreePool<F3Tree<V>> = SingleTreePool::create(pool).expect("room");
    let writing = std::sync::Arc::new(());
    let watch = std::sync::Arc::downgrade(&writing);
    std::thread::scope(|scope| {
        for _ in 0..evaluators {
            scope.spawn(|| {
                let mut session = single.heap().session().expect("a free session");
                while watch.strong_count() > 0 {
                    single.tree().evaluate(&mut session).expect("evaluates");
                }
            });
        }
        scope.spawn(|| {
            let mut session = single.heap().session().expect("a free session");
            let mut pairs = vec![];
            while watch.strong_count() > 0 {
                pairs.clear();
                single.tree().scan(&mut session, 0, 1000, &mut pairs).expect("a scan");
                assert!(pairs.is_sorted_by_key(|(key, _)| *key), "{pairs:?}");
            }
        });
        let writers: Vec<_> = (0..2)
            .map(|thread| {
                scope.spawn({
                    let single = &single;
                    move || {
                        let mut session = single.heap().session().expect("a free session");
                        for round in 1..=2000_u64 {
                            let key = round % 50 * 2 + thread;
                            single.tree().upsert(&mut session, key, round).expect("room");
                            let found = single.tree().get(&mut session, key).expect("get");
                            assert_eq!(found, Some(round), "key {key}");
                            let found = single.tree().get_without_table(&mut session, key);
                            assert_eq!(found.expect("get"), Some(round), "key {key}");
                            if round % 7 == 0 {
                                let old = single.tree().remove(&mut session, key).expect("room");
                                assert_eq!(old, Some(round), "key {key}");
                            }
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().expect("no panic");
        }
        drop(writing);
    });
    assert_eq!(single.check().expect("check").problems, Vec::<String>::new());
}

#[test]
fn evaluation_beside_writers_and_readers_loses_nothing() {
    evaluation_beside_writers::<Small<3, 4>>(1);
}

#[test]
fn several_evaluators_beside_writers_and_readers_lose_nothing() {
    evaluation_beside_writers::<Small<3, 4>>(3);
    evaluation_beside_writers::<Small<3, 4, 1, 2>>(3);
    evaluation_beside_writers::<Nodes500>(4);
}

/// A tree in a pool that is as full as inserts make it; how many there are. The keys are `key_of` their numbers.
fn full_tree() -> (SingleTreePool<F3Tree<Unlimited>>, u64) {
    let pool = Pool::in_memory(1 << 18, 1 << 18, Domain::Adr).expect("memory");
    let single: SingleTreePool<F3Tree<Unlimited>> =
        SingleTreePool::create_with_chunks(pool, 14).expect("room");
    let mut session = single.heap().session().expect("a free session");
    let mut count = 0;
    while single.tree().insert(&mut session, key_of(count), count).is_ok() {
        count += 1;
    }
    drop(session);
    (single, count)
}

fn key_of(number: u64) -> u64 {
    number * 7919 % 100_003
}

/// It gave every key without space a new number, again and again, and so never came to an end.
#[test]
fn an_evaluator_of_a_full_pool_has_nothing_to_do() {
    let (single, count) = full_tree();
    let (tree, mut session) = (single.tree(), single.heap().session().expect("a free session"));
    let words = || -> Vec<u64> {
        let words = (0..1 << 18).step_by(8).map(|offset| single.heap().pool().word(offset));
        words.map(|word| word.load(Ordering::Relaxed)).collect()
    };
    tree.evaluate(&mut session).expect("no damage");
    let before = words();
    let evaluated: Vec<usize> =
        (0..3).map(|_| tree.evaluate(&mut session).expect("no damage")).collect();
    assert_eq!(evaluated, [0; 3], "of {count} keys");
    let changed = words().iter().zip(&before).filter(|(now, before)| now != before).count();
    assert_eq!(changed, 0, "words");
    for number in 0..count {
        let found = tree.get(&mut session, key_of(number)).expect("get");
        assert_eq!(found, Some(number), "key {}", key_of(number));
        // It makes room, so that what was without space is brought to the tree in the end.
        assert_eq!(
            tree.remove(&mut session, key_of(number)).expect("no space needed"),
            Some(number)
        );
    }
    while tree.evaluate(&mut session).expect("no damage") > 0 {}
    drop(session);
    let report = single.check().expect("check");
    assert_eq!((report.problems, report.keys), (vec![], 0));
}

#[test]
fn a_full_pool_refuses_inserts_and_nothing_else() {
    let pool = Pool::in_memory(1 << 18, 1 << 18, Domain::Adr).expect("memory");
    let single: SingleTreePool<F3Tree<Unlimited>> =
        SingleTreePool::create_with_chunks(pool, 14).expect("room");
    let (tree, mut session) = (single.tree(), single.heap().session().expect("a free session"));
    let mut count = 0;
    let error = loop {
        match tree.insert(&mut session, count * 7919 % 100_003, count) {
            Ok(None) => count += 1,
            Ok(Some(_)) => panic!("all keys are different"),
            Err(error) => break error,
        }
    };
    assert!(error.lacks_space(), "{error}");
    for index in 0..count {
        let key = index * 7919 % 100_003;
        assert_eq!(tree.get(&mut session, key).expect("get"), Some(index), "key {key}");
    }
    // Changes and removals need no space; and what was removed can be put in again.
    for index in 0..count {
        let key = index * 7919 % 100_003;
        assert_eq!(tree.update(&mut session, key, 1).expect("no space needed"), Some(index));
        assert_eq!(tree.remove(&mut session, key).expect("no space needed"), Some(1));
    }
    let again = (0..count / 2).map(|key| tree.insert(&mut session, key, key));
    let refused: Vec<IndexError> = again.filter_map(Result::err).collect();
    assert!(refused.is_empty(), "{} refused: {}", refused.len(), refused[0]);
    drop(session);
    let report = single.check().expect("check");
    assert_eq!((report.problems, report.keys), (vec![], count / 2));
}
