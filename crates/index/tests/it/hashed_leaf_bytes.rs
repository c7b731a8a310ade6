//! Maps of byte strings with hashed leaves: closed and opened again, with an entry that was lost, read by
//! salvage, and written by several threads. What single operations answer is in `differential.rs`.
//!
//! Salvage took the leaves of all trees for leaves of byte strings. In a pool that also had integers it said of
//! entries that they were damaged, of leaves with hashes that they were not as when the pool was closed, and of
//! a pool that was whole that keys were missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::path::Path;

use everleaf_index::salvage::{Salvage, SalvagedPair};
use everleaf_index::{
    BytesTree, Change, CreateMode, Domain, HashedLeafTree, Pool, PoolOptions, Registered, Registry,
    Session, Trees,
};

const KEYS: u32 = 20_000;
/// Bytes of a leaf, and of the chunk it is in.
const BLOCK: usize = 4096;
const CHUNK: usize = 256 << 10;

fn open(path: &Path) -> Result<Trees, everleaf_index::IndexError> {
    let options = PoolOptions { create: CreateMode::IfMissing, ..PoolOptions::default() };
    Trees::open(Pool::open(path, &options).expect("the pool opens"), 2)
}

fn key(number: u32) -> Vec<u8> {
    format!("user:profile:{:08x}", number.wrapping_mul(0x9E37_79B9)).into_bytes()
}

fn put(tree: &BytesTree, session: &mut Session<everleaf_index::Hardware>, number: u32) {
    let value = number.to_le_bytes();
    let added = tree.change(session, &Change::insert(&key(number), &value));
    assert!(added.expect("room").changed);
}

/// A closed pool with a map of byte strings with hashed leaves, of which every third key was removed.
fn closed(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let trees = open(path).expect("a new pool");
    assert!(!trees.makes_hashed_leaves());
    trees.make_hashed_leaves().expect("writable");
    let tree = trees.bytes_tree("map").expect("room");
    let mut session = trees.heap().session().expect("a session");
    (0..KEYS).for_each(|number| put(&tree, &mut session, number));
    let mut left = BTreeMap::new();
    for number in 0..KEYS {
        if number % 3 == 0 {
            let gone = tree.change(&mut session, &Change::remove(&key(number)));
            assert!(gone.expect("no room needed").changed);
        } else {
            left.insert(key(number), number.to_le_bytes().to_vec());
        }
    }
    drop(session);
    trees.close().expect("it closes");
    left
}

fn contents(trees: &Trees) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let tree = trees.find_bytes_tree("map").expect("of bytes").expect("there");
    let mut session = trees.heap().session().expect("a session");
    let mut pairs = BTreeMap::new();
    let all = (Bound::Unbounded, Bound::Unbounded);
    let scanned = tree.scan(&mut session, all.0, all.1, false, |key, value| {
        pairs.insert(key.to_vec(), value.to_vec());
        true
    });
    scanned.expect("nothing is damaged");
    pairs
}

/// Offsets of the live entries of leaves of 4 KiB.
fn entries(file: &File) -> Vec<u64> {
    let length = file.metadata().expect("metadata").len();
    let mut found = vec![];
    for start in (0..length).step_by(CHUNK) {
        let mut chunk = vec![0; CHUNK.min((length - start) as usize)];
        file.read_exact_at(&mut chunk, start).expect("within the file");
        let word = |at: usize| u64::from_le_bytes(chunk[at..at + 8].try_into().expect("8 bytes"));
        // Kind 2 and class 2: leaves of 4 KiB.
        if word(0) >> 48 != 0x0202 {
            continue;
        }
        for block in (BLOCK..CHUNK).step_by(BLOCK).filter(|block| word(*block) >> 61 == 2) {
            let live = (block + 32..block + BLOCK).step_by(16).filter(|at| word(at + 8) >> 61 == 2);
            found.extend(live.map(|at| start + at as u64));
        }
    }
    found
}

#[test]
fn a_map_with_hashed_leaves_is_there_again_and_proven_complete() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let mut left = closed(&path);
    let trees = open(&path).expect("it opens");
    assert!(trees.makes_hashed_leaves());
    assert_eq!(contents(&trees), left);
    let report = trees.check().expect("a check");
    assert!(report.is_complete && report.problems.is_empty(), "{report:?}");
    // What is written is unproven only behind a kill.
    let tree = trees.bytes_tree("map").expect("there");
    let mut session = trees.heap().session().expect("a session");
    put(&tree, &mut session, 3);
    left.insert(key(3), 3u32.to_le_bytes().to_vec());
    drop((session, tree, trees));
    let trees = open(&path).expect("it opens");
    assert_eq!(contents(&trees), left);
    let report = trees.check().expect("a check");
    assert!(!report.is_complete && report.problems.is_empty(), "{report:?}");
    assert_eq!(report.unproven_leaves, 1, "of {} leaves", report.leaves);
}

