//! Trees of integers against `BTreeMap`: random operations of one thread, threads that share a tree, and pools that
//! are closed and opened again.

#![expect(clippy::print_stdout, reason = "a failing run must say its seed")]

use std::collections::BTreeMap;
use std::path::Path;

use everleaf_index::{
    CreateMode, Design, DesignInfo, Domain, Exchange, Hardware, IndexError, Intent, OrderedIndex,
    Outcome, Pool, PoolOptions, Scans, Session, SingleTreePool,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Seeds, domains and values of a comparison.
type Runs = [(u64, Domain, Values)];

const EVERYDAY: &Runs = &[(0, Domain::Process, Values::All), (1, Domain::Adr, Values::Few)];
/// What landings add, through [`landing_trees_agree_with_a_btreemap_on_more_seeds`].
const LANDING: &Runs = &[
    (0, Domain::Adr, Values::Few),
    (1, Domain::Process, Values::All),
    (2, Domain::Process, Values::Few),
    (2, Domain::Adr, Values::All),
    (3, Domain::Eadr, Values::Few),
];
/// The variable of a child that has those instead.
const IS_LANDING: &str = "EVERLEAF_DESIGNS_LANDING";

/// What the names have in them of the tests that [`one_thread`] and [`shared`] are in.
const COMPARISONS: [&str; 3] = ["agree", "shared_by_threads", "threads_share"];

fn is_landing() -> bool {
    std::env::var_os(IS_LANDING).is_some()
}

/// The comparisons again, more and longer, in a process of their own.
#[test]
#[ignore = "guards a landing"]
fn landing_trees_agree_with_a_btreemap_on_more_seeds() {
    let program = std::env::current_exe().expect("this program");
    let mut child = std::process::Command::new(program);
    let output = child.env(IS_LANDING, "1").args(COMPARISONS).output().expect("it starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}");
    let count = printed.lines().filter(|line| line.ends_with(" ... ok")).count();
    assert!(count > 100, "only {count} comparisons: {printed}");
}

/// What a tree must hold.
pub(super) type Model = BTreeMap<u64, u64>;

/// A new tree in memory.
pub(super) fn new_single<T: Design>(domain: Domain) -> SingleTreePool<T> {
    let pool = Pool::in_memory(1 << 20, 1 << 30, domain).expect("memory");
    SingleTreePool::create(pool).expect("a new pool has room")
}

/// A key near an end, or one of `keys` spread over all, that the tree can hold.
fn pick(random: &mut StdRng, keys: u64, info: &DesignInfo) -> u64 {
    let special = [0, 1, 2, u64::MAX - 1, u64::MAX];
    let key = match random.random_range(0..8) {
        0 => special[random.random_range(0..special.len())],
        _ => random.random_range(0..keys).wrapping_mul(0x9E37_79B9_7F4A_7C15),
    };
    key.clamp(*info.keys.start(), *info.keys.end())
}

/// Which values are written.
#[derive(Clone, Copy, Debug)]
enum Values {
    /// Any that the tree can hold.
    All,
    /// The two lowest and the highest, so that neighbours are often equal.
    Few,
}

impl Values {
    fn pick(self, random: &mut StdRng, info: &DesignInfo) -> u64 {
        match self {
            Values::All => random.random_range(info.values.clone()),
            Values::Few => [0, 1, *info.values.end()][random.random_range(0..3)],
        }
    }

    /// A value that a key may have, or not.
    fn guess(self) -> u64 {
        match self {
            Values::All => 5,
            Values::Few => 1,
        }
    }
}

/// What random operations do.
#[derive(Clone, Copy)]
struct Script {
    /// Keys, besides those near the ends.
    keys: u64,
    values: Values,
    /// Pairs of a scan.
    scan_length: usize,
}

impl Script {
    fn of(keys: u64, values: Values) -> Self {
        let scan_length = match values {
            Values::All => 7,
            Values::Few => 37,
        };
        Script { keys, values, scan_length }
    }
}

/// One random operation on a tree and on the map that it must agree with.
fn operate(
    tree: &dyn OrderedIndex<Hardware>,
    session: &mut Session<Hardware>,
    model: &mut Model,
    random: &mut StdRng,
    script: Script,
) {
    let info = tree.info();
    let Script { keys, values, scan_length } = script;
    let (key, value) = (pick(random, keys, &info), values.pick(random, &info));
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
            let expected = old.filter(|_| random.random()).unwrap_or(values.guess());
            let intent = Intent::RemoveExact(expected);
            let outcome = tree.change(session, key, intent, 0).expect("room");
            let changed = old == Some(expected);
            assert_eq!(outcome, Outcome { changed, old });
            if changed {
                model.remove(&key);
            }
        }
        8 => {
            let guess = values.guess();
            let expected = if random.random() { old.unwrap_or(guess) } else { guess };
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
        9 if info.scans != Scans::Never => {
            let (mut up, mut down) = (vec![], vec![]);
            let pair = |(key, value): (&u64, &u64)| (*key, *value);
            tree.scan(session, key, scan_length, &mut up).expect("scan");
            assert_eq!(up, model.range(key..).take(scan_length).map(pair).collect::<Vec<_>>());
            if info.scans == Scans::BothWays {
                tree.scan_back(session, key, scan_length, &mut down).expect("scan");
                let expected = model.range(..=key).rev().take(scan_length);
                assert_eq!(down, expected.map(pair).collect::<Vec<_>>());
            }
        }
        _ => assert_eq!(tree.get(session, key).expect("get"), old),
    }
}

