//! A tree with hashed leaves that is opened at once, and whose leaves are restored when they are touched or in the
//! background: against `BTreeMap`, by several threads, in a pool that is only read, and with damage.

#![expect(clippy::print_stdout, reason = "a failing run must say its seed")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_index::hashed_leaf::layout::{HalfLeaves, LeafShape};
use everleaf_index::{
    CreateMode, Domain, Hardware, HashedLeafTree, IndexError, OrderedIndex, Pool, PoolOptions,
    Production, Session, SingleTreePool, Tiny, U64Kind,
};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::common::operate;

type Tree<G> = HashedLeafTree<U64Kind, G>;
type HashedPool<G> = SingleTreePool<Tree<G>>;

fn pool(path: &Path, domain: Domain, read_only: bool) -> Pool<Hardware> {
    let create = if read_only { CreateMode::Never } else { CreateMode::IfMissing };
    let options = PoolOptions { create, read_only, domain: Some(domain), ..PoolOptions::default() };
    Pool::open(path, &options).expect("the pool")
}

fn at_once<G: LeafShape>(path: &Path, domain: Domain) -> HashedPool<G> {
    SingleTreePool::open_at_once_on(pool(path, domain, false), 2).expect("the tree")
}

fn assert_sound<G: LeafShape>(opened: &HashedPool<G>) {
    assert_eq!(opened.check().expect("check").problems, Vec::<String>::new());
}

/// As `restore_next` where nothing is damaged.
fn restore<G: LeafShape>(
    tree: &Tree<G>,
    session: &mut Session<Hardware>,
    from: u64,
    leaves: usize,
) -> Option<u64> {
    let mut damaged = vec![];
    let next = tree.restore_next(session, from, leaves, &mut damaged).expect("the tree is there");
    assert!(damaged.is_empty(), "{damaged:?}");
    next
}

/// Keys spread over all, and a few heaps of neighbours.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Opened again and again without being closed, now and then with what is left restored in the background.
fn operations<G: LeafShape>(domain: Domain, seed: u64, keys: u64, count: usize) {
    println!("seed {seed}, {keys} keys");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let mut random = StdRng::seed_from_u64(seed);
    let mut model = BTreeMap::new();
    for round in 0..12 {
        let opened: HashedPool<G> = at_once(&path, domain);
        let tree = opened.tree();
        let mut session = opened.heap().session().expect("a free session");
        let left = tree.unrestored();
        assert!(round == 0 || left > 0, "all of {left} leaves wait");
        let mut from = Some(0);
        for number in 0..count {
            operate(tree, &mut session, &mut model, &mut random, keys);
            if let (3, Some(key)) = (number % (round + 4), from) {
                from = restore(tree, &mut session, key, round);
            }
        }
        assert!(tree.unrestored() <= left);
        match round % 3 {
            0 => {}
            1 => {
                assert_eq!(tree.len(&mut session).expect("len"), model.len() as u64);
                assert_eq!(tree.unrestored(), 0, "they were counted");
            }
            _ => {
                let mut all = vec![];
                tree.scan(&mut session, 0, usize::MAX, &mut all).expect("scan");
                assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
                tree.scan_back(&mut session, u64::MAX, 5, &mut vec![]).expect("scan");
            }
        }
        drop(session);
        if round % 4 != 2 {
            assert_sound(&opened);
            assert_eq!(opened.tree().unrestored(), 0, "they were checked");
        }
        if round % 5 == 4 {
            opened.close().expect("it is written");
        }
    }
    let whole: HashedPool<G> =
        SingleTreePool::open(pool(&path, domain, false), 2).expect("the tree");
    let mut session = whole.heap().session().expect("a free session");
    assert_eq!(whole.tree().unrestored(), 0);
    assert_eq!(whole.tree().len(&mut session).expect("len"), model.len() as u64);
}

