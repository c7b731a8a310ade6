//! Space at its limits: pools beyond 4 GiB, full pools, and what comes back after deletion.

use everleaf_index::{
    BatchOp, Change, Domain, Hardware, IndexError, Journal, Pool, Session, Trees,
};

const CHUNK: u64 = 256 << 10;

fn trees(max: u64) -> Trees {
    let pool = Pool::in_memory(1 << 20, max, Domain::Process).expect("addresses");
    Trees::create(pool).expect("a new pool has room")
}

fn problems(trees: &Trees) -> Vec<String> {
    let problems = trees.check().expect("a check can be made").problems;
    problems.into_iter().take(4).collect()
}

/// Takes `bytes` of the pool's space in large records, which nobody touches.
fn take_space(session: &mut Session<Hardware>, bytes: u64) -> Vec<u64> {
    const RECORD: u64 = 512 << 20;
    (0..bytes.div_ceil(RECORD))
        .map(|_| session.allocate_record(RECORD as usize).expect("address space"))
        .collect()
}

#[test]
fn leaves_beyond_four_gibibytes_have_places_of_their_own() {
    let trees = trees(6 << 30);
    let tree = trees.u64_tree("low").expect("room");
    let mut session = trees.heap().session().expect("a free session");
    for key in 0..1000 {
        tree.insert(&mut session, key, !key).expect("room");
    }
    let large = take_space(&mut session, 4 << 30);
    for key in 1000..200_000 {
        tree.insert(&mut session, key, !key).expect("room");
    }
    for key in 0..200_000 {
        assert_eq!(tree.get(&mut session, key).expect("get"), Some(!key), "key {key}");
    }
    for offset in large {
        session.free_record(offset, 512 << 20);
    }
    drop(session);
    assert_eq!(problems(&trees), Vec::<String>::new());
}

#[test]
fn a_full_pool_of_integers_can_be_emptied_and_filled_again() {
    fill_and_empty(&trees(2 << 20));
}

#[test]
fn a_full_pool_of_hashed_leaves_can_be_emptied_and_refilled() {
    let trees = trees(2 << 20);
    trees.make_hashed_leaves().expect("writable");
    fill_and_empty(&trees);
}

fn fill_and_empty(trees: &Trees) {
    let tree = trees.u64_tree("t").expect("room");
    let mut session = trees.heap().session().expect("a free session");
    let mut counts = vec![];
    for round in 0..3 {
        let mut key = 0;
        // Spread over the classes and not ascending.
        let spread = |key: u64| key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        while tree.insert(&mut session, spread(key), key).is_ok() {
            key += 1;
        }
        counts.push(key);
        for key in 0..key {
            let removed = tree.remove(&mut session, spread(key));
            assert_eq!(removed.expect("a removal needs no space"), Some(key), "round {round}");
        }
    }
    assert!(counts[0] > 20_000 && counts[1] * 10 > counts[0] * 8, "keys that fit: {counts:?}");
    drop(session);
    assert_eq!(problems(trees), Vec::<String>::new());
}

#[test]
fn a_full_pool_of_strings_can_be_emptied_and_filled_again() {
    let trees = trees(4 << 20);
    let tree = trees.bytes_tree("t").expect("room");
    let mut session = trees.heap().session().expect("a free session");
    let mut counts = vec![];
    for round in 0..3 {
        let mut key = 0u32;
        let name = |key: u32| key.wrapping_mul(0x9E37_79B9).to_string().into_bytes();
        let put = |session: &mut Session<Hardware>, key: &[u8]| {
            tree.change(session, &Change::insert(key, &[7; 50]))
        };
        while put(&mut session, &name(key)).is_ok() {
            key += 1;
        }
        counts.push(key);
        for key in 0..key {
            let removed = tree.change(&mut session, &Change::remove(&name(key)));
            assert!(removed.expect("a removal needs no space").changed, "round {round}");
        }
        session.collect_all();
        session.give_back();
    }
    assert!(counts[1] * 10 > counts[0] * 8, "keys that fit: {counts:?}");
    drop(session);
    assert_eq!(problems(&trees), Vec::<String>::new());
}

/// A batch needs room for itself in the journal, and for nothing else that its changes one by one would
/// not need: the leaves it replaces on the way are used again by the batch itself.
#[test]
fn a_large_batch_fits_where_its_changes_fit_one_by_one() {
    const SIZE: u64 = 24 << 20;
    let key = |number: u32| number.wrapping_mul(0x9E37_79B9).to_be_bytes();
    let single = trees(SIZE);
    let tree = single.bytes_tree("t").expect("room");
    let mut session = single.heap().session().expect("a free session");
    let fits = (0..)
        .find(|number| tree.change(&mut session, &Change::insert(&key(*number), &[])).is_err());
    let count = fits.expect("the pool ends") * 6 / 10;

    let batched = trees(SIZE);
    let tree = batched.bytes_tree("t").expect("room");
    let mut session = batched.heap().session().expect("a free session");
    let journal = Journal::open(&batched, &mut session).expect("room");
    let keys: Vec<[u8; 4]> = (0..count).map(key).collect();
    let operations: Vec<BatchOp<'_>> =
        keys.iter().map(|key| BatchOp::put(&tree, key, &[], 0)).collect();
    journal.apply(&mut session, &operations).expect("there is room");
    assert_eq!(tree.len(&mut session).expect("len"), u64::from(count));
    drop(session);
    assert_eq!(problems(&batched), Vec::<String>::new());
}

