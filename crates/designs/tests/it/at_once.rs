//! SPTree opened at once: its leaves are made known when they are touched, and nothing is missed.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;

use everleaf_designs::SpTreeCheckpointed;
use everleaf_index::{
    CreateMode, Design, Geometry, IndexError, OrderedIndex, Pool, PoolOptions, Production,
    SingleTreePool, Tiny,
};

use super::common::{Model, open};

type Usual = SpTreeCheckpointed<Production>;

/// Far apart.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1
}

fn at_once<T: Design>(path: &Path) -> SingleTreePool<T> {
    let pool = Pool::open(path, &PoolOptions::default()).expect("the pool");
    SingleTreePool::open_at_once(pool).expect("the tree")
}

/// A pool that was left as a crash leaves it, with `keys` keys and so many writes behind, of which some are removals.
fn left<T: Design>(path: &Path, keys: u64, writes: u64) -> Model {
    let single = open::<T>(path, CreateMode::New);
    let mut session = single.heap().session().expect("a free session");
    let mut model = Model::new();
    let numbers = (0..keys).chain((0..writes).map(|number| number * 7919 % keys));
    // No two writes have the same value, so that an older one is no newer one.
    for (value, number) in (0..).zip(numbers) {
        let _ = single.tree().upsert(&mut session, key(number), value).expect("room");
        model.insert(key(number), value);
        if number % 29 == 5 {
            let _ = single.tree().remove(&mut session, key(number)).expect("room");
            model.remove(&key(number));
        }
    }
    model
}

/// Checks a tree whose pool nobody else uses, and what it has.
fn assert_whole<T: Design>(single: &SingleTreePool<T>, model: &Model) {
    let mut session = single.heap().session().expect("a free session");
    assert_eq!(single.tree().len(&mut session).expect("whole"), model.len() as u64);
    let mut pairs = vec![];
    single.tree().scan(&mut session, 0, usize::MAX, &mut pairs).expect("whole");
    assert!(pairs.iter().copied().eq(model.iter().map(|(key, value)| (*key, *value))));
    drop(session);
    single.sweep().expect("no damage").expect("nobody has a session");
    let report = single.check().expect("a check");
    assert!(report.is_clean(), "{:?}", report.problems);
}

/// Two threads write to keys of their own, from all leaves, and a third one restores what is left, while the first
/// answers are given.
fn live<G: Geometry>(path: &Path, keys: u64, model: &mut Model, life: u64) {
    let single = at_once::<SpTreeCheckpointed<G>>(path);
    let (tree, heap) = (single.tree(), single.heap());
    assert!(life > 0 || tree.unknown_leaves() > 0, "opening has left none");
    let seen = &*model;
    let write = |thread: u64| {
        let mut session = heap.session().expect("a free session");
        let mut written = vec![];
        for number in 0..keys / 4 {
            let key = key((number * 7919 + life * 31) % (keys / 2) * 2 + thread);
            let found = tree.get(&mut session, key).expect("whole");
            let is_first = written.iter().all(|(other, _)| *other != key);
            assert!(!is_first || found == seen.get(&key).copied(), "{key} in life {life}");
            if (number + life) % 7 == 3 {
                assert_eq!(tree.remove(&mut session, key).expect("room"), found);
                written.push((key, None));
            } else {
                let value = life << 32 | number;
                assert_eq!(tree.upsert(&mut session, key, value).expect("room"), found);
                written.push((key, Some(value)));
            }
        }
        written
    };
    let restore = || {
        let mut session = heap.session().expect("a free session");
        let (mut from, mut damaged) = (Some(0), vec![]);
        while let Some(key) = from {
            from = tree.restore_next(&mut session, key, 3, &mut damaged).expect("it can");
        }
        assert!(damaged.is_empty(), "{damaged:?}");
    };
    let written = std::thread::scope(|scope| {
        let threads = [0, 1].map(|thread| scope.spawn(move || write(thread)));
        scope.spawn(restore);
        threads.map(|thread| thread.join().expect("no panic"))
    });
    assert_eq!(tree.unrestored(), 0, "in life {life}");
    for (key, value) in written.into_iter().flatten() {
        match value {
            Some(value) => drop(model.insert(key, value)),
            None => drop(model.remove(&key)),
        }
    }
    if life % 2 == 1 {
        assert_whole(&single, model);
    }
}

