//! Maps of byte strings with hashed leaves that are opened at once: leaves are restored when they are touched or in
//! the background, and what they refer to is marked then; against `BTreeMap`, with kills meanwhile, in a full pool,
//! and with damage.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use everleaf_index::{
    BatchOp, BytesTree, Change, CreateMode, Domain, Hardware, Pool, PoolOptions, RestorePlace,
    Session, Trees, Verify,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn pool(path: &Path, max_size_bytes: u64, read_only: bool) -> Pool<Hardware> {
    let create = if read_only { CreateMode::Never } else { CreateMode::IfMissing };
    let domain = Some(Domain::Process);
    let options = PoolOptions { create, read_only, domain, max_size_bytes, ..Default::default() };
    Pool::open(path, &options).expect("the pool")
}

fn at_once(path: &Path) -> Trees {
    Trees::open_at_once(pool(path, 1 << 30, false), 2).expect("the trees")
}

fn key(number: u32) -> Vec<u8> {
    format!("user:profile:{:08x}", number.wrapping_mul(0x9E37_79B9)).into_bytes()
}

/// Of several sizes, some of several chunks.
fn value(number: u32) -> Vec<u8> {
    let length = if number.is_multiple_of(997) { 300_000 } else { number as usize % 5 * 31 };
    let mut value = number.to_le_bytes().to_vec();
    value.resize(4 + length, number as u8);
    value
}

fn put(tree: &BytesTree, session: &mut Session<Hardware>, model: &mut Model, number: u32, of: u32) {
    let (key, value) = (key(number), value(of));
    tree.change(session, &Change::upsert(&key, &value)).expect("room");
    model.insert(key, value);
}

fn remove(tree: &BytesTree, session: &mut Session<Hardware>, model: &mut Model, number: u32) {
    let key = key(number);
    let answer = tree.change(session, &Change::remove(&key)).expect("it can be written");
    assert_eq!(answer.changed, model.remove(&key).is_some());
}

/// A pool with two maps, as a killed process would leave it; some keys were removed.
fn killed(path: &Path, keys: u32) -> Model {
    let trees: Trees = Trees::create(pool(path, 1 << 30, false)).expect("a new pool");
    trees.make_hashed_leaves().expect("writable");
    let tree = trees.bytes_tree("map").expect("room");
    let other = trees.bytes_tree("other").expect("room");
    let mut session = trees.heap().session().expect("a session");
    let mut model = Model::new();
    for number in 0..keys {
        put(&tree, &mut session, &mut model, number, number);
        put(&other, &mut session, &mut Model::new(), number, number + 1);
    }
    (0..keys).step_by(3).for_each(|number| remove(&tree, &mut session, &mut model, number));
    model
}

fn map(trees: &Trees, name: &str) -> Arc<BytesTree> {
    trees.find_bytes_tree(name).expect("of this kind").expect("it is there")
}

fn assert_same(tree: &BytesTree, session: &mut Session<Hardware>, model: &Model) {
    let mut found = Model::new();
    let all = (Bound::Unbounded, Bound::Unbounded);
    tree.scan(session, all.0, all.1, false, |key, value| {
        found.insert(key.to_vec(), value.to_vec());
        true
    })
    .expect("sound");
    assert!(found == *model, "{} keys, and {} expected", found.len(), model.len());
}

fn assert_sound(trees: &Trees) {
    let report = trees.check().expect("a check");
    assert_eq!(report.problems, Vec::<String>::new());
}

/// The pairs from a key on are those of the model.
fn assert_next(tree: &BytesTree, session: &mut Session<Hardware>, model: &Model, number: u32) {
    let (from, mut pairs) = (key(number), vec![]);
    let expected: Vec<_> = model.range(from.clone()..).take(7).collect();
    let bounds = (Bound::Included(from.as_slice()), Bound::Unbounded);
    tree.scan(session, bounds.0, bounds.1, false, |key, value| {
        pairs.push((key.to_vec(), value.to_vec()));
        pairs.len() < 7
    })
    .expect("sound");
    assert!(pairs.iter().map(|(key, value)| (key, value)).eq(expected));
}