#[test]
fn a_missing_entry_is_told_at_the_next_opening_and_by_salvage() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let left = closed(&path);
    let file = File::options().read(true).write(true).open(&path).expect("the pool file");
    let read = |offset: u64, bytes: &mut [u8]| file.read_exact_at(bytes, offset).is_ok();
    let size = file.metadata().expect("metadata").len();
    let salvaged = || {
        let (mut pairs, mut dropped) = (BTreeMap::new(), vec![]);
        let salvage = Salvage::new(size, &read, &|offset| offset);
        let names: BTreeSet<_> = salvage.roots().into_iter().map(|root| root.name).collect();
        assert_eq!(names, BTreeSet::from(["map".to_string()]));
        assert!(salvage.roots().iter().all(|root| root.has_bytes));
        let mut found = |pair: SalvagedPair| drop(pairs.insert(pair.key, pair.value));
        salvage.pairs(&mut found, &mut |what| dropped.push(what));
        (pairs, dropped, salvage.missing())
    };
    assert_eq!(salvaged(), (left.clone(), vec![], None));
    let entries = entries(&file);
    assert_eq!(entries.len(), left.len());
    file.write_all_at(&[0; 16], entries[77]).expect("within the file");
    let (pairs, dropped, missing) = salvaged();
    assert_eq!(pairs.len(), left.len() - 1);
    assert!(dropped[0].contains("is not as it was when the pool was closed"), "{dropped:?}");
    let keys = format!("with {} keys were found", left.len() - 1);
    assert!(missing.is_some_and(|missing| missing.contains(&keys)));
    let Err(error) = open(&path) else { panic!("an entry is missing") };
    assert!(error.to_string().contains("not as it was when the pool was closed"), "{error}");
}

#[test]
fn integers_are_not_taken_for_byte_strings_by_salvage() {
    static DESIGNS: [Registered; 1] = [Registered::of::<HashedLeafTree>()];
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let mut left = closed(&path);
    let pool = Pool::open(&path, &PoolOptions::default()).expect("the pool opens");
    let trees: Trees = Trees::open_with(pool, 2, Registry::new(&DESIGNS)).expect("it opens");
    let sealed = trees.create_index("integers", "nbtree").expect("room");
    let hashed = trees.u64_tree("hashed integers").expect("room");
    let unsealed = trees.create_index("unsealed integers", "hashed-leaf").expect("room");
    let mut session = trees.heap().session().expect("a session");
    for number in 0..2000 {
        // As entries of byte strings some of them would be live.
        let value = number << 56 | number;
        sealed.insert(&mut session, number << 50, value).expect("room");
        hashed.insert(&mut session, number << 50, value).expect("room");
        unsealed.insert(&mut session, number << 50, value).expect("room");
    }
    put(&trees.bytes_tree("map").expect("there"), &mut session, 3);
    left.insert(key(3), 3u32.to_le_bytes().to_vec());
    drop((session, sealed, hashed, unsealed));
    trees.close().expect("it closes");
    drop(trees);
    let file = File::open(&path).expect("the pool file");
    let read = |offset: u64, bytes: &mut [u8]| file.read_exact_at(bytes, offset).is_ok();
    let salvage = Salvage::new(file.metadata().expect("metadata").len(), &read, &|offset| offset);
    let (mut pairs, mut dropped) = (BTreeMap::new(), vec![]);
    let mut found = |pair: SalvagedPair| drop(pairs.insert(pair.key, pair.value));
    salvage.pairs(&mut found, &mut |what| dropped.push(what));
    assert_eq!(pairs, left);
    assert_eq!((dropped.len(), dropped.first(), salvage.missing()), (0, None, None));
}

/// Threads insert, update and remove the same keys: every record is freed once, and none too early.
#[test]
fn threads_that_write_the_same_strings_leave_a_sound_tree() {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Adr).expect("memory");
    let trees: Trees = Trees::create(pool).expect("room");
    trees.make_hashed_leaves().expect("writable");
    let tree = trees.bytes_tree("map").expect("room");
    let value_of = |number: u32| vec![number as u8; 10 + (number % 200) as usize];
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (trees, tree) = (&trees, &tree);
            scope.spawn(move || {
                let mut session = trees.heap().session().expect("a session");
                let mut state = thread + 1;
                for _ in 0..30_000 {
                    // A small generator is enough.
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let number = state >> 8 & 1023;
                    let (name, value) = (key(number), value_of(number));
                    let change = match state >> 28 {
                        0..5 => Change::insert(&name, &value),
                        5..8 => Change::upsert(&name, &value),
                        8..14 => Change::remove(&name),
                        _ => Change::update(&name, &value),
                    };
                    tree.change_seeing(&mut session, &change, |_, old| {
                        assert!(old.is_none_or(|old| old == value));
                    })
                    .expect("room");
                    let found = tree.get_with(&mut session, &name, |found| found == value);
                    assert_ne!(found.expect("nothing is damaged"), Some(false));
                }
            });
        }
    });
    assert_eq!(trees.check().expect("a check").problems, Vec::<String>::new());
}