#[test]
fn a_thread_that_touches_a_leaf_first_finds_all_of_it() {
    fn run<G: Geometry>(keys: u64, writes: u64) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pool");
        let mut model = left::<SpTreeCheckpointed<G>>(&path, keys, writes);
        for life in 0..6 {
            live::<G>(&path, keys, &mut model, life);
        }
        assert_whole(&open::<SpTreeCheckpointed<G>>(&path, CreateMode::Never), &model);
    }
    run::<Production>(8000, 30_000);
    run::<Tiny<7, 3>>(400, 3000);
    run::<Tiny<3, 3>>(200, 2000);
}

/// Opening leaves the leaves; the first answer and the first write make few of them known, the background the rest.
#[test]
fn opening_at_once_leaves_the_leaves() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let mut model = left::<Usual>(&path, 8000, 30_000);
    let single = at_once::<Usual>(&path);
    let tree = single.tree();
    let mut session = single.heap().session().expect("a free session");
    let all = tree.unknown_leaves();
    assert!(all > 150, "{all} leaves");
    let sought = [key(77), key(4321), key(7999), 12, u64::MAX - 2];
    for key in sought {
        assert_eq!(tree.get(&mut session, key).expect("whole"), model.get(&key).copied());
    }
    let _ = tree.upsert(&mut session, key(3), 9).expect("room");
    model.insert(key(3), 9);
    assert!(tree.unknown_leaves() + 120 > all, "{} of {all}", tree.unknown_leaves());
    let mut pairs = vec![];
    tree.scan_back(&mut session, u64::MAX - 2, 500, &mut pairs).expect("whole");
    let last = model.iter().rev().take(500).map(|(key, value)| (*key, *value));
    assert!(pairs.iter().copied().eq(last));
    drop(session);
    assert_whole(&single, &model);
    assert_eq!(tree.unknown_leaves(), 0);
}

/// A thread that writes a checkpoint looks at all leaves, and nobody else need do it: then the tree is as if it had
/// been opened as usual.
#[test]
fn a_whole_checkpoint_makes_all_leaves_known() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let mut model = left::<Usual>(&path, 8000, 30_000);
    let single = at_once::<Usual>(&path);
    let tree = single.tree();
    let mut session = single.heap().session().expect("a free session");
    let all = tree.unknown_leaves();
    assert!(all > 150, "{all} leaves");
    let mut writes = 0;
    while tree.unknown_leaves() > 0 {
        // One leaf's, so that no write makes another one known.
        writes += 1;
        assert!(writes < 40_000, "{} of {all} are unknown", tree.unknown_leaves());
        let _ = tree.upsert(&mut session, key(3), writes).expect("room");
    }
    model.insert(key(3), writes);
    drop(session);
    assert_whole(&single, &model);
}

/// A checkpoint leads to leaves as long as none is merged away. Behind a merge opening reads all leaves, until a
/// checkpoint is complete that was begun later.
#[test]
fn behind_a_merge_opening_reads_all_leaves() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let keys = 4000;
    let mut model = left::<Usual>(&path, keys, 20_000);
    let single = at_once::<Usual>(&path);
    assert!(single.tree().unknown_leaves() > 0);
    let mut session = single.heap().session().expect("a free session");
    assert_eq!(single.tree().len(&mut session).expect("whole"), model.len() as u64);
    let before = single.tree().shape(&mut session).expect("a shape").leaves;
    let mut ascending: Vec<u64> = model.keys().copied().collect();
    ascending.truncate(1500);
    for key in ascending {
        let _ = single.tree().remove(&mut session, key).expect("room");
        model.remove(&key);
    }
    let after = single.tree().shape(&mut session).expect("a shape").leaves;
    assert!(after < before, "{before} leaves, then {after}");
    drop(session);
    drop(single);

    let single = at_once::<Usual>(&path);
    assert_eq!(single.tree().unknown_leaves(), 0, "a leaf was merged away");
    let mut session = single.heap().session().expect("a free session");
    for number in 0..20_000 {
        let key = key(number % keys);
        let _ = single.tree().upsert(&mut session, key, number).expect("room");
        model.insert(key, number);
    }
    drop(session);
    drop(single);
    let single = at_once::<Usual>(&path);
    assert!(single.tree().unknown_leaves() > 0);
    assert_whole(&single, &model);
}

