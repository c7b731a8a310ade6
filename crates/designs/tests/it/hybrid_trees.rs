//! The trees with inner nodes in DRAM against `BTreeMap`: random operations of one thread in all
//! geometries, threads that share a tree, and pools that are closed and opened again.

#![expect(clippy::print_stdout, reason = "a failing run must say its seed")]

use std::collections::BTreeMap;
use std::path::Path;

use everleaf_designs::{
    CddsTree, FpTree, NbTreeCoupled, NbTreePublished, NbTreeW, NbTreeWr, NvTree, NvTreeBlind,
    RnTree, RnTreeDirect, RnTreeDual, RnTreeRtm, RnTreeWide, SpTree, SpTreeBuffered, SpTreePlain,
    SpTreeUnfiltered, SpTreeUnlogged, WbTree, WbTreeSo,
};

use everleaf_index::{
    CreateMode, Design, Domain, Exchange, Hardware, Intent, OrderedIndex, Outcome, Pool,
    PoolOptions, Production, Scans, Session, SingleTreePool, Tiny,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const SEEDS: std::ops::Range<u64> = 0..3;

type Model = BTreeMap<u64, u64>;

fn new_solo<T: Design>(domain: Domain) -> SingleTreePool<T> {
    let pool = Pool::in_memory(1 << 20, 1 << 30, domain).expect("memory");
    SingleTreePool::create(pool).expect("a new pool has room")
}

/// A key near an end, or one of `keys` spread over all.
fn pick<T: Design>(random: &mut StdRng, keys: u64) -> u64 {
    let special = [0, 1, 2, u64::MAX - 1, u64::MAX];
    let key = match random.random_range(0..8) {
        0 => special[random.random_range(0..special.len())],
        _ => random.random_range(0..keys).wrapping_mul(0x9E37_79B9_7F4A_7C15),
    };
    key.clamp(*T::INFO.keys.start(), *T::INFO.keys.end())
}

/// A value that the tree can hold.
fn pick_value<T: Design>(random: &mut StdRng) -> u64 {
    random.random_range(T::INFO.values)
}

fn operate<T: Design>(
    tree: &T,
    session: &mut Session<Hardware>,
    model: &mut Model,
    random: &mut StdRng,
    keys: u64,
) {
    let (key, value) = (pick::<T>(random, keys), pick_value::<T>(random));
    let old = model.get(&key).copied();
    match random.random_range(0..12) {
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
        5..7 => {
            assert_eq!(tree.remove(session, key).expect("room"), old);
            model.remove(&key);
        }
        7 => {
            // Half of the time the value is the right one.
            let expected = old.filter(|_| random.random()).unwrap_or(1);
            let intent = Intent::RemoveExact(expected);
            let outcome = tree.change(session, key, intent, 0).expect("room");
            let changed = old == Some(expected);
            assert_eq!(outcome, Outcome { changed, old });
            if changed {
                model.remove(&key);
            }
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
        9 if T::INFO.scans == Scans::BothWays => {
            let (mut up, mut down) = (vec![], vec![]);
            tree.scan(session, key, 7, &mut up).expect("scan");
            tree.scan_back(session, key, 7, &mut down).expect("scan");
            let pair = |(key, value): (&u64, &u64)| (*key, *value);
            assert_eq!(up, model.range(key..).take(7).map(pair).collect::<Vec<_>>());
            assert_eq!(down, model.range(..=key).rev().take(7).map(pair).collect::<Vec<_>>());
        }
        _ => assert_eq!(tree.get(session, key).expect("get"), old),
    }
}

fn assert_holds<T: Design>(solo: &SingleTreePool<T>, model: &Model) {
    let mut session = solo.heap().session().expect("a free session");
    if T::INFO.scans != Scans::Never {
        let mut all = vec![];
        solo.tree().scan(&mut session, 0, usize::MAX, &mut all).expect("scan");
        assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
    }
    for (key, value) in model {
        assert_eq!(solo.tree().get(&mut session, *key).expect("get"), Some(*value));
    }
    // With this it has no others, scanned or not.
    assert_eq!(solo.tree().len(&mut session).expect("len"), model.len() as u64);
    drop(session);
    let report = solo.check().expect("check");
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!(report.keys, model.len() as u64);
}

pub(super) fn one_thread<T: Design>(keys: u64, operations: usize) {
    for seed in SEEDS {
        for domain in [Domain::Process, Domain::Adr] {
            println!("{} seed {seed}, {keys} keys, {domain:?}", T::INFO.name);
            let solo = new_solo::<T>(domain);
            let mut session = solo.heap().session().expect("a free session");
            let mut random = StdRng::seed_from_u64(seed);
            let mut model = Model::new();
            for _ in 0..operations {
                operate(solo.tree(), &mut session, &mut model, &mut random, keys);
            }
            drop(session);
            assert_holds(&solo, &model);
        }
    }
}

pub(super) fn open<T: Design>(path: &Path, mode: CreateMode) -> SingleTreePool<T> {
    let options = PoolOptions { create: mode, ..PoolOptions::default() };
    let pool = Pool::open(path, &options).expect("the pool opens");
    SingleTreePool::open(pool, 2).expect("the tree opens")
}

pub(super) fn reopened<T: Design>() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let mut model = Model::new();
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..6 {
        let solo = open::<T>(&path, CreateMode::IfMissing);
        assert_holds(&solo, &model);
        let mut session = solo.heap().session().expect("a free session");
        for _ in 0..3000 {
            operate(solo.tree(), &mut session, &mut model, &mut random, 500);
        }
    }
    let solo = open::<T>(&path, CreateMode::Never);
    assert_holds(&solo, &model);
}

/// As [`reopened`], of a tree that keeps what was written if its pool is closed.
pub(super) fn closed<T: Design>() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let mut model = Model::new();
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..4 {
        let solo = open::<T>(&path, CreateMode::IfMissing);
        assert_holds(&solo, &model);
        let mut session = solo.heap().session().expect("a free session");
        for _ in 0..2000 {
            operate(solo.tree(), &mut session, &mut model, &mut random, 500);
        }
        drop(session);
        solo.close().expect("closed");
    }
    let solo = open::<T>(&path, CreateMode::Never);
    assert_holds(&solo, &model);
}

