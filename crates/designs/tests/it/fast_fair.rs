//! FAST & FAIR in all variants against `BTreeMap`: random operations of one thread, threads that
//! share a tree, and pools that are closed, opened again and written.

#![expect(clippy::print_stdout, reason = "a failing run must say its seed")]

use everleaf_designs::FastFair;
use everleaf_designs::fast_fair::variant::{
    BLink, Binary, Buffered, BufferedCached, BufferedCachedUnlogged, BufferedUnlogged, Cached,
    Fenced, LeafLocks, Logging, Nodes256, Nodes1024, Nodes2048, Nodes4096, OutOfPlace,
    OutOfPlaceUnlogged, Small, Standard, Unfenced, Variant, Whole, WholeUnlogged,
};
use everleaf_index::{
    CreateMode, Domain, Hardware, IndexError, OrderedIndex, Pool, PoolOptions, Session,
    SingleTreePool,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::common::{Model, Script, Values, new_solo, operate};

const VALUE_MAX: u64 = (1 << 56) - 1;

/// Few values, so that neighbours are often equal.
fn script(keys: u64) -> Script {
    Script { keys, values: Values::Few, scan_length: 37 }
}

fn same<V: Variant>(tree: &FastFair<V>, session: &mut Session<Hardware>, model: &Model) {
    let mut all = vec![];
    tree.scan(session, 0, usize::MAX, &mut all).expect("scan");
    assert_eq!(all, model.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>());
    assert_eq!(tree.len(session).expect("len"), model.len() as u64);
}

fn clean<V: Variant>(solo: &SingleTreePool<FastFair<V>>) {
    assert_eq!(solo.check().expect("check").problems, Vec::<String>::new());
}

fn differential<V: Variant>(operations: usize) {
    for (seed, domain) in [(1, Domain::Adr), (2, Domain::Eadr), (3, Domain::Process)] {
        for keys in [3, 60, 4000] {
            println!("{}, seed {seed}, {keys} keys", V::NAME);
            let solo = new_solo::<FastFair<V>>(domain);
            let mut session = solo.heap().session().expect("a free session");
            let mut model = Model::new();
            let mut random = StdRng::seed_from_u64(seed);
            for _ in 0..operations {
                operate(solo.tree(), &mut session, &mut model, &mut random, script(keys));
            }
            same(solo.tree(), &mut session, &model);
            // Down to nothing, in order: nodes merge up to the root.
            for key in model.keys() {
                assert!(solo.tree().remove(&mut session, *key).expect("remove").is_some());
            }
            same(solo.tree(), &mut session, &Model::new());
            drop(session);
            clean(&solo);
        }
    }
}

#[test]
fn nodes_of_all_sizes_agree_with_a_map() {
    differential::<Standard>(8000);
    differential::<Nodes256>(8000);
    differential::<Nodes1024>(8000);
    differential::<Nodes2048>(8000);
    differential::<Nodes4096>(8000);
}

#[test]
fn nodes_of_a_few_records_agree_with_a_map() {
    differential::<Small<2>>(8000);
    differential::<Small<3>>(8000);
    differential::<Small<4>>(8000);
}

#[test]
fn all_options_agree_with_a_map() {
    differential::<LeafLocks>(6000);
    differential::<BLink>(6000);
    differential::<Small<3, 2>>(6000);
    differential::<Logging>(6000);
    differential::<Binary>(6000);
    differential::<Fenced>(6000);
    differential::<Unfenced>(6000);
}

#[test]
fn variants_with_buffers_agree_with_a_map() {
    differential::<Cached>(6000);
    differential::<Buffered>(6000);
    differential::<BufferedCached>(6000);
    differential::<Small<3, 1, 5>>(6000);
    differential::<OutOfPlace>(6000);
    differential::<Whole>(6000);
    differential::<Small<2, 1, 1>>(6000);
    differential::<Small<3, 1, 3>>(6000);
    differential::<Small<3, 1, 7>>(6000);
    differential::<Small<3, 0, 4>>(6000);
}

#[test]
fn an_emptied_tree_has_given_its_nodes_back() {
    let solo = new_solo::<FastFair>(Domain::Process);
    let mut session = solo.heap().session().expect("a free session");
    let tree = solo.tree();
    for key in 0..50_000 {
        tree.insert(&mut session, key, key).expect("room");
    }
    let full = tree.shape(&mut session).expect("shape");
    assert!(full.height >= 4 && full.leaves > 1700, "{full:?}");
    for key in 0..50_000 {
        tree.remove(&mut session, key).expect("remove");
    }
    let empty = tree.shape(&mut session).expect("shape");
    assert!(empty.height == 1 && empty.leaves == 1, "{empty:?}");
}

#[test]
fn a_value_of_more_than_56_bits_is_refused() {
    let solo = new_solo::<FastFair>(Domain::Process);
    let mut session = solo.heap().session().expect("a free session");
    let refused = solo.tree().insert(&mut session, 1, VALUE_MAX + 1);
    assert!(matches!(refused, Err(IndexError::ValueOutOfRange(value)) if value == VALUE_MAX + 1));
    assert_eq!(solo.tree().get(&mut session, 1).expect("get"), None);
}

#[test]
fn a_pool_is_opened_again_and_again_and_written() {
    fn run<V: Variant>() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let mut model = Model::new();
        let mut random = StdRng::seed_from_u64(7);
        for round in 0..5 {
            let options = PoolOptions { create: CreateMode::IfMissing, ..PoolOptions::default() };
            let pool = Pool::open(&path, &options).expect("the pool");
            let solo: SingleTreePool<FastFair<V>> =
                SingleTreePool::open(pool, 1).expect("the tree");
            let mut session = solo.heap().session().expect("a free session");
            same(solo.tree(), &mut session, &model);
            for _ in 0..3000 {
                operate(solo.tree(), &mut session, &mut model, &mut random, script(700));
            }
            drop(session);
            clean(&solo);
            if round % 2 == 0 {
                solo.close().expect("closed");
            }
        }
        let options = PoolOptions { read_only: true, ..PoolOptions::default() };
        let pool = Pool::open(&path, &options).expect("the pool");
        let solo: SingleTreePool<FastFair<V>> = SingleTreePool::open(pool, 1).expect("the tree");
        let mut session = solo.heap().session().expect("a free session");
        same(solo.tree(), &mut session, &model);
        let refused = solo.tree().insert(&mut session, 1, 1);
        assert!(matches!(refused, Err(IndexError::ReadOnly)), "{refused:?}");
    }
    run::<Standard>();
    run::<Small<3>>();
    run::<LeafLocks>();
    run::<BLink>();
    run::<Cached>();
    run::<Buffered>();
    run::<BufferedCached>();
    run::<Small<3, 1, 3>>();
    run::<Whole>();
}