#[test]
fn what_is_restored_when_touched_agrees_with_the_model() {
    for domain in [Domain::Adr, Domain::Process] {
        operations::<Tiny<2, 3>>(domain, 0, 60, 300);
        operations::<Tiny<3, 3>>(domain, 0, 90, 400);
        operations::<Tiny<4, 4>>(domain, 0, 300, 600);
        operations::<HalfLeaves>(domain, 2, 4000, 3000);
    }
    operations::<Production>(Domain::Adr, 1, 20_000, 3000);
}

#[test]
#[ignore = "guards a landing"]
fn landing_what_is_restored_agrees_with_the_model_on_more_seeds() {
    for domain in [Domain::Adr, Domain::Process] {
        for seed in 1..3 {
            operations::<Tiny<2, 3>>(domain, seed, 60, 300);
            operations::<Tiny<3, 3>>(domain, seed, 90, 400);
            operations::<Tiny<4, 4>>(domain, seed, 300, 600);
        }
        operations::<Production>(domain, 1, 20_000, 6000);
        operations::<HalfLeaves>(domain, 2, 4000, 3000);
    }
}

/// Fills a pool with keys whose values are their numbers, and leaves it as a killed process would.
fn fill(path: &Path, keys: u64) {
    let opened: HashedPool<Production> = at_once(path, Domain::Process);
    let mut session = opened.heap().session().expect("a free session");
    for number in 0..keys {
        opened.tree().insert(&mut session, key(number), number).expect("room");
    }
}

#[test]
fn threads_that_meet_at_leaves_that_are_not_restored_agree() {
    const KEYS: u64 = 60_000;
    const THREADS: u64 = 4;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    fill(&path, KEYS);
    for round in 0..3 {
        let opened: HashedPool<Production> = at_once(&path, Domain::Adr);
        assert!(opened.tree().unrestored() > 200);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let background = scope.spawn(|| {
                let mut session = opened.heap().session().expect("a free session");
                let (mut from, mut left) = (Some(0), opened.tree().unrestored());
                while let Some(key) = from {
                    from = restore(opened.tree(), &mut session, key, 3);
                    let now = opened.tree().unrestored();
                    assert!(now <= left, "{now} after {left}");
                    left = now;
                }
                is_over.store(true, Ordering::Release);
            });
            for thread in 0..THREADS {
                let opened = &opened;
                scope.spawn(move || {
                    let mut session = opened.heap().session().expect("a free session");
                    // Each changes its own keys, and all go through the leaves together.
                    for number in 0..KEYS {
                        let (key, kept) = (key(number), number + round);
                        let tree = opened.tree();
                        if number % THREADS == thread {
                            assert_eq!(
                                tree.update(&mut session, key, kept + 1).expect("no room needed"),
                                Some(kept)
                            );
                        } else if number % 7 == thread {
                            let found = tree.get(&mut session, key).expect("get").expect("there");
                            assert!((kept..=kept + 1).contains(&found), "{found} of {number}");
                        }
                    }
                });
            }
            background.join().expect("no panic");
        });
        assert!(is_over.load(Ordering::Acquire));
        assert_eq!(opened.tree().unrestored(), 0);
        let mut session = opened.heap().session().expect("a free session");
        assert_eq!(opened.tree().len(&mut session).expect("len"), KEYS);
        drop(session);
        assert_sound(&opened);
    }
}

#[test]
fn space_that_was_free_is_used_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    fill(&path, 30_000);
    let used = |opened: &HashedPool<Production>| {
        let mut session = opened.heap().session().expect("a free session");
        for number in 30_000..30_400 {
            opened.tree().insert(&mut session, key(number), number).expect("room");
        }
        for number in 30_000..30_400 {
            opened.tree().remove(&mut session, key(number)).expect("no room needed");
        }
        drop(session);
        opened.heap().used_bytes()
    };
    let whole = used(&SingleTreePool::open(pool(&path, Domain::Process, false), 1).expect("open"));
    let opened = at_once::<Production>(&path, Domain::Process);
    assert!(used(&opened) <= whole, "the marks of blocks are there at once");
    assert_sound(&opened);
}