/// Demands that a tree has what the map has, by whatever way it is asked.
pub(super) fn assert_same<T: Design>(single: &SingleTreePool<T>, model: &Model) {
    let mut session = single.heap().session().expect("a free session");
    if T::INFO.scans != Scans::Never {
        let mut all = vec![];
        single.tree().scan(&mut session, 0, usize::MAX, &mut all).expect("scan");
        assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
    }
    for (key, value) in model {
        assert_eq!(single.tree().get(&mut session, *key).expect("get"), Some(*value));
    }
    // With this it has no others, scanned or not.
    assert_eq!(single.tree().len(&mut session).expect("len"), model.len() as u64);
}

/// The same, and that the tree and its pool are sound.
fn assert_holds<T: Design>(single: &SingleTreePool<T>, model: &Model) {
    assert_same(single, model);
    let report = single.check().expect("check");
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!(report.keys, model.len() as u64);
}

pub(super) fn one_thread<T: Design>(keys: u64, operations: usize) {
    let (runs, operations) =
        if is_landing() { (LANDING, operations) } else { (EVERYDAY, operations / 4) };
    for &(seed, domain, values) in runs {
        println!("{} seed {seed}, {keys} keys, {domain:?}, {values:?}", T::INFO.name);
        let single = new_single::<T>(domain);
        let mut session = single.heap().session().expect("a free session");
        let mut random = StdRng::seed_from_u64(seed);
        let mut model = Model::new();
        for _ in 0..operations {
            let script = Script::of(keys, values);
            operate(single.tree(), &mut session, &mut model, &mut random, script);
        }
        drop(session);
        assert_holds(&single, &model);
        // Down to nothing, in order: nodes merge up to the root.
        let mut session = single.heap().session().expect("a free session");
        for (key, value) in model {
            assert_eq!(single.tree().remove(&mut session, key).expect("room"), Some(value));
        }
        drop(session);
        assert_holds(&single, &Model::new());
    }
}

pub(super) fn open<T: Design>(path: &Path, mode: CreateMode) -> SingleTreePool<T> {
    let options = PoolOptions { create: mode, ..PoolOptions::default() };
    let pool = Pool::open(path, &options).expect("the pool opens");
    SingleTreePool::open(pool, 2).expect("the tree opens")
}