/// Opening that has read all leaves knows what is free: nobody has to sweep.
#[test]
fn behind_a_merge_opening_knows_what_is_free() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let model = left::<Usual>(&path, 20_000, 20_000);
    {
        let single = at_once::<Usual>(&path);
        let mut session = single.heap().session().expect("a free session");
        single.tree().len(&mut session).expect("whole");
        for key in model.keys().filter(|key| **key < u64::MAX / 4) {
            assert!(single.tree().remove(&mut session, *key).expect("room").is_some());
        }
    }
    let single = at_once::<Usual>(&path);
    assert_eq!(single.tree().unknown_leaves(), 0, "a merge took the checkpoint back");
    let report = single.check().expect("a check");
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_eq!(single.sweep().expect("no damage"), Some(0));
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Where the leaves are, in the order of their keys.
fn list(bytes: &[u8]) -> Vec<usize> {
    let tag = u64::from_le_bytes(*b"EVLSPTR4");
    let root = (0..bytes.len() - 256).step_by(64).find(|at| word(bytes, *at) == tag);
    let root = root.expect("there is a root object");
    let mut list = vec![word(bytes, root + 16) as usize];
    while let next @ 1.. = word(bytes, list[list.len() - 1] + 16) as usize {
        list.push(next);
    }
    list
}

/// A leaf of which the log has lost a record is known nevertheless.
#[test]
fn a_leaf_with_a_lost_record_is_known() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let keys = 8000;
    let model = left::<Usual>(&path, keys, 30_000);
    let bytes = std::fs::read(&path).expect("readable");
    let lost = list(&bytes)[70];
    let range = word(&bytes, lost)..word(&bytes, lost + 8);
    let is_record = |at: &usize| {
        let [key, value, link, meta] = [0, 8, 16, 24].map(|part| word(&bytes, at + part));
        range.contains(&key) && value < 1 << 20 && link < 1 << 40 && meta != 0
    };
    let leaf = lost..lost + 1280;
    let single = at_once::<Usual>(&path);
    let tree = single.tree();
    let mut session = single.heap().session().expect("a free session");
    // Each reads a chunk behind the tails, of which there are a few.
    for before in &list(&bytes)[1..16] {
        assert!(tree.get(&mut session, word(&bytes, *before)).is_ok());
    }
    // All that the log has of the leaf, when what is behind the tails was read.
    let file = std::fs::File::options().write(true).open(&path).expect("there");
    for at in (64..bytes.len() - 64).step_by(32).filter(is_record) {
        if !leaf.contains(&at) {
            file.write_all_at(&[bytes[at + 9] ^ 0x40], at as u64 + 9).expect("room");
        }
    }
    let (mut from, mut damaged) = (Some(0), vec![]);
    while let Some(key) = from {
        from = tree.restore_next(&mut session, key, 100, &mut damaged).expect("it can");
    }
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    assert_eq!((tree.unknown_leaves(), tree.unrestored()), (0, 1));
    for key in (0..keys).map(key) {
        match tree.get(&mut session, key) {
            Ok(found) => assert_eq!(found, model.get(&key).copied()),
            Err(error) => assert!(range.contains(&key), "{key}: {error}"),
        }
    }
}

/// Opening at once reads the full chunks behind the tails no more than those before them. What one of them has lost is
/// told to a call that may need it, and none is given an older value.
#[test]
fn a_lost_record_behind_the_tails_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let keys = 8000;
    let model = left::<Usual>(&path, keys, 30_000);
    let whole = std::fs::read(&path).expect("readable");
    // What was written last, and is not in its leaf: a record of a chunk that others are behind.
    let numbers: BTreeMap<u64, u64> = model.iter().map(|(key, value)| (*value, *key)).collect();
    let is_newest = |at: &usize| {
        let [key, value, link, meta] = [0, 8, 16, 24].map(|part| word(&whole, at + part));
        numbers.get(&value) == Some(&key) && link < 1 << 40 && meta >> 32 != 0
    };
    let newest: Vec<usize> = (64..whole.len() - 64).step_by(32).filter(is_newest).collect();
    let last = newest.iter().map(|at| word(&whole, at + 8)).max().expect("there are some");
    let mut told = 0;
    for at in newest.iter().filter(|at| word(&whole, *at + 8) + 3000 > last).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at + 9] ^= 0x40;
        std::fs::write(&path, &bytes).expect("room");
        let pool = Pool::open(&path, &PoolOptions::default()).expect("the pool");
        let Ok(single) = SingleTreePool::<Usual>::open_at_once(pool) else {
            told += 1;
            continue;
        };
        let mut session = single.heap().session().expect("a free session");
        let mut errors = 0;
        for key in (0..keys).map(key) {
            match single.tree().get(&mut session, key) {
                Ok(found) => assert_eq!(found, model.get(&key).copied(), "record at {at}"),
                Err(_) => errors += 1,
            }
        }
        told += u64::from(errors > 0);
    }
    assert!(told > 5, "{told} losses were told");
}