#[test]
fn strings_restored_when_touched_agree_with_the_model() {
    const KEYS: u32 = 8000;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let mut model = killed(&path, KEYS);
    let mut random = StdRng::seed_from_u64(1);
    for round in 0..8 {
        let trees = at_once(&path);
        let left = trees.unrestored();
        assert!(left > 60 && trees.is_opening(), "{left} leaves are left in round {round}");
        let tree = map(&trees, "map");
        let mut session = trees.heap().session().expect("a session");
        let (mut place, mut damaged) = (Some(RestorePlace::default()), vec![]);
        for turn in 0..600 * round {
            let number = random.random_range(0..KEYS + KEYS / 4);
            match random.random_range(0..8) {
                0..3 => put(&tree, &mut session, &mut model, number, number + round),
                3 => remove(&tree, &mut session, &mut model, number),
                4 => assert_next(&tree, &mut session, &model, number),
                5 => {
                    let keys = [key(number), key(number + 1), key(number + 2)];
                    let mut values = vec![];
                    let asked = keys.iter().map(Vec::as_slice);
                    tree.get_many(&mut session, asked, Verify::Sum, |_, value| {
                        values.push(value.map(<[u8]>::to_vec));
                    })
                    .expect("sound");
                    assert!(
                        values.iter().map(Option::as_ref).eq(keys.iter().map(|k| model.get(k)))
                    );
                }
                _ => {
                    let found = tree.get_with(&mut session, &key(number), <[u8]>::to_vec);
                    assert_eq!(found.expect("sound"), model.get(&key(number)).cloned());
                }
            }
            if let (0, Some(from)) = (turn % 40, &place) {
                place = trees.restore_next(&mut session, from, 1, &mut damaged).expect("sound");
            }
        }
        assert!(damaged.is_empty() && trees.unrestored() <= left);
        if round % 2 == 1 {
            assert_same(&tree, &mut session, &model);
            assert_eq!(tree.len(&mut session).expect("sound"), model.len() as u64);
        }
        if round % 3 == 2 {
            assert!(trees.restore_all(&mut session).expect("sound").is_empty());
            assert!(trees.finish_opening() && !trees.is_opening());
            // What was free is found, and used.
            for number in 0..2000 {
                put(&tree, &mut session, &mut model, number, number + 7);
            }
        }
        drop(session);
        if round % 4 == 3 {
            assert_sound(&trees);
        }
        // Killed: with what was restored, and what was not.
    }
    let trees: Trees = Trees::open(pool(&path, 1 << 30, false), 2).expect("the trees");
    assert_sound(&trees);
    let mut session = trees.heap().session().expect("a session");
    assert_same(&map(&trees, "map"), &mut session, &model);
    let other = map(&trees, "other").len(&mut session).expect("sound");
    assert_eq!(other, u64::from(KEYS));
}

#[test]
fn what_threads_free_before_it_is_marked_is_given_out_once() {
    const KEYS: u32 = 20_000;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let model = killed(&path, KEYS);
    let trees = at_once(&path);
    let tree = map(&trees, "map");
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (trees, tree) = (&trees, &tree);
            scope.spawn(move || {
                let mut session = trees.heap().session().expect("a session");
                // Each has keys of its own, in leaves that all come to.
                for number in (thread..KEYS).step_by(3) {
                    let (key, value) = (key(number), value(number + 1));
                    let change = match number % 4 {
                        0 => Change::remove(&key),
                        _ => Change::upsert(&key, &value),
                    };
                    tree.change(&mut session, &change).expect("room");
                }
            });
        }
        scope.spawn(|| {
            let mut session = trees.heap().session().expect("a session");
            while !trees.finish_opening() {
                assert!(trees.restore_all(&mut session).expect("sound").is_empty());
            }
        });
    });
    assert!(!trees.is_opening());
    assert_sound(&trees);
    let mut expected = model;
    for number in 0..KEYS {
        match number % 4 {
            0 => drop(expected.remove(&key(number))),
            _ => drop(expected.insert(key(number), value(number + 1))),
        }
    }
    let mut session = trees.heap().session().expect("a session");
    assert_same(&tree, &mut session, &expected);
}