#[test]
fn variants_without_a_log_keep_what_a_closed_pool_had() {
    fn run<V: Variant>() {
        differential::<V>(5000);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let mut model = Model::new();
        let mut random = StdRng::seed_from_u64(7);
        for _ in 0..4 {
            let options = PoolOptions { create: CreateMode::IfMissing, ..PoolOptions::default() };
            let pool = Pool::open(&path, &options).expect("the pool");
            let solo: SingleTreePool<FastFair<V>> =
                SingleTreePool::open(pool, 1).expect("the tree");
            let mut session = solo.heap().session().expect("a free session");
            same(solo.tree(), &mut session, &model);
            for _ in 0..2000 {
                operate(solo.tree(), &mut session, &mut model, &mut random, script(700));
            }
            drop(session);
            solo.close().expect("closed");
        }
    }
    run::<BufferedUnlogged>();
    run::<BufferedCachedUnlogged>();
    run::<OutOfPlaceUnlogged>();
    run::<WholeUnlogged>();
    run::<Small<3, 1, 9>>();
    run::<Small<3, 1, 11>>();
}

/// Each thread owns the keys that leave its number as remainder, and knows what they must be.
fn threads_share<V: Variant>(rounds: u64) {
    const THREADS: u64 = 4;
    let solo = new_solo::<FastFair<V>>(Domain::Process);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let solo = &solo;
            scope.spawn(move || {
                let mut session = solo.heap().session().expect("a free session");
                let tree = solo.tree();
                let mut model = Model::new();
                let mut random = StdRng::seed_from_u64(thread);
                let mut pairs = vec![];
                for round in 0..rounds {
                    let key = random.random_range(0..600) * THREADS + thread;
                    let old = model.get(&key).copied();
                    match random.random_range(0..8) {
                        0..3 => {
                            let value = random.random_range(0..3);
                            assert_eq!(tree.upsert(&mut session, key, value).expect("room"), old);
                            model.insert(key, value);
                        }
                        3..6 => {
                            assert_eq!(tree.remove(&mut session, key).expect("remove"), old);
                            model.remove(&key);
                        }
                        6 if round % 8 == 0 => {
                            pairs.clear();
                            tree.scan(&mut session, key, 200, &mut pairs).expect("scan");
                            assert!(pairs.is_sorted_by(|a, b| a.0 < b.0));
                            let end = pairs.last().map_or(key, |(last, _)| *last);
                            let mine = pairs.iter().filter(|(key, _)| key % THREADS == thread);
                            let expected = model.range(key..=end).map(|(k, v)| (*k, *v));
                            assert!(mine.copied().eq(expected));
                        }
                        _ => assert_eq!(tree.get(&mut session, key).expect("get"), old),
                    }
                }
            });
        }
    });
    clean(&solo);
}