#[test]
fn a_failed_bulk_load_leaves_nothing_behind() {
    let trees = trees(64 << 20);
    let used = || trees.heap().used_bytes();
    let before = used();
    for round in 0..20u32 {
        let sorted = (0..20_000u64).map(|key| (key << 40, key));
        let bad = sorted.chain([(0, 0)]);
        assert!(trees.load_u64_tree("n", bad).is_err());
        let words = (0..5_000u32).map(|key| (format!("{key:08}"), "value"));
        let bad = words.chain([("0".to_string(), "again")]);
        assert!(trees.load_bytes_tree("w", bad).is_err(), "round {round}");
        let lows = [b"2".to_vec(), b"3".to_vec(), b"4".to_vec()];
        let failed = trees.load_partitions("p", &lows, 2, |partition, sink| {
            for key in 0..3000 {
                sink(format!("{}{key:05}", partition + 1).as_bytes(), b"value", 0)?;
            }
            match (round + partition as u32) % 4 {
                0 => Err(IndexError::NotSorted(0)),
                1 => sink(b"2", b"not in order", 0),
                _ => Ok(()),
            }
        });
        assert!(matches!(failed, Err(IndexError::NotSorted(_))), "round {round}");
    }
    assert!(used() < before + 16 * CHUNK, "{} bytes of failed loads", used() - before);
    assert_eq!(problems(&trees), Vec::<String>::new());
}

/// What leaked: all partitions but the one whose pairs panicked, and of those that had not begun their first fences.
#[test]
fn a_parallel_load_that_panics_leaves_nothing_behind() {
    let trees = trees(64 << 20);
    let used = || trees.heap().used_bytes();
    let before = used();
    let lows = [b"2".to_vec(), b"3".to_vec(), b"4".to_vec()];
    for round in 0..20 {
        let loaded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            trees.load_partitions::<IndexError>("p", &lows, 1 + round % 2, |partition, sink| {
                for key in 0..3000 {
                    assert!(key < 2000 || partition != 1 + round % 3, "pairs that panic");
                    sink(format!("{}{key:05}", partition + 1).as_bytes(), b"value", 0)?;
                }
                Ok(())
            })
        }));
        assert!(loaded.is_err(), "round {round}");
    }
    assert!(used() < before + 16 * CHUNK, "{} bytes of failed loads", used() - before);
    assert_eq!(problems(&trees), Vec::<String>::new());
}

#[test]
fn a_queue_of_a_thousand_keys_keeps_few_leaves() {
    let trees = trees(1 << 30);
    let tree = trees.u64_tree("queue").expect("room");
    let mut session = trees.heap().session().expect("a free session");
    for key in 0..100_000u64 {
        tree.insert(&mut session, key, key).expect("room");
        if key >= 1000 {
            assert_eq!(tree.remove(&mut session, key - 1000).expect("room"), Some(key - 1000));
        }
    }
    let leaves = tree.shape(&mut session).expect("shape").leaves;
    assert!(leaves < 100, "{leaves} leaves for 1000 keys");
}

#[test]
fn a_full_pool_can_be_emptied_after_it_was_opened_again() {
    use everleaf_index::{CreateMode, PoolOptions};
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("full.pool");
    let options = PoolOptions {
        create: CreateMode::IfMissing,
        max_size_bytes: 1 << 20,
        ..PoolOptions::default()
    };
    let open = || {
        let pool = Pool::open(&path, &options).expect("the pool opens");
        Trees::<everleaf_index::Production>::open(pool, 1).expect("the trees open")
    };
    let spread = |key: u64| key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let fill = |trees: &Trees| {
        let tree = trees.u64_tree("t").expect("room");
        let mut session = trees.heap().session().expect("a free session");
        let mut key = tree.len(&mut session).expect("len");
        while tree.insert(&mut session, spread(key), key).is_ok() {
            key += 1;
        }
        key
    };
    // Again and again, until no retired block is left to fall back on.
    let mut count = 0;
    for _ in 0..20 {
        count = fill(&open());
    }
    let trees = open();
    let tree = trees.u64_tree("t").expect("there");
    let mut session = trees.heap().session().expect("a free session");
    for key in 0..count {
        let removed = tree.remove(&mut session, spread(key));
        assert_eq!(removed.expect("a removal needs no space"), Some(key));
    }
    drop(session);
    let again = fill(&trees);
    assert!(again * 10 > count * 8, "{again} keys fit where {count} did");
    assert_eq!(problems(&trees), Vec::<String>::new());
}