/// A split that a crash has cut is ended with the number of the right half, at which opening has not looked. One that
/// cannot be is told, before the left half has it, too.
#[test]
fn a_cut_split_takes_no_impossible_number() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let keys = 8000;
    let model = left::<Usual>(&path, keys, 30_000);
    let whole = std::fs::read(&path).expect("readable");
    let list = list(&whole);
    let (left, right) = (list[70], list[71]);
    let mut bytes = whole.clone();
    // The last word of line 0 is the number, the sixth says up to where the leaf is whole.
    bytes[left + 40..left + 48].fill(0);
    let cut = bytes.clone();
    bytes[right + 56..right + 64].copy_from_slice(&(1_u64 << 50).to_le_bytes());
    std::fs::write(&path, &bytes).expect("room");
    let single = at_once::<Usual>(&path);
    let mut session = single.heap().session().expect("a free session");
    let error = single.tree().get(&mut session, word(&whole, left)).expect_err("it is told");
    assert!(error.to_string().contains("writes are in their place"), "{error}");
    drop(session);
    drop(single);
    let after = std::fs::read(&path).expect("readable");
    assert_eq!(word(&after, left + 56), word(&whole, left + 56));

    // The cut alone is mended.
    std::fs::write(&path, &cut).expect("room");
    let single = at_once::<Usual>(&path);
    let mut session = single.heap().session().expect("a free session");
    assert!(single.tree().get(&mut session, word(&whole, left)).is_ok());
    drop(session);
    assert_whole(&single, &model);
}

/// Line 0 of one leaf is lost. Opening does not read it: other leaves are served but the one on its left, which looks
/// at it when it is made known. A thread that needs one of the two is told, and so are check and sweep, which change
/// nothing.
#[test]
fn a_lost_leaf_is_told_and_others_are_served() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let keys = 8000;
    let model = left::<Usual>(&path, keys, 30_000);
    let mut bytes = std::fs::read(&path).expect("readable");
    // The leaf in the middle of the list.
    let list = list(&bytes);
    let lost = list[list.len() / 2];
    let (low, before) = (word(&bytes, lost), word(&bytes, list[list.len() / 2 - 1]));
    bytes[lost..lost + 64].fill(0);
    std::fs::write(&path, bytes).expect("room");

    let single = at_once::<Usual>(&path);
    let tree = single.tree();
    let mut session = single.heap().session().expect("a free session");
    let mut told = 0;
    for key in (0..keys).map(key) {
        match tree.get(&mut session, key) {
            Ok(found) => assert_eq!(found, model.get(&key).copied()),
            // And those of leaves behind it that have no entry.
            Err(IndexError::Alloc(_)) if key >= before => told += 1,
            Err(error) => panic!("{key}: {error}"),
        }
    }
    assert!((1..200).contains(&told), "{told} keys are told");
    assert!(tree.get(&mut session, low).is_err() && tree.upsert(&mut session, low, 1).is_err());
    let (mut from, mut damaged) = (Some(0), vec![]);
    while let Some(key) = from {
        from = tree.restore_next(&mut session, key, 100, &mut damaged).expect("it can");
    }
    assert!(!damaged.is_empty() && tree.unknown_leaves() > 0, "{damaged:?}");
    assert!(tree.len(&mut session).is_err());
    drop(session);
    assert!(single.sweep().is_err());
    assert!(!single.check().expect("a check").is_clean());
}