/// Opens a pool again and again, which was closed every second time, and writes; at last it is only read.
pub(super) fn reopened<T: Design>() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let mut model = Model::new();
    let mut random = StdRng::seed_from_u64(1);
    for round in 0..6 {
        let values = if round % 2 == 0 { Values::All } else { Values::Few };
        let is_closed = round % 2 == 1;
        opened_and_written::<T>(&path, &mut model, &mut random, values, is_closed);
    }
    let single = open::<T>(&path, CreateMode::Never);
    assert_holds(&single, &model);
    // As the death of the process.
    drop(single);
    let options =
        PoolOptions { read_only: true, create: CreateMode::Never, ..PoolOptions::default() };
    let pool = Pool::open(&path, &options).expect("the pool opens");
    let single: SingleTreePool<T> = SingleTreePool::open(pool, 1).expect("the tree opens");
    assert_same(&single, &model);
    let mut session = single.heap().session().expect("a free session");
    let refused = single.tree().insert(&mut session, 1, 1);
    assert!(matches!(refused, Err(IndexError::ReadOnly)), "{refused:?}");
}

/// As [`reopened`], of a tree that keeps what was written if its pool is closed.
pub(super) fn closed<T: Design>() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let mut model = Model::new();
    let mut random = StdRng::seed_from_u64(1);
    for values in [Values::All, Values::Few, Values::Few, Values::All] {
        opened_and_written::<T>(&path, &mut model, &mut random, values, true);
    }
    let single = open::<T>(&path, CreateMode::Never);
    assert_holds(&single, &model);
}

/// One life of a pool: what it had is there, and some of it is changed.
fn opened_and_written<T: Design>(
    path: &Path,
    model: &mut Model,
    random: &mut StdRng,
    values: Values,
    is_closed: bool,
) {
    let single = open::<T>(path, CreateMode::IfMissing);
    assert_holds(&single, model);
    let mut session = single.heap().session().expect("a free session");
    for _ in 0..3000 {
        operate(single.tree(), &mut session, model, random, Script::of(700, values));
    }
    drop(session);
    if is_closed {
        single.close().expect("closed");
    }
}

const THREADS: u64 = 4;

/// Each thread has keys of its own next to the others', and checks what it knows of them.
pub(super) fn shared<T: Design>(keys: u64, operations: usize) {
    let operations = if is_landing() { operations } else { operations / 4 };
    let single = new_single::<T>(Domain::Process);
    let models: Vec<Model> = std::thread::scope(|scope| {
        let single = &single;
        let start = |thread| scope.spawn(move || share(single, thread, keys, operations));
        let handles: Vec<_> = (0..THREADS).map(start).collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic")).collect()
    });
    let model = models.into_iter().flatten().collect();
    assert_holds(&single, &model);
}

fn share<T: Design>(
    single: &SingleTreePool<T>,
    thread: u64,
    keys: u64,
    operations: usize,
) -> Model {
    let mut session = single.heap().session().expect("a free session");
    let tree = single.tree();
    let mut random = StdRng::seed_from_u64(thread);
    let values = if thread.is_multiple_of(2) { Values::All } else { Values::Few };
    let mut model = Model::new();
    for _ in 0..operations {
        let key = random.random_range(1..=keys) * THREADS + thread;
        let value = values.pick(&mut random, &T::INFO);
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

/// A write that does not look says nothing, and the tree holds what the last one said.
pub(super) fn blind<T: Design>(keys: u64, operations: usize) {
    let single = new_single::<T>(Domain::Adr);
    let mut taken = single.heap().session().expect("a free session");
    let (tree, session) = (single.tree(), &mut taken);
    let mut random = StdRng::seed_from_u64(1);
    let mut model = Model::new();
    for _ in 0..operations {
        let (key, value) = {
            let (random, info) = (&mut random, &T::INFO);
            (pick(random, keys, info), Values::All.pick(random, info))
        };
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
    assert_holds(&single, &model);
}