const THREADS: u64 = 4;

/// Each thread has keys of its own next to the others', and checks what it knows of them.
pub(super) fn shared<T: Design>(keys: u64, operations: usize) {
    let solo = new_solo::<T>(Domain::Process);
    let models: Vec<Model> = std::thread::scope(|scope| {
        let solo = &solo;
        let start = |thread| scope.spawn(move || share(solo, thread, keys, operations));
        let handles: Vec<_> = (0..THREADS).map(start).collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic")).collect()
    });
    let model = models.into_iter().flatten().collect();
    assert_holds(&solo, &model);
}

fn share<T: Design>(solo: &SingleTreePool<T>, thread: u64, keys: u64, operations: usize) -> Model {
    let mut session = solo.heap().session().expect("a free session");
    let tree = solo.tree();
    let mut random = StdRng::seed_from_u64(thread);
    let mut model = Model::new();
    for _ in 0..operations {
        let key = random.random_range(1..=keys) * THREADS + thread;
        let value = pick_value::<T>(&mut random);
        let old = model.get(&key).copied();
        match random.random_range(0..8) {
            0..3 => {
                assert_eq!(tree.upsert(&mut session, key, value).expect("room"), old);
                model.insert(key, value);
            }
            3..5 => {
                assert_eq!(tree.remove(&mut session, key).expect("room"), old);
                model.remove(&key);
            }
            5 if T::INFO.scans != Scans::Never => {
                let mut pairs = vec![];
                tree.scan(&mut session, key, 40, &mut pairs).expect("scan");
                assert!(pairs.windows(2).all(|pair| pair[0].0 < pair[1].0));
                let last = pairs.last().map(|pair| pair.0).filter(|_| pairs.len() == 40);
                let mine = pairs.iter().filter(|pair| pair.0 % THREADS == thread).copied();
                let known = model.range(key..=last.unwrap_or(u64::MAX));
                assert!(mine.eq(known.map(|(key, value)| (*key, *value))), "its own keys");
            }
            _ => assert_eq!(tree.get(&mut session, key).expect("get"), old),
        }
    }
    model
}