#[test]
fn threads_share_a_tree() {
    threads_share::<Standard>(100_000);
    threads_share::<Small<3>>(60_000);
    threads_share::<LeafLocks>(60_000);
    threads_share::<BLink>(40_000);
    threads_share::<Small<3, 2>>(40_000);
    threads_share::<Binary>(60_000);
}

#[test]
fn threads_share_a_tree_with_buffers() {
    threads_share::<Buffered>(40_000);
    threads_share::<Whole>(40_000);
    threads_share::<Small<3, 1, 1>>(20_000);
    threads_share::<Small<3, 1, 5>>(20_000);
    threads_share::<Small<3, 1, 7>>(20_000);
    threads_share::<Small<3, 0, 4>>(20_000);
}

#[test]
fn a_pool_opened_at_once_uses_its_free_space_after_a_sweep() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let options = PoolOptions { create: CreateMode::IfMissing, ..PoolOptions::default() };
    let open = || Pool::open(&path, &options).expect("the pool");
    let solo: SingleTreePool<FastFair> = SingleTreePool::create(open()).expect("room");
    let mut session = solo.heap().session().expect("a free session");
    for key in 0..20_000 {
        solo.tree().insert(&mut session, key, 1).expect("room");
    }
    for key in 0..20_000 {
        if key % 64 != 0 {
            solo.tree().remove(&mut session, key).expect("remove");
        }
    }
    drop(session);
    drop(solo);

    let solo: SingleTreePool<FastFair> = SingleTreePool::open_at_once(open()).expect("the tree");
    let mut session = solo.heap().session().expect("a free session");
    let used = solo.heap().used_bytes();
    for key in 0..2000 {
        assert_eq!(
            solo.tree().upsert(&mut session, key * 64, 2).expect("room").is_some(),
            key < 313
        );
    }
    assert!(solo.heap().used_bytes() > used, "old space was used before it was known to be free");
    assert_eq!(solo.sweep().expect("no damage"), None, "the session may hold anything");
    drop(session);
    let found = solo.sweep().expect("no damage").expect("nobody has a session");
    assert!(found > 500, "{found}");
    clean(&solo);
    assert_eq!(solo.check().expect("check").keys, 2000);
    assert_eq!(solo.sweep().expect("no damage"), Some(0));
}

/// When the log found no space, a write went to its leaf. A leaf that was split then began with number 0, though
/// it said that it had all up to its half's: what was logged for it later, by a thread whose log had room, was
/// taken for old after a crash. Acknowledged writes were lost.
#[test]
fn what_is_logged_for_leaves_split_without_a_log_survives() {
    fn run<V: Variant>() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let options = PoolOptions {
            create: CreateMode::IfMissing,
            initial_size_bytes: 2 << 20,
            max_size_bytes: 2 << 20,
            ..PoolOptions::default()
        };
        let pool = Pool::open(&path, &options).expect("a new pool");
        let solo: SingleTreePool<FastFair<V>> =
            SingleTreePool::create_with_chunks(pool, 16).expect("room");
        let tree = solo.tree();
        let mut one = solo.heap().session().expect("a free session");
        let mut other = solo.heap().session().expect("a free session");
        let mut model = Model::new();
        for key in 1..=100 {
            tree.upsert(&mut one, key * 10, key).expect("room");
            model.insert(key * 10, key);
        }
        // Nobody gets another chunk for a log, which is as large as one of the pool.
        let mut taken = vec![];
        while let Ok(place) = other.allocate_record(1 << 16) {
            taken.push(place);
        }
        let leaves = tree.shape(&mut other).expect("shape").leaves;
        for key in (1..1000).filter(|key| key % 10 != 0 && key % 2 == 0) {
            tree.upsert(&mut other, key, key)
                .expect("its leaf is durable, and has room or is split");
            model.insert(key, key);
        }
        let split = tree.shape(&mut other).expect("shape").leaves - leaves;
        assert!(split > 10, "{split} leaves were split");
        for place in taken {
            other.free_record(place, 1 << 16);
        }
        // So few of each leaf that its buffer has room.
        for (key, value) in model.iter_mut().step_by(9) {
            *value += 1;
            tree.upsert(&mut one, *key, *value).expect("its log has room");
        }
        drop((one, other));
        clean(&solo);
        // As the death of the process.
        drop(solo);
        let pool = Pool::open(&path, &options).expect("the pool");
        let solo: SingleTreePool<FastFair<V>> = SingleTreePool::open(pool, 1).expect("the tree");
        same(solo.tree(), &mut solo.heap().session().expect("a free session"), &model);
    }
    run::<Buffered>();
    run::<OutOfPlace>();
}