#[test]
fn a_pool_that_is_only_read_is_opened_at_once_and_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    fill(&path, 20_000);
    let before = std::fs::read(&path).expect("the file");
    {
        let pool = pool(&path, Domain::Process, true);
        let opened: HashedPool<Production> = SingleTreePool::open_at_once(pool).expect("the tree");
        let mut session = opened.heap().session().expect("a free session");
        assert!(opened.tree().unrestored() > 50);
        assert_eq!(opened.tree().get(&mut session, key(77)).expect("get"), Some(77));
        assert!(matches!(
            opened.tree().update(&mut session, key(77), 1),
            Err(IndexError::ReadOnly)
        ));
        let mut from = restore(opened.tree(), &mut session, 0, 10);
        assert!(opened.tree().unrestored() > 0);
        while let Some(key) = from {
            from = restore(opened.tree(), &mut session, key, 10);
        }
        assert_eq!(opened.tree().unrestored(), 0);
        let mut values = vec![None; 20_000];
        let keys: Vec<u64> = (0..20_000).map(key).collect();
        opened.tree().get_many(&mut session, &keys, &mut values).expect("get");
        assert!(values.into_iter().eq((0..20_000).map(Some)));
        drop(session);
        assert_sound(&opened);
    }
    assert!(std::fs::read(&path).expect("the file") == before, "it was written");
}

/// Where the live leaves of 4 KiB are in the bytes of a pool.
fn leaves(bytes: &[u8]) -> Vec<usize> {
    const LIVE: u64 = 2 << 61 | ((1 << 30) - 1) << 31 | ((1 << 30) - 1) << 1;
    let is_leaf = |at: &usize| word(bytes, *at) == LIVE;
    (0..bytes.len()).step_by(4096).filter(is_leaf).collect()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn put(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// The first entry of a leaf that holds a key, and the key.
fn first_entry(bytes: &[u8], leaf: usize) -> (usize, u64) {
    let is_live = |at: &usize| word(bytes, *at) >> 61 == 2;
    let at = (leaf + 32..leaf + 4096).step_by(16).find(is_live).expect("a leaf with keys");
    let classes = !((1 << 61) - 1);
    (at, word(bytes, leaf + 8) & classes | word(bytes, at) & !classes)
}

/// Leaves that are damaged within are errors of the calls that touch them, and of no others.
#[test]
fn damage_found_by_a_touch_is_an_error_and_told_by_a_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    fill(&path, 20_000);
    let whole = std::fs::read(&path).expect("the file");
    let all = leaves(&whole);
    assert!(all.len() > 50, "{} leaves", all.len());
    // A state that is none; a key that is not of this leaf.
    for (number, flips) in [(7, 5 << 61), (11, 1 << 60)] {
        let mut bytes = whole.clone();
        let (at, damaged) = first_entry(&bytes, all[number]);
        let entry = word(&bytes, at) ^ flips;
        put(&mut bytes, at, entry);
        std::fs::write(&path, &bytes).expect("the file");
        let opened = at_once::<Production>(&path, Domain::Process);
        let mut session = opened.heap().session().expect("a free session");
        let tree = opened.tree();
        let is_damage = |error: IndexError| {
            let text = error.to_string();
            assert!(text.contains("damaged") && text.contains("a leaf: "), "{text}");
        };
        for _ in 0..2 {
            is_damage(tree.get(&mut session, damaged).expect_err("damage"));
            is_damage(tree.insert(&mut session, damaged, 1).expect_err("damage"));
            is_damage(tree.update(&mut session, damaged, 1).expect_err("damage"));
            is_damage(tree.remove(&mut session, damaged).expect_err("damage"));
            let mut pairs = vec![];
            is_damage(tree.scan(&mut session, damaged, 3, &mut pairs).expect_err("damage"));
            is_damage(tree.scan_back(&mut session, damaged, 3, &mut pairs).expect_err("damage"));
            is_damage(tree.len(&mut session).expect_err("damage"));
            let mut values = [None; 2];
            let keys = [key(1), damaged];
            is_damage(tree.get_many(&mut session, &keys, &mut values).expect_err("damage"));
        }
        let found =
            (0..20_000).filter(|number| tree.get(&mut session, key(*number)).is_ok()).count();
        assert!((19_700..20_000).contains(&found), "{found} keys are there");
        drop(session);
        let problems = opened.check().expect("it can be made").problems;
        assert!(problems.len() == 1 && problems[0].contains("a leaf: "), "{problems:?}");
        assert_eq!(opened.tree().unrestored(), 1);
        drop(opened);
        std::fs::write(&path, &whole).expect("the file");
    }
}

/// What was lost: everything behind the first damaged leaf was left for the thread that touched it first, since a
/// thread in the background ended there and was not told where to go on.
#[test]
fn damaged_leaves_are_passed_and_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    fill(&path, 20_000);
    let mut bytes = std::fs::read(&path).expect("the file");
    let all = leaves(&bytes);
    // An entry of each has a state that is none.
    let damaged = [all[3], all[11], all[all.len() - 2]];
    for leaf in damaged {
        let (at, _) = first_entry(&bytes, leaf);
        let entry = word(&bytes, at) ^ 5 << 61;
        put(&mut bytes, at, entry);
    }
    std::fs::write(&path, &bytes).expect("the file");
    for leaves in [1, 7, 10_000] {
        let opened = at_once::<Production>(&path, Domain::Process);
        let mut session = opened.heap().session().expect("a free session");
        let (mut from, mut told) = (Some(0), vec![]);
        while let Some(key) = from {
            let next = opened.tree().restore_next(&mut session, key, leaves, &mut told);
            from = next.expect("the tree is there");
        }
        let mut places: Vec<usize> = damaged.to_vec();
        assert_eq!((told.len(), opened.tree().unrestored()), (3, 3), "{told:?}");
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        places.retain(|leaf| told.iter().any(|text| text.contains(&leaf.to_string())));
        assert_eq!(places.len(), 3, "{told:?} tell of {damaged:?}");
        assert!(opened.tree().len(&mut session).is_err(), "nobody can count all keys");
    }
}