/// A pool without room for a chunk whose records are nearly all free: nobody knows that before all leaves are read.
#[test]
fn a_full_pool_has_room_when_it_was_reclaimed() {
    const MAX: u64 = 16 << 20;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let bytes = vec![7; 1000];
    {
        let trees: Trees = Trees::create(pool(&path, MAX, false)).expect("a new pool");
        trees.make_hashed_leaves().expect("writable");
        let tree = trees.bytes_tree("map").expect("room");
        let mut session = trees.heap().session().expect("a session");
        let mut full = 0;
        while tree.change(&mut session, &Change::upsert(&key(full), &bytes)).is_ok() {
            full += 1;
        }
        assert!(full > 10_000, "{full} keys fill it");
        for number in (0..full).filter(|number| number % 10 != 0) {
            tree.change(&mut session, &Change::remove(&key(number))).expect("no room needed");
        }
    }
    let trees: Trees = Trees::open_at_once(pool(&path, MAX, false), 1).expect("the trees");
    let tree = map(&trees, "map");
    let mut session = trees.heap().session().expect("a session");
    let mut refused = 0;
    for number in 100_000..105_000 {
        let (key, bytes) = (key(number), vec![number as u8; 1000]);
        if let Err(error) = tree.change(&mut session, &Change::upsert(&key, &bytes)) {
            assert!(error.is_full(), "{error}");
            refused += 1;
            trees.reclaim();
            tree.change(&mut session, &Change::upsert(&key, &bytes)).expect("there is room now");
        }
    }
    assert_eq!(refused, 1, "everything is known when it was reclaimed once");
    assert!(!trees.is_opening());
    drop(session);
    assert_sound(&trees);
}

#[test]
fn what_is_emptied_before_it_is_restored_leaks_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    killed(&path, 8000);
    let trees = at_once(&path);
    let before = trees.heap().used_bytes();
    let tree = map(&trees, "map");
    let mut session = trees.heap().session().expect("a session");
    // Some of it is.
    for number in 0..10 {
        tree.get_with(&mut session, &key(number), |_| ()).expect("sound");
    }
    tree.clear(&mut session).expect("room");
    put(&tree, &mut session, &mut Model::new(), 1, 1);
    drop(session);
    assert!(trees.remove("other").expect("writable"));
    trees.reclaim();
    assert!(!trees.is_opening(), "{} leaves are left", trees.unrestored());
    assert_sound(&trees);
    trees.heap().release_empty_chunks();
    let used = trees.heap().used_bytes();
    assert!(used < before / 4, "{used} bytes of {before} are used for one key");
}

#[test]
fn a_pool_that_was_closed_after_it_was_opened_at_once_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let model = killed(&path, 4000);
    at_once(&path).close().expect("it is written");
    let trees: Trees = Trees::open(pool(&path, 1 << 30, false), 2).expect("the trees");
    assert!(trees.check().expect("a check").is_complete, "it was sealed");
    let mut session = trees.heap().session().expect("a session");
    assert_same(&map(&trees, "map"), &mut session, &model);
    drop(session);
    trees.close().expect("it is written");
    drop(trees);
    // What is sealed is compared with its sums before it is open.
    let trees = at_once(&path);
    assert_eq!((trees.unrestored(), trees.is_opening()), (0, false));
}

/// What was lost: while somebody was pinned nothing of a map that was emptied or removed could be freed, and nobody
/// came to that later. The leaves of it that were never restored kept the free space from being used, and closing the
/// pool was refused as if a record were in use twice.
#[test]
fn what_is_emptied_beside_a_reader_keeps_no_pool_open() {
    for (removes, reads_on) in [(false, false), (true, false), (false, true), (true, true)] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let model = killed(&path, 4000);
        let trees = at_once(&path);
        let mut session = trees.heap().session().expect("a session");
        let mut reader = trees.heap().session().expect("a session");
        reader.pin();
        if removes {
            assert!(trees.unlink(&mut session, "other").expect("writable"));
            trees.tidy_removed(&mut session);
        } else {
            map(&trees, "other").clear(&mut session).expect("room");
        }
        if reads_on {
            trees.close().expect("what nobody has freed is not sealed");
            reader.unpin();
        } else {
            reader.unpin();
            assert!(trees.restore_all(&mut session).expect("sound").is_empty());
            let is_finished = (0..4).any(|_| trees.finish_opening());
            assert!(is_finished, "{} leaves of no map are left", trees.unrestored());
            trees.close().expect("it is written");
        }
        drop((session, reader, trees));
        let trees: Trees = Trees::open(pool(&path, 1 << 30, false), 2).expect("the trees");
        assert!(trees.check().expect("a check").is_complete, "it was sealed");
        let mut session = trees.heap().session().expect("a session");
        assert_same(&map(&trees, "map"), &mut session, &model);
        let other = trees.find_bytes_tree("other").expect("of this kind");
        let left = other.map(|tree| tree.len(&mut session).expect("sound"));
        assert_eq!(left, (!removes).then_some(0));
    }
}