macro_rules! trees {
    ($($module:ident: $tree:ident,)*) => {
        trees_of_one_thread! { $($module: $tree,)* }

        mod shared_by_threads {
            use super::*;
            $(
                #[test]
                fn $module() {
                    shared::<$tree<Production>>(2000, 20_000);
                    shared::<$tree<Tiny<3, 3>>>(60, 10_000);
                }
            )*
        }
    };
}

/// All of it but several threads at a time.
macro_rules! trees_of_one_thread {
    ($($module:ident: $tree:ident,)*) => {$(
        mod $module {
            use super::*;

            #[test]
            fn agrees_with_a_btreemap() {
                one_thread::<$tree<Production>>(3000, 30_000);
                one_thread::<$tree<Production>>(40, 8_000);
            }

            #[test]
            fn agrees_with_a_btreemap_in_small_nodes() {
                one_thread::<$tree<Tiny<3, 3>>>(300, 8_000);
                one_thread::<$tree<Tiny<2, 4>>>(30, 8_000);
                one_thread::<$tree<Tiny<9, 3>>>(2000, 15_000);
            }

            #[test]
            fn survives_being_closed_and_opened() {
                reopened::<$tree<Production>>();
                reopened::<$tree<Tiny<4, 3>>>();
            }
        }
    )*};
}

trees! {
    rntree: RnTree,
    rntree_dual: RnTreeDual,
    rntree_wide: RnTreeWide,
    rntree_direct: RnTreeDirect,
    rntree_rtm: RnTreeRtm,
    fptree: FpTree,
    wbtree: WbTree,
    wbtree_so: WbTreeSo,
    nvtree: NvTree,
    cdds: CddsTree,
    nbtree_w: NbTreeW,
    nbtree_wr: NbTreeWr,
    sptree: SpTree,
    sptree_unfiltered: SpTreeUnfiltered,
    sptree_buffered: SpTreeBuffered,
    sptree_plain: SpTreePlain,
}

// As published: with several threads they lose writes.
trees_of_one_thread! {
    nbtree_published: NbTreePublished,
    nbtree_coupled: NbTreeCoupled,
}

/// A write that does not look says nothing, and the tree holds what the last one said.
pub(super) fn blind<T: Design>(keys: u64, operations: usize) {
    let solo = new_solo::<T>(Domain::Adr);
    let mut taken = solo.heap().session().expect("a free session");
    let (tree, session) = (solo.tree(), &mut taken);
    let mut random = StdRng::seed_from_u64(1);
    let mut model = Model::new();
    for _ in 0..operations {
        let (key, value) = (pick::<T>(&mut random, keys), pick_value::<T>(&mut random));
        let old = model.get(&key).copied();
        match random.random_range(0..7) {
            0 => assert_eq!(tree.insert(session, key, value).expect("room"), None),
            1 => assert_eq!(tree.update(session, key, value).expect("room"), None),
            2 => assert_eq!(tree.upsert(session, key, value).expect("room"), None),
            3 => {
                assert_eq!(tree.remove(session, key).expect("room"), None);
                model.remove(&key);
                continue;
            }
            4 => {
                let exchange = tree.compare_exchange(session, key, old.unwrap_or(5), value);
                let expected = if old.is_some() { Exchange::Done } else { Exchange::Absent };
                assert_eq!(exchange.expect("room"), expected);
                model.entry(key).and_modify(|v| *v = value);
                continue;
            }
            _ => {
                assert_eq!(tree.get(session, key).expect("get"), old);
                continue;
            }
        }
        model.insert(key, value);
    }
    drop(taken);
    assert_holds(&solo, &model);
}