/// A damaged header is found when the pool is opened, or by a call that touches the leaf and by a check. No value
/// is wrong; but keys between a fence that was damaged and what it was are looked for beside it, as ever.
#[test]
fn damaged_headers_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    fill(&path, 20_000);
    let whole = std::fs::read(&path).expect("the file");
    let all = leaves(&whole);
    let (mut refused, mut told) = (0, 0);
    for at in [0, 8, 16] {
        for bit in 0..64 {
            let mut bytes = whole.clone();
            let place = all[3 + bit / 4] + at;
            let damaged = word(&bytes, place) ^ 1 << bit;
            put(&mut bytes, place, damaged);
            std::fs::write(&path, &bytes).expect("the file");
            let pool = pool(&path, Domain::Process, false);
            let Ok(opened) = SingleTreePool::<Tree<Production>>::open_at_once(pool) else {
                refused += 1;
                continue;
            };
            let mut session = opened.heap().session().expect("a free session");
            let (mut errors, mut missed) = (0, 0);
            for number in 0..20_000 {
                match opened.tree().get(&mut session, key(number)) {
                    Ok(None) => missed += 1,
                    Ok(found) => assert_eq!(found, Some(number), "byte {at}, bit {bit}"),
                    Err(_) => errors += 1,
                }
            }
            let all_are_restored = opened.tree().len(&mut session).is_ok();
            drop(session);
            let problems = opened.check().expect("it can be made").problems;
            let case =
                format!("byte {at}, bit {bit}: {missed} missed, {errors} errors, {problems:?}");
            // A leaf that says that it is another tree's is in no tree.
            let is_lost = at == 16 && all_are_restored && missed > 100;
            assert!(is_lost || missed + errors == 0 || !problems.is_empty(), "{case}");
            // The thread that restores all meets what nobody has asked for.
            assert!(errors == 0 || !all_are_restored, "{case}");
            told += usize::from(!all_are_restored);
        }
    }
    assert!(refused > 60 && told > 20, "{refused} refused, {told} told");
}