#[test]
fn a_pool_of_strings_that_is_only_read_is_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let model = killed(&path, 4000);
    let before = std::fs::read(&path).expect("the file");
    {
        let trees: Trees = Trees::open_at_once(pool(&path, 1 << 30, true), 2).expect("the trees");
        assert!(trees.unrestored() > 30);
        let mut session = trees.heap().session().expect("a session");
        let tree = map(&trees, "map");
        assert_eq!(
            tree.get_with(&mut session, &key(7), <[u8]>::to_vec).expect("sound"),
            model.get(&key(7)).cloned()
        );
        assert_same(&tree, &mut session, &model);
        drop(session);
        assert_sound(&trees);
    }
    assert!(std::fs::read(&path).expect("the file") == before, "it was written");
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The places of the live entries of every leaf of 4 KiB in the bytes of a pool.
fn entries(bytes: &[u8]) -> Vec<Vec<usize>> {
    const LIVE: u64 = 2 << 61 | ((1 << 30) - 1) << 31 | ((1 << 30) - 1) << 1;
    let leaves = (0..bytes.len()).step_by(4096).filter(|at| word(bytes, *at) == LIVE);
    let live = |leaf: usize| {
        let places = (leaf + 32..leaf + 4096).step_by(16);
        places.filter(|at| word(bytes, at + 8) >> 61 == 2).collect()
    };
    leaves.map(live).collect()
}

/// A reference that leads nowhere is found before anybody follows it, and so is one that two entries have. Nobody else
/// is harmed, and what may be in use is never given out.
#[test]
fn a_damaged_reference_is_told_and_its_space_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let model = killed(&path, 8000);
    let whole = std::fs::read(&path).expect("the file");
    let leaves = entries(&whole);
    let full: Vec<_> = leaves.iter().filter(|leaf| leaf.len() > 50).collect();
    assert!(full.len() > 40, "{} leaves", full.len());
    let (leaf, other) = (full[20], full[30]);
    for twice in [false, true] {
        let mut bytes = whole.clone();
        let place = leaf[3] + 8;
        let damaged = match twice {
            // The reference of another leaf's entry; hash and state stay.
            true => word(&bytes, place) >> 44 << 44 | word(&bytes, other[5] + 8) & ((1 << 44) - 1),
            false => word(&bytes, place) ^ 1 << 40,
        };
        bytes[place..place + 8].copy_from_slice(&damaged.to_le_bytes());
        std::fs::write(&path, &bytes).expect("the file");
        let trees = at_once(&path);
        let tree = map(&trees, "map");
        let mut session = trees.heap().session().expect("a session");
        let told = trees.restore_all(&mut session).expect("the rest is sound");
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        assert!(told.len() == 1 && told[0].contains("record"), "{told:?}");
        assert!(!trees.finish_opening() && trees.is_opening());
        assert_eq!(trees.unrestored(), 1);
        let answers = model.iter().map(|(key, value)| {
            let found = tree.get_with(&mut session, key, <[u8]>::to_vec);
            found.is_ok_and(|found| found.as_ref() == Some(value))
        });
        let right = answers.filter(|is_right| *is_right).count();
        // A batch asks so before it begins: of a leaf that cannot be restored nothing of it may be made.
        let refused = model.keys().filter(|key| {
            let removal = BatchOp::remove(&tree, key);
            removal.touch(&mut session).is_err()
        });
        // Of two leaves that have a record the one that came later is refused, and one has a wrong reference.
        let wrong = model.len() - right - refused.count();
        assert!(wrong <= usize::from(twice), "{wrong} are wrong");
        assert!(right < model.len() && right > model.len() - 256, "{right} are right");
        drop(session);
        let problems = trees.check().expect("it can be made").problems;
        assert!(!problems.is_empty() && problems.len() < 4, "{problems:?}");
        assert!(trees.close().is_err(), "what is damaged is not sealed");
        drop(tree);
        // Each record is freed once: it was handed out twice, when both of its leaves were emptied.
        let mut session = trees.heap().session().expect("a session");
        for name in ["map", "other"] {
            map(&trees, name).clear(&mut session).expect("room");
        }
        session.collect_all();
        drop(session);
        let problems = trees.check().expect("it can be made").problems;
        assert_eq!(problems, Vec::<String>::new());
        drop(trees);
        std::fs::write(&path, &bytes).expect("the file");
        let refused = <Trees>::open(pool(&path, 1 << 30, false), 1).err();
        assert!(refused.is_some(), "restored whole it is refused");
    }
}