#[test]
fn sptree_without_a_log_keeps_what_a_closed_pool_had() {
    one_thread::<SpTreeUnlogged<Production>>(3000, 10_000);
    one_thread::<SpTreeUnlogged<Tiny<3, 3>>>(300, 8_000);
    shared::<SpTreeUnlogged<Tiny<3, 3>>>(60, 10_000);
    closed::<SpTreeUnlogged<Production>>();
    closed::<SpTreeUnlogged<Tiny<4, 3>>>();
}

/// A leaf that is full, as is its buffer: with a key that is new, and with the removal of one that is there.
/// In a full pool the removal of another key was refused, because the new key was put in first.
fn removals_make_room<T: Design>(in_leaf: &[u64], new: u64) {
    let pool = Pool::in_memory(1 << 18, 1 << 18, Domain::Process).expect("memory");
    let solo: SingleTreePool<T> = SingleTreePool::create_with_chunks(pool, 14).expect("room");
    let (tree, mut session) = (solo.tree(), solo.heap().session().expect("a free session"));
    let mut model = Model::new();
    for key in in_leaf {
        tree.insert(&mut session, *key, key + 100).expect("room");
        model.insert(*key, key + 100);
    }
    tree.persist_deferred(&mut session).expect("room");
    tree.insert(&mut session, new, 7).expect("room");
    model.insert(new, 7);
    tree.remove(&mut session, in_leaf[0]).expect("room");
    session.collect_all();
    for size in (1..=256).rev().map(|lines| lines * 64) {
        while session.allocate_record(size).is_ok() {}
    }
    for key in &in_leaf[..2] {
        let removed = tree.remove(&mut session, *key).expect("the first removal makes room");
        assert_eq!(removed.is_some(), *key != in_leaf[0]);
        model.remove(key);
    }
    for key in in_leaf.iter().chain([&new]) {
        assert_eq!(tree.get(&mut session, *key).expect("get"), model.get(key).copied());
    }
}

#[test]
fn a_full_pool_has_the_room_that_removals_in_a_buffer_make() {
    use everleaf_designs::cceh::variant as cceh;
    use everleaf_designs::fast_fair::variant::Small;
    use everleaf_designs::{Cceh, FastFair};
    removals_make_room::<FastFair<Small<3, 1, 9>>>(&[1, 2, 3], 4);
    removals_make_room::<FastFair<Small<3, 1, 11>>>(&[1, 2, 3], 4);
    // All in one part of the buffer of one segment.
    removals_make_room::<Cceh<cceh::Small<1, 2, 1, 9>>>(&[2, 4], 7);
    removals_make_room::<Cceh<cceh::Small<1, 2, 1, 11>>>(&[2, 4], 7);
    removals_make_room::<SpTreeUnlogged<Tiny<7, 3>>>(&[1, 2, 3, 4, 5, 6, 7], 8);
}

#[test]
fn buffers_are_restored_in_the_background() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let solo = open::<SpTreeBuffered<Production>>(&path, CreateMode::New);
    let mut session = solo.heap().session().expect("a free session");
    for number in 0..5000 {
        // In no order, so that most leaves have something in their buffers.
        let key = number * 7919 % 5000;
        solo.tree().insert(&mut session, key * 7, key).expect("room");
    }
    drop(session);
    drop(solo);
    let solo = open::<SpTreeBuffered<Production>>(&path, CreateMode::Never);
    let tree = solo.tree();
    let mut session = solo.heap().session().expect("a free session");
    let all = tree.unrestored();
    assert!(all > 5 && tree.log_bytes() > 0, "{all} buffers");
    let (mut from, mut left) = (tree.restore_next(&mut session, 0, 3), all);
    while let Some(key) = from {
        assert!(tree.unrestored() <= left);
        left = tree.unrestored();
        let known = (key / 7).min(4999);
        assert_eq!(tree.get(&mut session, known * 7).expect("get"), Some(known));
        from = tree.restore_next(&mut session, key, 3);
    }
    assert_eq!((tree.unrestored(), tree.len(&mut session).expect("len")), (0, 5000));
}

#[test]
fn nvtree_without_conditional_writes_holds_the_last_write() {
    blind::<NvTreeBlind<Production>>(3000, 20_000);
    blind::<NvTreeBlind<Tiny<3, 3>>>(100, 8_000);
}
